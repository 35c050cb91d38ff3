//! Several builds at once, and builds that are interrupted.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::common::{self, Outcome, wait_for};
use crate::kernels;
use crate::scene::{AIECC, AIRCC, Built, LOWER, NOTHING, PACK, Runs, Scene};

fn start(scene: &Scene, arguments: &str) -> Child {
    let program = scene.npu_build();
    // Whatever the caller of these tests ignores.
    let mut command = common::in_place_of(&program, "env");
    command
        .arg("--default-signal=INT,TERM,HUP")
        .arg(program.get_program())
        .args(["--message-format", "json", "compile"])
        .args(arguments.split_whitespace())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// Runs these builds at once.
fn together(scene: &Scene, builds: &[&str]) -> Vec<Built> {
    let children: Vec<_> = builds
        .iter()
        .map(|arguments| start(scene, arguments))
        .collect();
    let told = children.into_iter().map(|child| {
        let told = Outcome(child.wait_with_output().unwrap());
        assert_eq!(told.code(), 0, "{}", told.stderr());
        Built::read(&told).remove(0)
    });
    told.collect()
}

#[test]
fn eight_processes_build_one_kernel_once() {
    let scene = Scene::new();
    scene.file("k.mlir", kernels::gridded());
    // An xclbin is another one each time it is made.
    let arguments = "k.mlir --target npu2 --grid 4 --transform root/transform.mlir --format xclbin --runtime hsa";
    let builds = together(&scene, &[arguments; 8]);
    assert_eq!(scene.ran(), LOWER + AIRCC + PACK);
    for built in &builds {
        assert_eq!(built.artifacts(0), builds[0].artifacts(0));
        assert_eq!(built.0["artifact"], builds[0].0["artifact"]);
    }
}

#[test]
fn two_runtimes_and_two_kernels_at_once_do_not_meet() {
    let scene = Scene::new();
    scene.file("one.mlir", kernels::aie("npu2"));
    scene.file(
        "two.mlir",
        kernels::aie("npu2").replace("arith.addf", "arith.mulf"),
    );
    let builds = together(
        &scene,
        &[
            "one.mlir --runtime hsa",
            "two.mlir --runtime hsa",
            "one.mlir --runtime xrt",
            "two.mlir --runtime hsa --format xclbin",
        ],
    );
    let Runs {
        aiecc, aie_hsaco, ..
    } = scene.ran();
    assert_eq!((aiecc, aie_hsaco), (3, 3));
    assert_ne!(builds[0].first(), builds[1].first());
    for arguments in [
        "one.mlir --runtime hsa",
        "two.mlir --runtime hsa",
        "one.mlir",
    ] {
        assert_eq!(scene.compile(arguments).outcome(), "hit");
    }
    assert_eq!(scene.ran(), NOTHING);
}

/// Nothing is left, nothing is published, and the next run is right.
#[test]
fn an_interrupted_build_leaves_nothing() {
    for (tool, arguments, runs) in [
        ("aiecc", "k.mlir", AIECC),
        ("aie-hsaco", "k.mlir --runtime hsa", AIECC + PACK),
    ] {
        for signal in [Signal::INT, Signal::TERM] {
            let scene = Scene::new();
            scene.file("k.mlir", kernels::aie("npu2"));
            scene.tools.misbehave(tool, "hang = child").unwrap();
            let child = start(&scene, &format!("{arguments} --out-dir out"));
            wait_for(|| !scene.tools.compilations(tool).is_empty());
            kill_process(Pid::from_child(&child), signal).unwrap();
            let told = Outcome(child.wait_with_output().unwrap());
            assert_eq!(told.code(), 130, "{told:?}");
            let directory = &scene.tools.compilations(tool)[0].directory;
            assert!(!directory.exists(), "{directory:?} is left behind");
            assert_eq!(scene.leftovers(), [""; 0].map(PathBuf::from));
            assert!(!scene.path().join("out").exists());
            assert_eq!(
                scene.entries_of(&["pack", "launcher"]),
                [""; 0].map(PathBuf::from)
            );
            // Whatever it had started is gone.
            wait_for(|| !is_anybody_in(directory));
            scene.tools.behave(tool);
            scene.ran();
            let built = scene.compile(arguments);
            assert_ne!(built.outcome(), "hit");
            // What was done before the interrupt is still done.
            let expected = if tool == "aiecc" { runs } else { PACK };
            assert_eq!(scene.ran(), expected, "{tool}");
        }
    }
}

/// Whether a process has that current directory.
fn is_anybody_in(directory: &std::path::Path) -> bool {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let mut directories =
        processes.filter_map(|process| fs::read_link(process.path().join("cwd")).ok());
    directories.any(|cwd| cwd.starts_with(directory))
}
