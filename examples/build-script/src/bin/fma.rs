//! A fused multiply-add with a scalar, out = a · x + y, compared with plain Rust.

use npu_build_examples::{Numbers, fma};
use npu_runtime::{Device, Runtime};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    const N: u16 = 5_000;
    let mut numbers = Numbers::new(2);
    let a = numbers.next_f32();
    let x: Vec<f32> = (0..N).map(|_| numbers.next_f32()).collect();
    let y: Vec<f32> = (0..N).map(|_| numbers.next_f32()).collect();
    let mut out = vec![0.0; usize::from(N)];

    let kernel = fma::Kernel::load(&Device::open(Runtime::Cpu)?)?;
    kernel.launch(
        u32::from(N).div_ceil(1024),
        a,
        &x,
        &y,
        &mut out,
        i32::from(N),
    )?;

    // Fused: rounded once.
    let expected: Vec<f32> = x.iter().zip(&y).map(|(x, y)| a.mul_add(*x, *y)).collect();
    assert_eq!(out, expected);
    println!(
        "fma: {N} results are right; the first is {a} * {} + {} = {}",
        x[0], y[0], out[0]
    );
    Ok(())
}
