//! The double is as strict as the real library: programs that use it wrongly fare as they would.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "these are tests"
)]

mod common;

use common::{combining, directory, full_elf, installation, xclbin};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// The programs, compiled.
fn programs() -> &'static Path {
    static PROGRAMS: OnceLock<PathBuf> = OnceLock::new();
    PROGRAMS.get_or_init(|| {
        let program = directory().join("strict");
        let lib = installation().lib();
        let output = Command::new("g++")
            .args(["-std=c++17", "-Wall", "-Wextra", "-Werror", "-I"])
            .arg(installation().include())
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/strict.cpp"))
            .arg("-o")
            .arg(&program)
            .arg("-L")
            .arg(&lib)
            .args(["-lxrt_coreutil", "-luuid"])
            .arg(format!("-Wl,-rpath,{}", lib.display()))
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        for (npu, name) in [("npu1", "strict1"), ("npu2", "strict2")] {
            xclbin(name, &combining(npu, "arith.addi"));
            full_elf(name, &combining("npu2", "arith.addi"), "main:sequence");
        }
        program
    })
}

fn run(device: &str, what: &str) -> Output {
    let program = programs();
    let artifacts = common::workshop().place(&format!("strict{}", &device[3..]));
    let mut command = Command::new(program);
    command
        .arg(what)
        .arg(artifacts)
        .env("XRT_DOUBLE_DEVICE", device);
    command.output().unwrap()
}

/// What a program says, which ends well.
#[track_caller]
fn says(device: &str, what: &str) -> String {
    let output = run(device, what);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success(),
        "{what}: {:?}, {text}",
        output.status
    );
    text
}

#[test]
fn a_right_program_gets_right_results() {
    for device in ["npu1", "npu2"] {
        assert_eq!(says(device, "right"), "state 4, z 3\n");
    }
}

#[test]
fn memory_in_a_wrong_group_completes_with_garbage() {
    let text = says("npu1", "wrong-group");
    assert!(
        text.starts_with("state 4, z ") && text != "state 4, z 3\n",
        "{text}"
    );
}

#[test]
fn memory_that_is_not_synced_is_stale() {
    let text = says("npu1", "unsynced-input");
    assert!(
        text.starts_with("state 4, z ") && text != "state 4, z 3\n",
        "{text}"
    );
    assert_eq!(says("npu1", "unsynced-output"), "state 4, z 0\n");
    assert!(says("npu1", "unsynced-instructions").starts_with("state 8,"));
}

#[test]
fn instructions_must_be_in_the_heap_and_counted_in_words() {
    assert!(says("npu1", "host-instructions").starts_with("state 8,"));
    assert!(says("npu1", "bytes-for-words").starts_with("state 5,"));
    assert!(says("npu1", "opcode").starts_with("state 5,"));
}

#[test]
fn a_device_opens_once_at_a_time() {
    let text = says("npu2", "second-device");
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("system error 19: "), "{text}");
    assert_eq!(lines[1], "nothing was thrown");
}

#[test]
fn contexts_are_few() {
    for (device, most) in [("npu1", "6"), ("npu2", "16")] {
        let text = says(device, "contexts");
        assert!(
            text.contains("CREATE_HWCTX IOCTL failed (err=-22)"),
            "{text}"
        );
        assert_eq!(text.lines().last(), Some(most));
    }
}

#[test]
fn full_elfs_are_for_npu2_alone() {
    assert!(says("npu1", "elf-on-npu1").contains("does not support hardware contexts of an ELF"));
    assert!(says("npu2", "plain-kernel").contains("not created using XCLBIN"));
    assert!(says("npu2", "unregistered").contains("No xclbin with uuid"));
}

#[test]
fn a_run_is_in_one_list_and_lists_have_their_rules() {
    let text = says("npu2", "two-lists");
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].contains("already belongs to a runlist"), "{text}");
    assert!(lines[1].contains("cannot be explicitly started"), "{text}");
    assert!(lines[2].contains("must be idle before adding"), "{text}");
    assert!(lines[3].contains("cannot be reset"), "{text}");
}

#[test]
fn arguments_are_all_set_and_alive() {
    assert!(says("npu2", "half").contains("requires 3 patched arguments, but only 1 are patched"));
    assert!(says("npu2", "freed").starts_with("run error: state 5: "));
    assert_eq!(says("npu2", "context-first"), "misuse 1\n");
}

#[test]
fn what_kills_a_process_kills_it_here_too() {
    const SEGV: i32 = 11;
    const ABRT: i32 = 6;
    for (what, signal) in [
        ("beyond", SEGV),
        ("group-of-elf", SEGV),
        ("unfinished", ABRT),
    ] {
        assert_eq!(run("npu2", what).status.signal(), Some(signal), "{what}");
    }
}
