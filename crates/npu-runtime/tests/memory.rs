//! The memory of a kernel's own temporaries: served from scratch, given back after each program,
//! and never a leak, whatever the kernel does.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test that can't go on fails"
)]

mod support;

use npu_runtime::Runtime;
use npu_runtime::{
    Arg, Artifact, Device, Direction, ElementType, Error, Grid, Image, Kernel, Parameter,
};
use std::fs;
use std::sync::{Mutex, MutexGuard, PoisonError};
use support::{compile, signature, unranked};

/// Held by each test: what the process holds is measured.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A kernel over a grid that gets `out`, 64 integers for each program, and `n`.
fn kernel(body: &str) -> Kernel {
    let source = format!(
        "#include <string.h>
         void temporaries(int64_t *out, int64_t n) {{ {body} }}"
    );
    let object = compile(
        3,
        "void temporaries(int64_t *, int64_t)",
        "temporaries((int64_t *)slots[0] + 64 * id[0], (int64_t)slots[2]);",
        &source,
    );
    let parameters = vec![
        unranked("out", ElementType::I64, Direction::InOut),
        Parameter::scalar("n", "i64", ElementType::I64),
    ];
    let device = Device::open(Runtime::Cpu).unwrap().with_threads(1);
    let signature = signature("temporaries", true, parameters);
    Kernel::load(
        &device,
        &[Image::Object(Artifact::bytes(object))],
        signature,
    )
    .unwrap()
}

fn launch(kernel: &Kernel, programs: u32, n: i64) -> Result<Vec<i64>, Error> {
    let mut out = vec![0; 64 * programs as usize];
    let args = &mut [Arg::output(&mut out), Arg::scalar(n)];
    kernel.launch(Grid::from(programs), args)?;
    Ok(out)
}

/// Resident memory of this process, in bytes (proc(5): statm counts pages).
fn resident() -> usize {
    let statm = fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

#[test]
fn ten_thousand_launches_that_never_free_do_not_grow_the_process() {
    let _alone = alone();
    let kernel = kernel(
        "for (int i = 0; i < 16; i++) {
           char *p = malloc(n);
           memset(p, i, n);
           __asm__ volatile(\"\" : : \"r\"(p) : \"memory\");
           out[i] = p[n - 1];
         }",
    );
    let n = 10_000;
    for _ in 0..100 {
        launch(&kernel, 1, n).unwrap();
    }
    let before = resident();
    for _ in 0..10_000 {
        let out = launch(&kernel, 1, n).unwrap();
        assert_eq!(
            out[..16],
            [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]
        );
    }
    let grown = resident().saturating_sub(before);
    // 1.6 GB were asked for.
    assert!(grown < 4 << 20, "{grown} bytes");
}

#[test]
fn what_is_allocated_is_aligned_apart_and_whole() {
    let _alone = alone();
    let kernel = kernel(
        "char *p[40];
         for (int i = 0; i < 40; i++) {
           p[i] = malloc((i * 977) % 5000);
           if ((uintptr_t)p[i] % 64) out[0]++;
           memset(p[i], i, (i * 977) % 5000);
         }
         for (int i = 0; i < 40; i++)
           for (int k = 0; k < (i * 977) % 5000; k++)
             if (p[i][k] != i) out[1]++;
         for (int i = 0; i < 40; i += 3) free(p[i]);
         for (int i = 39; i > 0; i -= 2) free(p[i]);
         char *q = malloc(3000);
         memset(q, 99, 3000);
         for (int i = 2; i < 40; i += 6)
           for (int k = 0; i % 3 && k < (i * 977) % 5000; k++)
             if (p[i][k] != i) out[2]++;
         free(0);
         void *foreign = out;
         __asm__ volatile(\"\" : \"+r\"(foreign));
         free(foreign);
         out[3] = 7;",
    );
    // At first the system's memory is used, afterwards the scratch memory.
    for _ in 0..3 {
        for program in launch(&kernel, 5, 0).unwrap().chunks(64) {
            assert_eq!(program[..4], [0, 0, 0, 7]);
        }
    }
}

#[test]
fn a_loop_that_frees_what_it_allocates_needs_only_one_turn_s_memory() {
    let _alone = alone();
    let kernel = kernel(
        "for (int i = 0; i < 100000; i++) {
           char *p = malloc(n), *q = malloc(n);
           p[0] = 1, q[n - 1] = 2;
           __asm__ volatile(\"\" : : \"r\"(p), \"r\"(q) : \"memory\");
           out[0] += p[0] + q[n - 1];
           free(i % 2 ? p : q);
           free(i % 2 ? q : p);
         }",
    );
    let before = resident();
    for _ in 0..2 {
        // 200 GB in all.
        assert_eq!(launch(&kernel, 1, 1 << 20).unwrap()[0], 300_000);
    }
    let grown = resident().saturating_sub(before);
    assert!(grown < 16 << 20, "{grown} bytes");
}

/// LLVM turns `malloc` and `memset` to zero into `calloc`.
#[test]
fn zeroed_memory_is_zero_even_where_an_earlier_program_wrote() {
    let _alone = alone();
    let kernel = kernel(
        "int64_t *p = calloc(n, 8);
         for (int64_t i = 0; i < n; i++) out[0] += p[i], p[i] = 1;
         __asm__ volatile(\"\" : : \"r\"(p) : \"memory\");",
    );
    for program in launch(&kernel, 10, 5000).unwrap().chunks(64) {
        assert_eq!(program[0], 0);
    }
}

#[test]
fn any_power_of_two_is_an_alignment() {
    let _alone = alone();
    let kernel = kernel(
        "for (int i = 0; i < 14; i++) {
           char *before = malloc(1), *p = aligned_alloc((size_t)1 << i, n), *after = malloc(1);
           memset(p, 1, n);
           *before = *after = 2;
           __asm__ volatile(\"\" : : \"r\"(p) : \"memory\");
           out[i] = (uintptr_t)p % ((uintptr_t)1 << i);
           out[16 + i] = p[0] + p[n - 1];
           free(after); free(p); free(before);
         }
         char *p = malloc(1);
         out[15] = (uintptr_t)p;",
    );
    launch(&kernel, 1, 100).unwrap();
    let (first, second) = (
        launch(&kernel, 1, 100).unwrap(),
        launch(&kernel, 1, 100).unwrap(),
    );
    assert_eq!(first[..14], [0; 14]);
    assert_eq!(first[16..30], [2; 14]);
    // All of it was given back, so the last block is where it always is.
    assert_eq!(first[15], second[15]);
}

#[test]
fn a_kernel_that_asks_for_too_much_is_an_error_and_can_be_launched_again() {
    let _alone = alone();
    let kernel = kernel(
        "char *small = malloc(100), *p = malloc(n);
         p[0] = small[0] = 1;
         __asm__ volatile(\"\" : : \"r\"(p), \"r\"(small) : \"memory\");
         out[0] = p[0] + small[0];",
    );
    for n in [-1, i64::MIN, 1 << 55, i64::MAX] {
        let error = launch(&kernel, 3, n).unwrap_err();
        assert!(matches!(error, Error::KernelMemory { .. }), "{error:?}");
        assert_eq!(
            error.to_string(),
            "kernel `temporaries` ran out of memory for its temporaries; its outputs are not \
             complete"
        );
        assert_eq!(launch(&kernel, 1, 100).unwrap()[0], 2);
    }
}

#[test]
fn a_large_need_is_met_on_each_launch() {
    let _alone = alone();
    let kernel = kernel(
        "char *p = malloc(n), *q = malloc(n / 2);
         p[n - 1] = 3, q[n / 2 - 1] = 4;
         __asm__ volatile(\"\" : : \"r\"(p), \"r\"(q) : \"memory\");
         out[0] = p[n - 1] + q[n / 2 - 1];",
    );
    for n in [10, 1 << 28, 100, 1 << 29] {
        assert_eq!(launch(&kernel, 2, n).unwrap()[0], 7);
    }
}

/// A thread's scratch memory goes with the thread.
#[test]
fn threads_that_end_leave_nothing_behind() {
    let _alone = alone();
    let kernel = kernel(
        "char *p = malloc(n);
         memset(p, 1, n);
         __asm__ volatile(\"\" : : \"r\"(p) : \"memory\");
         out[0] = p[n / 2];",
    );
    let n = 4 << 20;
    let on_a_thread = || {
        std::thread::scope(|scope| {
            let launches = || {
                (0..3)
                    .map(|_| launch(&kernel, 1, n).unwrap()[0])
                    .sum::<i64>()
            };
            assert_eq!(scope.spawn(launches).join().unwrap(), 3);
        });
    };
    (0..5).for_each(|_| on_a_thread());
    let before = resident();
    (0..100).for_each(|_| on_a_thread());
    let grown = resident().saturating_sub(before);
    assert!(grown < 16 << 20, "{grown} bytes");
}
