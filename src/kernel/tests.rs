//! What a module holds: levels, entries, signatures, devices, link files, and bad input.

use npu_runtime::signature::{Direction, ElementType, Kind, Parameter, Shape};

use super::*;

fn module(text: &str) -> Module {
    Module::scan(text.as_bytes()).unwrap()
}

fn only(text: &str) -> Kernel {
    let module = module(text);
    let chosen = module.select(None).unwrap();
    assert_eq!(chosen.len(), 1);
    chosen[0].clone()
}

fn refusal(bytes: impl AsRef<[u8]>) -> String {
    Module::scan(bytes.as_ref()).unwrap_err().to_string()
}

fn summary(kernel: &Kernel) -> Vec<String> {
    let parameters = kernel.signature.parameters.iter();
    let summary = |it: &Parameter| match &it.kind {
        Kind::Memory { direction, .. } => format!("{}: {} {direction}", it.name, it.mlir_type),
        Kind::Scalar(element) => format!("{}: {} {element}", it.name, it.mlir_type),
    };
    parameters.map(summary).collect()
}

mod levels {
    use super::*;

    #[test]
    fn are_told_by_their_operations() {
        let level = |text: &str| module(text).level;
        assert_eq!(level("func.func @f() { return }"), Level::Linalg);
        for op in [
            "air.launch (%a) in (%b=%c) {}",
            "air.segment @s {}",
            "air.channel @c [1, 1]",
        ] {
            assert_eq!(level(&format!("module {{ {op} }}")), Level::Air, "{op}");
        }
        assert_eq!(
            level("module { air.herd @h tile(%x, %y) in (%a=%b, %c=%d) {} }"),
            Level::Air
        );
        assert_eq!(
            level("\"air.channel\"() {sym_name = \"c\"} : () -> ()"),
            Level::Air
        );
        assert_eq!(level("aie.device(npu1) { }"), Level::Aie);
        assert_eq!(level("AIE.device(ipu) { }"), Level::Aie);
        assert_eq!(
            level("\"aie.device\"() <{device = 4 : i32}> ({ }) : () -> ()"),
            Level::Aie
        );
        assert_eq!(
            level("module { air.channel @c [1] aie.device(npu2) { } }"),
            Level::Aie
        );
    }

    #[test]
    fn are_not_told_by_comments_strings_and_attributes() {
        for text in [
            "// aie.device(npu1)\nmodule {}",
            "module attributes {a.b = \"aie.device(npu1)\"} {}",
            "module attributes {a.b = [\"air.herd\"], air.launch, air.segment = 1 : i32} {}",
            "module {} loc(\"aie.device\"(\"k.py\":1:2))",
            "module {} {-# x: { y: \"aie.device(\" } aie.device( #-}",
        ] {
            assert_eq!(module(text).level, Level::Linalg, "{text}");
        }
    }
}

mod entries {
    use super::*;

    #[test]
    fn the_only_public_function_with_a_body_is_the_entry() {
        let kernel = only(
            "module @m attributes {x.y = 1 : i32} {\n\
             func.func private @declared(memref<4xf32>)\n\
             func.func private @helper(%a: i32) -> i32 { return %a : i32 }\n\
             func.func @\"my kernel\"(%arg0: memref<4xf32>) attributes {x.y} { return }\n\
             func.func @external(memref<4xf32>)\n}",
        );
        assert_eq!(kernel.symbol, "my kernel");
        assert_eq!(kernel.signature.name, "my kernel");
        assert_eq!(kernel.line, 4);
        assert_eq!(kernel.device, None);
    }

    #[test]
    fn several_need_a_choice_and_a_wrong_one_lists_them() {
        let module = module("func.func @add() { return }\nfunc.func public @sub() { return }");
        assert_eq!(
            module.select(None).unwrap_err().to_string(),
            "several entry functions, choose one with --entry: add, sub"
        );
        assert_eq!(module.select(Some("sub")).unwrap()[0].symbol, "sub");
        assert_eq!(
            module.select(Some("subs")).unwrap_err().to_string(),
            "no entry 'subs': the file has add, sub; did you mean 'sub'?"
        );
    }

    #[test]
    fn a_long_list_is_cut() {
        let text: String = (0..25)
            .map(|i| format!("func.func @f{i}() {{ return }}\n"))
            .collect();
        let error = module(&text).select(None).unwrap_err().to_string();
        assert!(error.ends_with("f18, f19 and 5 more"), "{error}");
    }

    #[test]
    fn none_is_an_error_that_knows_triton_ir() {
        assert_eq!(
            module("module {}").select(None).unwrap_err().to_string(),
            "no entry function: a public 'func.func' with a body was expected"
        );
        let error = module("tt.func public @k() { tt.return }")
            .select(None)
            .unwrap_err();
        assert!(error.to_string().contains("triton-shared-opt"), "{error}");
    }

    #[test]
    fn what_cannot_be_launched_fails_only_when_chosen() {
        let module = module(
            "func.func @good(%a: memref<4xf32>) { return }\n\
             func.func @tensor(%a: memref<4xf32>,\n %t: tensor<4xf32>) { return }\n\
             func.func @result(%a: memref<4xf32>) -> (memref<4xf32> {x.y}) { return %a : memref<4xf32> }",
        );
        assert!(
            module
                .select(None)
                .unwrap_err()
                .to_string()
                .ends_with("good, tensor, result")
        );
        assert_eq!(module.select(Some("good")).unwrap().len(), 1);
        assert_eq!(
            module.select(Some("tensor")).unwrap_err().to_string(),
            "line 3: argument 't' of 'tensor' has the type tensor<4xf32>, which can't be passed to a kernel: \
             use a memref, an integer, index, f16, bf16, f32 or f64"
        );
        assert_eq!(
            module.select(Some("result")).unwrap_err().to_string(),
            "line 4: 'result' returns values: a kernel writes its results to memref arguments"
        );
    }

    #[test]
    fn no_scalar_without_a_rust_type_is_passed() {
        for of_type in [
            "vector<4xf32>",
            "i128",
            "f8E4M3FN",
            "!llvm.ptr",
            "tuple<i32>",
            "none",
            "() -> ()",
        ] {
            let text = format!("func.func @k(%x: {of_type}) {{ return }}");
            let error = module(&text).select(None).unwrap_err().to_string();
            assert!(
                error.contains(&format!("has the type {of_type},")),
                "{error}"
            );
        }
    }

    #[test]
    fn functions_in_other_operations_are_none_of_ours() {
        let text = "gpu.module @g { func.func @inner() { return } }\nfunc.func @outer() { return }";
        assert_eq!(only(text).symbol, "outer");
    }

    /// The tools compile the outermost module alone.
    #[test]
    fn a_function_in_a_module_of_its_own_is_refused() {
        let inner = "func.func @inner(%a: memref<4xf32>) { return }";
        for text in [
            format!("module {{ module @n {{ {inner} }} }}"),
            format!("module {{}} module {{ {inner} }}"),
            format!("func.func private @other() module attributes {{a = 1}} {{ {inner} }}"),
            format!(
                "\"builtin.module\"() ({{ \"builtin.module\"() ({{ {inner} }}) : () -> () }}) : () -> ()"
            ),
        ] {
            let error = module(&text).select(None).unwrap_err().to_string();
            assert!(
                error.contains("line 1: 'inner' is in a module inside another"),
                "{error}"
            );
        }
        let beside =
            format!("module {{ module @n {{ {inner} }} func.func @outer() {{ return }} }}");
        let scanned = module(&beside);
        let selected = scanned.select(Some("outer")).unwrap();
        assert_eq!(selected[0].symbol, "outer");
        assert_eq!(scanned.defined, ["outer"]);
    }

    #[test]
    fn a_name_that_is_no_text_is_refused() {
        for name in [r"a\FFb", r"a\00b"] {
            let text = format!("func.func @\"{name}\"() {{ return }}");
            let error = module(&text).select(None).unwrap_err().to_string();
            assert!(
                error.contains("bytes that are no UTF-8, or a NUL"),
                "{error}"
            );
        }
    }
}

mod signatures {
    use super::*;

    #[test]
    fn name_type_element_and_shape_of_each_argument() {
        let kernel = only(
            "!pointer = memref<*xbf16>\n#map = affine_map<(d0) -> (d0 * 2)>\n\
             func.func @k(%arg0: !pointer {tt.divisibility = 16 : i32} loc(\"a\":1:2), %x-y: memref<4x?xsi8>,\n\
             %2: memref<8x!aiex.bfp<\"v8bfp16ebs8\">>, // a comment, with a comma\n\
             %m: memref<8xf32, #map, 1>, %n: ui16 loc(unknown), %i: memref<2x\n  2xi1>) { return }",
        );
        assert_eq!(
            summary(&kernel),
            [
                "arg0: memref<*xbf16> in",
                "x-y: memref<4x?xsi8> in",
                "2: memref<8x!aiex.bfp<\"v8bfp16ebs8\">> in",
                "m: memref<8xf32, affine_map<(d0) -> (d0 * 2)>, 1> in",
                "n: ui16 ui16",
                "i: memref<2x 2xi1> in",
            ]
        );
        let memory = |element, shape: &'static [Option<u64>]| Kind::Memory {
            element,
            shape: Shape::Ranked(shape.into()),
            direction: Direction::In,
        };
        let kinds: Vec<_> = kernel
            .signature
            .parameters
            .iter()
            .map(|it| it.kind.clone())
            .collect();
        assert_eq!(kinds[1], memory(ElementType::I8, &[Some(4), None]));
        let block = ElementType::Bytes { size: 9, align: 1 };
        assert_eq!(kinds[2], memory(block, &[Some(8)]));
        assert_eq!(kinds[5], memory(ElementType::I1, &[Some(2), Some(2)]));
        assert_eq!(kernel.types.len(), 6);
        assert!(!kernel.signature.grid && kernel.computes_with.is_none());
    }

    #[test]
    fn six_trailing_i32_are_the_launchs() {
        let with = |scalars: &[&str]| {
            let list: Vec<_> = (0..)
                .zip(scalars)
                .map(|(i, t)| format!(", %s{i}: {t}"))
                .collect();
            let kernel = only(&format!(
                "func.func @k(%p: memref<*xf32>{}) {{ return }}",
                list.concat()
            ));
            (kernel.signature.grid, kernel.signature.parameters.len() - 1)
        };
        assert_eq!(with(&["i32"; 6]), (true, 0));
        assert_eq!(with(&["i32"; 7]), (true, 1));
        assert_eq!(
            with(&["f32", "i32", "i32", "i32", "i32", "i32", "i32"]),
            (true, 1)
        );
        assert_eq!(with(&["i32"; 5]), (false, 5));
        assert_eq!(
            with(&["i32", "i32", "i32", "i64", "i32", "i32", "i32"]),
            (false, 7)
        );
    }

    #[test]
    fn air_functions_keep_all_their_scalars() {
        let scalars = ", %s: i32".repeat(6);
        let text =
            format!("air.channel @c [1]\nfunc.func @k(%p: memref<4xf32>{scalars}) {{ return }}");
        let kernel = only(&text);
        assert_eq!(
            (kernel.signature.grid, kernel.signature.parameters.len()),
            (false, 7)
        );
    }

    #[test]
    fn the_generic_form_says_the_same() {
        let kernel = only(
            "\"builtin.module\"() ({\n\"func.func\"() <{function_type = (memref<4xf32>, i32) -> (), \
             sym_name = \"k\"}> ({\n^bb0(%arg0: memref<4xf32>, %arg1: i32):\n\
             \"func.return\"() : () -> ()\n}) : () -> ()\n\
             \"func.func\"() <{function_type = () -> (), sym_name = \"p\", sym_visibility = \"private\"}> ({\n\
             \"func.return\"() : () -> ()\n}) : () -> ()\n\
             \"func.func\"() ({\n}) {function_type = () -> i32, sym_name = \"d\"} : () -> ()\n\
             }) : () -> ()",
        );
        assert_eq!(kernel.symbol, "k");
        assert_eq!(
            summary(&kernel),
            ["arg0: memref<4xf32> in", "arg1: i32 i32"]
        );
    }

    #[test]
    fn aliases_that_run_in_circles_or_grow_end() {
        let circle = "!a = !b\n!b = !a\nfunc.func @k(%x: !a) { return }";
        assert!(module(circle).select(None).is_err());
        let mut bomb = String::from("!a0 = tuple<i32>\n");
        for i in 1..60 {
            bomb += &format!("!a{i} = tuple<!a{}, !a{}>\n", i - 1, i - 1);
        }
        bomb += "func.func @k(%x: !a59) { return }";
        assert!(module(&bomb).select(None).is_err());
    }

    #[test]
    fn directions_are_set_by_name() {
        let mut kernel = only("func.func @k(%src: memref<4xf32>, %n: i32) { return }");
        kernel.set_direction("src", Direction::Out).unwrap();
        assert_eq!(summary(&kernel)[0], "src: memref<4xf32> out");
        kernel.set_direction("%src", Direction::InOut).unwrap();
        assert_eq!(summary(&kernel)[0], "src: memref<4xf32> inout");
        assert_eq!(
            kernel
                .set_direction("scr", Direction::In)
                .unwrap_err()
                .to_string(),
            "'k' has no argument 'scr': its arguments are src, n; did you mean 'src'?"
        );
        assert_eq!(
            kernel
                .set_direction("n", Direction::In)
                .unwrap_err()
                .to_string(),
            "argument 'n' of 'k' is a scalar (i32): only memory has a direction"
        );
    }
}

mod aie_level;

mod bad_input;
