//! Installations are what a discovery finds in the field.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "these are tests"
)]

mod common;

use std::fs;
use std::process::Command;

use common::{Outcome, Scene, copy_design};

#[test]
fn everything_is_where_wheels_and_xrt_put_it() {
    let scene = Scene::new(2);
    let root = scene.directory.path().join("root");
    for path in [
        "venv/pyvenv.cfg",
        "site-packages/mlir_air/bin/air-opt",
        "site-packages/mlir_air/bin/aircc",
        "site-packages/mlir_aie/bin/aiecc",
        "site-packages/mlir_aie/bin/bootgen",
        "site-packages/mlir_aie/bin/aie-hsaco",
        "site-packages/mlir_aie/bin/llvm-objcopy",
        "site-packages/llvm-aie/bin/llc",
        "site-packages/mlir_aie-1.4.0.dist-info/RECORD",
        "xrt/bin/xclbinutil",
        "xrt/bin/aiebu-asm",
    ] {
        assert!(root.join(path).exists(), "{path}");
    }
    assert!(!root.join("site-packages/mlir_aie/bin/xclbinutil").exists());
}

#[test]
fn records_name_the_digests_of_the_tools() {
    let scene = Scene::new(3);
    let site = scene.tools.site_packages();
    let record = || {
        let directories = fs::read_dir(&site).unwrap().flatten().map(|e| e.path());
        let info = directories
            .into_iter()
            .find(|p| p.to_string_lossy().contains("mlir_aie-"))
            .unwrap();
        fs::read_to_string(info.join("RECORD")).unwrap()
    };
    // An oracle for the digest.
    let tool = site.join("mlir_aie/bin/aiecc");
    let sum = Command::new("sha256sum").arg(&tool).output().unwrap();
    let hex = String::from_utf8(sum.stdout).unwrap();
    let bytes: Vec<u8> = (0..32)
        .map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap())
        .collect();
    let mut encoder = Command::new("base64")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut encoder.stdin.take().unwrap(), &bytes).unwrap();
    let encoded = String::from_utf8(encoder.wait_with_output().unwrap().stdout).unwrap();
    let digest = encoded
        .trim()
        .trim_end_matches('=')
        .replace('+', "-")
        .replace('/', "_");
    let before = record();
    assert!(
        before.contains(&format!(
            "mlir_aie/bin/aiecc,sha256={digest},{}\n",
            fs::metadata(&tool).unwrap().len()
        )),
        "{before}"
    );

    let bytes_before = fs::read(&tool).unwrap();
    scene.tools.upgrade("aiecc").unwrap();
    assert_ne!(fs::read(&tool).unwrap(), bytes_before);
    assert_ne!(record(), before);
}

#[test]
fn the_environments_aiecc_is_a_script_around_the_real_one() {
    let scene = Scene::new(2);
    scene.file("k.mlir", copy_design("npu1", "d", "s", 64, "i32"));
    let wrapper = scene.tools.venv().join("bin/aiecc");
    assert!(fs::read(&wrapper).unwrap().starts_with(b"#!"));
    let mut command = Command::new(wrapper);
    command
        .current_dir(&scene.work)
        .args(["--get-npu-insts", "k.mlir"]);
    if !std::path::Path::new("/usr/bin/python3").exists() {
        return;
    }
    Outcome(command.output().unwrap()).ok();
    assert_eq!(scene.tools.runs("aiecc").len(), 1);
}

#[test]
fn a_tool_is_what_its_bytes_say_and_not_its_name() {
    let scene = Scene::new(1);
    let renamed = scene.work.join("something-else");
    fs::copy(scene.tools.tool("aiecc"), &renamed).unwrap();
    let output = Command::new(&renamed).arg("--version").output().unwrap();
    assert!(
        String::from_utf8(output.stdout)
            .unwrap()
            .starts_with("aiecc (C++ version)")
    );
    let before = scene.run("aiecc", &["--version"]).stdout();
    scene.tools.upgrade("aiecc").unwrap();
    assert_ne!(scene.run("aiecc", &["--version"]).stdout(), before);
    scene.tools.set_dialect("aiecc", 3).unwrap();
    assert!(
        scene
            .run("aiecc", &["--version"])
            .stdout()
            .starts_with("aiecc (mlir-aie declarative driver)")
    );
}

#[test]
fn the_binary_is_built_on_demand() {
    let built = aie_tools::install::binary().unwrap();
    assert!(built.is_file(), "{}", built.display());
}
