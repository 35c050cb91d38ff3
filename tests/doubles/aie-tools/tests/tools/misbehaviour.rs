//! Installations, and every way in which a tool is made to fail.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};

use crate::scene::{Scene, copying};

const ALL: &str = "--get-npu-insts --get-xclbin --get-full-elf k.mlir";
const OUTPUTS: [&str; 3] = ["insts_d_s.bin", "aie.xclbin", "aie.elf"];

fn scene(dialect: u8) -> Scene {
    Scene::with(dialect, &copying("npu2", "d", "s", "i32"))
}

#[test]
fn outputs_are_damaged() {
    let good = scene(2);
    good.run("aiecc", ALL).ok();
    let damaged = |tool: &str, control: &str| {
        let scene = scene(2);
        scene.file("aie.elf", "old");
        scene.tools.misbehave(tool, control).unwrap();
        scene.run("aiecc", ALL).ok();
        OUTPUTS.map(|name| scene.has(name).then(|| scene.read(name)))
    };
    let lengths = |made: [Option<Vec<u8>>; 3]| made.map(|it| it.map(|it| it.len()));
    let [insts, xclbin, elf] = OUTPUTS.map(|name| good.read(name).len());
    assert_eq!(
        lengths(damaged("aiecc", "output = missing")),
        [None, None, Some(3)]
    );
    assert_eq!(lengths(damaged("aiecc", "output = empty")), [Some(0); 3]);
    let half = [insts / 2, xclbin / 2, elf / 2].map(Some);
    assert_eq!(lengths(damaged("aiecc", "output = truncated")), half);
    assert_eq!(
        lengths(damaged("aiecc", "output = stale\nonly = elf")),
        [insts, xclbin, 3].map(Some)
    );
    // Sub-tools misbehave on their own, unnoticed.
    assert_eq!(
        lengths(damaged("aiebu-asm", "output = missing")),
        [insts, xclbin, 3].map(Some)
    );
    let mut expected = good.read(OUTPUTS[0]);
    expected.truncate(40);
    expected[..2].fill(0xff);
    let [insts, xclbin, _] = damaged("aiecc", "only = insts\npatch = 0:ffff\ntruncate_to = 40");
    assert_eq!(insts.unwrap(), expected);
    assert!(xclbin.unwrap().starts_with(b"xclbin2"));
    let [_, xclbin, _] = damaged("aiecc", "output = garbage");
    assert!(xclbin.unwrap().starts_with(b"not an artifact"));
}

#[test]
fn failures_are_told_in_the_real_words() {
    let bootgen = [
        "bootgen' failed: ",
        "aiecc: edge '{0}.pdi' (key 'd') failed",
    ];
    for (dialect, tool, control, words) in [
        (
            1,
            "aiecc",
            "diagnostic = 4:9: error: no",
            &["loc(\"k.mlir\":4:9): error: no\nError parsing MLIR file\n"][..],
        ),
        (
            2,
            "aiecc",
            "diagnostic = 4:9: no",
            &["k.mlir:4:9: error: no\n    %mem = aie.tile(0, 1)\n        ^\n"],
        ),
        (
            1,
            "aiecc",
            "fail = pass",
            &["Error: pass pipeline failed: builtin.module("],
        ),
        (
            2,
            "aiecc",
            "fail = pass",
            &["edge 'input_with_addresses.mlir' (key '') failed"],
        ),
        (2, "aiecc", "fail = tool:bootgen", &bootgen),
        (
            2,
            "bootgen",
            "stderr = [ERROR]  : no licence\nexit = 1",
            &["no licence", bootgen[0], bootgen[1]],
        ),
        (2, "aiecc", "fail = late", &["pipeline failed"]),
    ] {
        let scene = scene(dialect);
        scene.tools.misbehave(tool, control).unwrap();
        let asked = if dialect == 1 {
            "--no-xchesscc k.mlir"
        } else {
            ALL
        };
        scene.run("aiecc", asked).fails(1, words);
        assert_eq!(
            scene.has("aie.xclbin"),
            control == "fail = late",
            "partial files are left"
        );
    }
}

#[test]
fn hanging_noise_and_signals() {
    let scene = scene(3);
    let misbehave = |control: &str| scene.tools.misbehave("aiecc", control).unwrap();
    misbehave("signal = 9");
    assert_eq!(scene.run("aiecc", ALL).0.status.signal(), Some(9));
    misbehave("die_in_output\nonly = elf");
    assert_eq!(scene.run("aiecc", ALL).0.status.signal(), Some(9));
    assert!(scene.has("aie.elf"), "half of it was written");
    misbehave("progress_bytes = 3000000");
    assert!(scene.run("aiecc", ALL).ok().stderr().len() > 3_000_000);
    // The log has the run before anything hangs.
    misbehave("hang");
    let mut command = scene.command("aiecc");
    let mut child = command
        .args(ALL.split(' '))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while scene.tools.runs("aiecc").len() < 4 {
        std::thread::yield_now();
    }
    assert!(child.try_wait().unwrap().is_none());
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn misbehaviour_is_limited_and_runs_are_logged() {
    let scene = scene(3);
    let misbehave = |control: &str| scene.tools.misbehave("aiecc", control).unwrap();
    // Questions are answered all the same.
    misbehave("exit = 1");
    scene.run("aiecc", "--version").ok();
    scene.run("aiecc", ALL).fails(1, &[]);
    misbehave("exit = 1\nwhen = other.mlir");
    scene.run("aiecc", ALL).ok();
    let runs = scene.tools.compilations("aiecc");
    assert_eq!((runs.len(), runs[0].arguments.join(" ").as_str()), (2, ALL));
    assert_eq!(runs[0].directory, scene.work.canonicalize().unwrap());
    assert_eq!(runs[0].environment, ["PATH"]);
}

#[test]
fn an_installation_is_what_a_discovery_finds_in_the_field() {
    let scene = scene(2);
    let root = scene.directory.path().join("root");
    for path in [
        "venv/pyvenv.cfg",
        "site-packages/mlir_air/bin/aircc",
        "site-packages/mlir_aie/bin/aie-hsaco",
        "site-packages/llvm-aie/bin/llc",
        "xrt/bin/xclbinutil",
    ] {
        assert!(root.join(path).exists(), "{path}");
    }
    // RECORD has the digest of each tool.
    let tool = scene.tools.tool("aiecc");
    let record = root.join("site-packages/mlir_aie-1.4.0.dist-info/RECORD");
    let shell = format!(
        "sha256sum {} | cut -c-64 | xxd -r -p | base64 | tr +/ -_ | tr -d =",
        tool.display()
    );
    let digest = Command::new("sh").args(["-c", &shell]).output().unwrap();
    let digest = String::from_utf8(digest.stdout).unwrap();
    let line = format!("mlir_aie/bin/aiecc,sha256={}", digest.trim());
    assert!(
        fs::read_to_string(&record).unwrap().contains(&line),
        "{line}"
    );
    // The environment's aiecc is a script around the real one.
    let wrapper = scene.tools.venv().join("bin/aiecc");
    assert!(fs::read(&wrapper).unwrap().starts_with(b"#!"));
    let mut command = Command::new(wrapper);
    let status = command
        .current_dir(&scene.work)
        .args(["--get-npu-insts", "k.mlir"])
        .status();
    assert!(status.unwrap().success());
    assert_eq!(scene.tools.runs("aiecc").len(), 1);
}

#[test]
fn a_tool_is_what_its_bytes_say_and_not_its_name() {
    let scene = scene(1);
    let renamed = scene.work.join("something-else");
    fs::copy(scene.tools.tool("aiecc"), &renamed).unwrap();
    let output = Command::new(&renamed).arg("--version").output().unwrap();
    assert!(output.stdout.starts_with(b"aiecc (C++ version)"));
    let version = || scene.run("aiecc", "--version").stdout();
    let before = version();
    scene.tools.upgrade("aiecc").unwrap();
    assert_ne!(version(), before);
    assert!(aie_tools::install::binary().unwrap().is_file());
}
