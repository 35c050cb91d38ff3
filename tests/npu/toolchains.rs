//! Toolchains that lack something that a kernel needs.

use crate::kernels;
use crate::refusals::scene;
use crate::scene::{NOTHING, Scene};

/// An aiecc from before an option existed can't be asked for it.
#[test]
fn an_option_that_this_aiecc_does_not_have() {
    let scene = Scene::with_dialect(1);
    scene.file("aie.mlir", kernels::aie("npu2"));
    let told = scene.run("compile aie.mlir --option stack-size=4096");
    told.fails(
        2,
        &[
            "aiecc has no --default-stack-size",
            "leave --option stack-size out, or install a newer mlir-aie",
        ],
    );
    assert_eq!(scene.ran(), NOTHING);
}

#[test]
fn a_toolchain_that_is_not_all_there() {
    for (tool, arguments, words) in [
        (
            "air-opt",
            "gridless.mlir --target npu2",
            "no usable air-opt found",
        ),
        ("aircc", "air.mlir --target npu2", "no usable aircc found"),
        ("aiecc", "aie.mlir", "no usable aiecc found"),
        ("llc", "aie.mlir", "no usable peano found"),
        (
            "xclbinutil",
            "aie.mlir --format xclbin",
            "no usable xclbinutil found",
        ),
        (
            "aiebu-asm",
            "aie.mlir --format elf",
            "no usable aiebu-asm found",
        ),
        ("bootgen", "aie.mlir", "no usable bootgen found"),
    ] {
        let scene = scene();
        scene.tools.remove(tool).unwrap();
        // The wrapper in the environment leads to nothing then, and must not be taken.
        scene.refuses(arguments, 3, &[words, "try: "]);
        assert_eq!(scene.ran(), NOTHING);
    }
}

/// The real aiecc does not look for Peano, either, where there is nothing to compile.
#[test]
fn a_design_without_code_needs_no_peano() {
    let copy = kernels::module(&[kernels::copy_device("npu2", "copy", &[("run", 256)])]);
    let empty = copy.replace(
        "    aie.runtime_sequence",
        "    %tile = aie.tile(0, 2)\n    %core = aie.core(%tile) { aie.end }\n    aie.runtime_sequence",
    );
    for dialect in [1, 2, 3] {
        let scene = Scene::with_dialect(dialect);
        for tool in ["opt", "llc", "clang", "ld.lld"] {
            scene.tools.remove(tool).unwrap();
        }
        scene.file("copy.mlir", &copy);
        scene.file("empty.mlir", &empty);
        // Later ones were not tried with an empty core.
        let last = if dialect == 1 { 2 } else { 1 };
        for kernel in &["copy.mlir", "empty.mlir"][..last] {
            for format in ["elf", "xclbin", "pdi"] {
                scene.compile(&format!("{kernel} --format {format}"));
            }
        }
        scene.file("code.mlir", kernels::aie("npu2"));
        scene.refuses("code.mlir", 3, &["no usable peano found", "try: "]);
    }
}

/// What was named is used or told, never passed over.
#[test]
fn an_installation_that_is_named_and_not_there() {
    let scene = scene();
    let empty = scene.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    let empty = empty.to_str().unwrap();
    for (flag, format, tool) in [
        ("air", "elf", "air-opt"),
        ("aie", "elf", "aiecc"),
        ("peano", "elf", "peano"),
        ("python", "elf", "air-opt"),
        ("xrt", "elf", "aiebu-asm"),
        ("xrt", "xclbin", "xclbinutil"),
    ] {
        let kernel = format!("gridless.mlir --target npu2 --format {format}");
        let words = [
            format!("the {tool} that --{flag} names cannot be used\n  /nope: "),
            format!("try: correct --{flag}"),
        ];
        let words = words.each_ref().map(String::as_str);
        scene.refuses(&format!("{kernel} --{flag} /nope"), 3, &words);
    }
    // An environment has packages.
    let words = ["that --python names cannot be used", "has no lib/python3*"];
    let kernel = "gridless.mlir --target npu2";
    scene.refuses(&format!("{kernel} --python {empty}"), 3, &words);
    assert_eq!(scene.ran(), NOTHING);
}
