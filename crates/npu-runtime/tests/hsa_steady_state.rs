//! After the first launch of a kernel on a thread, a launch on the NPU allocates nothing and makes
//! no system call, with slices, with buffers and in chains.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test that can't go on fails"
)]

#[path = "hsa/designs.rs"]
#[allow(dead_code, reason = "a part is used")]
mod designs;
#[path = "hsa/emulated.rs"]
#[allow(dead_code, reason = "a part is used")]
mod emulated;
#[path = "hsa/kernels.rs"]
#[allow(dead_code, reason = "a part is used")]
mod kernels;
mod support;

use npu_runtime::{Arg, Buffer, Chain, Grid, Kernel};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

/// The system's allocator, counting what the whole process asks for. The emulated ROCR has an
/// allocator of its own.
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

/// What launches need, and a way to make some of each kind.
struct Launches<'a> {
    kernels: [&'a Kernel; 2],
    slices: [Vec<i32>; 3],
    buffers: [Buffer<i32>; 3],
    chain: Chain<'a>,
}

impl Launches<'_> {
    fn make(&mut self) {
        for kernel in self.kernels {
            let [x, y, z] = &mut self.slices;
            let args = &mut [Arg::input(x), Arg::input(y), Arg::output(z)];
            kernel.launch(Grid::ONE, args).unwrap();
            let [x, y, z] = &mut self.buffers;
            let args = &mut [Arg::input(x), Arg::input(y), Arg::output(z)];
            kernel.launch(Grid::ONE, args).unwrap();
        }
        self.chain.run().unwrap();
    }
}

/// Calls `then` with launches of a full ELF and an instruction stream.
fn with_launches(then: impl FnOnce(&mut Launches<'_>)) {
    let device = kernels::device();
    let load = |form| {
        let images = [kernels::add_image(form)];
        let signature = kernels::binary(npu_runtime::ElementType::I32);
        Kernel::load(&device, &images, signature).unwrap()
    };
    let loaded = [load(kernels::Form::FullElf), load(kernels::Form::Stream)];
    let mut total = device.buffer_from(&[0_i32; 1024]).unwrap();
    let shared = total.share();
    let (one, mut last) = (vec![1_i32; 1024], vec![0_i32; 1024]);
    let mut chain = Chain::new(&device);
    for kernel in loaded.iter().cycle().take(70) {
        let args = [shared.input(), Arg::input(&one), shared.output()];
        chain.push(kernel.bind(Grid::ONE, args).unwrap()).unwrap();
    }
    let args = [shared.input(), Arg::input(&one), Arg::output(&mut last)];
    chain
        .push(loaded[0].bind(Grid::ONE, args).unwrap())
        .unwrap();
    then(&mut Launches {
        kernels: loaded.each_ref(),
        slices: [1, 2, 0].map(|value| vec![value; 1024]),
        buffers: [1, 2, 0].map(|value| device.buffer_from(&[value; 1024]).unwrap()),
        chain,
    });
    assert!(last.iter().all(|&x| x > 0 && x % 70 == 1));
}

#[test]
fn a_launch_allocates_nothing() {
    emulated::alone(&[], || {
        with_launches(|launches| {
            launches.make();
            let before = ALLOCATIONS.load(Ordering::Relaxed);
            for _ in 0..50 {
                launches.make();
            }
            assert_eq!(ALLOCATIONS.load(Ordering::Relaxed), before);
        });
    });
}

/// strace sees what a process of the next test asks of the system between two markers.
#[test]
fn a_launch_makes_no_system_call() {
    let Some(strace) = support::tool("strace") else {
        return;
    };
    let trace = support::directory().join("trace");
    let wrapper = [
        strace.as_os_str(),
        "-f".as_ref(),
        "-o".as_ref(),
        trace.as_os_str(),
    ];
    let this = "launches_between_markers";
    let output = emulated::command(this, &wrapper).output().unwrap();
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        // A container may not allow to trace.
        assert!(std::env::var_os("CI").is_none(), "{text}");
        println!("skipped: strace: {text}");
        return;
    }
    let trace = std::fs::read_to_string(trace).unwrap();
    let lines: Vec<&str> = trace.lines().collect();
    let at = |marker: &str| lines.iter().position(|line| line.contains(marker)).unwrap();
    let (begin, end) = (at("/npu-marker-begin"), at("/npu-marker-end"));
    let thread = lines[begin].split_whitespace().next().unwrap();
    assert!(lines[end].starts_with(thread));
    let calls: Vec<&&str> = lines[begin + 1..end]
        .iter()
        .filter(|line| line.starts_with(thread))
        .collect();
    assert!(calls.is_empty(), "{calls:#?}");
}

#[test]
fn launches_between_markers() {
    emulated::alone(&[], || {
        with_launches(|launches| {
            launches.make();
            std::fs::metadata("/npu-marker-begin").unwrap_err();
            for _ in 0..50 {
                launches.make();
            }
            std::fs::metadata("/npu-marker-end").unwrap_err();
        });
    });
}
