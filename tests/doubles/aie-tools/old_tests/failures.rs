//! Every way in which a tool is told to fail.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "these are tests"
)]

mod common;

use std::os::unix::process::ExitStatusExt as _;
use std::process::Stdio;

use common::{Scene, copy_design, core_design};

const ALL: [&str; 4] = [
    "--get-npu-insts",
    "--get-xclbin",
    "--get-full-elf",
    "k.mlir",
];
const OUTPUTS: [&str; 3] = ["insts_d_s.bin", "aie.xclbin", "aie.elf"];

fn scene(dialect: u8) -> Scene {
    let scene = Scene::new(dialect);
    scene.file("k.mlir", copy_design("npu2", "d", "s", 64, "i32"));
    scene
}

#[test]
fn outputs_that_are_missing_empty_truncated_or_stale() {
    let good = scene(2);
    good.run("aiecc", &ALL).ok();
    for (control, length) in [
        ("missing", None),
        ("empty", Some(0)),
        ("truncated", Some(2)),
    ] {
        let scene = scene(2);
        scene
            .tools
            .misbehave("aiecc", &format!("output = {control}\n"))
            .unwrap();
        scene.run("aiecc", &ALL).ok();
        for name in OUTPUTS {
            let expected = length.map(|length| match length {
                0 => 0,
                n => good.read(name).len() / n,
            });
            let actual = scene.has(name).then(|| scene.read(name).len());
            assert_eq!(actual, expected, "{control} {name}");
        }
    }
    let stale = scene(2);
    stale.file("aie.elf", "old");
    stale
        .tools
        .misbehave("aiecc", "output = stale\nonly = elf")
        .unwrap();
    stale.run("aiecc", &ALL).ok();
    assert_eq!(stale.read("aie.elf"), b"old");
    assert_eq!(stale.read("insts_d_s.bin"), good.read("insts_d_s.bin"));
}

#[test]
fn outputs_that_are_no_artifacts_or_damaged() {
    let good = scene(2);
    good.run("aiecc", &ALL).ok();
    let bad = scene(2);
    bad.tools
        .misbehave("aiecc", "only = insts\npatch = 0:ffff\ntruncate_to = 40")
        .unwrap();
    bad.run("aiecc", &ALL).ok();
    let mut expected = good.read("insts_d_s.bin");
    expected.truncate(40);
    expected[..2].copy_from_slice(&[0xff, 0xff]);
    assert_eq!(bad.read("insts_d_s.bin"), expected);
    bad.tools.misbehave("aiecc", "output = garbage").unwrap();
    bad.run("aiecc", &ALL).ok();
    assert!(bad.read("aie.xclbin").starts_with(b"not an artifact"));
    // Sub-tools misbehave on their own, unnoticed.
    let unnoticed = scene(2);
    unnoticed
        .tools
        .misbehave("aiebu-asm", "output = missing")
        .unwrap();
    unnoticed.run("aiecc", &ALL).ok();
    assert!(!unnoticed.has("aie.elf") && unnoticed.has("aie.xclbin"));
}

#[test]
fn diagnostics_of_a_given_place() {
    for (dialect, words) in [
        (
            1,
            "loc(\"k.mlir\":4:9): error: 'aie.tile' op is wrong\nError parsing MLIR file\n",
        ),
        (
            2,
            "k.mlir:4:9: error: 'aie.tile' op is wrong\n    %mem = aie.tile(0, 1)\n        ^\n",
        ),
    ] {
        let scene = scene(dialect);
        scene
            .tools
            .misbehave("aiecc", "diagnostic = 4:9: error: 'aie.tile' op is wrong")
            .unwrap();
        scene
            .run("aiecc", &["--no-xchesscc", "k.mlir"])
            .fails(1, &[words]);
    }
}

#[test]
fn passes_tools_and_late_failures() {
    let declarative = scene(2);
    declarative.tools.misbehave("aiecc", "fail = pass").unwrap();
    declarative.run("aiecc", &ALL).fails(
        1,
        &[
            "edge 'input_with_addresses.mlir' (key '') failed",
            "aiecc: pipeline failed",
        ],
    );
    let bootgen = declarative.tools.tool("bootgen");
    declarative
        .tools
        .misbehave("aiecc", "fail = tool:bootgen")
        .unwrap();
    let words = format!("aiecc: '{}' failed: ", bootgen.display());
    declarative
        .run("aiecc", &ALL)
        .fails(1, &[&words, "aiecc: edge '{0}.pdi' (key 'd') failed"]);
    declarative.tools.behave("aiecc");
    declarative
        .tools
        .misbehave("bootgen", "stderr = [ERROR]  : no licence\nexit = 1")
        .unwrap();
    declarative
        .run("aiecc", &ALL)
        .fails(1, &["no licence", &words]);
    declarative.tools.behave("bootgen");
    declarative.tools.misbehave("aiecc", "fail = late").unwrap();
    declarative
        .run("aiecc", &ALL)
        .fails(1, &["pipeline failed"]);
    assert!(declarative.has("aie.xclbin"), "partial files are left");

    let first = scene(1);
    first.tools.misbehave("aiecc", "fail = pass").unwrap();
    first
        .run("aiecc", &["--no-xchesscc", "k.mlir"])
        .fails(1, &["Error: pass pipeline failed: builtin.module("]);
    let left = std::fs::read_dir(&first.work).unwrap().flatten();
    let left: Vec<_> = left
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .collect();
    assert!(
        left.iter()
            .any(|n| n.starts_with("aiecc_failure_") && n.ends_with(".sh")),
        "{left:?}"
    );
}

#[test]
fn peano_is_looked_for_in_order() {
    let scene = Scene::new(1);
    scene.file("k.mlir", core_design("arith.addi", "i32"));
    let ask = ["--no-xchesscc", "--aie-generate-pdi", "k.mlir"];
    scene
        .run("aiecc", &ask)
        .fails(1, &["Error: Could not find Peano compiler tools (opt/llc)"]);
    let peano = scene.tools.peano();
    scene
        .run(
            "aiecc",
            &[
                &format!("--peano={}", peano.display()),
                ask[0],
                ask[1],
                ask[2],
            ],
        )
        .ok();
    let from_option = scene.read("main.pdi");
    let outcome = scene
        .command("aiecc")
        .args(ask)
        .env("PEANO_INSTALL_DIR", &peano)
        .output()
        .unwrap();
    assert!(outcome.status.success());
    assert_eq!(scene.read("main.pdi"), from_option);
    // The host's LLVM comes last, and does not know the code.
    let host = scene.work.join("host/bin");
    for tool in ["opt", "llc", "clang"] {
        scene
            .tools
            .copy(&host.join(tool), tool, 2, "14.0.6")
            .unwrap();
    }
    let path = format!("{}:{}", scene.tools.search_path(), host.display());
    for extra in [&[][..], &["--peano=/no/such/peano"]] {
        let outcome = scene
            .command("aiecc")
            .args(extra)
            .args(ask)
            .env("PATH", &path)
            .output()
            .unwrap();
        let stderr = String::from_utf8(outcome.stderr).unwrap();
        assert_eq!(outcome.status.code(), Some(1));
        assert!(stderr.contains("error: expected type"), "{stderr}");
    }
    let version = |tool: &std::path::Path| {
        let output = std::process::Command::new(tool)
            .arg("--version")
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(version(&scene.tools.tool("llc")).contains("    aie2 "));
    assert!(!version(&host.join("llc")).contains("aie2"));
}

#[test]
fn designs_without_cores_need_no_peano_and_code_changes_the_pdi() {
    scene(3).run("aiecc", &["--get-pdi", "k.mlir"]).ok();
    let scene = Scene::new(3);
    scene.file("k.mlir", core_design("arith.addi", "i32"));
    scene.run("aiecc", &["--get-pdi", "k.mlir"]).fails(
        1,
        &["aiecc: ShellCommand: tool 'opt' not found in search paths or PATH"],
    );
    scene
        .run("aiecc", &["--peano=/no/such", "--get-pdi", "k.mlir"])
        .fails(1, &["'/no/such' is not a directory"]);
    let build = |options: &[&str]| {
        let peano = format!("--peano={}", scene.tools.peano().display());
        scene
            .run(
                "aiecc",
                &[&[peano.as_str(), "--get-pdi", "k.mlir"], options].concat(),
            )
            .ok();
        scene.read("main.pdi")
    };
    let plain = build(&[]);
    assert_eq!(build(&[]), plain);
    assert_ne!(build(&["--bf16-emulation"]), plain);
    assert_ne!(build(&["--default-stack-size=4096"]), plain);
    // Peano's own bytes do not matter to a double, its runs do.
    assert_eq!(scene.tools.compilations("llc").len(), 4);
}

#[test]
fn link_files_come_from_the_first_place_that_has_one() {
    let scene = Scene::new(3);
    let linked = core_design("arith.addi", "i32").replace(
        "      aie.end\n    }\n    aie.runtime",
        "      aie.end\n    } {link_with = \"k.o\"}\n    aie.runtime",
    );
    scene.file("sub/k.mlir", linked);
    let peano = format!("--peano={}", scene.tools.peano().display());
    let build = || scene.run("aiecc", &[&peano, "--tmpdir=t", "--get-pdi", "sub/k.mlir"]);
    build().fails(
        1,
        &[
            "no such file or directory: 'k.o'",
            "aiecc: edge 'elfs_{0}.elf' (key 'main_core_0_2') failed",
        ],
    );
    scene.file("sub/k.o", "beside the input");
    build().ok();
    let beside = scene.read("main.pdi");
    scene.file("t/k.o", "in the tmpdir");
    build().ok();
    let staged = scene.read("main.pdi");
    scene.file("k.o", "stale, in the current directory");
    build().ok();
    let stale = scene.read("main.pdi");
    assert!(beside != staged && staged != stale && beside != stale);
}

#[test]
fn hanging_noise_and_signals() {
    let scene = scene(3);
    scene.tools.misbehave("aiecc", "signal = 9").unwrap();
    assert_eq!(scene.run("aiecc", &ALL).0.status.signal(), Some(9));
    scene
        .tools
        .misbehave("aiecc", "die_in_output = yes\nonly = elf")
        .unwrap();
    assert_eq!(scene.run("aiecc", &ALL).0.status.signal(), Some(9));
    assert!(scene.has("aie.elf"), "half of it was written");
    scene
        .tools
        .misbehave(
            "aiecc",
            "progress_bytes = 3000000\ndelay_ms = 1\ndelay_output_ms = 1",
        )
        .unwrap();
    let noisy = scene.run("aiecc", &ALL).ok();
    assert!(noisy.stderr().len() > 3_000_000);
    // The log has the run before anything hangs.
    scene.tools.forget_runs("aiecc");
    scene.tools.misbehave("aiecc", "hang").unwrap();
    let mut child = scene
        .command("aiecc")
        .args(ALL)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while scene.tools.runs("aiecc").is_empty() {
        std::thread::yield_now();
    }
    assert!(child.try_wait().unwrap().is_none());
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn misbehaviour_can_be_limited() {
    let scene = scene(3);
    // Questions are answered all the same, unless they are to fail too.
    scene.tools.misbehave("aiecc", "exit = 1").unwrap();
    scene.run("aiecc", &["--version"]).ok();
    scene.run("aiecc", &ALL).fails(1, &[]);
    scene
        .tools
        .misbehave("aiecc", "exit = 1\nwhen = other.mlir")
        .unwrap();
    scene.run("aiecc", &ALL).ok();
    scene.tools.forget_runs("aiecc");
    scene
        .tools
        .misbehave("aiecc", "exit = 7\nruns = 1")
        .unwrap();
    scene.run("aiecc", &ALL).fails(7, &[]);
    scene.run("aiecc", &ALL).ok();
    // By hand, through the environment.
    scene.tools.behave("aiecc");
    let status = scene
        .command("aiecc")
        .args(ALL)
        .env("AIE_DOUBLE_AIECC", "stdout=hi;exit=3")
        .output()
        .unwrap();
    assert_eq!(
        (status.status.code(), status.stdout.as_slice()),
        (Some(3), &b"hi\n"[..])
    );
}

#[test]
fn runs_are_logged_with_directory_and_environment() {
    let scene = scene(3);
    scene.run("aiecc", &ALL).ok();
    let runs = scene.tools.runs("aiecc");
    assert_eq!(runs.len(), 1);
    assert_eq!(runs[0].arguments, ALL);
    assert_eq!(runs[0].directory, scene.work.canonicalize().unwrap());
    assert_eq!(runs[0].environment, ["PATH"]);
    assert_eq!(scene.tools.runs("bootgen").len(), 1);
    assert_eq!(scene.tools.runs("xclbinutil").len(), 1);
    assert_eq!(scene.tools.runs("aiebu-asm").len(), 1);
}
