//! In which order sums are made, how exact exp is, and that neither depends on the machine.

use npu_build::step::cpu::March;
use npu_runtime::{Arg, Element, Grid};

use crate::workshop::Workshop;

const MARCHES: [March; 2] = [March::Baseline, March::Native];

/// Numbers that are no multiples of each other, from -1 to 1.
fn numbers(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        f32::from((state >> 40) as i16) / 32768.0 + f32::from((state >> 24) as u16) / 1e9
    };
    std::iter::repeat_with(next).take(count).collect()
}

/// As the guide says: 64 at a time, halves with halves; what is left over one by one.
fn sum(values: &[f32], start: f32) -> f32 {
    let chunks = values.chunks_exact(64);
    let rest = chunks.remainder();
    let sum = chunks.fold(start, |sum, chunk| {
        let mut part = chunk.to_vec();
        while part.len() > 1 {
            let (low, high) = part.split_at(part.len() / 2);
            part = low.iter().zip(high).map(|(low, high)| low + high).collect();
        }
        sum + part[0]
    });
    rest.iter().fold(sum, |sum, x| sum + x)
}

#[test]
fn a_row_is_summed_in_the_same_order_on_every_machine_and_for_every_shape() {
    let reduce = |rows: &str, columns: &str| {
        format!(
            "func.func @k(%x: memref<{rows}x{columns}xf32>, %sums: memref<{rows}xf32>) {{
               linalg.reduce {{arith.addf}} ins(%x : memref<{rows}x{columns}xf32>) outs(%sums : memref<{rows}xf32>) dimensions = [1]
               return
             }}"
        )
    };
    let workshop = Workshop::new();
    let x = numbers(3 * 200, 1);
    let expected: Vec<f32> = x.chunks(200).map(|row| sum(row, 0.5)).collect();
    for mlir in [reduce("3", "200"), reduce("?", "?")] {
        for march in MARCHES {
            let kernel = workshop.kernel_for(march, &mlir);
            let mut sums = [0.5f32; 3];
            let arguments = &mut [Arg::input(&x).with_shape(&[3, 200]), Arg::output(&mut sums)];
            kernel.launch(Grid::ONE, arguments).unwrap();
            assert_eq!(sums, *expected, "{mlir}");
        }
    }
}

/// One that the file spells out is made as it is spelt out.
#[test]
fn a_loop_keeps_its_order() {
    let kernel = Workshop::new().kernel_for(
        March::Native,
        "func.func @k(%x: memref<?xf32>, %sum: memref<1xf32>) {
           %c0 = arith.constant 0 : index
           %c1 = arith.constant 1 : index
           %zero = arith.constant 0.0 : f32
           %n = memref.dim %x, %c0 : memref<?xf32>
           %sum1 = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %zero) -> f32 {
             %v = memref.load %x[%i] : memref<?xf32>
             %next = arith.addf %acc, %v : f32
             scf.yield %next : f32
           }
           memref.store %sum1, %sum[%c0] : memref<1xf32>
           return
         }",
    );
    let (x, mut sum) = (numbers(1000, 2), [0.0f32]);
    kernel
        .launch(Grid::ONE, &mut [Arg::input(&x), Arg::output(&mut sum)])
        .unwrap();
    assert_eq!(sum[0], x.iter().fold(0.0, |sum, x| sum + x));
}

/// Launches a kernel of two inputs that adds to its output.
fn launch<T: Element, U: Element>(
    workshop: &Workshop,
    march: March,
    mlir: &str,
    a: &[T],
    b: &[T],
    c: &mut [U],
) {
    let arguments = &mut [Arg::input(a), Arg::input(b), Arg::output(c)];
    workshop
        .kernel_for(march, mlir)
        .launch(Grid::ONE, arguments)
        .unwrap();
}

#[test]
fn products_of_matrices_add_up_in_the_order_of_k() {
    let workshop = Workshop::new();
    // With whole tiles of 4 x 16, parts of them, and less than one.
    for (m, n, k) in [(8, 32, 5), (7, 19, 3), (3, 5, 1), (5, 48, 0)] {
        let (a, b, start) = (numbers(m * k, 3), numbers(k * n, 4), numbers(m * n, 5));
        let expected: Vec<f32> = (0..m * n)
            .map(|at| {
                (0..k).fold(start[at], |sum, p| {
                    sum + a[at / n * k + p] * b[p * n + at % n]
                })
            })
            .collect();
        let types = |m: String, n: String, k: String| {
            [
                format!("memref<{m}x{k}xf32>"),
                format!("memref<{k}x{n}xf32>"),
                format!("memref<{m}x{n}xf32>"),
            ]
        };
        let fixed = types(m.to_string(), n.to_string(), k.to_string());
        let [ta, tb, tc] = &fixed;
        let named = format!(
            "func.func @k(%a: {ta}, %b: {tb}, %c: {tc}) {{
               linalg.matmul ins(%a, %b : {ta}, {tb}) outs(%c : {tc})
               return
             }}"
        );
        let generic = format!(
            "func.func @k(%a: {ta}, %b: {tb}, %c: {tc}) {{
               linalg.generic {{indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>,
                 affine_map<(i, j, k) -> (i, j)>], iterator_types = [\"parallel\", \"parallel\", \"reduction\"]}}
                 ins(%a, %b : {ta}, {tb}) outs(%c : {tc}) {{
               ^bb0(%x: f32, %y: f32, %acc: f32):
                 %product = arith.mulf %x, %y : f32
                 %sum = arith.addf %acc, %product : f32
                 linalg.yield %sum : f32
               }}
               return
             }}"
        );
        for mlir in [named, generic] {
            for march in MARCHES {
                let mut c = start.clone();
                launch(&workshop, march, &mlir, &a, &b, &mut c);
                assert_eq!(c, expected, "{mlir}");
            }
        }
        let dynamic = "func.func @k(%a: memref<?x?xf32>, %b: memref<?x?xf32>, %c: memref<?x?xf32>) {
               linalg.matmul ins(%a, %b : memref<?x?xf32>, memref<?x?xf32>) outs(%c : memref<?x?xf32>)
               return
             }";
        let mut c = start.clone();
        let shapes = [[m, k], [k, n], [m, n]];
        let arguments = &mut [
            Arg::input(&a).with_shape(&shapes[0]),
            Arg::input(&b).with_shape(&shapes[1]),
            Arg::output(&mut c).with_shape(&shapes[2]),
        ];
        workshop
            .kernel(dynamic)
            .launch(Grid::ONE, arguments)
            .unwrap();
        assert_eq!(c, expected, "{m} x {n} x {k}");
    }
}

#[test]
fn integers_batches_and_vectors_are_multiplied_too() {
    let workshop = Workshop::new();
    let small: Vec<i8> = (0..2 * 6 * 20)
        .map(|i| (i * 37 % 251) as u8 as i8)
        .collect();
    let (a, b) = (&small[..2 * 5 * 6], &small[..2 * 6 * 20]);
    let dot = |a: &[i8], b: &[i8], n: usize, j: usize| -> i32 {
        a.iter()
            .enumerate()
            .map(|(p, x)| i32::from(*x) * i32::from(b[p * n + j]))
            .sum()
    };
    let mut c = vec![0i32; 5 * 20];
    let mlir = "func.func @k(%a: memref<5x6xi8>, %b: memref<6x20xi8>, %c: memref<5x20xi32>) {
           linalg.matmul ins(%a, %b : memref<5x6xi8>, memref<6x20xi8>) outs(%c : memref<5x20xi32>)
           return
         }";
    launch(&workshop, March::Native, mlir, &a[..30], &b[..120], &mut c);
    let expected: Vec<i32> = (0..100)
        .map(|at| dot(&a[at / 20 * 6..][..6], &b[..120], 20, at % 20))
        .collect();
    assert_eq!(c, expected);

    let mut c = vec![0i32; 2 * 5 * 20];
    let mlir = "func.func @k(%a: memref<2x5x6xi8>, %b: memref<2x6x20xi8>, %c: memref<2x5x20xi32>) {
           linalg.batch_matmul ins(%a, %b : memref<2x5x6xi8>, memref<2x6x20xi8>) outs(%c : memref<2x5x20xi32>)
           return
         }";
    launch(&workshop, March::Baseline, mlir, a, b, &mut c);
    let expected: Vec<i32> = (0..200)
        .map(|at| {
            dot(
                &a[at / 20 * 6..][..6],
                &b[at / 100 * 120..][..120],
                20,
                at % 20,
            )
        })
        .collect();
    assert_eq!(c, expected);

    let mut c = vec![7i32; 3];
    let (a, b): (Vec<i32>, Vec<i32>) = (
        (0..300).map(|i| i * i - 900).collect(),
        (0..100).map(|i| 50 - i).collect(),
    );
    let mlir = "func.func @k(%a: memref<3x100xi32>, %b: memref<100xi32>, %c: memref<3xi32>) {
           linalg.matvec ins(%a, %b : memref<3x100xi32>, memref<100xi32>) outs(%c : memref<3xi32>)
           return
         }";
    launch(&workshop, March::Native, mlir, &a, &b, &mut c);
    let expected: Vec<i32> = a
        .chunks(100)
        .map(|row| 7 + row.iter().zip(&b).map(|(x, y)| x * y).sum::<i32>())
        .collect();
    assert_eq!(c, expected);
}

/// Whatever a reduction combines, of tensors and of memory, along the last dimension and others.
#[test]
fn reductions_of_every_kind_are_right() {
    let kernel = Workshop::new().kernel(
        "func.func @k(%x: memref<2x3x70xi32>, %rows: memref<2x3xi32>, %least: memref<70xi32>, %all: memref<i32>,
                      %largest: memref<2x3xf32>) {
           linalg.reduce {arith.addi} ins(%x : memref<2x3x70xi32>) outs(%rows : memref<2x3xi32>) dimensions = [2]
           linalg.reduce {arith.minsi} ins(%x : memref<2x3x70xi32>) outs(%least : memref<70xi32>) dimensions = [0, 1]
           %flat = memref.collapse_shape %x [[0, 1, 2]] : memref<2x3x70xi32> into memref<420xi32>
           linalg.reduce {arith.xori} ins(%flat : memref<420xi32>) outs(%all : memref<i32>) dimensions = [0]
           %t = bufferization.to_tensor %x restrict : memref<2x3x70xi32> to tensor<2x3x70xi32>
           %e = tensor.empty() : tensor<2x3xf32>
           %low = arith.constant -1.0e9 : f32
           %f = linalg.fill ins(%low : f32) outs(%e : tensor<2x3xf32>) -> tensor<2x3xf32>
           %r = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (i, j)>],
             iterator_types = [\"parallel\", \"parallel\", \"reduction\"]} ins(%t : tensor<2x3x70xi32>) outs(%f : tensor<2x3xf32>) {
           ^bb0(%v: i32, %acc: f32):
             %w = arith.sitofp %v : i32 to f32
             %m = arith.maximumf %w, %acc : f32
             linalg.yield %m : f32
           } -> tensor<2x3xf32>
           bufferization.materialize_in_destination %r in restrict writable %largest : (tensor<2x3xf32>, memref<2x3xf32>) -> ()
           return
         }",
    );
    let x: Vec<i32> = (0..420).map(|i| (i * 7919) % 1009 - 500).collect();
    let (mut rows, mut least, mut all, mut largest) =
        ([1i32; 6], [400i32; 70], [0i32], [0.0f32; 6]);
    let arguments = &mut [
        Arg::input(&x),
        Arg::output(&mut rows),
        Arg::output(&mut least),
        Arg::output(&mut all),
        Arg::output(&mut largest),
    ];
    kernel.launch(Grid::ONE, arguments).unwrap();
    let row = |at: usize| &x[at * 70..][..70];
    assert_eq!(
        rows,
        std::array::from_fn(|at| 1 + row(at).iter().sum::<i32>())
    );
    assert_eq!(
        least,
        std::array::from_fn(|at| (0..6).map(|i| row(i)[at]).fold(400, i32::min))
    );
    assert_eq!(all[0], x.iter().fold(0, |all, x| all ^ x));
    assert_eq!(
        largest,
        std::array::from_fn(|at| row(at).iter().copied().max().unwrap_or(0) as f32)
    );
}

#[test]
fn exp_of_f32_is_within_one_ulp_and_the_same_everywhere() {
    let mlir = "func.func @k(%x: memref<?xf32>, %out: memref<?xf32>) {
           linalg.exp ins(%x : memref<?xf32>) outs(%out : memref<?xf32>)
           return
         }";
    // Every 4001st f32, and the ends of its ranges.
    let mut x: Vec<f32> = (0..=u32::MAX).step_by(4001).map(f32::from_bits).collect();
    x.extend([
        0.0,
        -0.0,
        88.722_84,
        88.722_85,
        -87.4,
        -103.97,
        -104.0,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
    ]);
    let workshop = Workshop::new();
    let outs = MARCHES.map(|march| {
        let mut out = vec![0.0f32; x.len()];
        let kernel = workshop.kernel_for(march, mlir);
        kernel
            .launch(Grid::ONE, &mut [Arg::input(&x), Arg::output(&mut out)])
            .unwrap();
        out
    });
    for ((x, out), native) in x.iter().zip(&outs[0]).zip(&outs[1]) {
        assert!(
            out.to_bits() == native.to_bits() || out.is_nan() && native.is_nan(),
            "{x}"
        );
        let exact = f64::from(*x).exp();
        let rounded = exact as f32;
        if rounded.is_infinite() || rounded.is_nan() {
            assert!(
                *out == rounded || out.is_nan() && rounded.is_nan(),
                "exp of {x}: {out}"
            );
        } else {
            let ulp = f64::from(rounded.next_up()) - f64::from(rounded);
            let error = (f64::from(*out) - exact).abs() / ulp;
            assert!(error < 1.0, "exp of {x}: {out} is {error} ulp off {exact}");
        }
    }
}

/// A product in the shape of its loops, whose body does more than multiply and add, or whose second
/// operand is the other way round.
#[test]
fn a_body_keeps_doing_what_it_says() {
    const N: usize = 18;
    let workshop = Workshop::new();
    let product = |from: &str, to: &str, map: &str, body: &str| {
        format!(
            "func.func @k(%a: memref<{N}x{N}x{from}>, %b: memref<{N}x{N}x{from}>, %c: memref<{N}x{N}x{to}>) {{
               linalg.generic {{indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> ({map})>,
                 affine_map<(i, j, k) -> (i, j)>], iterator_types = [\"parallel\", \"parallel\", \"reduction\"]}}
                 ins(%a, %b : memref<{N}x{N}x{from}>, memref<{N}x{N}x{from}>) outs(%c : memref<{N}x{N}x{to}>) {{
               ^bb0(%x: {from}, %y: {from}, %s: {to}):
                 {body}
                 linalg.yield %r : {to}
               }}
               return
             }}"
        )
    };
    let (a, b) = (numbers(N * N, 6), numbers(N * N, 7));
    let plain = |step: fn(f32, f32, f32) -> f32, turned: bool| -> Vec<f32> {
        let other = |k: usize, j: usize| if turned { b[j * N + k] } else { b[k * N + j] };
        let element =
            |i: usize, j: usize| (0..N).fold(0.0, |sum, k| step(sum, a[i * N + k], other(k, j)));
        (0..N * N).map(|at| element(at / N, at % N)).collect()
    };
    type Step = fn(f32, f32, f32) -> f32;
    let cases: [(&str, &str, Step); 4] = [
        (
            "k, j",
            "%n = arith.negf %x : f32
             %p = arith.mulf %n, %y : f32
             %r = arith.addf %s, %p : f32",
            |sum, x, y| sum + -x * y,
        ),
        (
            "k, j",
            "%p = arith.mulf %x, %y : f32
             %q = math.absf %p : f32
             %t = arith.addf %s, %q : f32
             %r = arith.negf %t : f32",
            |sum, x, y| -(sum + (x * y).abs()),
        ),
        (
            "k, j",
            "%p = arith.addf %x, %y : f32
             %r = arith.minimumf %s, %p : f32",
            |sum, x, y| sum.min(x + y),
        ),
        (
            "j, k",
            "%p = arith.mulf %x, %y : f32
             %r = arith.addf %s, %p : f32",
            |sum, x, y| sum + x * y,
        ),
    ];
    for (map, body, step) in cases {
        let mut c = vec![0.0f32; N * N];
        launch(
            &workshop,
            March::Native,
            &product("f32", "f32", map, body),
            &a,
            &b,
            &mut c,
        );
        assert_eq!(c, plain(step, map == "j, k"), "{body}");
    }
    let (a, b): (Vec<u8>, Vec<u8>) = (0..N * N).map(|i| ((i * 7) as u8, (i * 13) as u8)).unzip();
    let mut c = vec![0i32; N * N];
    let body = "%m = arith.extui %x : i8 to i32
                %n = arith.extui %y : i8 to i32
                %p = arith.muli %m, %n : i32
                %r = arith.addi %s, %p : i32";
    launch(
        &workshop,
        March::Native,
        &product("i8", "i32", "k, j", body),
        &a,
        &b,
        &mut c,
    );
    let expected: Vec<i32> = (0..N * N)
        .map(|at| {
            (0..N)
                .map(|k| i32::from(a[at / N * N + k]) * i32::from(b[k * N + at % N]))
                .sum()
        })
        .collect();
    assert_eq!(c, expected);
}
