//! Compiles a kernel while the program runs, or finds it in the cache, and launches it with
//! arguments that are checked against its signature then and there.
//!
//! `cargo run --example run_time`
#![expect(clippy::print_stdout, reason = "an example shows what it did")]

use npu_build::{Builder, Target};
use npu_runtime::{Arg, Device, Runtime};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let kernels = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/kernels");
    let build = Builder::new(format!("{kernels}/vecadd.mlir"))
        .target(Target::Cpu)
        .extents("x=n,y=n,out=n")
        .build()
        .map_err(|error| error.report())?;
    let kernel = build.load(&Device::open(Runtime::Cpu)?, &build.kernels[0])?;

    let x = [1.0f32; 4096];
    let y = [2.0f32; 4096];
    let mut out = [0.0f32; 4096];
    kernel.launch(
        4.into(),
        &mut [
            Arg::input(&x),
            Arg::input(&y),
            Arg::output(&mut out),
            Arg::scalar(4096),
        ],
    )?;
    assert!(out.iter().all(|sum| *sum == 3.0));

    // What does not fit the signature is an error that says so, and nothing runs.
    let refused = kernel.launch(4.into(), &mut [Arg::input(&x), Arg::input(&y)]);
    let Err(reason) = refused else {
        return Err("two arguments were taken for four".into());
    };
    println!(
        "vecadd ({}): 4096 sums are right; with too few arguments: {reason}",
        build.outcome().name()
    );
    Ok(())
}
