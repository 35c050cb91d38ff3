//! The library at run time: `Builder` for one kernel, `Session` for many.

use std::fs;
use std::path::Path;
use std::time::Duration;

use npu_build::config::{Environment, Layer, Options, Settings};
use npu_build::interrupt::Interrupt;
use npu_build::step::cpu::March;
use npu_build::{Builder, Direction, Session, Target};
use npu_runtime::{Arg, Device, Grid, Runtime};

use crate::common::{Scene, example};
use crate::package::shift_by;

fn builder(scene: &Scene, kernel: &Path) -> Builder {
    Builder::new(kernel)
        .target(Target::Cpu)
        .cache_dir(&scene.cache)
        .llvm(&scene.llvm)
}

fn cpu() -> Device {
    Device::open(Runtime::Cpu).unwrap()
}

#[test]
fn a_kernel_is_built_loaded_and_launched_in_one_process() {
    let scene = Scene::new();
    let kernel = example("vecadd.mlir");
    let builder = || builder(&scene, &kernel).extents("x=n,y=n,out=n");
    let build = builder().build().unwrap();
    assert_eq!(build.outcome().name(), "built");
    assert_eq!(scene.runs(), ["mlir-opt", "mlir-translate", "clang"]);
    let loaded = build.load(&cpu(), &build.kernels[0]).unwrap();
    let (x, y, mut out) = ([1.0f32; 4096], [2.0f32; 4096], [0.0f32; 4096]);
    let mut arguments = [
        Arg::input(&x),
        Arg::input(&y),
        Arg::output(&mut out),
        Arg::scalar(4096),
    ];
    loaded.launch(4.into(), &mut arguments).unwrap();
    assert_eq!(out, [3.0; 4096]);

    let again = builder().build().unwrap();
    assert_eq!(again.outcome().name(), "hit");
    assert_eq!(scene.runs(), [] as [&str; 0]);
    assert_eq!(again.kernels[0].key, build.kernels[0].key);
}

#[test]
fn each_option_of_the_builder_does_what_it_says() {
    let scene = Scene::new();
    let kernel = scene.file("shift.mlir", shift_by(10));
    let plain = builder(&scene, &kernel).build().unwrap();
    let names = |build: &npu_build::Build| -> Vec<_> {
        let artifacts = build.artifacts();
        artifacts
            .map(|artifact| artifact.name.to_string())
            .collect()
    };
    assert_eq!(names(&plain), ["kernel.so", "launcher.rs"]);
    scene.runs();

    let refreshed = builder(&scene, &kernel).refresh(true).build().unwrap();
    assert_eq!(refreshed.outcome().name(), "built");
    assert_eq!(scene.runs(), ["mlir-opt", "mlir-translate", "clang"]);

    let native = builder(&scene, &kernel)
        .march(March::Native)
        .build()
        .unwrap();
    assert_ne!(native.kernels[0].key, plain.kernels[0].key);

    let kept = builder(&scene, &kernel)
        .keep_intermediates(true)
        .build()
        .unwrap();
    assert_eq!(
        names(&kept),
        ["kernel.so", "kernel.llvm.mlir", "kernel.ll", "launcher.rs"]
    );

    let out = builder(&scene, &kernel)
        .arg("x", Direction::Out)
        .build()
        .unwrap();
    let text = String::from_utf8(out.launcher().unwrap().read().unwrap()).unwrap();
    assert!(text.contains("Direction::Out"), "{text}");

    let entries = scene.entry_files();
    let uncached = builder(&scene, &kernel).no_cache().build().unwrap();
    assert_eq!(scene.entry_files(), entries);
    let loaded = uncached.load(&cpu(), &uncached.kernels[0]).unwrap();
    let mut x = [1, 2];
    loaded
        .launch(Grid::ONE, &mut [Arg::output(&mut x)])
        .unwrap();
    assert_eq!(x, [11, 12]);
}

#[test]
fn one_of_several_functions_is_chosen_by_name() {
    let scene = Scene::new();
    let two = shift_by(10) + &shift_by(20).replace("@shift", "@shift_more");
    let kernel = scene.file("two.mlir", two);
    let error = builder(&scene, &kernel).build().unwrap_err();
    assert_eq!(error.exit_code(), 2);
    assert!(error.report().contains("shift_more"), "{}", error.report());
    let build = builder(&scene, &kernel)
        .entry("shift_more")
        .build()
        .unwrap();
    let mut x = [1, 2];
    let loaded = build.load(&cpu(), &build.kernels[0]).unwrap();
    loaded
        .launch(Grid::ONE, &mut [Arg::output(&mut x)])
        .unwrap();
    assert_eq!(x, [21, 22]);
}

#[test]
fn a_triton_signature_is_checked_against_the_mlir() {
    let scene = Scene::new();
    let kernel = example("vecadd.mlir");
    let with = |signature: &str| builder(&scene, &kernel).signature(signature).build();
    assert!(with("*fp32,*fp32,*fp32:out,i32").is_ok());
    let error = with("*fp32,*fp32,*bf16,i32").unwrap_err();
    assert_eq!(error.exit_code(), 2);
}

#[test]
fn a_session_builds_several_kernels_and_finds_its_tools_once() {
    let scene = Scene::new();
    let mut layer = Layer::default();
    layer.cache.dir = Some(scene.cache.clone());
    layer.tools.llvm = Some(scene.llvm.clone());
    layer.options.target = vec![Target::Cpu];
    let nothing = Environment::from_fn(|_| None);
    let settings = Settings::load(layer, &nothing, scene.path()).unwrap();
    let session = Session::new(settings, Interrupt::default(), &|_| {}).unwrap();
    for number in [1, 2, 3] {
        let kernel = scene.file(&format!("shift{number}.mlir"), shift_by(number));
        let request = session.settings().request(kernel, Options::default());
        let build = session.build(&request, &|_| {}).unwrap();
        let loaded = build.load(&cpu(), &build.kernels[0]).unwrap();
        let mut x = [10];
        loaded
            .launch(Grid::ONE, &mut [Arg::output(&mut x)])
            .unwrap();
        assert_eq!(x, [10 + number]);
    }
    assert_eq!(scene.runs().len(), 9);
}

#[test]
fn failures_tell_their_exit_code_and_their_story() {
    let scene = Scene::new();
    let missing = builder(&scene, Path::new("/nowhere.mlir"))
        .build()
        .unwrap_err();
    assert_eq!(missing.exit_code(), 2);
    assert!(missing.report().contains("/nowhere.mlir"));

    let broken = shift_by(1).replace("arith.addi %old", "arith.addf %old");
    let kernel = scene.file("broken.mlir", broken);
    let refused = builder(&scene, &kernel).build().unwrap_err();
    assert_eq!(refused.exit_code(), 1);
    for words in [
        "broken.mlir:8:",
        "mlir-opt failed",
        "command: ",
        "full log: ",
    ] {
        assert!(refused.report().contains(words), "{}", refused.report());
    }

    let kernel = scene.file("shift.mlir", shift_by(1));
    let toolless = builder(&scene, &kernel)
        .llvm("/nowhere")
        .build()
        .unwrap_err();
    assert_eq!(toolless.exit_code(), 3);
    assert!(toolless.report().contains("/nowhere"));

    scene.file("a-file", "");
    let unusable = scene.path().join("a-file");
    let cacheless = builder(&scene, &kernel)
        .cache_dir(unusable)
        .build()
        .unwrap_err();
    assert_eq!(cacheless.exit_code(), 4);

    scene.script("mlir-opt", "exec sleep 60");
    let slow = scene.file("slow.mlir", shift_by(2));
    let late = builder(&scene, &slow)
        .timeout(Duration::from_millis(50))
        .build();
    let late = late.unwrap_err();
    assert_eq!(late.exit_code(), 1);
    assert!(late.report().contains("time-out"), "{}", late.report());
}

/// A program that uses the library keeps its own signal handlers.
#[test]
fn no_signal_handler_is_installed_in_a_program_that_uses_the_library() {
    let caught = || {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("SigCgt:"));
        u64::from_str_radix(line.unwrap()[7..].trim(), 16).unwrap()
    };
    // SIGHUP, SIGINT and SIGTERM. The handler of SIGCHLD that waiting for a tool takes is passed on
    // to whoever had one before.
    let ours = 1u64 << 0 | 1 << 1 | 1 << 14;
    let before = caught() & ours;
    let scene = Scene::new();
    builder(&scene, &example("vecadd.mlir")).build().unwrap();
    assert_eq!(caught() & ours, before);
}
