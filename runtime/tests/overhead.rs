//! What a launch costs beside the kernel. Run with
//! `cargo test --release -p npu-runtime --test overhead -- --ignored --nocapture`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test that can't go on fails"
)]

mod support;

use npu_runtime::{Arg, Artifact, Device, Grid, Kernel, Runtime};
use std::hint::black_box;
use std::time::Instant;

#[test]
#[ignore = "a measurement: only a release build on a quiet machine says anything"]
fn an_empty_kernel_with_three_buffers_is_launched_in_200_ns() {
    let (object, signature) = support::empty();
    let device = Device::open(Runtime::Cpu).unwrap();
    let kernel = Kernel::load(&device, &Artifact::bytes(object), signature).unwrap();
    let a = device.buffer::<f32>(16).unwrap();
    let b = device.buffer::<f32>(16).unwrap();
    let mut c = device.buffer::<f32>(16).unwrap();
    const LAUNCHES: u32 = 100_000;
    let mut times: Vec<f64> = (0..50)
        .map(|_| {
            let begun = Instant::now();
            for _ in 0..LAUNCHES {
                let args = &mut [
                    Arg::input(black_box(&a)),
                    Arg::input(black_box(&b)),
                    Arg::output(black_box(&mut c)),
                ];
                kernel.launch(black_box(Grid::ONE), args).unwrap();
            }
            begun.elapsed().as_secs_f64() * 1e9 / f64::from(LAUNCHES)
        })
        .collect();
    times.sort_by(f64::total_cmp);
    let median = times[times.len() / 2];
    println!("{median:.1} ns a launch (least {:.1})", times[0]);
    assert!(median <= 200.0, "{median:.1} ns");
}
