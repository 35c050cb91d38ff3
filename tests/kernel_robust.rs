//! Hostile and broken input: never a panic, never more than linear time, and errors that say where.
#![expect(clippy::unwrap_used, reason = "a failed helper is a failed test")]

use std::path::Path;
use std::time::Instant;

use npu_build::kernel::canonical::Canonical;
use npu_build::kernel::{Level, Module, ScanError, Target, triton};
use npu_runtime::signature::{Direction, Kind};
use proptest::prelude::*;

fn design(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/aie");
    std::fs::read_to_string(path.join(name).join("kernel.mlir")).unwrap()
}

/// Everything that a user can ask of a text.
fn exercise(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        let canonical = Canonical::of(text);
        let _ = canonical.original_line(1);
    }
    let module = match Module::scan(bytes) {
        Ok(module) => module,
        Err(error) => {
            assert!(error.to_string().len() < 400);
            return;
        }
    };
    let _ = module.target_hint();
    for target in Target::ALL {
        let _ = module
            .check_target(target)
            .map_err(|error| error.to_string());
    }
    for entry in [None, Some("f"), Some("main:sequence")] {
        match module.select(entry) {
            Ok(kernels) => assert!(!kernels.is_empty()),
            Err(error) => drop(error.to_string()),
        }
    }
    for mut kernel in module.kernels {
        assert_eq!(kernel.types.len(), kernel.signature.parameters.len());
        let _ = kernel.set_direction("a", Direction::Out);
        let _ = kernel.apply_triton(&triton::parse("*fp32,i32").unwrap());
    }
}

fn soup() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "module",
        "func.func",
        "\"func.func\"",
        "aie.device",
        "\"aie.device\"",
        "aie.runtime_sequence",
        "aie.objectfifo",
        "aie.tile",
        "aiex.npu.dma_memcpy_nd",
        "aiex.dma_configure_task_for",
        "aie.dma_bd",
        "linalg.generic",
        "\"linalg.fill\"",
        "linalg.fill",
        "memref.store",
        "memref.load",
        "memref.cast",
        "memref.copy",
        "scf.for",
        "bufferization.to_tensor",
        "air.herd",
        "@f",
        "@\"g h\"",
        "%a",
        "%b",
        "%0#1",
        "%c:2",
        "^bb0",
        "(",
        ")",
        "{",
        "}",
        "[",
        "]",
        "<",
        ">",
        "<{",
        "}>",
        "({",
        "})",
        "=",
        ":",
        ",",
        "->",
        "ins",
        "outs",
        "attributes",
        "loc",
        "loc(\"x\")",
        "private",
        "memref<4xf32>",
        "memref<*xi8>",
        "i32",
        "#map",
        "!t",
        "#map = affine_map<(d0) -> (d0)>",
        "!t = memref<4xf32>",
        "link_with",
        "link_files",
        "elf_file",
        "aie.core",
        "\"k.o\"",
        "metadata",
        "indexing_maps",
        "operandSegmentSizes",
        "array<i32: 1, 1>",
        "sym_name",
        "npu1",
        "1",
        "0",
        "-",
        "\n",
        " ",
        "\t",
        "// c\n",
        "{-#",
        "#-}",
        "return",
        "é",
        "\"",
    ]);
    prop::collection::vec((piece, " ?\n?"), 0..120)
        .prop_map(|pieces| pieces.into_iter().map(|(a, b)| format!("{a}{b}")).collect())
}

/// The same with brackets that pair, so that more of it gets past the lexer.
fn nested_soup() -> impl Strategy<Value = String> {
    soup().prop_recursive(4, 64, 6, |inner| {
        (
            inner.clone(),
            prop::sample::select(vec!["()", "{}", "[]"]),
            inner,
        )
            .prop_map(|(before, brackets, inside)| {
                let clean = |text: String| text.replace(['(', ')', '{', '}', '[', ']', '"'], " ");
                let (open, close) = brackets.split_at(1);
                format!(
                    "func.func @f(%a: memref<4xf32>) {{ {} {open} {} {close} }}",
                    clean(before),
                    clean(inside)
                )
            })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        exercise(&bytes);
    }

    #[test]
    fn any_tokens(text in soup()) {
        exercise(text.as_bytes());
        exercise(format!("module {{\n{text}\n}}").as_bytes());
    }

    #[test]
    fn any_tokens_in_a_function(text in nested_soup()) {
        exercise(text.as_bytes());
    }

    #[test]
    fn any_change_of_a_real_design(at in 0usize..1700, byte in any::<u8>(), length in 0usize..40) {
        let mut bytes = design("two_kernels_npu2").into_bytes();
        let at = at.min(bytes.len());
        let end = (at + length).min(bytes.len());
        bytes.splice(at..end, [byte]);
        exercise(&bytes);
    }
}

#[test]
fn every_truncation_is_an_error_that_is_no_panic() {
    for name in [
        "copy_npu1",
        "copy_npu2",
        "copy_npu2_4col",
        "two_kernels_npu2",
    ] {
        let text = design(name);
        for end in 0..text.len() {
            exercise(&text.as_bytes()[..end]);
        }
        let module = text.find("module").unwrap() + "module {".len();
        for end in module..text.trim_end().len() {
            assert!(
                Module::scan(&text.as_bytes()[..end]).is_err(),
                "{name} {end}"
            );
        }
    }
}

#[test]
fn real_designs_give_their_kernels() {
    let kernels = |name: &str| -> Vec<String> {
        let module = Module::scan(design(name).as_bytes()).unwrap();
        assert_eq!(module.level, Level::Aie);
        let chosen = module.select(None).unwrap();
        let line = |it: &&npu_build::kernel::Kernel| {
            let device = it.device.as_ref().unwrap();
            let parameters =
                it.signature
                    .parameters
                    .iter()
                    .map(|parameter| match &parameter.kind {
                        Kind::Memory {
                            element,
                            shape,
                            direction,
                        } => {
                            format!(
                                " {}:{element}[{}]:{direction}",
                                parameter.name,
                                shape.elements().unwrap()
                            )
                        }
                        Kind::Scalar(element) => format!(" {element}"),
                    });
            let parameters: String = parameters.collect();
            format!(
                "{} {} {}{parameters}",
                it.signature.name, device.target, device.columns
            )
        };
        chosen.iter().map(line).collect()
    };
    assert_eq!(
        kernels("copy_npu1"),
        ["main:sequence npu1 4 src:i32[4096]:in dst:i32[4096]:inout"]
    );
    assert_eq!(
        kernels("copy_npu2"),
        ["copyrows:copy npu2 8 src:i32[4096]:in dst:i32[4096]:inout"]
    );
    assert_eq!(
        kernels("copy_npu2_4col"),
        ["wide:run npu2 4 src:i16[65536]:in dst:i16[65536]:inout"]
    );
    assert_eq!(
        kernels("two_kernels_npu2"),
        [
            "first:copy_i32 npu2 8 src:i32[4096]:in dst:i32[4096]:inout",
            "second:copy_i8 npu2 8 src:i8[8192]:in dst:i8[8192]:inout",
        ]
    );
}

/// A generator that needs no seed and gives the same bytes everywhere.
fn pseudo_random(length: usize) -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    (0..length).map(|_| next()).collect()
}

#[test]
fn ten_megabytes_of_random_bytes_are_refused() {
    let bytes = pseudo_random(10 << 20);
    assert!(matches!(
        Module::scan(&bytes),
        Err(ScanError::Nul { .. } | ScanError::NotUtf8 { .. })
    ));
    let printable: Vec<u8> = bytes.iter().map(|c| b' ' + c % 95).collect();
    exercise(&printable);
}

/// A text of about this many times a piece.
type Text = fn(usize) -> String;

/// Texts of growing size that would show a step that is not linear in the text.
#[test]
fn time_grows_with_the_text_and_not_faster() {
    let repeated: [(&str, Text); 12] = [
        ("functions", |n| {
            "func.func @f(%a: memref<4xf32>) { return }\n".repeat(n)
        }),
        ("refused functions", |n| {
            "func.func @f(%a: tensor<4xf32>) { return }\n".repeat(n)
        }),
        ("devices", |n| {
            "aie.device(npu1) { aie.runtime_sequence(%a: memref<4xi32>) { } }\n".repeat(n)
        }),
        ("operations", |n| {
            let ops = "%0 = memref.cast %a : memref<4xf32> to memref<?xf32>\nmemref.store %x, %0[%i] : memref<?xf32>\n";
            format!(
                "func.func @f(%a: memref<4xf32>) {{\n{}return\n}}",
                ops.repeat(n)
            )
        }),
        ("views in reverse", |n| {
            let views: String = (0..n)
                .rev()
                .map(|i| format!("%v{} = memref.cast %v{i} : m to m\n", i + 1))
                .collect();
            format!("func.func @f(%v0: memref<4xf32>) {{\n{views}return\n}}")
        }),
        ("regions", |n| {
            format!(
                "func.func @f(%a: memref<4xf32>) {{\n{}{}return\n}}",
                "scf.if %p {\n".repeat(n),
                "}\n".repeat(n)
            )
        }),
        ("unknown regions", |n| {
            format!(
                "func.func @f(%a: memref<4xf32>) {{\n{}{}return\n}}",
                "x.y ({\n".repeat(n),
                "})\n".repeat(n)
            )
        }),
        ("payloads", |n| {
            let open = "linalg.generic ins(%a : m) outs(%a : m) {\n^bb0(%b: f32):\n";
            format!(
                "func.func @f(%a: memref<4xf32>) {{\n{}{}return\n}}",
                open.repeat(n),
                "}\n".repeat(n)
            )
        }),
        ("results", |n| {
            format!("func.func @f() {{\n{} = x.y\n}}", vec!["%a"; n].join(",\n"))
        }),
        ("angles", |n| {
            format!("module attributes {{a.b = {}}} {{}}", "!a<".repeat(n))
        }),
        ("locations", |n| {
            "module {} loc(fused[\"a\"]) // c\n#l = loc(\"x\")\n".repeat(n)
        }),
        ("types", |n| {
            format!(
                "func.func @f(%a: {}i32{}) {{ return }}",
                "tuple<".repeat(n),
                ">".repeat(n)
            )
        }),
    ];
    for (name, text) in repeated {
        let time = |n: usize| {
            let text = text(n);
            let start = Instant::now();
            let _ = Module::scan(text.as_bytes());
            let _ = Canonical::of(&text);
            start.elapsed()
        };
        time(100);
        let (small, large) = (
            time(2_000).max(std::time::Duration::from_millis(2)),
            time(40_000),
        );
        // Twenty times the text; a quadratic step would take four hundred times as long.
        assert!(large < small * 120, "{name}: {small:?}, then {large:?}");
    }
}
