//! The example kernels, at sizes around their blocks.

use npu_runtime::half::bf16;
use npu_runtime::{Arg, Grid};

use crate::workshop::{Workshop, cpu};

const BLOCK: usize = 1024;

/// Numbers in -1..1 that look random.
fn numbers(seed: u32) -> impl FnMut() -> f32 {
    let mut state = seed;
    move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1u32 << 23) as f32 - 1.0
    }
}

fn vector(seed: u32, length: usize) -> Vec<f32> {
    std::iter::repeat_with(numbers(seed)).take(length).collect()
}

#[test]
fn vecadd_adds_what_there_is_and_leaves_the_rest() {
    let kernel = Workshop::new().example("vecadd.mlir");
    for n in [0, 1, 7, BLOCK - 1, BLOCK, BLOCK + 1, 10 * BLOCK + 3] {
        let (x, y) = (vector(1, n), vector(2, n));
        let mut out = vec![9.0; n + 5];
        let arguments = &mut [
            Arg::input(&x),
            Arg::input(&y),
            Arg::output(&mut out),
            Arg::scalar(n as i32),
        ];
        kernel
            .launch((n.div_ceil(BLOCK) as u32).into(), arguments)
            .unwrap();
        let sums = x.iter().zip(&y).map(|(x, y)| x + y);
        let expected: Vec<f32> = sums.chain([9.0; 5]).collect();
        assert_eq!(out, expected, "{n} elements");
    }
}

#[test]
fn fma_rounds_once() {
    let kernel = Workshop::new().example("fma.mlir");
    for n in [1, BLOCK, 3 * BLOCK - 1] {
        let (a, x, y) = (numbers(3)(), vector(4, n), vector(5, n));
        let mut out = vec![0.0; n];
        let arguments = &mut [
            Arg::scalar(a),
            Arg::input(&x),
            Arg::input(&y),
            Arg::output(&mut out),
            Arg::scalar(n as i32),
        ];
        kernel
            .launch((n.div_ceil(BLOCK) as u32).into(), arguments)
            .unwrap();
        let expected: Vec<f32> = x.iter().zip(&y).map(|(x, y)| a.mul_add(*x, *y)).collect();
        assert_eq!(out, expected, "{n} elements");
    }
}

#[test]
fn the_softmax_of_a_row_is_right_to_the_last_bit_of_bf16_or_so() {
    let kernel = Workshop::new().example("softmax.mlir");
    for (rows, columns) in [(1, 1), (3, 781), (5, BLOCK)] {
        let x: Vec<bf16> = (vector(6, rows * columns).into_iter())
            .map(|x| bf16::from_f32(20.0 * x))
            .collect();
        let mut out = vec![bf16::ZERO; x.len()];
        let arguments = &mut [
            Arg::input(&x),
            Arg::output(&mut out),
            Arg::scalar(columns as i32),
        ];
        kernel.launch((rows as u32).into(), arguments).unwrap();
        for (x, out) in x.chunks(columns).zip(out.chunks(columns)) {
            let largest = x
                .iter()
                .copied()
                .fold(bf16::NEG_INFINITY, bf16::max)
                .to_f64();
            let powers: Vec<f64> = x.iter().map(|x| (x.to_f64() - largest).exp()).collect();
            let sum: f64 = powers.iter().sum();
            for (power, out) in powers.iter().zip(out) {
                // Half a unit of bf16's 8 bits, and room for the sum of a thousand f32.
                let (expected, tolerance) = (power / sum, 1.0 / 250.0);
                let error = (out.to_f64() - expected).abs();
                assert!(error <= expected * tolerance, "{out} instead of {expected}");
            }
        }
    }
}

#[test]
fn matmul_i8_accumulates_in_i32_at_any_size() {
    let kernel = Workshop::new().example("matmul_i8.mlir");
    let bytes = |seed, count| -> Vec<i8> {
        let wide = vector(seed, count).into_iter().map(|x| (x * 128.0) as i8);
        wide.collect()
    };
    for (m, n, k) in [(1, 1, 1), (32, 32, 32), (33, 65, 31), (70, 5, 200)] {
        let (a, b) = (bytes(7, m * k), bytes(8, k * n));
        let mut c = vec![-1; m * n];
        let arguments = &mut [
            Arg::input(&a),
            Arg::input(&b),
            Arg::output(&mut c),
            Arg::scalar(m as i32),
            Arg::scalar(n as i32),
            Arg::scalar(k as i32),
        ];
        let grid = (m.div_ceil(32) as u32, n.div_ceil(32) as u32);
        kernel.launch(grid.into(), arguments).unwrap();
        let element = |at: usize| -> i32 {
            let (row, column) = (at / n, at % n);
            (0..k)
                .map(|p| i32::from(a[row * k + p]) * i32::from(b[p * n + column]))
                .sum()
        };
        let expected: Vec<i32> = (0..m * n).map(element).collect();
        assert_eq!(c, expected, "{m} x {n} x {k}");
    }
}

#[test]
fn matmul_f32_is_that_of_a_plain_loop_to_the_bit() {
    const N: usize = 1024;
    let kernel = Workshop::new().example("matmul_f32.mlir");
    let (a, b) = (vector(9, N * N), vector(10, N * N));
    let mut c = cpu().buffer_from(&vec![f32::NAN; N * N]).unwrap();
    let arguments = &mut [Arg::input(&a), Arg::input(&b), Arg::output(&mut c)];
    kernel.launch(Grid::ONE, arguments).unwrap();
    for row in [0, 1, 511, N - 1] {
        let mut expected = vec![0.0f32; N];
        for (a, b) in a[row * N..][..N].iter().zip(b.chunks(N)) {
            for (sum, b) in expected.iter_mut().zip(b) {
                *sum += a * b;
            }
        }
        assert_eq!(c[row * N..][..N], expected, "row {row}");
    }
}
