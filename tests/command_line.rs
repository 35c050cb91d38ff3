//! Command lines that make no sense, several kernels at once, and standard output that is gone.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a failed helper is a failed test"
)]

mod common;
#[path = "command_line/completions.rs"]
mod completions;
#[path = "command_line/surroundings.rs"]
mod surroundings;

use std::fs;
use std::process::{Command, Stdio};

use common::{Outcome, Scene, TOOLS};

const SMALL: &str = "func.func @small(%x: memref<4xf32>, %out: memref<4xf32>, %n: i32) {\n\
    \x20 %c0 = arith.constant 0 : index\n\
    \x20 %v = memref.load %x[%c0] : memref<4xf32>\n\
    \x20 memref.store %v, %out[%c0] : memref<4xf32>\n\
    \x20 return\n\
    }\n";

fn compile(file: &str) -> Vec<&str> {
    vec!["compile", file, "--target", "cpu", "--out-dir", "out"]
}

#[test]
fn numbers_have_limits() {
    let scene = Scene::replayed();
    let kernel = scene.kernel("vecadd.mlir");
    let file = kernel.to_str().unwrap();
    for jobs in [
        "0",
        "1025",
        "-1",
        "1e3",
        "",
        " 1",
        "4294967297",
        "99999999999999999999",
        "one",
        "+1",
        "0x",
    ] {
        let jobs = format!("--jobs={jobs}");
        scene.refuses(
            &[compile(file), vec![&jobs]].concat(),
            2,
            &["from 1 to 1024"],
        );
    }
    for timeout in [
        "0",
        "0s",
        "-1",
        "1e3",
        "",
        "1 fortnight",
        "soon",
        "99999999999999999999",
        "99999999999999999999s",
    ] {
        let timeout = format!("--timeout={timeout}");
        scene.refuses(
            &[compile(file), vec![&timeout]].concat(),
            2,
            &["no time above zero", "90s"],
        );
    }
    for march in ["", "-O3", "a b", "native;rm", "x86\u{e9}"] {
        let march = format!("--option=march={march}");
        scene.refuses(
            &[compile(file), vec![&march]].concat(),
            2,
            &["is no CPU", "x86-64-v3"],
        );
    }
    for (option, words) in [
        ("--grid=+1", "is no grid"),
        ("--grid=2147483648", "is no grid"),
        ("--option=stack-size=-32", "multiple of 32"),
        ("--option=tiling-sizes=+4,4", "numbers above zero"),
        ("--option=xclbin-kernel-id=0x+1", "such as 0x901"),
        ("--cache-dir=", "--cache-dir"),
        ("--llvm=", "--llvm"),
        ("--cxx=", "the path is empty"),
        ("--transform=", "--transform"),
    ] {
        scene.refuses(&[compile(file), vec![option]].concat(), 2, &[words]);
    }
    for (option, words) in [
        ("--max-size=+1G", "is no size"),
        ("--max-size=1.5G", "is no size"),
        ("--max-entries=+1", "'+1' is no number, or 'unlimited'"),
        ("--max-entries=1e3", "is no number"),
        ("--max-age=1", "is no time"),
    ] {
        scene.refuses(&["cache", "gc", option], 2, &[words]);
    }
    for good in [
        "-j1",
        "-j1024",
        "-j=7",
        "-j0x10",
        "--timeout=1000",
        "--timeout=1h 30m",
        "--timeout=18446744073709551615",
        "--timeout=500000years",
    ] {
        scene
            .run(&["compile", file, "--target", "cpu", good])
            .paths();
    }
}

#[test]
fn command_lines_that_are_not_understood_say_what_is_known() {
    let scene = Scene::replayed();
    scene.file("small.mlir", SMALL);
    for (arguments, words) in [
        (
            &["compil", "small.mlir"][..],
            &["unrecognized subcommand", "compile"][..],
        ),
        (
            &["compile", "small.mlir", "--targte", "cpu"],
            &["--targte", "--target"],
        ),
        (&["compile"], &["KERNEL"]),
        (&["compile", "small.mlir", "--target"], &["--target"]),
        (
            &["compile", "small.mlir", "--option", "fast"],
            &["NAME=VALUE", "march=native"],
        ),
        (
            &["compile", "small.mlir", "--option", "mtune=x"],
            &["no option 'mtune'", "march"],
        ),
        (
            &["compile", "small.mlir", "--emit", "object"],
            &["object", "launcher, artifacts"],
        ),
        (
            &["compile", "small.mlir", "-q", "-v"],
            &["cannot be used with"],
        ),
        (&["cache"], &["clear"]),
        (&["cache", "lst"], &["list"]),
        (&["completions", "csch"], &["bash"]),
    ] {
        scene.refuses(arguments, 2, words);
    }
    scene.run(&[]).fails(2, &["Usage:", "Exit codes:"]);
    let told = scene.run(&["compile", "small.mlir", "--message-format", "jsno"]);
    told.fails(2, &["human, json"]);
}

#[test]
fn two_kernels_that_would_overwrite_each_other_are_refused_before_anything_runs() {
    let scene = Scene::replayed();
    for directory in ["a", "b"] {
        fs::create_dir(scene.path().join(directory)).unwrap();
        scene.file(&format!("{directory}/k.mlir"), SMALL);
    }
    let arguments = [
        "compile",
        "a/k.mlir",
        "b/k.mlir",
        "--target",
        "cpu",
        "--out-dir",
        "out",
    ];
    scene.refuses(
        &arguments,
        2,
        &["a/k.mlir and b/k.mlir", "out/k.rs", "different file names"],
    );
    assert_eq!(scene.runs(), [""; 0]);
    // Without --out-dir they don't meet.
    assert_eq!(scene.run(&arguments[..5]).paths().len(), 4);
}

#[test]
fn one_bad_kernel_among_good_ones_does_not_stop_them() {
    let scene = Scene::replayed();
    scene.file("good.mlir", SMALL);
    scene.file("bad.mlir", "module {");
    scene.file("also_good.mlir", SMALL.replace("@small", "@also"));
    let told = scene.run(&[
        "compile",
        "good.mlir",
        "bad.mlir",
        "also_good.mlir",
        "--target",
        "cpu",
    ]);
    assert_eq!(told.code(), 2);
    assert_eq!(told.stdout().lines().count(), 4);
    assert!(
        told.stderr().contains("bad.mlir: truncated MLIR"),
        "{}",
        told.stderr()
    );
    assert_eq!(scene.runs().len(), 2 * TOOLS.len());
}

#[test]
fn nobody_who_reads_is_no_failure_and_no_room_is_one() {
    let scene = Scene::replayed();
    let kernel = scene.kernel("vecadd.mlir");
    let file = kernel.to_str().unwrap();
    scene.compile(&kernel).paths();
    for arguments in [
        &["compile", file, "--target", "cpu"][..],
        &[
            "compile",
            file,
            "--target",
            "cpu",
            "--message-format",
            "json",
        ],
        &["signature", file],
        &["key", file, "--target", "cpu", "-v"],
        &["cache", "dir"],
        &["cache", "list"],
        &["doctor"],
        &["completions", "bash"],
        &["--help"],
        &["compile", "--help"],
        &["--version"],
    ] {
        let told = Outcome(into(closed(), &scene, arguments));
        assert_eq!(told.code(), 0, "{arguments:?}: {told:?}");
        assert!(
            !told.stderr().contains("panicked") && !told.stderr().contains("ipe"),
            "{told:?}"
        );
        let full = fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .unwrap();
        let told = Outcome(into(full.into(), &scene, arguments));
        assert_eq!(told.code(), 4, "{arguments:?}: {told:?}");
        assert!(
            told.stderr().contains("No space left on device"),
            "{arguments:?}: {told:?}"
        );
    }
}

fn into(stdout: Stdio, scene: &Scene, arguments: &[&str]) -> std::process::Output {
    let mut command: Command = scene.npu_build();
    let child = command
        .args(arguments)
        .stdout(stdout)
        .stderr(Stdio::piped());
    child.spawn().unwrap().wait_with_output().unwrap()
}

/// A pipe that nobody reads.
fn closed() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

/// What is the name of a command may be a value as well.
#[test]
fn the_command_is_found_wherever_its_name_occurs() {
    let scene = Scene::replayed();
    fs::write(scene.path().join("small.mlir"), SMALL).unwrap();
    let small = "small.mlir";
    let as_value = scene.run(&["--cache-dir", "compile", "signature", small]);
    assert_eq!(as_value.code(), 0, "{}", as_value.stderr());
    assert!(
        as_value.stdout().starts_with("small"),
        "{}",
        as_value.stdout()
    );
    let behind = scene.run(&["signature", small, "--cache-dir", "doctor"]);
    assert_eq!(behind.stdout(), as_value.stdout());
    let only_value = scene.run(&["--cache-dir", "compile"]);
    assert_eq!(only_value.code(), 2);
    assert!(
        only_value.stderr().contains("Usage: npu-build"),
        "{}",
        only_value.stderr()
    );
    let twice = scene.run(&["compile", "signature"]);
    assert!(twice.stderr().contains("signature"), "{}", twice.stderr());
    let unknown = scene.run(&["compil", "signature", small]);
    assert_eq!(unknown.code(), 2);
    assert!(
        unknown.stderr().contains("similar subcommands"),
        "{}",
        unknown.stderr()
    );
    // All commands are listed, whichever is named.
    let help = scene.run(&["--help", "compile"]);
    assert!(help.stdout().contains("doctor"), "{}", help.stdout());
    let help = scene.run(&["help", "compile"]);
    assert!(help.stdout().contains("--out-dir"), "{}", help.stdout());
}

/// Devices are opened by a program that lies beside npu-build.
#[test]
fn npu_build_alone_opens_no_device_and_says_so() {
    let scene = Scene::replayed();
    let kernel = scene.kernel("vecadd.mlir");
    let alone = scene.path().join("alone");
    fs::create_dir(&alone).unwrap();
    let program = alone.join("npu-build");
    let run =
        |arguments: &[&str]| Outcome(scene.copied(&program).args(arguments).output().unwrap());
    let kernel = kernel.to_str().unwrap();
    let compiled = run(&["compile", kernel, "--target", "cpu"]);
    assert_eq!(compiled.code(), 0, "{}", compiled.stderr());
    let told = run(&["doctor"]);
    assert_eq!(told.code(), 0, "{}", told.stderr());
    let cannot_start = "launch cpu: cannot start npu-build-run";
    assert!(told.stdout().contains(cannot_start), "{}", told.stdout());
    for command in [
        &["run", kernel, "--target", "cpu"][..],
        &["bench", kernel, "--target", "cpu"],
        &["help", "run"],
    ] {
        let refused = run(command);
        assert_eq!(refused.code(), 3, "{}", refused.stderr());
        for word in ["cannot start", "alone/npu-build-run", "cargo install"] {
            assert!(refused.stderr().contains(word), "{}", refused.stderr());
        }
        let refused = run(&[command, &["--message-format", "json"]].concat());
        assert!(
            refused.stdout().contains("\"code\":3"),
            "{}",
            refused.stdout()
        );
    }
}

#[test]
fn json_is_short_for_the_message_format() {
    let scene = Scene::replayed();
    fs::write(scene.path().join("small.mlir"), SMALL).unwrap();
    let long = scene.run(&["signature", "small.mlir", "--message-format", "json"]);
    assert!(long.stdout().starts_with('{'), "{}", long.stdout());
    for short in [
        &["--json", "signature", "small.mlir"],
        &["signature", "small.mlir", "--json"],
    ] {
        assert_eq!(scene.run(short).stdout(), long.stdout());
    }
    let refused = scene.run(&["signature", "--json", "--nonsense"]);
    assert!(
        refused.stdout().contains("\"code\":2"),
        "{}",
        refused.stdout()
    );
    let both = scene.run(&[
        "signature",
        "small.mlir",
        "--json",
        "--message-format=human",
    ]);
    assert_eq!(both.code(), 2, "{}", both.stdout());
}

#[test]
fn a_misspelt_variable_is_named_once_with_what_it_may_be_meant_for() {
    let scene = Scene::replayed();
    let kernel = scene.kernel("vecadd.mlir");
    let words =
        "warning: nothing reads the variable NPU_BUILD_JBOS; did you mean 'NPU_BUILD_JOBS'?\n";
    for arguments in [
        &["compile", kernel.to_str().unwrap(), "--target", "cpu"][..],
        &["cache", "dir"],
        // It asks another program.
        &["doctor"],
    ] {
        let run = |more: &[&str]| {
            let mut command = scene.npu_build();
            let command = command
                .args(arguments)
                .args(more)
                .env("NPU_BUILD_JBOS", "2");
            Outcome(command.output().unwrap())
        };
        let told = run(&[]);
        assert_eq!(told.code(), 0, "{told:?}");
        assert_eq!(told.stderr().matches(words).count(), 1, "{told:?}");
        assert!(!run(&["-q"]).stderr().contains("NPU_BUILD_JBOS"));
    }
    assert!(!scene.run(&["cache", "dir"]).stderr().contains("variable"));
}
