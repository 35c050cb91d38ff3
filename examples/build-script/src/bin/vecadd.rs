//! Adds two vectors on the cpu target and compares with plain Rust.

use npu_build_examples::{Numbers, vecadd};
use npu_runtime::{Device, Runtime};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    const N: u16 = 10_007; // no multiple of the block: the last program is masked
    let mut numbers = Numbers::new(1);
    let x: Vec<f32> = (0..N).map(|_| numbers.next_f32()).collect();
    let y: Vec<f32> = (0..N).map(|_| numbers.next_f32()).collect();
    let mut out = vec![0.0; usize::from(N)];

    let kernel = vecadd::Kernel::load(&Device::open(Runtime::Cpu)?)?;
    kernel.launch(u32::from(N).div_ceil(1024), &x, &y, &mut out, i32::from(N))?;

    let expected: Vec<f32> = x.iter().zip(&y).map(|(x, y)| x + y).collect();
    assert_eq!(out, expected);
    println!(
        "vecadd: {N} sums are right; the first is {} + {} = {}",
        x[0], y[0], out[0]
    );
    Ok(())
}
