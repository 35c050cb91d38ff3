//! `npu-build signature`: what a kernel takes, for people and for machines.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failed helper is a failed test"
)]

mod common;

use std::path::Path;

use common::{Scene, example};
use serde_json::json;

#[test]
fn people_get_a_table() {
    let scene = Scene::replayed();
    let file = example("fma.mlir");
    let told = scene.run(&["signature", file.to_str().unwrap()]);
    assert_eq!(told.code(), 0, "{told:?}");
    assert_eq!(
        told.stdout(),
        "fma (linalg level, launched over a grid of programs)\n\
         \x20 a    f32            scalar      in\n\
         \x20 x    memref<*xf32>  any length  in\n\
         \x20 y    memref<*xf32>  any length  in\n\
         \x20 out  memref<*xf32>  any length  inout\n\
         \x20 n    i32            scalar      in\n\
         \x20 unsafe to launch: nothing is known to keep it within its arguments; declare their \
         extents with --extent\n"
    );
}

/// By flags, by the project file, and by the MLIR itself.
#[test]
fn contracts_are_shown() {
    let scene = Scene::replayed();
    let file = example("fma.mlir");
    let file = file.to_str().unwrap();
    let declared = "fma (linalg level, launched over a grid of programs)\n\
         \x20 a    f32            scalar      in\n\
         \x20 x    memref<*xf32>  any length  in     extent n\n\
         \x20 y    memref<*xf32>  any length  in     extent n\n\
         \x20 out  memref<*xf32>  any length  inout  extent grid.x*1024\n\
         \x20 n    i32            scalar      in\n\
         \x20 safe to launch: launches check the extents that were declared\n";
    let flags = ["--extent", "x=n,y=n", "--extent", "out=grid.x*1024"];
    let told = scene.run(&[&["signature", file], &flags[..]].concat());
    assert_eq!(told.stdout(), declared, "{told:?}");
    let section = format!(
        "[[kernel]]\npath = \"{file}\"\nextents = {{ x = \"n\", y = \"n\", out = \"grid.x*1024\" }}\n"
    );
    scene.file("npu-build.toml", &section);
    let told = scene.run(&["signature", file]);
    assert_eq!(told.stdout(), declared, "{told:?}");
    let told = scene.run(&["signature", file, "--extent", "y=8,out=n", "--json"]);
    let told: serde_json::Value = serde_json::from_str(&told.stdout()).unwrap();
    assert_eq!(told["bounds"], "declared");
    let extents = |argument: usize| told["parameters"][argument]["extents"].clone();
    assert_eq!(extents(1), json!([{"atleast": [{"scalar": 4}]}]));
    assert_eq!(extents(2), json!([{"exactly": 8}]));
    assert_eq!(extents(3), extents(1));
    let copy = "func.func @copy(%x: memref<?xf32>, %y: memref<?xf32>) {\n\
        memref.copy %x, %y : memref<?xf32> to memref<?xf32>\nreturn }";
    scene.file("copy.mlir", copy);
    assert_eq!(
        scene.run(&["signature", "copy.mlir"]).stdout(),
        "copy (linalg level)\n\
         \x20 x  memref<?xf32>  [?]  in     extent x\n\
         \x20 y  memref<?xf32>  [?]  inout  extent x\n\
         \x20 safe to launch: the MLIR proves that it stays within its arguments\n"
    );
}

#[test]
fn a_contract_that_does_not_fit_is_refused() {
    let scene = Scene::replayed();
    let file = example("fma.mlir");
    let file = file.to_str().unwrap();
    for (extents, words) in [
        ("x=n,y=n", "says nothing of argument 'out'"),
        ("x=n,y=n,out=a", "'a' can't be a size"),
        ("x", "write it as NAME=SIZE"),
    ] {
        scene.refuses(&["signature", file, "--extent", extents], 2, &[words]);
        scene.refuses(
            &["compile", file, "--target", "cpu", "--extent", extents],
            2,
            &[words],
        );
    }
}

#[test]
fn machines_get_the_same_in_both_spellings() {
    let scene = Scene::replayed();
    scene.file(
        "k.mlir",
        "\n// Second line.\nfunc.func @k(%m: memref<4x?xbf16>, %out: memref<*xi8>, %n: index) {\n  return\n}\n",
    );
    let short = scene.run(&["signature", "k.mlir", "--format", "json"]);
    let long = scene.run(&["signature", "k.mlir", "--message-format", "json"]);
    assert_eq!(short.stdout(), long.stdout());
    let told: serde_json::Value = serde_json::from_str(&short.stdout()).unwrap();
    assert_eq!(told["name"], "k");
    assert_eq!(told["level"], "linalg");
    assert_eq!(told["line"], 3);
    assert_eq!(told["grid"], false);
    assert_eq!(told["device"], json!(null));
    assert_eq!(told["link_files"], json!([]));
    assert_eq!(told["core_elfs"], json!([]));
    let parameters = told["parameters"].as_array().unwrap();
    let names: Vec<_> = parameters
        .iter()
        .map(|parameter| &parameter["name"])
        .collect();
    assert_eq!(names, ["m", "out", "n"]);
    assert_eq!(parameters[0]["mlir_type"], "memref<4x?xbf16>");
    assert_eq!(
        parameters[0]["kind"],
        json!({"memory": {"element": "bf16", "shape": {"ranked": [4, null]}, "direction": "in"}})
    );
    assert_eq!(
        parameters[1]["kind"],
        json!({"memory": {"element": "i8", "shape": "unranked", "direction": "in"}})
    );
    assert_eq!(parameters[2]["kind"], json!({"scalar": "index"}));
}

#[test]
fn directions_can_be_overridden_by_name_and_in_tritons_syntax() {
    let scene = Scene::replayed();
    let file = example("vecadd.mlir");
    let file = file.to_str().unwrap();
    let directions = |options: &[&str]| {
        let told = scene.run(&[&["signature", file], options].concat());
        assert_eq!(told.code(), 0, "{told:?}");
        let stdout = told.stdout();
        let rows = stdout
            .lines()
            .filter(|line| line.contains("xf32") || line.contains("i32"));
        rows.map(|row| row.split_whitespace().last().unwrap().to_owned())
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(directions(&[]), "in in inout in");
    assert_eq!(directions(&["--arg", "out=out"]), "in in out in");
    assert_eq!(directions(&["--arg", "%out=out"]), "in in out in");
    assert_eq!(
        directions(&["--signature", "*fp32,*fp32,*fp32:out,i32"]),
        "in in out in"
    );
    assert_eq!(
        directions(&["--signature", "*fp32, *fp32:inout, *fp32:out, i32"]),
        "in inout out in"
    );
    let both = [
        "--signature",
        "*fp32,*fp32,*fp32:out,i32",
        "--arg",
        "out=inout",
    ];
    assert_eq!(directions(&both), "in in inout in");
}

#[test]
fn npu_level_kernels_are_described_without_any_tool() {
    let scene = Scene::replayed();
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/aie");
    for (design, device, columns) in [("copy_npu1", "npu1", 1..=4), ("copy_npu2", "npu2", 1..=8)] {
        let file = data.join(design).join("kernel.mlir");
        let mut command = scene.npu_build();
        command
            .env("NPU_BUILD_LLVM", "/nonexistent")
            .arg("signature")
            .arg(file);
        let told = common::Outcome(command.args(["--format", "json"]).output().unwrap());
        assert_eq!(told.code(), 0, "{told:?}");
        let kernel: serde_json::Value = serde_json::from_str(&told.stdout()).unwrap();
        assert_eq!(kernel["level"], "aie");
        assert!(
            kernel["device"].as_str().unwrap().starts_with(device),
            "{kernel}"
        );
        assert!(
            columns.contains(&kernel["columns"].as_u64().unwrap()),
            "{kernel}"
        );
    }
    assert!(!scene.cache.exists(), "a signature needs no cache");
}

#[test]
fn a_direction_that_the_mlir_speaks_against_counts_and_is_doubted() {
    let scene = Scene::replayed();
    let kernel = scene.kernel("vecadd.mlir");
    for (word, doubt) in [
        ("out=in", "argument 'out' may be written"),
        ("x=out", "argument 'x' is only read"),
    ] {
        for command in ["signature", "compile"] {
            let path = kernel.to_str().unwrap();
            let told = scene.run(&[command, path, "--target", "cpu", "--arg", word]);
            assert_eq!(told.code(), 0, "{told:?}");
            assert!(told.stderr().contains(doubt), "{told:?}");
        }
    }
    // What is safe, or was inferred, is not.
    let agreed = scene.run(&[
        "compile",
        kernel.to_str().unwrap(),
        "--target",
        "cpu",
        "--arg",
        "out=out",
        "--arg",
        "x=inout",
    ]);
    assert!(!agreed.stderr().contains("warning"), "{agreed:?}");
}
