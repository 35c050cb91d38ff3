//! Multiplies two int8 matrices with i32 accumulation, and compares with plain Rust.

use npu_build_examples::{Numbers, matmul_i8};
use npu_runtime::{Device, Runtime};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    const M: usize = 100;
    const N: usize = 70;
    const K: usize = 130;
    const TILE: u32 = 32;
    let mut numbers = Numbers::new(4);
    let mut bytes = |count| -> Vec<i8> {
        (0..count)
            .map(|_| numbers.next_u32().to_le_bytes()[0].cast_signed())
            .collect()
    };
    let (a, b) = (bytes(M * K), bytes(K * N));
    let mut c = vec![0; M * N];

    let kernel = matmul_i8::Kernel::load(&Device::open(Runtime::Cpu)?)?;
    let [m, n, k] = [M, N, K].map(|size| size as i32);
    let grid = [M, N].map(|size| (size as u32).div_ceil(TILE));
    let arguments = matmul_i8::Arguments {
        a: &a,
        b: &b,
        c: &mut c,
        m,
        n,
        k,
    };
    kernel.launch((grid[0], grid[1]), arguments)?;

    for row in 0..M {
        for column in 0..N {
            let products = (0..K).map(|k| i32::from(a[row * K + k]) * i32::from(b[k * N + column]));
            assert_eq!(
                c[row * N + column],
                products.sum::<i32>(),
                "at {row}, {column}"
            );
        }
    }
    println!(
        "matmul_i8: {M}x{K} times {K}x{N} is right; the first element is {}",
        c[0]
    );
    Ok(())
}
