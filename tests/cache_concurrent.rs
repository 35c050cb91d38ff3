//! Many processes on one cache: no work is done twice, and nobody breaks anybody's build.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a failed helper is a failed test"
)]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use common::{Outcome, Scene, TOOLS, faulty};
use serde_json::Value;

const MANY: usize = 64;

fn kernel(scene: &Scene, number: usize) -> PathBuf {
    let text = format!("func.func @k{number}(%x: memref<4xf32>) {{\n  return\n}}\n");
    scene.file(&format!("k{number}.mlir"), text)
}

fn start(mut command: Command, arguments: &[&str]) -> Child {
    command
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.spawn().unwrap()
}

fn compile(scene: &Scene, kernel: &Path) -> Child {
    let kernel = kernel.to_str().unwrap();
    start(scene.npu_build(), &["compile", kernel, "--target", "cpu"])
}

#[track_caller]
fn end(child: Child) -> Outcome {
    let told = Outcome(child.wait_with_output().unwrap());
    assert_eq!(told.code(), 0, "{told:?}");
    told
}

fn stats(scene: &Scene) -> Value {
    let told = scene.run(&["cache", "stats", "--message-format", "json"]);
    serde_json::from_str(&told.stdout()).unwrap()
}

#[test]
fn many_processes_on_one_cold_kernel_compile_it_once() {
    let scene = Scene::replayed();
    let kernel = kernel(&scene, 0);
    let children: Vec<_> = (0..MANY).map(|_| compile(&scene, &kernel)).collect();
    let told: Vec<_> = children.into_iter().map(end).collect();
    assert_eq!(scene.runs(), TOOLS);
    assert!(
        told.iter()
            .all(|outcome| outcome.paths() == told[0].paths())
    );
    // And that is what was counted, to the last one.
    let stats = stats(&scene);
    for step in ["compile", "launcher"] {
        let counts = &stats["steps"][step];
        assert_eq!(
            (&counts["misses"], &counts["hits"]),
            (&1.into(), &(MANY - 1).into()),
            "{stats}"
        );
    }
    assert!(scene.leftovers().is_empty());
}

#[test]
fn many_processes_on_many_kernels_compile_each_once() {
    let scene = Scene::replayed();
    let kernels: Vec<_> = (0..MANY).map(|number| kernel(&scene, number)).collect();
    for expected in [MANY, 0] {
        let children: Vec<_> = kernels
            .iter()
            .map(|kernel| compile(&scene, kernel))
            .collect();
        for child in children {
            end(child).paths();
        }
        let runs = scene.runs();
        for tool in TOOLS {
            assert_eq!(
                runs.iter().filter(|run| *run == tool).count(),
                expected,
                "{tool}"
            );
        }
    }
    let stats = stats(&scene);
    let counts = &stats["steps"]["compile"];
    assert_eq!(
        (&counts["misses"], &counts["hits"]),
        (&MANY.into(), &MANY.into()),
        "{stats}"
    );
    assert_eq!(stats["entries"], 2 * MANY);
    assert_eq!(scene.run(&["cache", "verify"]).code(), 0);
}

#[test]
fn cleaning_clearing_and_verifying_break_no_build() {
    const KERNELS: usize = 4;
    const BUILDS: usize = 40;
    let scene = Scene::replayed();
    let kernels: Vec<_> = (0..KERNELS).map(|number| kernel(&scene, number)).collect();
    let right = {
        let paths = end(compile(&scene, &kernels[0])).paths();
        fs::read(&paths[0]).unwrap()
    };
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for arguments in [
            &["cache", "gc", "--max-entries", "0"][..],
            &["cache", "gc", "--max-entries", "3"],
            &["cache", "clear", "--kernel", "k1"],
            &["cache", "clear"],
            &["cache", "verify", "--repair"],
            &["cache", "list"],
            &["cache", "stats", "--reset"],
        ] {
            let (scene, done) = (&scene, &done);
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    let told = scene.run(arguments);
                    assert_eq!(told.code(), 0, "{arguments:?}: {told:?}");
                    let problems = arguments[1] == "verify" && !told.stdout().is_empty();
                    assert!(!problems, "{told:?}");
                }
            });
        }
        let builders: Vec<_> = kernels
            .iter()
            .enumerate()
            .map(|(number, kernel)| {
                let (scene, right) = (&scene, &right);
                scope.spawn(move || {
                    let out = format!("out{number}");
                    for _ in 0..BUILDS {
                        let arguments = [
                            "compile",
                            kernel.to_str().unwrap(),
                            "--target",
                            "cpu",
                            "-o",
                            &out,
                        ];
                        let told = scene.run(&arguments);
                        let paths = told.paths();
                        let object = paths.iter().find(|path| path.extension().unwrap() == "so");
                        let object = scene.path().join(object.unwrap());
                        assert_eq!(fs::read(object).unwrap(), *right, "{told:?}");
                        assert!(!told.stderr().contains("warning"), "{told:?}");
                    }
                })
            })
            .collect();
        let results: Vec<_> = builders
            .into_iter()
            .map(std::thread::ScopedJoinHandle::join)
            .collect();
        done.store(true, Ordering::Relaxed);
        assert!(results.iter().all(Result::is_ok));
    });
    assert!(scene.leftovers().is_empty(), "{:?}", scene.leftovers());
}

#[test]
fn without_locks_everybody_is_warned_and_gets_what_is_right() {
    let scene = Scene::replayed();
    let kernel = kernel(&scene, 0);
    let children: Vec<_> = (0..8)
        .map(|_| {
            let mut command = scene.npu_build();
            command
                .env("LD_PRELOAD", faulty())
                .env("FAULTY_FS_UNDER", &scene.cache)
                .env("FAULTY_FS_CALLS", "flock")
                .env("FAULTY_FS_AT", "1")
                .env("FAULTY_FS_ALWAYS", "1")
                // ENOSYS
                .env("FAULTY_FS_ACTION", "38");
            start(
                command,
                &[
                    "compile",
                    kernel.to_str().unwrap(),
                    "--target",
                    "cpu",
                    "--refresh",
                ],
            )
        })
        .collect();
    for child in children {
        let told = end(child);
        let warning = "the cache's file system has no locks";
        assert!(told.stderr().contains(warning), "{told:?}");
        assert!(!told.stderr().contains("can't"), "{told:?}");
    }
    let hit = end(compile(&scene, &kernel));
    assert!(hit.stderr().starts_with("hit: k0"), "{hit:?}");
    assert!(scene.leftovers().is_empty());
    assert_eq!(scene.run(&["cache", "verify"]).code(), 0);
}
