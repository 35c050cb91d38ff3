//! Rounding to the narrow float types, bit by bit.

use npu_runtime::half::{bf16, f16};
use npu_runtime::{Arg, Element, Grid, Kernel};

use crate::workshop::Workshop;

/// A kernel that narrows every element of `from` to `to`.
fn narrowing(from: &str, to: &str) -> String {
    format!(
        "func.func @narrow(%x: memref<?x{from}>, %out: memref<?x{to}>) {{
           linalg.generic {{
               indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
               iterator_types = [\"parallel\"]
             }} ins(%x : memref<?x{from}>) outs(%out : memref<?x{to}>) {{
           ^bb0(%in: {from}, %unused: {to}):
             %rounded = arith.truncf %in : {from} to {to}
             linalg.yield %rounded : {to}
           }}
           return
         }}"
    )
}

fn narrowed<F: Element, T: Element>(kernel: &Kernel, x: &[F]) -> Vec<T> {
    let mut out = vec![T::default(); x.len()];
    let arguments = &mut [Arg::input(x), Arg::output(&mut out)];
    kernel.launch(Grid::ONE, arguments).unwrap();
    out
}

/// Every upper half of an f32 (all signs, exponents, infinities, NaNs, subnormals) with lower
/// halves around the points where rounding changes.
fn telling_f32() -> Vec<f32> {
    const LOWER: [u32; 8] = [0, 1, 0x0fff, 0x1000, 0x7fff, 0x8000, 0x8001, 0xffff];
    let bits = (0..=0xffff_u32).flat_map(|upper| LOWER.map(|lower| upper << 16 | lower));
    bits.map(f32::from_bits).collect()
}

/// The same with what an f32 has no room for.
fn telling_f64() -> Vec<f64> {
    let beyond = [0u64, 1, 0x0fff_ffff, 0x1000_0000, 0x1000_0001, 0x1fff_ffff];
    (telling_f32().into_iter().step_by(5))
        .flat_map(|x| beyond.map(|bits| f64::from_bits(f64::from(x).to_bits() ^ bits)))
        .chain([1e-300, 1e300, f64::MAX, f64::MIN_POSITIVE, f64::INFINITY])
        .collect()
}

/// What is neither equal nor a NaN on both sides.
fn difference<X: Copy + std::fmt::Debug, T: Copy + std::fmt::Debug>(
    x: &[X],
    found: &[T],
    expected: impl Fn(X) -> T,
    bits: impl Fn(T) -> (u16, bool),
) -> Option<String> {
    x.iter().zip(found).find_map(|(x, found)| {
        let wanted = expected(*x);
        let ((bits_found, nan_found), (bits_wanted, nan_wanted)) = (bits(*found), bits(wanted));
        let same = if nan_wanted {
            nan_found
        } else {
            bits_found == bits_wanted
        };
        (!same).then(|| format!("{x:?} became {found:?} instead of {wanted:?}"))
    })
}

#[test]
fn f32_is_rounded_to_bf16_as_the_half_crate_does_it() {
    let kernel = Workshop::new().kernel(&narrowing("f32", "bf16"));
    let x = telling_f32();
    let out: Vec<bf16> = narrowed(&kernel, &x);
    let wrong = difference(&x, &out, bf16::from_f32, |x| (x.to_bits(), x.is_nan()));
    assert_eq!(wrong, None);
}

#[test]
fn f32_is_rounded_to_f16_as_the_half_crate_does_it() {
    let kernel = Workshop::new().kernel(&narrowing("f32", "f16"));
    let x = telling_f32();
    let out: Vec<f16> = narrowed(&kernel, &x);
    let wrong = difference(&x, &out, f16::from_f32, |x| (x.to_bits(), x.is_nan()));
    assert_eq!(wrong, None);
}

#[test]
fn f64_is_rounded_to_bf16_once_and_not_by_way_of_f32() {
    let kernel = Workshop::new().kernel(&narrowing("f64", "bf16"));
    let x = telling_f64();
    let out: Vec<bf16> = narrowed(&kernel, &x);
    let wrong = difference(&x, &out, nearest, |x| (x.to_bits(), x.is_nan()));
    assert_eq!(wrong, None);
}

/// The bf16 that is nearest to `x`, an even one if two are.
fn nearest(x: f64) -> bf16 {
    let guess = bf16::from_f32(x as f32);
    if guess.is_nan() {
        return guess;
    }
    // Infinity stands for the power of two that would come next.
    let value = |candidate: bf16| match candidate.is_infinite() {
        true => 2f64.powi(128).copysign(candidate.to_f64()),
        false => candidate.to_f64(),
    };
    let bits = guess.to_bits();
    let around = [bits.wrapping_sub(1), bits, bits.wrapping_add(1)].map(bf16::from_bits);
    (around.into_iter())
        .filter(|near| !near.is_nan() && near.is_sign_negative() == x.is_sign_negative())
        .min_by(|one, other| {
            let distance = |near: &bf16| (value(*near) - x).abs();
            let odd = |near: &bf16| near.to_bits() & 1;
            distance(one)
                .total_cmp(&distance(other))
                .then(odd(one).cmp(&odd(other)))
        })
        .unwrap_or(guess)
}

/// Each operation is computed in f32 and rounded, as the format's own definition has it.
#[test]
fn bf16_arithmetic_rounds_after_each_operation() {
    let kernel = Workshop::new().kernel(
        "func.func @horner(%x: memref<?xbf16>, %y: memref<?xbf16>, %out: memref<?xbf16>) {
           linalg.generic {
               indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
               iterator_types = [\"parallel\"]
             } ins(%x, %y : memref<?xbf16>, memref<?xbf16>) outs(%out : memref<?xbf16>) {
           ^bb0(%a: bf16, %b: bf16, %unused: bf16):
             %product = arith.mulf %a, %b : bf16
             %sum = arith.addf %product, %a : bf16
             %quotient = arith.divf %sum, %b : bf16
             %difference = arith.subf %quotient, %a : bf16
             linalg.yield %difference : bf16
           }
           return
         }",
    );
    let x: Vec<bf16> = (0..=u16::MAX).map(bf16::from_bits).collect();
    let y: Vec<bf16> = (0..=u16::MAX)
        .map(|n| bf16::from_bits(n.wrapping_mul(40_503)))
        .collect();
    let mut out = vec![bf16::ZERO; x.len()];
    let arguments = &mut [Arg::input(&x), Arg::input(&y), Arg::output(&mut out)];
    kernel.launch(Grid::ONE, arguments).unwrap();
    let pairs: Vec<_> = x.into_iter().zip(y).collect();
    let expected = |(x, y): (bf16, bf16)| (x * y + x) / y - x;
    let wrong = difference(&pairs, &out, expected, |x| (x.to_bits(), x.is_nan()));
    assert_eq!(wrong, None);
}
