//! What keeps a kernel within its arguments: proofs, contracts, and callers who answer for it.

use npu_runtime::{Arg, ArgumentFault, Bounds, Error, Grid, Kernel};

use crate::workshop::Workshop;

/// `y = s * x + y`: with a shorter `y` it wrote what lies behind.
const SAXPY: &str = "#id = affine_map<(d0) -> (d0)>
func.func @saxpy(%x: memref<?xf32>, %y: memref<?xf32>, %s: f32) {
  linalg.generic {indexing_maps = [#id, #id], iterator_types = [\"parallel\"]} ins(%x : memref<?xf32>) outs(%y : memref<?xf32>) {
  ^bb0(%a: f32, %b: f32):
    %p = arith.mulf %s, %a : f32
    %q = arith.addf %p, %b : f32
    linalg.yield %q : f32
  }
  return
}";

/// Sets the first `n` elements, however many there are.
const SET: &str = "func.func @set(%x: memref<*xi32>, %n: i32) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %seven = arith.constant 7 : i32
  %end = arith.index_cast %n : i32 to index
  %v = memref.cast %x : memref<*xi32> to memref<?xi32>
  scf.for %i = %c0 to %end step %c1 {
    memref.store %seven, %v[%i] : memref<?xi32>
  }
  return
}";

#[track_caller]
fn refused(error: Error, argument: usize, words: &str) {
    let Error::Argument(refused) = &error else {
        panic!("{error}");
    };
    assert_eq!(refused.index, argument, "{error}");
    assert!(
        error.to_string().contains(words),
        "no '{words}' in: {error}"
    );
}

fn saxpy(kernel: &Kernel, x: &[f32], y: &mut [f32]) -> Result<(), Error> {
    let mut arguments = [Arg::input(x), Arg::output(y), Arg::scalar(2.0_f32)];
    kernel.launch(Grid::ONE, &mut arguments)
}

#[test]
fn what_the_mlir_proves_to_be_of_one_size_is_compared() {
    let kernel = Workshop::new().kernel_with(SAXPY, "");
    assert_eq!(kernel.signature().bounds, Bounds::Proven);
    let mut memory = [1.0_f32; 8];
    let (y, neighbour) = memory.split_at_mut(4);
    let error = saxpy(&kernel, &[1.0; 8], y).unwrap_err();
    refused(error, 1, "expected 8 elements, as many as `x`, got 4");
    assert_eq!((&y[..], &neighbour[..]), (&[1.0; 4][..], &[1.0; 4][..]));
    saxpy(&kernel, &[1.0; 4], y).unwrap();
    assert_eq!(memory, [3.0, 3.0, 3.0, 3.0, 1.0, 1.0, 1.0, 1.0]);
}

#[test]
fn nothing_runs_an_unchecked_kernel_without_unsafe() {
    let kernel = Workshop::new().kernel_with(SET, "");
    assert_eq!(kernel.signature().bounds, Bounds::Unchecked);
    let mut x = [0; 4];
    let error = kernel
        .launch(Grid::ONE, &mut [Arg::output(&mut x), Arg::scalar(2)])
        .unwrap_err();
    assert!(matches!(error, Error::Unchecked { .. }), "{error}");
    let error = kernel
        .bind(Grid::ONE, [Arg::output(&mut x), Arg::scalar(2)])
        .unwrap_err();
    assert!(matches!(error, Error::Unchecked { .. }), "{error}");
    let mut arguments = [Arg::output(&mut x), Arg::scalar(2)];
    // SAFETY: two elements are written, and there are four.
    unsafe { kernel.launch_unchecked(Grid::ONE, &mut arguments) }.unwrap();
    assert_eq!(x, [7, 7, 0, 0]);
}

#[test]
fn a_scalar_is_at_most_the_number_of_elements() {
    let kernel = Workshop::new().kernel_with(SET, "x=n");
    let mut x = [0; 4];
    let mut set = |n: i32| {
        let mut arguments = [Arg::output(&mut x[..3]), Arg::scalar(n)];
        kernel.launch(Grid::ONE, &mut arguments)
    };
    refused(
        set(4).unwrap_err(),
        0,
        "expected at least n = 4 elements, got 3",
    );
    refused(set(i32::MAX).unwrap_err(), 0, "got 3");
    let error = set(-1).unwrap_err();
    refused(error, 1, "it is a number of elements, which -1 can't be");
    set(0).unwrap();
    set(3).unwrap();
    assert_eq!(x, [7, 7, 7, 0]);
    // An unsigned number is the same 32 bits to the kernel.
    let mut arguments = [Arg::output(&mut x), Arg::scalar(3_000_000_000_u32)];
    let error = kernel.launch(Grid::ONE, &mut arguments).unwrap_err();
    refused(error, 1, "-1294967296");
}

/// Each program of the grid writes as many elements as a row has.
#[test]
fn products_of_scalars_and_grid_are_checked() {
    let rows = "func.func @rows(%x: memref<*xi32>, %columns: i32, %nx: i32, %ny: i32, %nz: i32, %px: i32, %py: i32, %pz: i32) {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %row = arith.index_cast %px : i32 to index
      %end = arith.index_cast %columns : i32 to index
      %start = arith.muli %row, %end : index
      %v = memref.cast %x : memref<*xi32> to memref<?xi32>
      scf.for %i = %c0 to %end step %c1 {
        %at = arith.addi %start, %i : index
        memref.store %px, %v[%at] : memref<?xi32>
      }
      return
    }";
    let kernel = Workshop::new().kernel_with(rows, "x=grid.x*columns");
    let mut x = [-1; 12];
    let mut launch = |rows: u32, columns: i32| {
        let mut arguments = [Arg::output(&mut x), Arg::scalar(columns)];
        kernel.launch(rows.into(), &mut arguments)
    };
    launch(3, 4).unwrap();
    for (rows, columns, needed) in [
        (4, 4, "grid.x*columns = 16"),
        (13, 1, "= 13"),
        (1, 13, "= 13"),
    ] {
        refused(launch(rows, columns).unwrap_err(), 0, needed);
    }
    // More than 64 bits can count.
    let huge = Workshop::new().kernel_with(rows, "x=grid.x*grid.x*grid.x*columns");
    let mut arguments = [Arg::output(&mut x), Arg::scalar(i32::MAX)];
    let error = huge.launch((1 << 30).into(), &mut arguments).unwrap_err();
    refused(error, 0, "more than there can be");
    assert_eq!(x, [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]);
}

#[test]
fn dimensions_that_share_a_name_are_of_one_size() {
    let text = "func.func @product(%a: memref<?x?xf32>, %b: memref<?x4xf32>, %c: memref<?x4xf32>) {
      linalg.matmul ins(%a, %b : memref<?x?xf32>, memref<?x4xf32>) outs(%c : memref<?x4xf32>)
      return
    }";
    let workshop = Workshop::new();
    for kernel in [
        workshop.kernel_with(text, ""),
        workshop.kernel_with(text, "a=[m,k],b=[k,_],c=[m,_]"),
    ] {
        let (a, b) = ([1.0_f32; 6], [1.0_f32; 12]);
        let mut c = [0.0_f32; 12];
        let mut launch = |rows: usize, columns: usize, b: &[f32], length: usize| {
            let shape = [rows, columns];
            let a = &a[..rows * columns];
            let mut arguments = [
                Arg::input(a).with_shape(&shape),
                Arg::input(b),
                Arg::output(&mut c[..length]),
            ];
            kernel.launch(Grid::ONE, &mut arguments)
        };
        launch(2, 3, &b, 8).unwrap();
        let error = launch(3, 2, &b, 12).unwrap_err();
        refused(
            error,
            1,
            "dimension 0: expected 2 elements, as many as `a` in dimension 1, got 3",
        );
        let error = launch(2, 3, &b, 12).unwrap_err();
        refused(
            error,
            2,
            "dimension 0: expected 2 elements, as many as `a` in dimension 0, got 3",
        );
        assert_eq!(c[..9], [3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 0.0]);
    }
}

/// The dimension of memory whose elements Rust lacks, and its bytes where the type says that they
/// are aligned.
#[test]
fn elements_of_bytes_are_counted_and_aligned() {
    let workshop = Workshop::new();
    let counted = workshop.kernel_with(include_str!("../data/kernels/dynamic-opaque.mlir"), "b=_");
    let mut count = [0_i64];
    counted
        .launch(
            Grid::ONE,
            &mut [Arg::input(&[0_u8; 5]), Arg::output(&mut count)],
        )
        .unwrap();
    assert_eq!(count, [5]);

    #[repr(align(16))]
    struct Aligned([u8; 68]);
    let vectors = workshop.kernel_with(
        include_str!("../data/kernels/ranked-vector-element.mlir"),
        "",
    );
    let values: Vec<u8> = (0..16_u8)
        .flat_map(|i| f32::from(i).to_le_bytes())
        .collect();
    let (mut a, mut b) = (Aligned([0; 68]), Aligned([0; 68]));
    a.0[..64].copy_from_slice(&values);
    let mut launch = |from: usize, length: usize| {
        let a = &a.0[from..from + 64];
        let mut arguments = [Arg::input(a), Arg::output(&mut b.0[..length])];
        vectors.launch(Grid::ONE, &mut arguments)
    };
    refused(launch(0, 4).unwrap_err(), 1, "expected 64 elements, got 4");
    let Err(Error::Argument(error)) = launch(4, 64) else {
        panic!("it was launched");
    };
    assert_eq!(error.fault, ArgumentFault::Alignment { expected: 16 });
    launch(0, 64).unwrap();
    let doubled = (0..16_u8).flat_map(|i| (2.0 * f32::from(i)).to_le_bytes());
    assert!(b.0[..64].iter().copied().eq(doubled));
    assert_eq!(b.0[64..], [0; 4]);
}
