//! The softmax of each row of a bf16 matrix, computed in f32, compared with plain Rust.

use npu_build_examples::{Numbers, softmax};
use npu_runtime::half::bf16;
use npu_runtime::{Device, Runtime};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    const ROWS: u16 = 16;
    const COLUMNS: u16 = 781;
    let (rows, columns) = (usize::from(ROWS), usize::from(COLUMNS));
    let mut numbers = Numbers::new(3);
    let x: Vec<bf16> = (0..rows * columns)
        .map(|_| bf16::from_f32(8.0 * numbers.next_f32()))
        .collect();
    let mut out = vec![bf16::ZERO; rows * columns];

    let kernel = softmax::Kernel::load(&Device::open(Runtime::Cpu)?)?;
    kernel.launch(u32::from(ROWS), &x, &mut out, i32::from(COLUMNS))?;

    let mut worst = 0.0f32;
    for (row, out) in x.chunks_exact(columns).zip(out.chunks_exact(columns)) {
        let row: Vec<f32> = row.iter().map(|x| x.to_f32()).collect();
        let largest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let powers: Vec<f32> = row.iter().map(|x| (x - largest).exp()).collect();
        let sum: f32 = powers.iter().sum();
        for (power, out) in powers.iter().zip(out) {
            let expected = power / sum;
            worst = worst.max((out.to_f32() - expected).abs() / expected);
        }
    }
    // bf16 keeps 8 significant bits; the rest is room for another order of summation.
    assert!(worst <= 1.0 / 256.0, "off by {worst}");
    println!(
        "softmax: {ROWS} rows of {COLUMNS} are right; the largest relative error is {worst:.5}"
    );
    Ok(())
}
