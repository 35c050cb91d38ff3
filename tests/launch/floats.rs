//! Floats of 8 bits or fewer, beside their definitions.

use npu_runtime::{Arg, Grid};

use crate::workshop::Workshop;

/// A format: its name, bits of exponent and mantissa, bias, and its largest number.
type Format = (&'static str, i32, i32, i32, f64);

/// As the OCP specifications of 8-bit and microscaling formats, and LLVM's APFloat, define them.
const FORMATS: [Format; 11] = [
    ("f8E5M2", 5, 2, 15, 57344.0),
    ("f8E5M2FNUZ", 5, 2, 16, 57344.0),
    ("f8E4M3", 4, 3, 7, 240.0),
    ("f8E4M3FN", 4, 3, 7, 448.0),
    ("f8E4M3FNUZ", 4, 3, 8, 240.0),
    ("f8E4M3B11FNUZ", 4, 3, 11, 30.0),
    ("f8E3M4", 3, 4, 3, 15.5),
    ("f6E3M2FN", 3, 2, 3, 28.0),
    ("f6E2M3FN", 2, 3, 1, 7.5),
    ("f4E2M1FN", 2, 1, 1, 6.0),
    ("f8E8M0FNU", 8, 0, 127, 0.0),
];

/// All numbers of a format that are not negative, in order: place in the list and bits are the same.
fn numbers((_, exponent, mantissa, bias, largest): Format) -> Vec<f64> {
    let numbers = (0..1i32 << (exponent + mantissa)).map(|bits| {
        let (e, m) = (bits >> mantissa, f64::from(bits & ((1 << mantissa) - 1)));
        let fraction = m / f64::from(1 << mantissa);
        if e == 0 {
            fraction * f64::from(1 - bias).exp2()
        } else {
            (1.0 + fraction) * f64::from(e - bias).exp2()
        }
    });
    numbers.take_while(|number| *number <= largest).collect()
}

/// The nearest number to `x`, and of two that are as near the one with even bits.
fn nearest(numbers: &[f64], x: f64) -> f64 {
    let above = numbers.partition_point(|number| *number < x);
    let Some(high) = numbers.get(above) else {
        return f64::INFINITY;
    };
    let Some(low) = above.checked_sub(1).map(|below| numbers[below]) else {
        return *high;
    };
    match (x - low).total_cmp(&(high - x)) {
        std::cmp::Ordering::Less => low,
        std::cmp::Ordering::Greater => *high,
        std::cmp::Ordering::Equal if above % 2 == 1 => low,
        std::cmp::Ordering::Equal => *high,
    }
}

fn converting(format: &str) -> String {
    format!(
        "func.func @k(%x: memref<?xf32>, %out: memref<?xf32>) {{
           linalg.generic {{indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
             iterator_types = [\"parallel\"]}} ins(%x : memref<?xf32>) outs(%out : memref<?xf32>) {{
           ^bb0(%in: f32, %old: f32):
             %small = arith.truncf %in : f32 to {format}
             %wide = arith.extf %small : {format} to f32
             linalg.yield %wide : f32
           }}
           return
         }}"
    )
}

#[test]
fn f32_becomes_the_nearest_number_of_every_small_format() {
    let workshop = Workshop::new();
    for format in FORMATS.iter().filter(|(name, ..)| *name != "f8E8M0FNU") {
        let numbers = numbers(*format);
        let mut x: Vec<f32> = Vec::new();
        for pair in numbers.windows(2) {
            let middle = f64::midpoint(pair[0], pair[1]) as f32;
            x.extend([pair[0] as f32, middle.next_down(), middle, middle.next_up()]);
        }
        x.push(format.4 as f32);
        x.extend(x.clone().iter().map(|x| -x));
        let mut out = vec![0.0f32; x.len()];
        let kernel = workshop.kernel(&converting(format.0));
        let arguments = &mut [Arg::input(&x), Arg::output(&mut out)];
        kernel.launch(Grid::ONE, arguments).unwrap();
        for (x, out) in x.iter().zip(&out) {
            let expected = nearest(&numbers, f64::from(x.abs())).copysign(f64::from(*x));
            assert_eq!(f64::from(*out), expected, "{} of {x}", format.0);
        }
    }
}

/// Beyond the largest number a format has an infinity, a NaN, or nothing.
#[test]
fn what_is_no_small_number_becomes_what_the_format_has() {
    const NONE: f32 = f32::NAN;
    const INF: f32 = f32::INFINITY;
    let x = [1e9, f32::INFINITY, f32::NAN, -0.0];
    let workshop = Workshop::new();
    for (format, expected) in [
        ("f8E5M2", [INF, INF, NONE, -0.0]),
        ("f8E4M3FN", [NONE, NONE, NONE, -0.0]),
        ("f8E4M3FNUZ", [NONE, NONE, NONE, 0.0]),
        ("f4E2M1FN", [6.0, 6.0, 0.0, -0.0]),
    ] {
        let mut out = [0.0f32; 4];
        let arguments = &mut [Arg::input(&x), Arg::output(&mut out)];
        workshop
            .kernel(&converting(format))
            .launch(Grid::ONE, arguments)
            .unwrap();
        for (out, expected) in out.iter().zip(expected) {
            let same = out.to_bits() == expected.to_bits() || out.is_nan() && expected.is_nan();
            assert!(same, "{format}: {out}, not {expected}");
        }
    }
    // The powers of two: halves of the next one belong to it.
    let x = [1.0f32, 1.49, 1.5, 3.0, 0.7, 6e-39, f32::MAX, -1.0];
    let mut out = [0.0f32; 8];
    let arguments = &mut [Arg::input(&x), Arg::output(&mut out)];
    workshop
        .kernel(&converting("f8E8M0FNU"))
        .launch(Grid::ONE, arguments)
        .unwrap();
    assert_eq!(out[..6], [1.0, 1.0, 2.0, 4.0, 0.5, 5.877_472e-39]);
    assert!(out[6].is_nan() && out[7].is_nan());
}

/// Sums, products, comparisons and functions of small floats are those of f32, rounded.
#[test]
fn small_floats_are_computed_with() {
    let kernel = Workshop::new().kernel(
        "func.func @k(%b: memref<4xbf16>, %out: memref<5xf32>, %n: i32) {
           %c0 = arith.constant 0 : index
           %c1 = arith.constant 1 : index
           %c2 = arith.constant 2 : index
           %c3 = arith.constant 3 : index
           %c4 = arith.constant 4 : index
           %a = memref.alloc() : memref<4xf8E4M3FN>
           %h = memref.load %b[%c0] : memref<4xbf16>
           %x = arith.truncf %h : bf16 to f8E4M3FN
           memref.store %x, %a[%c0] : memref<4xf8E4M3FN>
           %y = memref.load %a[%c0] : memref<4xf8E4M3FN>
           %k = arith.constant 1.5 : f8E4M3FN
           %sum = arith.addf %y, %k : f8E4M3FN
           %product = arith.mulf %sum, %k : f8E4M3FN
           %less = arith.cmpf olt, %sum, %product : f8E4M3FN
           %max = arith.select %less, %product, %sum : f8E4M3FN
           %e = math.exp %k : f8E4M3FN
           %i = arith.sitofp %n : i32 to f8E4M3FN
           %ws = arith.extf %sum : f8E4M3FN to f32
           %wp = arith.extf %product : f8E4M3FN to f32
           %wm = arith.extf %max : f8E4M3FN to f32
           %we = arith.extf %e : f8E4M3FN to f32
           %wi = arith.extf %i : f8E4M3FN to f32
           memref.store %ws, %out[%c0] : memref<5xf32>
           memref.store %wp, %out[%c1] : memref<5xf32>
           memref.store %wm, %out[%c2] : memref<5xf32>
           memref.store %we, %out[%c3] : memref<5xf32>
           memref.store %wi, %out[%c4] : memref<5xf32>
           return
         }",
    );
    let b = [npu_runtime::half::bf16::from_f32(2.6); 4];
    let mut out = [0.0f32; 5];
    let arguments = &mut [Arg::input(&b), Arg::output(&mut out), Arg::scalar(19_i32)];
    kernel.launch(Grid::ONE, arguments).unwrap();
    // 2.6 is 2.5; 2.5 + 1.5 = 4; 4 · 1.5 = 6; e^1.5 = 4.48 is 4.5; 19 is between 18 and 20, which is even.
    assert_eq!(out, [4.0, 6.0, 6.0, 4.5, 20.0]);
}
