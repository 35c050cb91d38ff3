//! Being called by `npu-build`.

use std::process::Command;

use crate::common::{self, Outcome};

/// `npu-build` of the same build; Cargo makes the programs of other packages only for whole
/// workspaces.
fn front() -> Command {
    let program = std::path::Path::new(common::PROGRAM).with_file_name("npu-build");
    if !program.exists() {
        let cargo = std::env::var_os("CARGO").unwrap_or("cargo".into());
        let mut build = Command::new(cargo);
        let built = build.args(["build", "-p", "npu-build", "--bin", "npu-build"]);
        assert!(built.status().unwrap().success());
    }
    Command::new(program)
}

#[test]
fn programs_of_two_versions_do_not_work_together() {
    let mut program = Command::new(common::PROGRAM);
    program.env("NPU_BUILD_CALLER", "9.9.9");
    let refused = Outcome(program.args(["doctor", "--json"]).output().unwrap());
    assert_eq!(refused.code(), 3, "{refused:?}");
    assert!(refused.stderr().contains("9.9.9") && refused.stderr().contains("install both"));
    assert!(refused.stdout().contains("\"code\":3"), "{refused:?}");
}

#[test]
fn npu_build_becomes_this_program() {
    let told = |arguments: &[&str]| {
        let mut command = front();
        Outcome(command.args(arguments).output().unwrap())
    };
    for (arguments, words) in [
        (
            &["run", "--help"][..],
            "Usage: npu-build run [OPTIONS] <KERNEL>",
        ),
        (
            &["help", "bench"],
            "Usage: npu-build bench [OPTIONS] <KERNEL>",
        ),
        (&["completions", "bash"], "--rtol"),
        (&["doctor", "--json"], r#"{"launch":"cpu","usable":true"#),
    ] {
        let told = told(arguments);
        assert!(told.stdout().contains(words), "{arguments:?}: {told:?}");
    }
    let refused = told(&["run", "none.mlir", "--target", "cpu"]);
    assert_eq!(refused.code(), 2, "{refused:?}");
}
