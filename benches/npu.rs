//! Figures of launches on the emulated NPUs: `cargo bench --bench npu`. What the device computes is
//! nothing, so that what is left is the host's work; the emulated doorbell is part of it.
//!
//! A process has one device of each runtime and one environment, so each runtime is measured in a
//! child of this process.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a measurement that can't go on stops"
)]

use std::borrow::Cow;
use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use npu_runtime::{
    Arg, Artifact, Bounds, Chain, Compiled, Device, Direction, ElementType, Grid, Image, Kernel,
    Npu, Parameter, Runtime, Shape, Signature,
};
use xrt_double::kernels::{Workshop, combining};

/// The kernel's name in the full ELF.
const KERNEL: &str = "main:sequence";
/// Elements of a small argument.
const SMALL: usize = 64;
/// Elements of 4 MB.
const LARGE: usize = 1 << 20;

fn main() {
    let arguments: Vec<_> = std::env::args().collect();
    match arguments.get(1).map(String::as_str) {
        Some("--hsa") => hsa(Path::new(&arguments[2])),
        Some("--first") => first(Path::new(&arguments[2]), Path::new(&arguments[3])),
        Some("--xrt") => xrt(Path::new(&arguments[2])),
        _ => parent(),
    }
}

/// Lays out what the children need, and starts them.
fn parent() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let design = combining("npu2", "arith.addi");
    let workshop = Workshop::new(directory.path()).unwrap();
    let elf = workshop.full_elf("k", &design).unwrap().artifact;
    std::fs::write(at("k.elf"), &elf).unwrap();
    let packed = npu_formats::pack::pack(
        &at("k.hsaco"),
        npu_formats::Arch::Aie2p,
        &[npu_formats::spec::Spec {
            source: npu_formats::spec::Source::Elf { path: at("k.elf") },
            kernarg_size: 0,
            columns: None,
        }],
        npu_formats::pack::Unloadable::Refuse,
    );
    packed.unwrap();
    let rocr = rocr_double::install::install(&at("rocm")).unwrap();
    let installation = xrt_double::Installation::new(&at("xrt")).unwrap();
    let shim = at("libnpu_xrt_shim.so");
    xrt_double::compile_shim("g++", &installation, &shim).unwrap();
    let child = |flag: &str| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .arg(flag)
            .env("ROCM_PATH", at("rocm"))
            .env_remove("AMD_NPU_ROCR_PATH")
            .env("ROCR_DOUBLE_EXECUTE", "nothing")
            .env("NPU_RUNTIME_XRT_SHIM", &shim)
            .env("XRT_DOUBLE_EMPTY", "1")
            .env("XRT_DOUBLE_COSTS", "1");
        command
    };
    run(child("--hsa").arg(at("k.hsaco")));
    // The first launch of a process, in processes of their own.
    let mut firsts: Vec<f64> = (0..21)
        .map(|_| {
            let output = child("--first").arg(at("k.hsaco")).arg(&rocr).output();
            let text = String::from_utf8(output.unwrap().stdout).unwrap();
            text.trim().parse().unwrap()
        })
        .collect();
    firsts.sort_by(f64::total_cmp);
    line(
        "hsa: first launch of a process, over loading ROCR",
        format!("{:.2} ms", firsts[10]),
        firsts[10],
        3.0,
        " ms",
    );
    run(child("--xrt").arg(at("k.elf")));
}

fn run(command: &mut Command) {
    let status = command.status().unwrap();
    assert!(status.success(), "{command:?}: {status}");
}

fn line(figure: &str, measured: impl std::fmt::Display, value: f64, limit: f64, unit: &str) {
    let holds = if value <= limit { "yes" } else { "NO" };
    println!("{figure:<58} {measured:<34} ≤ {limit}{unit:<4} {holds}");
}

/// Two inputs and an output of that many `i32`.
fn signature(elements: usize, direction: Direction) -> Signature {
    let memory = |name: &'static str, direction| Parameter {
        name: Cow::Borrowed(name),
        mlir_type: Cow::Owned(format!("memref<{elements}xi32>")),
        kind: npu_runtime::Kind::Memory {
            element: ElementType::I32,
            shape: Shape::Ranked(Cow::Owned(vec![Some(elements as u64)])),
            direction,
        },
        extents: Cow::Borrowed(&[]),
    };
    let parameters = vec![
        memory("x", Direction::In),
        memory("y", Direction::In),
        memory("z", direction),
    ];
    Signature {
        name: Cow::Borrowed(KERNEL),
        parameters: Cow::Owned(parameters),
        grid: false,
        bounds: Bounds::Proven,
    }
}

fn hsaco(path: &Path) -> Image {
    Image::Hsaco {
        hsaco: Artifact::bytes(std::fs::read(path).unwrap()),
        kernel: KERNEL.into(),
        compiled: Compiled::for_target(Npu::Npu2),
    }
}

/// The median of the rounds, in seconds for one of the `count` runs in each.
fn median(rounds: usize, count: u32, mut run: impl FnMut()) -> f64 {
    let mut times: Vec<_> = (0..rounds)
        .map(|_| {
            let started = Instant::now();
            for _ in 0..count {
                run();
            }
            started.elapsed() / count
        })
        .collect();
    times.sort();
    times[rounds / 2].as_secs_f64()
}

fn hsa(path: &Path) {
    let device = Device::open(Runtime::Hsa).unwrap();
    let load = |elements, direction| {
        Kernel::load(&device, &[hsaco(path)], signature(elements, direction)).unwrap()
    };
    let kernel = load(SMALL, Direction::Out);
    let (x, y, mut z) = (vec![1; SMALL], vec![2; SMALL], vec![0; SMALL]);
    let slices = median(101, 1000, || {
        let args = &mut [
            Arg::input::<i32>(black_box(&x)),
            Arg::input::<i32>(&y),
            Arg::output::<i32>(&mut z),
        ];
        kernel.launch(Grid::ONE, args).unwrap();
    }) * 1e6;
    let label = |what: &str| format!("hsa: a launch with {what}, 3 arguments");
    line(
        &label("slices of 64"),
        format!("{slices:.2} µs"),
        slices,
        1.5,
        " µs",
    );

    let bx = device.buffer_from(&x).unwrap();
    let by = device.buffer_from(&y).unwrap();
    let mut bz = device.buffer::<i32>(SMALL).unwrap();
    let before = device.counters();
    let buffers = median(101, 1000, || {
        let args = &mut [
            Arg::input(black_box(&bx)),
            Arg::input(&by),
            Arg::output(&mut bz),
        ];
        kernel.launch(Grid::ONE, args).unwrap();
    }) * 1e6;
    line(
        &label("buffers"),
        format!("{buffers:.2} µs"),
        buffers,
        0.6,
        " µs",
    );
    let after = device.counters();
    assert_eq!(
        (before.allocations, before.queues, before.images),
        (after.allocations, after.queues, after.images),
        "a launch sets nothing up"
    );

    let (sx, sy, sz) = (bx, by, bz.share());
    let mut chain = Chain::new(&device);
    for _ in 0..32 {
        let args = vec![Arg::input(&sx), Arg::input(&sy), sz.output()];
        chain.push(kernel.bind(Grid::ONE, args).unwrap()).unwrap();
    }
    let chained = median(101, 100, || chain.run().unwrap()) * 1e6 / 32.0;
    line(
        "hsa: a launch in a chain of 32",
        format!("{chained:.2} µs"),
        chained,
        0.3,
        " µs",
    );
    drop(chain);

    large(&load(LARGE, Direction::Out), &load(LARGE, Direction::InOut));
}

/// 4 MB in and 4 MB out beside two copies of as much, to the device's memory and from it: one argument
/// is read, one written, and the third is a buffer of neither.
fn large(out: &Kernel, in_out: &Kernel) {
    let device = Device::open(Runtime::Hsa).unwrap();
    let x = vec![1_i32; LARGE];
    let mut z = vec![0_i32; LARGE];
    let still = device.buffer::<i32>(LARGE).unwrap();
    let mut staged = device.buffer::<i32>(LARGE).unwrap();
    // Memory that nobody has written is one page of zeros.
    let results = device.buffer_from::<i32>(&x).unwrap();
    let mut back = vec![0_i32; LARGE];
    let mut times: [Vec<Duration>; 3] = Default::default();
    for _ in 0..101 {
        let mut time = |index: usize, run: &mut dyn FnMut()| {
            let started = Instant::now();
            run();
            times[index].push(started.elapsed());
        };
        time(0, &mut || {
            staged.copy_from_slice(black_box(&x));
            back.copy_from_slice(black_box(&results));
            // A copy that nobody looks at is none.
            black_box((&staged[..], &back[..]));
        });
        for (index, kernel) in [(1, out), (2, in_out)] {
            time(index, &mut || {
                let args = &mut [
                    Arg::input::<i32>(&x),
                    Arg::input(&still),
                    Arg::output::<i32>(&mut z),
                ];
                kernel.launch(Grid::ONE, args).unwrap();
            });
        }
    }
    let [copies, launch, both] = times.map(|mut times| {
        times.sort();
        times[times.len() / 2].as_secs_f64() * 1e3
    });
    let ratio = launch / copies;
    line(
        "hsa: 4 MB in, 4 MB out, over two copies of 4 MB",
        format!("{launch:.2} ms / {copies:.2} ms = {ratio:.2}"),
        ratio,
        1.1,
        "",
    );
    println!(
        "{:<58} {both:.2} ms, {:.2} times as long",
        "  the same with the output as in-out",
        both / launch
    );
}

/// From nothing to the end of the first launch, without what loading the library takes.
fn first(hsaco_path: &Path, library: &Path) {
    let started = Instant::now();
    // SAFETY: the double runs no code when it is loaded.
    let loaded = unsafe { libloading::Library::new(library) }.unwrap();
    let loading = started.elapsed();
    let started = Instant::now();
    let device = Device::open(Runtime::Hsa).unwrap();
    let kernel = Kernel::load(
        &device,
        &[hsaco(hsaco_path)],
        signature(SMALL, Direction::Out),
    );
    let kernel = kernel.unwrap();
    let (x, y, mut z) = (vec![1; SMALL], vec![2; SMALL], vec![0; SMALL]);
    let args = &mut [
        Arg::input::<i32>(&x),
        Arg::input::<i32>(&y),
        Arg::output::<i32>(&mut z),
    ];
    kernel.launch(Grid::ONE, args).unwrap();
    let launched = started.elapsed();
    black_box(loading);
    println!("{}", launched.as_secs_f64() * 1e3);
    std::mem::forget(loaded);
}

/// A launcher that makes everything anew for each call, beside one that keeps it. The emulated
/// device's set-up takes as long as a real one's.
fn xrt(path: &Path) {
    let bytes = std::fs::read(path).unwrap();
    let image = || Image::FullElf {
        elf: Artifact::bytes(bytes.clone()),
        kernel: KERNEL.into(),
        compiled: Compiled::for_target(Npu::Npu2),
    };
    let (x, y) = (vec![1; SMALL], vec![2; SMALL]);
    let launch = |kernel: &Kernel, z: &mut [i32]| {
        let args = &mut [
            Arg::input::<i32>(&x),
            Arg::input::<i32>(&y),
            Arg::output::<i32>(z),
        ];
        kernel.launch(Grid::ONE, args).unwrap();
    };
    let open = || {
        let device = Device::open(Runtime::Xrt).unwrap();
        let kernel = Kernel::load(&device, &[image()], signature(SMALL, Direction::Out));
        (device, kernel.unwrap())
    };
    let mut z = vec![0; SMALL];
    let stateless = median(11, 1, || {
        let (_device, kernel) = open();
        launch(&kernel, &mut z);
    });
    let (device, kernel) = open();
    launch(&kernel, &mut z);
    let before = device.counters();
    let cached = median(101, 100, || launch(&kernel, &mut z));
    let after = device.counters();
    assert_eq!(
        (before.images, before.allocations, before.queues),
        (after.images, after.allocations, after.queues),
        "a launch sets nothing up"
    );
    println!(
        "{:<58} {:.1} ms / {:.1} µs = {:.0} times",
        "xrt: a launcher without state, over one that keeps it",
        stateless * 1e3,
        cached * 1e6,
        stateless / cached
    );
}
