//! After the first launch of a kernel on a thread, a launch allocates nothing and makes no system
//! call.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test that can't go on fails"
)]

mod support;

use npu_runtime::{
    Arg, Artifact, Device, Direction, ElementType, Grid, Image, Kernel, Parameter, Runtime,
};
use std::alloc::{GlobalAlloc, Layout, System};
use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use support::{compile, signature, unranked};

/// The system's allocator, counting what the whole process asks for.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call is passed on as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Held by each test: all of the process's allocations are counted.
static ALONE: Mutex<()> = Mutex::new(());

/// A kernel that allocates four temporaries, of which it frees none, in each of its programs.
fn object() -> Vec<u8> {
    compile(
        5,
        "void scale(const float *, float *, float)",
        "union { uint32_t bits; float value; } factor = { (uint32_t)slots[4] };\
         scale((const float *)slots[0] + 256 * id[0], (float *)slots[2] + 256 * id[0], factor.value);",
        "void scale(const float *in, float *out, float factor) {
           float *t[4];
           for (int i = 0; i < 4; i++) t[i] = malloc(100000);
           __asm__ volatile(\"\" : : \"r\"(t) : \"memory\");
           for (int i = 0; i < 256; i++) t[i % 4][i] = in[i] * factor;
           for (int i = 0; i < 256; i++) out[i] = t[i % 4][i];
         }",
    )
}

fn load(object: Vec<u8>, threads: usize) -> Kernel {
    let parameters = vec![
        unranked("in", ElementType::F32, Direction::In),
        unranked("out", ElementType::F32, Direction::Out),
        Parameter::scalar("factor", "f32", ElementType::F32),
    ];
    let device = Device::open(Runtime::Cpu).unwrap().with_threads(threads);
    let signature = signature("scale", true, parameters);
    Kernel::load(
        &device,
        &[Image::Object(Artifact::bytes(object))],
        signature,
    )
    .unwrap()
}

fn launch(kernel: &Kernel, programs: u32, input: &[f32], output: &mut [f32]) {
    let args = &mut [Arg::input(input), Arg::output(output), Arg::scalar(2.0_f32)];
    kernel.launch(Grid::from(programs), args).unwrap();
}

#[test]
fn a_launch_allocates_nothing_on_one_thread_or_many() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let object = object();
    for (threads, programs) in [(1, 1), (1, 64), (4, 64), (4, 20_000)] {
        let kernel = load(object.clone(), threads);
        let input = vec![1.5_f32; 256 * programs as usize];
        let mut output = vec![0.0_f32; 256 * programs as usize];
        // A worker meets the kernel when the system lets it run, which is soon but not at once.
        let allocates = || {
            let before = ALLOCATIONS.load(Ordering::Relaxed);
            for _ in 0..20 {
                launch(&kernel, programs, &input, &mut output);
            }
            ALLOCATIONS.load(Ordering::Relaxed) != before
        };
        let rounds = std::iter::repeat_with(allocates).take(50);
        let steady = rounds.take_while(|allocates| *allocates).count() < 50;
        assert!(steady, "{threads} threads, {programs} programs");
        assert!(output.iter().all(|&x| x == 3.0));
    }
}

#[test]
fn a_launch_makes_no_system_call() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(strace) = support::tool("strace") else {
        return;
    };
    let directory = support::directory();
    let (kernel, trace) = (directory.join("kernel.so"), directory.join("trace"));
    fs::write(&kernel, object()).unwrap();
    let output = Command::new(strace)
        .args(["-f", "-o"])
        .arg(&trace)
        .arg(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "launch_between_markers",
            "--ignored",
            "--test-threads=1",
        ])
        .env("NPU_TEST_KERNEL", &kernel)
        .output()
        .unwrap();
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        // A container may not allow to trace.
        assert!(std::env::var_os("CI").is_none(), "{text}");
        println!("skipped: strace: {text}");
        return;
    }
    let trace = fs::read_to_string(trace).unwrap();
    fs::remove_dir_all(directory).unwrap();
    let lines: Vec<&str> = trace.lines().collect();
    let begin = lines
        .iter()
        .position(|line| line.contains("/npu-marker-begin"))
        .unwrap();
    let end = lines
        .iter()
        .position(|line| line.contains("/npu-marker-end"))
        .unwrap();
    let thread = lines[begin].split_whitespace().next().unwrap();
    assert!(lines[end].starts_with(thread));
    let calls: Vec<&&str> = lines[begin + 1..end]
        .iter()
        .filter(|line| line.starts_with(thread))
        .collect();
    assert!(calls.is_empty(), "{calls:#?}");
}

#[test]
#[ignore = "run by the test above, under strace"]
fn launch_between_markers() {
    let Some(path) = std::env::var_os("NPU_TEST_KERNEL") else {
        return;
    };
    let object = fs::read(path).unwrap();
    let input = vec![1.5_f32; 256 * 4];
    let mut output = vec![0.0_f32; 256 * 4];
    let kernels = [load(object.clone(), 1), load(object, 4)];
    for kernel in &kernels {
        launch(kernel, 4, &input, &mut output);
    }
    fs::metadata("/npu-marker-begin").unwrap_err();
    for kernel in &kernels {
        for _ in 0..1000 {
            launch(kernel, 1, &input, &mut output);
        }
    }
    for _ in 0..1000 {
        launch(&kernels[0], 4, &input, &mut output);
    }
    fs::metadata("/npu-marker-end").unwrap_err();
    assert!(output.iter().all(|&x| x == 3.0));
}
