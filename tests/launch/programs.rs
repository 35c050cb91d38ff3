//! What kernels are made of: calls, memory of their own, strided copies, mathematics.

use npu_runtime::{Arg, Grid, Kernel};

use crate::workshop::Workshop;

#[test]
fn a_kernel_calls_a_private_function_of_its_module() {
    let kernel = Workshop::new().kernel(
        "module {
           func.func private @square(%x: i32) -> i32 {
             %y = arith.muli %x, %x : i32
             return %y : i32
           }
           func.func private @square_all(%x: memref<?xi32>) {
             %c0 = arith.constant 0 : index
             %c1 = arith.constant 1 : index
             %n = memref.dim %x, %c0 : memref<?xi32>
             scf.for %i = %c0 to %n step %c1 {
               %old = memref.load %x[%i] : memref<?xi32>
               %new = func.call @square(%old) : (i32) -> i32
               memref.store %new, %x[%i] : memref<?xi32>
             }
             return
           }
           func.func @squares(%x: memref<?xi32>) {
             call @square_all(%x) : (memref<?xi32>) -> ()
             return
           }
         }",
    );
    let mut x: Vec<i32> = (-5..50).collect();
    kernel
        .launch(Grid::ONE, &mut [Arg::output(&mut x)])
        .unwrap();
    assert_eq!(x, (-5..50).map(|x| x * x).collect::<Vec<_>>());
}

#[test]
fn sixteen_pointers_are_kept_apart() {
    let names: Vec<_> = (0..16).map(|i| format!("%p{i}: memref<*xi32>")).collect();
    // Each but the last gives its element of the same number.
    let body: String = (0..15)
        .map(|i| {
            format!(
                "%i{i} = arith.constant {i} : index
                 %m{i} = memref.cast %p{i} : memref<*xi32> to memref<?xi32>
                 %v{i} = memref.load %m{i}[%i{i}] : memref<?xi32>
                 memref.store %v{i}, %out[%i{i}] : memref<?xi32>\n"
            )
        })
        .collect();
    let kernel = Workshop::new().kernel(&format!(
        "func.func @gather({}) {{
           %out = memref.cast %p15 : memref<*xi32> to memref<?xi32>
           {body} return
         }}",
        names.join(", ")
    ));
    let inputs: Vec<Vec<i32>> = (0..15)
        .map(|i| (0..15).map(|k| 100 * i + k).collect())
        .collect();
    let mut out = [0; 15];
    let mut arguments: Vec<_> = inputs.iter().map(Arg::input).collect();
    arguments.push(Arg::output(&mut out));
    kernel.launch(Grid::ONE, &mut arguments).unwrap();
    assert_eq!(out, std::array::from_fn(|i| 101 * i as i32));
}

/// The lowering frees nothing: what a program allocates must be gone when it ends.
#[test]
fn memory_that_is_allocated_in_a_loop_is_there_each_time() {
    let kernel = Workshop::new().kernel(
        "func.func @sums(%x: memref<?xi64>, %out: memref<?xi64>,
                         %nx: i32, %ny: i32, %nz: i32, %px: i32, %py: i32, %pz: i32) {
           %c0 = arith.constant 0 : index
           %c1 = arith.constant 1 : index
           %zero = arith.constant 0 : i64
           %program = arith.index_cast %px : i32 to index
           %rounds = memref.dim %x, %c0 : memref<?xi64>
           %sum = scf.for %i = %c0 to %rounds step %c1 iter_args(%acc = %zero) -> i64 {
             %length = arith.addi %i, %c1 : index
             %local = memref.alloc(%length) : memref<?xi64>
             %value = memref.load %x[%i] : memref<?xi64>
             linalg.fill ins(%value : i64) outs(%local : memref<?xi64>)
             %last = memref.load %local[%i] : memref<?xi64>
             %next = arith.addi %acc, %last : i64
             scf.yield %next : i64
           }
           memref.store %sum, %out[%program] : memref<?xi64>
           return
         }",
    );
    let x: Vec<i64> = (0..2000).collect();
    let mut out = [0i64; 40];
    let arguments = &mut [Arg::input(&x), Arg::output(&mut out)];
    kernel.launch(40.into(), arguments).unwrap();
    assert_eq!(out, [1999 * 2000 / 2; 40]);
}

#[test]
fn strided_parts_are_copied_element_by_element() {
    let kernel = Workshop::new().kernel(
        "func.func @parts(%x: memref<8x10xi16>, %every_other: memref<4x5xi16>,
                          %transposed: memref<10x8xi16>) {
           %odd = memref.subview %x[1, 0] [4, 5] [2, 2]
             : memref<8x10xi16> to memref<4x5xi16, strided<[20, 2], offset: 10>>
           memref.copy %odd, %every_other
             : memref<4x5xi16, strided<[20, 2], offset: 10>> to memref<4x5xi16>
           %turned = memref.transpose %x (i, j) -> (j, i)
             : memref<8x10xi16> to memref<10x8xi16, strided<[1, 10]>>
           memref.copy %turned, %transposed
             : memref<10x8xi16, strided<[1, 10]>> to memref<10x8xi16>
           return
         }",
    );
    let x: Vec<i16> = (0..80).collect();
    let (mut every_other, mut transposed) = ([0i16; 20], [0i16; 80]);
    let arguments = &mut [
        Arg::input(&x),
        Arg::output(&mut every_other),
        Arg::output(&mut transposed),
    ];
    kernel.launch(Grid::ONE, arguments).unwrap();
    assert_eq!(
        every_other,
        std::array::from_fn(|i| x[(2 * (i / 5) + 1) * 10 + 2 * (i % 5)])
    );
    assert_eq!(transposed, std::array::from_fn(|i| x[i % 8 * 10 + i / 8]));
}

/// A kernel that applies an operation of the math dialect to every element.
fn mathematics(workshop: &Workshop, operation: &str, element: &str) -> Kernel {
    workshop.kernel(&format!(
        "func.func @apply(%x: memref<?x{element}>, %out: memref<?x{element}>) {{
           linalg.generic {{
               indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>],
               iterator_types = [\"parallel\"]
             }} ins(%x : memref<?x{element}>) outs(%out : memref<?x{element}>) {{
           ^bb0(%in: {element}, %unused: {element}):
             %y = math.{operation} %in : {element}
             linalg.yield %y : {element}
           }}
           return
         }}"
    ))
}

/// The error function by its series, which converges fast for |x| <= 3.
fn erf(x: f64) -> f64 {
    let mut term = x;
    let mut sum = x;
    for n in 1..100 {
        term *= -x * x / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    sum * std::f64::consts::FRAC_2_SQRT_PI
}

#[test]
fn mathematical_functions_are_those_of_the_c_library() {
    let workshop = Workshop::new();
    type Function = fn(f64) -> f64;
    let operations: [(&str, Function); 8] = [
        ("exp", f64::exp),
        ("erf", erf),
        ("tanh", f64::tanh),
        ("sin", f64::sin),
        ("log1p", |x| (x + 4.0).ln_1p()),
        ("sqrt", |x| (x + 4.0).sqrt()),
        ("cbrt", f64::cbrt),
        ("floor", f64::floor),
    ];
    for (operation, expected) in operations {
        let shift = if matches!(operation, "log1p" | "sqrt") {
            4.0
        } else {
            0.0
        };
        let x: Vec<f64> = (-300..=300).map(|x| f64::from(x) / 100.0).collect();
        let input: Vec<f64> = x.iter().map(|x| x + shift).collect();
        let mut out = vec![0.0; x.len()];
        let kernel = mathematics(&workshop, operation, "f64");
        let arguments = &mut [Arg::input(&input), Arg::output(&mut out)];
        kernel.launch(Grid::ONE, arguments).unwrap();
        for (x, out) in x.iter().zip(&out) {
            let expected = expected(*x);
            assert!(
                (out - expected).abs() <= 1e-12,
                "{operation} of {x}: {out}, not {expected}"
            );
        }
    }
    let x = [-2.5f32, -0.0, 0.5, 3.0];
    for (operation, expected) in [("exp", f32::exp as fn(f32) -> f32), ("tanh", f32::tanh)] {
        let mut out = [0.0f32; 4];
        let kernel = mathematics(&workshop, operation, "f32");
        let arguments = &mut [Arg::input(&x), Arg::output(&mut out)];
        kernel.launch(Grid::ONE, arguments).unwrap();
        for (x, out) in x.iter().zip(&out) {
            let expected = expected(*x);
            let tolerance = 1e-6 * expected.abs();
            assert!(
                (out - expected).abs() <= tolerance,
                "{operation} of {x}: {out}"
            );
        }
    }
}
