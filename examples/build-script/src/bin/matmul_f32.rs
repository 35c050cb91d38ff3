//! Multiplies two 1024x1024 f32 matrices, and compares some elements with plain Rust.

use std::time::Instant;

use npu_build_examples::{Numbers, matmul_f32};
use npu_runtime::{Device, Runtime};

const N: usize = 1024;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = Device::open(Runtime::Cpu)?;
    let mut numbers = Numbers::new(5);
    let mut matrix = || -> Vec<f32> { (0..N * N).map(|_| numbers.next_f32()).collect() };
    let (a, b) = (
        device.buffer_from(&matrix())?,
        device.buffer_from(&matrix())?,
    );
    let mut c = device.buffer::<f32>(N * N)?;

    let kernel = matmul_f32::Kernel::load(&device)?;
    let started = Instant::now();
    kernel.launch(&a, &b, &mut c)?;
    let elapsed = started.elapsed();

    // The kernel sums in the order of k, so the results are the same to the bit.
    for (row, column) in (0..N).map(|i| (i, (i * 37) % N)) {
        let expected = (0..N).fold(0.0, |sum, k| sum + a[row * N + k] * b[k * N + column]);
        assert_eq!(
            c[row * N + column].to_bits(),
            f32::to_bits(expected),
            "at {row}, {column}"
        );
    }
    println!(
        "matmul_f32: {N}x{N} is right, in {:.1} ms",
        elapsed.as_secs_f64() * 1e3
    );
    Ok(())
}
