//! Devices, sequences and targets.

use super::*;

#[test]
fn every_pair_of_device_and_sequence_is_a_kernel() {
    let module = module(
        "aie.device(npu2) @a {\n aie.runtime_sequence @one(%x: memref<4xi32>) { }\n\
         aie.runtime_sequence @two() { } }\n\
         aie.device(npu2_4col) {\n aie.runtime_sequence(%y: memref<2xi8>, %n: i32) { } }",
    );
    let chosen = module.select(None).unwrap();
    let names: Vec<_> = chosen.iter().map(|it| it.signature.name.as_ref()).collect();
    assert_eq!(names, ["a:one", "a:two", "main:sequence"]);
    let scalars: Vec<_> = chosen.iter().map(|it| &it.computes_with).collect();
    assert_eq!(scalars, [&None, &None, &Some("n".to_owned())]);
    assert_eq!(chosen[2].device.as_ref().unwrap().columns, 4);
    assert_eq!(module.select(Some("a")).unwrap().len(), 2);
    assert_eq!(
        module.select(Some("two")).unwrap()[0].signature.name,
        "a:two"
    );
    assert_eq!(module.select(Some("main:sequence")).unwrap().len(), 1);
    let error = module.select(Some("a:tow")).unwrap_err().to_string();
    assert!(
        error.ends_with("a:one, a:two, main:sequence; did you mean 'a:two'?"),
        "{error}"
    );
    assert_eq!(module.target_hint(), Some(Target::Npu2));
}

/// In custom and in generic form, as mlir-aie's aie-opt prints them.
#[test]
fn a_sequence_that_another_runs_is_a_kernel_only_by_its_name() {
    let custom = "aiex.configure @first { aiex.run @copy(%a, %b) : (memref<4xi32>, memref<4xi32>) }\n\
        aiex.configure @second { aiex.run @copy(%b, %a) : (memref<4xi32>, memref<4xi32>) }";
    let generic = "\"aiex.configure\"() <{symbol = @first}> ({\n\
        \"aiex.run\"(%a, %b) <{runtime_sequence_symbol = @copy}> : (memref<4xi32>, memref<4xi32>) -> ()\n\
        }) : () -> ()\n\
        \"aiex.configure\"() <{symbol = @second}> ({\n\
        \"aiex.run\"(%b, %a) <{runtime_sequence_symbol = @copy}> : (memref<4xi32>, memref<4xi32>) -> ()\n\
        }) : () -> ()";
    for body in [custom, generic] {
        let device = |name: &str, sequence: &str, body: &str| {
            format!(
                "aie.device(npu2) @{name} {{ aie.runtime_sequence @{sequence}(%a: memref<4xi32>, \
                 %b: memref<4xi32>) {{ {body} }} }}\n"
            )
        };
        let text = device("first", "copy", "")
            + &device("second", "copy", "")
            + &device("second_2", "copy", "")
            + &device("main", "both", body);
        let module = module(&text);
        let names = |entry| {
            let chosen = module.select(entry).unwrap().into_iter();
            let name = |it: &Kernel| (it.signature.name.to_string(), it.configures);
            chosen.map(name).collect::<Vec<_>>()
        };
        let own = ("second_2:copy".to_owned(), false);
        assert_eq!(names(None), [own, ("main:both".to_owned(), true)], "{body}");
        let part = ("second:copy".to_owned(), false);
        assert_eq!(names(Some("second:copy")), [part], "{body}");
    }
}

#[test]
fn older_spellings_are_read() {
    let device_2024 = "module { aie.device(npu1_1col) {\n\
        func.func private @kernel(memref<8xi32>)\n\
        func.func @helper(%a: memref<8xi32>) { return }\n\
        func.func @sequence(%a: memref<8xi32>) { return }\n\
        func.func @other(%a: memref<8xi32>) { aiex.npu.sync {column = 0 : i32} return }\n\
        } {sym_name = \"seg\"} }";
    let names: Vec<_> = module(device_2024)
        .kernels
        .into_iter()
        .map(|it| it.signature.name)
        .collect();
    assert_eq!(names, ["seg:sequence", "seg:other"]);
    assert_eq!(
        only("AIE.device(ipu) { func.func @sequence() { return } }").symbol,
        "sequence"
    );
    assert_eq!(
        only("aie.device(npu1) { aiex.runtime_sequence @s() { } }").symbol,
        "s"
    );
}

#[test]
fn the_generic_form_has_numbers_and_a_block() {
    let text = "\"builtin.module\"() ({\n\"aie.device\"() <{device = 9 : i32, sym_name = \"five\"}> ({\n\
        \"aie.runtime_sequence\"() <{sym_name = \"run\"}> ({\n^bb0(%arg0: memref<256xi8>, %arg1: i32):\n\
        }) : () -> ()\n\"aie.end\"() : () -> ()\n}) : () -> ()\n}) : () -> ()";
    let kernel = only(text);
    assert_eq!(kernel.signature.name, "five:run");
    assert_eq!(
        summary(&kernel),
        ["arg0: memref<256xi8> in", "arg1: i32 i32"]
    );
    assert_eq!(kernel.computes_with.as_deref(), Some("arg1"));
    let device = kernel.device.unwrap();
    assert_eq!((device.target, device.columns), (Target::Npu2, 1));
}

#[test]
fn a_device_without_a_sequence_is_no_kernel() {
    let error = module("aie.device(npu1) { }").select(None).unwrap_err();
    assert_eq!(error, SelectError::NoSequence);
}

#[test]
fn targets_must_agree() {
    let check = |text: &str, target| module(text).check_target(target).map_err(|e| e.to_string());
    let npu1 = "\n\naie.device(npu1_2col) { }";
    assert_eq!(check(npu1, Target::Npu1), Ok(()));
    assert_eq!(
        check(npu1, Target::Npu2).unwrap_err(),
        "line 3: aie.device(npu1_2col) is for npu1, not for npu2: use --target npu1"
    );
    assert!(check(npu1, Target::Cpu).unwrap_err().contains("aie-level"));
    assert!(
        check("air.channel @c [1]", Target::Cpu)
            .unwrap_err()
            .contains("air-level")
    );
    assert_eq!(check("func.func @f() { return }", Target::Cpu), Ok(()));
    assert_eq!(check("func.func @f() { return }", Target::Npu2), Ok(()));
    let placeholder = check("aie.device(NPUDEVICE) { }", Target::Npu1).unwrap_err();
    assert!(
        placeholder.starts_with("line 1: aie.device(NPUDEVICE) is no NPU"),
        "{placeholder}"
    );
}

#[test]
fn a_hint_is_one_that_all_devices_give() {
    let hint = |text: &str| module(text).target_hint();
    assert_eq!(
        hint("aie.device(npu1) { } aie.device(npu1_1col) { }"),
        Some(Target::Npu1)
    );
    assert_eq!(hint("aie.device(npu1) { } aie.device(npu2) { }"), None);
    assert_eq!(hint("aie.device(npu1) { } aie.device(NPUDEVICE) { }"), None);
    assert_eq!(hint("module { }"), None);
}

/// As mlir-aie's aie-opt prints them: in its own form, in the generic one, and with locations.
#[test]
fn cores_with_code_are_told_from_those_with_an_elf() {
    let scan = |core: &str| {
        let module = module(&format!(
            "aie.device(npu1) {{\n  %t = aie.tile(0, 2)\n  {core}\n}}"
        ));
        (module.core_code, module.core_elfs)
    };
    let elf = || vec!["c.elf".to_owned()];
    for (core, expected) in [
        ("", (None, vec![])),
        ("%c = aie.core(%t) { aie.end }", (None, vec![])),
        (
            "%c = aie.core(%t) { aie.end loc(#loc1) } loc(\"k\":1:2)",
            (None, vec![]),
        ),
        (
            "%c = aie.core(%t) {\n    aie.end\n  } {elf_file = \"c.elf\"}",
            (None, elf()),
        ),
        (
            "%c = \"aie.core\"(%t) <{elf_file = \"c.elf\"}> ({\n \"aie.end\"() : () -> ()\n }) : (index) -> index",
            (None, elf()),
        ),
        (
            "%c = aie.core(%t) { func.call @f() : () -> () aie.end }",
            (Some(3), vec![]),
        ),
        (
            "%c = AIE.core(%t) {\n ^bb0:\n cf.br ^bb0 }",
            (Some(3), vec![]),
        ),
        (
            "%c = \"aie.core\"(%t) ({\n \"scf.yield\"() : () -> () \"aie.end\"() : () -> () }) : (index) -> index",
            (Some(3), vec![]),
        ),
    ] {
        assert_eq!(scan(core), expected, "{core}");
    }
}

#[test]
fn link_files_are_sorted_and_each_once() {
    let text = "aie.device(npu1) { func.func private @k() attributes {link_with = \"z.o\"}\n\
        aie.core(%t) { aie.end } {link_files = [\"a.o\", \"z.o\"]} }";
    assert_eq!(module(text).link_files, ["a.o", "z.o"]);
}
