//! Every element type, as a scalar and in memory of every kind of shape.

use std::fmt::Debug;

use npu_runtime::half::{bf16, f16};
use npu_runtime::{Arg, Element, Grid, Kernel, Scalar};

use crate::workshop::Workshop;

/// A kernel that combines every element of memory of each kind of shape with a scalar.
fn combine_everything(element: &str, operation: &str) -> String {
    let load_store = |memory: &str, indices: &str, shape: &str| {
        format!(
            "%old_{memory} = memref.load %{memory}[{indices}] : memref<{shape}{element}>
             %new_{memory} = {operation} %old_{memory}, %by : {element}
             memref.store %new_{memory}, %{memory}[{indices}] : memref<{shape}{element}>"
        )
    };
    let one_dimension = |memory: &str, shape: &str| {
        format!(
            "%n_{memory} = memref.dim %{memory}, %c0 : memref<{shape}{element}>
             scf.for %i = %c0 to %n_{memory} step %c1 {{
               {}
             }}",
            load_store(memory, "%i", shape)
        )
    };
    let two_dimensions = |memory: &str, shape: &str| {
        format!(
            "%rows_{memory} = memref.dim %{memory}, %c0 : memref<{shape}{element}>
             %columns_{memory} = memref.dim %{memory}, %c1 : memref<{shape}{element}>
             scf.for %i = %c0 to %rows_{memory} step %c1 {{
               scf.for %j = %c0 to %columns_{memory} step %c1 {{
                 {}
               }}
             }}",
            load_store(memory, "%i, %j", shape)
        )
    };
    format!(
        "func.func @combine(%pointer: memref<*x{element}>, %vector: memref<?x{element}>,
                            %rows: memref<3x?x{element}>, %columns: memref<?x2x{element}>,
                            %matrix: memref<?x?x{element}>, %fixed: memref<2x4x{element}>,
                            %single: memref<{element}>, %by: {element}) {{
           %c0 = arith.constant 0 : index
           %c1 = arith.constant 1 : index
           %known = memref.cast %pointer : memref<*x{element}> to memref<?x{element}>
           {} {} {} {} {} {} {}
           return
         }}",
        one_dimension("known", "?x"),
        one_dimension("vector", "?x"),
        two_dimensions("rows", "3x?x"),
        two_dimensions("columns", "?x2x"),
        two_dimensions("matrix", "?x?x"),
        two_dimensions("fixed", "2x4x"),
        load_store("single", "", ""),
    )
}

/// Launches the kernel on parts of `values`, and expects `combined` of every element.
fn check<T: Element + PartialEq>(
    kernel: &Kernel,
    values: &[T],
    by: impl Scalar,
    combined: impl Fn(T) -> T,
) {
    let lengths = [values.len(), values.len() - 1, 3 * 5, 4 * 2, 3 * 4, 8, 1];
    let mut memory = lengths.map(|length| values[..length].to_vec());
    let expected = (memory.clone()).map(|part| part.into_iter().map(&combined).collect::<Vec<_>>());
    let [pointer, vector, rows, columns, matrix, fixed, single] = &mut memory;
    let mut arguments = [
        Arg::output(pointer),
        Arg::output(vector),
        Arg::output(rows),
        Arg::output(columns),
        Arg::output(matrix).with_shape(&[3, 4]),
        Arg::output(fixed),
        Arg::output(single),
        Arg::scalar(by),
    ];
    kernel.launch(Grid::ONE, &mut arguments).unwrap();
    assert_eq!(memory, expected);
}

/// The same for a type whose scalars are what its memory holds.
fn check_number<T: Element + Scalar + PartialEq + Debug>(
    workshop: &Workshop,
    (element, operation): (&str, &str),
    numbers: impl Fn(u64) -> T,
    combined: fn(T, T) -> T,
) {
    let kernel = workshop.kernel(&combine_everything(element, operation));
    // Multiples of an odd number: they reach all bits, and the sign.
    let values: Vec<T> = (0..40)
        .map(|i| numbers(i * 0x0123_4567_89ab_cdef))
        .collect();
    for by in [values[3], values[11]] {
        check(&kernel, &values, by, |value| combined(value, by));
    }
}

#[test]
fn integers_of_every_width_are_added_in_memory_of_every_shape() {
    let workshop = Workshop::new();
    check_number(
        &workshop,
        ("i8", "arith.addi"),
        |n| n as i8,
        i8::wrapping_add,
    );
    check_number(
        &workshop,
        ("i16", "arith.addi"),
        |n| n as i16,
        i16::wrapping_add,
    );
    check_number(
        &workshop,
        ("i32", "arith.addi"),
        |n| n as i32,
        i32::wrapping_add,
    );
    check_number(
        &workshop,
        ("i64", "arith.addi"),
        |n| n as i64,
        i64::wrapping_add,
    );
    check_number(
        &workshop,
        ("index", "arith.addi"),
        |n| n as i64,
        i64::wrapping_add,
    );
}

/// MLIR's integers have no sign of their own: Rust's unsigned types are as good, and the sign is in
/// the operation.
#[test]
fn unsigned_rust_integers_pass_for_signless_ones() {
    let workshop = Workshop::new();
    let (by_index, by_bytes) = (u64::max, |one: u8, other: u8| one.max(other));
    check_number(&workshop, ("i64", "arith.maxui"), |n| n, by_index);
    check_number(&workshop, ("i8", "arith.maxui"), |n| n as u8, by_bytes);
}

#[test]
fn a_bit_is_a_bool_by_value_and_a_byte_in_memory() {
    let kernel = Workshop::new().kernel(&combine_everything("i1", "arith.xori"));
    let values: Vec<u8> = (0..40).map(|i| u8::from(i % 3 == 0)).collect();
    check(&kernel, &values, true, |bit| bit ^ 1);
    check(&kernel, &values, false, |bit| bit);
}

#[test]
fn floats_of_every_width_are_added_in_memory_of_every_shape() {
    let workshop = Workshop::new();
    let number = |n: u64| n as i64 as f64 / 2f64.powi(52);
    check_number(&workshop, ("f64", "arith.addf"), number, |a, b| a + b);
    check_number(
        &workshop,
        ("f32", "arith.addf"),
        |n| number(n) as f32,
        |a, b| a + b,
    );
    // Rust's half types compute in f32 and round once, as the compiler does.
    let half = |n| f16::from_f64(number(n));
    check_number(&workshop, ("f16", "arith.addf"), half, |a, b| a + b);
    let brain = |n| bf16::from_f64(number(n));
    check_number(&workshop, ("bf16", "arith.addf"), brain, |a, b| a + b);
}

/// Triton's pointers know no length; a cast to a sized memref gives the slice's own.
#[test]
fn a_cast_pointer_is_as_long_as_the_slice() {
    let kernel = Workshop::new().kernel(
        "func.func @length(%x: memref<*xf32>, %out: memref<1xindex>) {
           %c0 = arith.constant 0 : index
           %sized = memref.cast %x : memref<*xf32> to memref<?xf32>
           %n = memref.dim %sized, %c0 : memref<?xf32>
           memref.store %n, %out[%c0] : memref<1xindex>
           return
         }",
    );
    for length in [0, 1, 7, 4096] {
        let (x, mut out) = (vec![0.0f32; length], [-1i64]);
        let arguments = &mut [Arg::input(&x), Arg::output(&mut out)];
        kernel.launch(Grid::ONE, arguments).unwrap();
        assert_eq!(out, [length as i64]);
    }
}

#[test]
fn memory_that_does_not_fit_the_shape_is_refused_and_nothing_runs() {
    let kernel = Workshop::new().kernel(
        "func.func @fill(%out: memref<4x?xi32>) {
           %one = arith.constant 1 : i32
           linalg.fill ins(%one : i32) outs(%out : memref<4x?xi32>)
           return
         }",
    );
    let mut out = [0; 10];
    let refused = kernel.launch(Grid::ONE, &mut [Arg::output(&mut out)]);
    assert!(refused.unwrap_err().to_string().contains("multiple of 4"));
    assert_eq!(out, [0; 10]);
    kernel
        .launch(Grid::ONE, &mut [Arg::output(&mut out[..8])])
        .unwrap();
    assert_eq!(out, [1, 1, 1, 1, 1, 1, 1, 1, 0, 0]);
}

/// The arith dialect knows no signs in types, but memory of such types can be moved.
#[test]
fn integers_with_a_sign_and_unknown_elements_can_be_moved() {
    let workshop = Workshop::new();
    let kernel = |element: &str| {
        workshop.kernel(&format!(
            "func.func @move(%x: memref<4x{element}>, %out: memref<4x{element}>) {{
               memref.copy %x, %out : memref<4x{element}> to memref<4x{element}>
               return
             }}"
        ))
    };
    let mut out = [0u32; 4];
    let arguments = &mut [Arg::input(&[1u32, 2, 3, u32::MAX]), Arg::output(&mut out)];
    kernel("ui32").launch(Grid::ONE, arguments).unwrap();
    assert_eq!(out, [1, 2, 3, u32::MAX]);
    let mut out = [0i64; 4];
    let arguments = &mut [Arg::input(&[1i64, -2, 3, i64::MIN]), Arg::output(&mut out)];
    kernel("si64").launch(Grid::ONE, arguments).unwrap();
    assert_eq!(out, [1, -2, 3, i64::MIN]);
    let mut out = [0u8; 4];
    let arguments = &mut [Arg::input(&[1u8, 2, 3, 4]), Arg::output(&mut out)];
    kernel("f8E4M3FN").launch(Grid::ONE, arguments).unwrap();
    assert_eq!(out, [1, 2, 3, 4]);
}

#[test]
fn a_type_that_the_lowering_does_not_know_is_a_tools_error_at_the_users_line() {
    let mlir = "func.func @add(%x: memref<4xui32>, %y: ui32) {
  %sum = arith.addi %y, %y : ui32
  return
}";
    let error = Workshop::new().build(mlir).unwrap_err();
    assert_eq!(error.exit_code(), 1);
    assert!(
        error.report().contains("kernel.mlir:2:"),
        "{}",
        error.report()
    );
}

#[test]
fn what_a_slice_can_not_be_is_refused_before_any_tool_runs() {
    let workshop = Workshop::new();
    for (argument, reason) in [
        ("memref<4x4xi32, strided<[8, 1]>>", "not contiguous"),
        ("tensor<4xi32>", "can't be passed"),
        ("complex<f32>", "can't be passed"),
        ("vector<4xf32>", "can't be passed"),
    ] {
        let mlir = format!("func.func @k(%x: {argument}) {{ return }}");
        let error = workshop.build(&mlir).unwrap_err();
        assert_eq!(error.exit_code(), 2, "{argument}");
        assert!(error.report().contains(reason), "{}", error.report());
    }
}
