//! When Cargo runs a build script again.

use std::fs;

use crate::package::{Package, host_program, shift_by};

/// What has no say in a cpu kernel; each set as a user may have it.
const ELSEWHERE: [(&str, &str); 8] = [
    ("VIRTUAL_ENV", "/home/me/.venv"),
    ("NPU_BUILD_JOBS", "3"),
    ("NPU_BUILD_TIMEOUT", "1h"),
    ("NPU_BUILD_CACHE_MAX_SIZE", "1GiB"),
    ("NPU_BUILD_PEANO", "/opt/llvm-aie"),
    ("XILINX_XRT", "/opt/xrt"),
    ("CXX", "clang++"),
    ("MLIR_INSTALL_DIR", "/opt/llvm"),
];

#[test]
fn variables_that_change_nothing_rerun_nothing() {
    let package = Package::with_build_script("way-in-variables", "");
    assert!(package.build().script_ran(&package));
    for (name, value) in ELSEWHERE {
        let again = package.build_with(|cargo| {
            cargo.env(name, value);
        });
        assert!(!again.script_ran(&package), "{name}");
        assert!(again.is_fresh(&package), "{name}");
    }
    let renamed = package.build_with(|cargo| {
        cargo.env("NPU_BUILD_RUNTIME_CRATE", "npu-runtime");
    });
    assert!(renamed.script_ran(&package));
}

/// Cargo reruns a script that watches what is newer than its last run.
#[test]
fn a_kernel_that_the_script_writes_does_not_rerun_it() {
    let package = Package::with_build_script("way-in-written", "");
    fs::remove_dir_all(package.path().join("kernels")).unwrap();
    package.write("by", "30");
    let text = shift_by(7).replace("7", "{by}").replace('\n', "\\n");
    let text = text
        .replace('"', "\\\"")
        .replace("{\\n", "{{\\n")
        .replace("}\\n", "}}\\n");
    package.write(
        "build.rs",
        format!(
            "fn main() -> Result<(), npu_build::ScriptError> {{
                 println!(\"cargo::rerun-if-changed=by\");
                 let by = std::fs::read_to_string(\"by\").unwrap();
                 let kernel = std::env::var(\"OUT_DIR\").unwrap() + \"/shift.mlir\";
                 std::fs::write(&kernel, format!(\"{text}\")).unwrap();
                 npu_build::build_script()
                     .target(npu_build::Target::Cpu)
                     .kernel(kernel)
                     .compile()
             }}\n"
        ),
    );
    let first = package.build();
    assert!(first.script_ran(&package));
    assert_eq!(first.result(&package), "[31, 32, 33]\n");
    let second = package.build();
    assert!(!second.script_ran(&package) && second.is_fresh(&package));
    package.write("by", "40");
    assert_eq!(package.build().result(&package), "[41, 42, 43]\n");
}

/// The runtime under another name, in the oldest edition, under lints that generated code may not
/// allow itself.
#[test]
fn a_host_that_renames_the_runtime_says_so() {
    let package = Package::with_build_script("way-in-renamed", ".runtime_crate(\"my-npu\")");
    let manifest = fs::read_to_string(package.path().join("Cargo.toml")).unwrap();
    let manifest = manifest
        .replace("npu-runtime = {", "my-npu = { package = 'npu-runtime',")
        .replace("edition = '2024'", "edition = '2015'");
    package.write("Cargo.toml", manifest);
    let host = host_program("concat!(env!(\"OUT_DIR\"), \"/shift.rs\")")
        .replace("npu_runtime::", "my_npu::")
        .replace("include!", "extern crate my_npu;\ninclude!");
    let lints = "#![deny(warnings, let_underscore_drop, unused_qualifications)]\n";
    package.write("src/main.rs", lints.to_owned() + &host);
    assert_eq!(package.build().result(&package), "[11, 12, 13]\n");
}
