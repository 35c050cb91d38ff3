//! Many processes on one cache: no work is done twice, and nobody breaks anybody's build.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::{Outcome, Scene, TOOLS};
use crate::{contents, failing, json, kernel, start};

const MANY: usize = 64;

fn kernels(scene: &Scene, count: usize) -> Vec<PathBuf> {
    let names = (0..count).map(|number| format!("k{number}"));
    names.map(|name| kernel(scene, &name)).collect()
}

fn compile(scene: &Scene, kernel: &Path) -> Child {
    let kernel = kernel.to_str().unwrap();
    start(scene.npu_build(), &["compile", kernel, "--target", "cpu"])
}

#[track_caller]
fn end(child: Child) -> Outcome {
    let outcome = Outcome(child.wait_with_output().unwrap());
    assert_eq!(outcome.code(), 0, "{outcome:?}");
    outcome
}

#[test]
fn many_processes_on_one_cold_kernel_compile_it_once() {
    let scene = Scene::replayed();
    let kernel = kernel(&scene, "k");
    let children: Vec<_> = (0..MANY).map(|_| compile(&scene, &kernel)).collect();
    let outcomes: Vec<_> = children.into_iter().map(end).collect();
    assert_eq!(scene.runs(), TOOLS);
    let first = outcomes[0].paths();
    assert!(outcomes.iter().all(|outcome| outcome.paths() == first));
    // And that is what was counted.
    let stats = &json(&scene, &["cache", "stats"])[0];
    for step in ["compile", "launcher"] {
        let counts = &stats["steps"][step];
        assert_eq!(counts["misses"], 1, "{stats}");
        assert_eq!(counts["hits"], MANY - 1, "{stats}");
    }
    assert!(scene.leftovers().is_empty());
}

#[test]
fn many_processes_on_many_kernels_compile_each_once() {
    let scene = Scene::replayed();
    let kernels = kernels(&scene, MANY);
    for expected in [MANY, 0] {
        let children: Vec<_> = kernels.iter().map(|it| compile(&scene, it)).collect();
        for child in children {
            end(child).paths();
        }
        let runs = scene.runs();
        for tool in TOOLS {
            let count = runs.iter().filter(|run| *run == tool).count();
            assert_eq!(count, expected, "{tool}");
        }
    }
    let stats = &json(&scene, &["cache", "stats"])[0];
    assert_eq!(stats["steps"]["compile"]["misses"], MANY, "{stats}");
    assert_eq!(stats["steps"]["compile"]["hits"], MANY, "{stats}");
    assert_eq!(stats["entries"], 2 * MANY);
    assert_eq!(scene.run(&["cache", "verify"]).code(), 0);
}

#[test]
fn cleaning_clearing_and_verifying_break_no_build() {
    const MAINTENANCE: &[&[&str]] = &[
        &["cache", "gc", "--max-entries", "0"],
        &["cache", "gc", "--max-entries", "3"],
        &["cache", "clear", "--kernel", "k1"],
        &["cache", "clear"],
        &["cache", "verify", "--repair"],
        &["cache", "list"],
        &["cache", "stats", "--reset"],
    ];
    let scene = &Scene::replayed();
    let kernels = kernels(scene, 4);
    let right = &contents(&end(compile(scene, &kernels[0])))[0];
    let done = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        for arguments in MAINTENANCE {
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    let outcome = scene.run(arguments);
                    assert_eq!(outcome.code(), 0, "{arguments:?}: {outcome:?}");
                    let problems = arguments[1] == "verify" && !outcome.stdout().is_empty();
                    assert!(!problems, "{outcome:?}");
                }
            });
        }
        let build = |(number, kernel): (usize, &PathBuf)| {
            let (kernel, out) = (kernel.to_str().unwrap().to_owned(), format!("out{number}"));
            scope.spawn(move || {
                for _ in 0..40 {
                    let outcome = scene.run(&["compile", &kernel, "--target", "cpu", "-o", &out]);
                    let paths = outcome.paths();
                    let object = paths.iter().find(|path| path.extension().unwrap() == "so");
                    let object = fs::read(scene.path().join(object.unwrap())).unwrap();
                    assert_eq!(object, *right, "{outcome:?}");
                    assert!(!outcome.stderr().contains("warning"), "{outcome:?}");
                }
            })
        };
        let builders: Vec<_> = kernels.iter().enumerate().map(build).collect();
        let results: Vec<_> = builders.into_iter().map(|builder| builder.join()).collect();
        done.store(true, Ordering::Relaxed);
        assert!(results.iter().all(Result::is_ok));
    });
    assert!(scene.leftovers().is_empty(), "{:?}", scene.leftovers());
}

#[test]
fn without_locks_everybody_is_warned_and_gets_what_is_right() {
    let scene = Scene::replayed();
    let kernel = kernel(&scene, "k");
    let arguments = [
        "compile",
        kernel.to_str().unwrap(),
        "--target",
        "cpu",
        "--refresh",
    ];
    let start = |_| {
        // ENOSYS
        start(failing(&scene, &scene.cache, "flock", "38"), &arguments)
    };
    for child in (0..8).map(start).collect::<Vec<_>>() {
        let outcome = end(child);
        let warning = "the cache's file system has no locks";
        assert!(outcome.stderr().contains(warning), "{outcome:?}");
        assert!(!outcome.stderr().contains("can't"), "{outcome:?}");
    }
    let hit = end(compile(&scene, &kernel));
    assert!(hit.stderr().starts_with("hit: k"), "{hit:?}");
    assert!(scene.leftovers().is_empty());
    assert_eq!(scene.run(&["cache", "verify"]).code(), 0);
}
