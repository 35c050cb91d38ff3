//! Grids on several threads, and launches from several threads.
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
use std::collections::BTreeSet;
use std::sync::{Barrier, LazyLock, Mutex, MutexGuard, PoisonError};
use support::{compile, ranked, signature, unranked};

/// Works for a while by `rounds`, leaves a value that depends on program and input, and notes the
/// thread.
static WORK: LazyLock<Vec<u8>> = LazyLock::new(|| {
    compile(
        6,
        "void work(const float *, float *, int64_t *, int32_t, int64_t)",
        "work((const float *)slots[0], (float *)slots[2], (int64_t *)slots[4],\
              (int32_t)slots[5], id[0] + (int64_t)grid[0] * (id[1] + (int64_t)grid[1] * id[2]));",
        "extern int gettid(void);
         void work(const float *in, float *out, int64_t *thread, int32_t rounds, int64_t id) {
           float *t = malloc(256 * sizeof(float));
           for (int i = 0; i < 256; i++) t[i] = in[i] + id;
           for (int r = 0; r < rounds; r++)
             for (int i = 0; i < 256; i++) t[i] = t[i] * 0.999f + 0.5f;
           float sum = 0;
           for (int i = 0; i < 256; i++) sum += t[i];
           out[id] = sum;
           thread[id] = gettid();
         }",
    )
});

/// Held by each test: who has the process's pool of threads is a part of what is tested.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Work {
    kernel: Kernel,
}

impl Work {
    fn on(threads: usize) -> Self {
        let device = Device::open(Runtime::Cpu).unwrap().with_threads(threads);
        let parameters = vec![
            unranked("in", ElementType::F32, Direction::In),
            unranked("out", ElementType::F32, Direction::Out),
            ranked(
                "thread",
                "memref<6000xi64>",
                ElementType::I64,
                &[Some(6000)],
                Direction::InOut,
            ),
            Parameter::scalar("rounds", "i32", ElementType::I32),
        ];
        let signature = signature("work", true, parameters);
        let kernel = Kernel::load(
            &device,
            &[Image::Object(Artifact::bytes(WORK.clone()))],
            signature,
        )
        .unwrap();
        Self { kernel }
    }

    /// The results, and the threads that took part.
    fn run(&self, grid: impl Into<Grid>, rounds: i32) -> (Vec<f32>, BTreeSet<i64>) {
        let grid = grid.into();
        let programs = grid.programs().unwrap() as usize;
        let input: Vec<f32> = (0..256).map(|i| i as f32).collect();
        let mut out = vec![0.0_f32; programs];
        let mut threads = vec![0_i64; 6000];
        let args = &mut [
            Arg::input(&input),
            Arg::output(&mut out),
            Arg::output(&mut threads),
            Arg::scalar(rounds),
        ];
        self.kernel.launch(grid, args).unwrap();
        (out, threads[..programs].iter().copied().collect())
    }
}

unsafe extern "C" {
    safe fn gettid() -> i32;
}

fn this_thread() -> BTreeSet<i64> {
    BTreeSet::from([i64::from(gettid())])
}

#[test]
fn a_large_grid_gives_the_same_on_any_number_of_threads() {
    let _alone = alone();
    let alone = Work::on(1);
    let (expected, threads) = alone.run((20, 30, 10), 100);
    assert_eq!(threads, this_thread());
    assert!(expected.windows(2).all(|pair| pair[0] < pair[1]));
    for n in [2, 3, 8, 1000, usize::MAX] {
        let many = Work::on(n);
        for _ in 0..3 {
            let (found, threads) = many.run((20, 30, 10), 100);
            assert!(found == expected, "{n} threads");
            assert!(threads.len() <= n);
        }
    }
}

#[test]
fn few_long_programs_are_spread_as_well() {
    let _alone = alone();
    let work = Work::on(2);
    // Two programs of several milliseconds: from the second launch on, when that is known.
    work.run(2, 100_000);
    // The system may be slow to let the second thread run, but not every time.
    let spread = (0..200).any(|_| work.run(2, 100_000).1.len() == 2);
    assert!(spread);
}

#[test]
fn a_small_grid_stays_on_the_calling_thread() {
    let _alone = alone();
    // Its own object, so that no other test's launches tell how long its programs take.
    let device = Device::open(Runtime::Cpu).unwrap().with_threads(8);
    let object = compile(
        2,
        "void small(int64_t *)",
        "small((int64_t *)slots[0] + id[0]);",
        "extern int gettid(void); void small(int64_t *thread) { *thread = gettid(); }",
    );
    let parameters = vec![unranked("thread", ElementType::I64, Direction::Out)];
    let signature = signature("small", true, parameters);
    let kernel = Kernel::load(
        &device,
        &[Image::Object(Artifact::bytes(object))],
        signature,
    )
    .unwrap();
    let stayed = (0..100)
        .filter(|_| {
            let mut threads = vec![0_i64; 8];
            kernel
                .launch(Grid::from(8), &mut [Arg::output(&mut threads)])
                .unwrap();
            threads.into_iter().collect::<BTreeSet<_>>() == this_thread()
        })
        .count();
    // A launch that the system interrupts looks long, and the one after it.
    assert!(stayed > 50, "{stayed}");
}

#[test]
fn many_threads_may_launch_at_once() {
    let _alone = alone();
    let (object, signature) = support::vecadd();
    let device = Device::open(Runtime::Cpu).unwrap();
    let kernel = Kernel::load(
        &device,
        &[Image::Object(Artifact::bytes(object))],
        signature,
    )
    .unwrap();
    let start = Barrier::new(32);
    std::thread::scope(|scope| {
        for thread in 0..32 {
            let (kernel, start) = (&kernel, &start);
            scope.spawn(move || {
                let a = vec![thread as f32; 2048];
                let mut c = vec![0.0_f32; 2048];
                start.wait();
                for i in 0..1000 {
                    let b = [i as f32; 2048];
                    let args = &mut [
                        Arg::input(&a),
                        Arg::input(&b),
                        Arg::output(&mut c),
                        Arg::scalar(2048),
                    ];
                    kernel.launch(Grid::from(2), args).unwrap();
                    assert!(c.iter().all(|&x| x == (thread + i) as f32));
                }
            });
        }
    });
}

#[test]
fn large_grids_from_many_threads_at_once_share_the_pool_or_do_without() {
    let _alone = alone();
    let work = Work::on(4);
    let (expected, _) = Work::on(1).run(2000, 50);
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                for _ in 0..20 {
                    assert!(work.run(2000, 50).0 == expected);
                }
            });
        }
    });
}

#[test]
fn a_child_process_launches_on_its_own_thread() {
    let _alone = alone();
    unsafe extern "C" {
        fn fork() -> i32;
        fn waitpid(child: i32, status: *mut i32, options: i32) -> i32;
        fn _exit(status: i32) -> !;
    }
    let work = Work::on(4);
    let (expected, _) = work.run(2000, 100);
    // SAFETY: the child only launches, which takes no lock that another thread may have held, and
    // leaves without running anything else.
    let child = unsafe { fork() };
    if child == 0 {
        let (found, threads) = work.run(2000, 100);
        let right = found == expected && threads == this_thread();
        // SAFETY: ends this process.
        unsafe { _exit(if right { 0 } else { 1 }) };
    }
    let mut status = -1;
    // SAFETY: `status` is an integer of this frame.
    assert_eq!(unsafe { waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0);
    // The parent goes on as before.
    assert!(work.run(2000, 100).0 == expected);
}
