//! Kernels of real MLIR, lowered by the real mlir-opt and mlir-translate as the cpu target does.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test that can't go on fails"
)]

mod support;

use npu_runtime::{
    Arg, Artifact, Device, Direction, ElementType, Grid, Image, Kernel, Parameter, Runtime,
};
use std::fs;
use std::process::Command;
use support::{ranked, signature, unranked};

const PASSES: &[&str] = &[
    "--eliminate-empty-tensors",
    "--empty-tensor-to-alloc-tensor",
    "--one-shot-bufferize=allow-return-allocs-from-loops=true",
    "--lower-affine",
    "--convert-linalg-to-loops",
    "--expand-strided-metadata",
    "--convert-scf-to-cf",
    "--convert-arith-to-llvm",
    "--convert-math-to-llvm",
    "--convert-complex-to-llvm",
    "--convert-vector-to-llvm",
    "--convert-index-to-llvm",
    "--memref-expand",
    "--finalize-memref-to-llvm",
    "--convert-func-to-llvm",
    "--convert-cf-to-llvm",
    "--lower-affine",
    "--convert-arith-to-llvm",
    "--reconcile-unrealized-casts",
];

/// Lowers `mlir` and links it with `call` as its `call.inc`; `None` without the tools.
fn build(mlir: &str, call: &str) -> Option<Vec<u8>> {
    let (opt, translate) = (support::tool("mlir-opt")?, support::tool("mlir-translate")?);
    let directory = support::directory();
    let run = |command: &mut Command| {
        let output = command.current_dir(&directory).output().unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    };
    fs::write(directory.join("kernel.mlir"), mlir).unwrap();
    run(Command::new(opt)
        .args(PASSES)
        .args(["kernel.mlir", "-o", "lowered.mlir"]));
    run(Command::new(translate).args(["--mlir-to-llvmir", "lowered.mlir", "-o", "kernel.ll"]));
    let ir = fs::read_to_string(directory.join("kernel.ll")).unwrap();
    fs::remove_dir_all(directory).unwrap();
    Some(support::compile_as("ll", &ir, call))
}

fn load(object: Vec<u8>, parameters: Vec<Parameter>, grid: bool) -> Kernel {
    let device = Device::open(Runtime::Cpu).unwrap();
    let signature = signature("kernel", grid, parameters);
    Kernel::load(
        &device,
        &[Image::Object(Artifact::bytes(object))],
        signature,
    )
    .unwrap()
}

const VECADD: &str = r#"
func.func @vecadd(%a: memref<*xf32>, %b: memref<*xf32>, %c: memref<*xf32>, %n: i32,
                  %nx: i32, %ny: i32, %nz: i32, %x: i32, %y: i32, %z: i32) {
  %c256 = arith.constant 256 : i32
  %start = arith.muli %x, %c256 : i32
  %offset = arith.index_cast %start : i32 to index
  %av = memref.reinterpret_cast %a to offset: [%offset], sizes: [256], strides: [1]
    : memref<*xf32> to memref<256xf32, strided<[1], offset: ?>>
  %at = memref.alloc() : memref<256xf32>
  memref.copy %av, %at : memref<256xf32, strided<[1], offset: ?>> to memref<256xf32>
  %bv = memref.reinterpret_cast %b to offset: [%offset], sizes: [256], strides: [1]
    : memref<*xf32> to memref<256xf32, strided<[1], offset: ?>>
  %cv = memref.reinterpret_cast %c to offset: [%offset], sizes: [256], strides: [1]
    : memref<*xf32> to memref<256xf32, strided<[1], offset: ?>>
  linalg.generic {
      indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]}
    ins(%at, %bv : memref<256xf32>, memref<256xf32, strided<[1], offset: ?>>)
    outs(%cv : memref<256xf32, strided<[1], offset: ?>>) {
  ^bb0(%l: f32, %r: f32, %o: f32):
    %sum = arith.addf %l, %r : f32
    linalg.yield %sum : f32
  }
  return
}
"#;

const VECADD_CALL: &str = "
#define NPU_SLOTS 7
struct memory { void *allocated, *aligned; int64_t offset, size, stride; };
extern void vecadd(int64_t, void *, int64_t, void *, int64_t, void *, int32_t, int32_t, int32_t,
                   int32_t, int32_t, int32_t, int32_t);
static inline void npu_call(const uint64_t *slots, const int32_t grid[3], const int32_t id[3]) {
  struct memory a = {(void *)slots[0], (void *)slots[0], 0, (int64_t)slots[1], 1};
  struct memory b = {(void *)slots[2], (void *)slots[2], 0, (int64_t)slots[3], 1};
  struct memory c = {(void *)slots[4], (void *)slots[4], 0, (int64_t)slots[5], 1};
  vecadd(1, &a, 1, &b, 1, &c, (int32_t)slots[6], grid[0], grid[1], grid[2], id[0], id[1], id[2]);
}
";

#[test]
fn a_triton_style_kernel_with_a_temporary_adds_vectors() {
    let Some(object) = build(VECADD, VECADD_CALL) else {
        return;
    };
    let parameters = vec![
        unranked("a", ElementType::F32, Direction::In),
        unranked("b", ElementType::F32, Direction::In),
        unranked("c", ElementType::F32, Direction::InOut),
        Parameter::scalar("n", "i32", ElementType::I32),
    ];
    let kernel = load(object, parameters, true);
    let n = 256 * 100;
    let a: Vec<f32> = (0..n).map(|i| i as f32).collect();
    let b: Vec<f32> = (0..n).map(|i| (2 * i) as f32).collect();
    for _ in 0..100 {
        let mut c = vec![0.0_f32; n];
        let args = &mut [
            Arg::input(&a),
            Arg::input(&b),
            Arg::output(&mut c),
            Arg::scalar(n as i32),
        ];
        kernel.launch(Grid::from(100), args).unwrap();
        assert!(c.iter().enumerate().all(|(i, &x)| x == (3 * i) as f32));
    }
}

/// The copy of a column block is strided, which the lowering leaves to `memrefCopy`.
const TRANSPOSE: &str = r#"
func.func @transpose(%in: memref<?x8xi32>, %out: memref<8x?xi32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c8 = arith.constant 8 : index
  %rows = memref.dim %in, %c0 : memref<?x8xi32>
  %t = memref.alloc(%rows) : memref<?x8xi32>
  scf.for %half = %c0 to %c2 step %c1 {
    %c4 = arith.constant 4 : index
    %first = arith.muli %half, %c4 : index
    %from = memref.subview %in[0, %first] [%rows, 4] [1, 1]
      : memref<?x8xi32> to memref<?x4xi32, strided<[8, 1], offset: ?>>
    %to = memref.subview %t[0, %first] [%rows, 4] [1, 1]
      : memref<?x8xi32> to memref<?x4xi32, strided<[8, 1], offset: ?>>
    memref.copy %from, %to
      : memref<?x4xi32, strided<[8, 1], offset: ?>> to memref<?x4xi32, strided<[8, 1], offset: ?>>
  }
  scf.for %i = %c0 to %c8 step %c1 {
    %column = memref.subview %t[0, %i] [%rows, 1] [1, 1]
      : memref<?x8xi32> to memref<?xi32, strided<[8], offset: ?>>
    %row = memref.subview %out[%i, 0] [1, %rows] [1, 1]
      : memref<8x?xi32> to memref<?xi32, strided<[1], offset: ?>>
    memref.copy %column, %row
      : memref<?xi32, strided<[8], offset: ?>> to memref<?xi32, strided<[1], offset: ?>>
  }
  return
}
"#;

const TRANSPOSE_CALL: &str = "
#define NPU_SLOTS 4
extern void transpose(void *, void *, int64_t, int64_t, int64_t, int64_t, int64_t,
                      void *, void *, int64_t, int64_t, int64_t, int64_t, int64_t);
static inline void npu_call(const uint64_t *slots, const int32_t grid[3], const int32_t id[3]) {
  void *in = (void *)slots[0], *out = (void *)slots[2];
  int64_t rows = (int64_t)slots[1], columns = (int64_t)slots[3];
  transpose(in, in, 0, rows, 8, 8, 1, out, out, 0, 8, columns, columns, 1);
}
";

#[test]
fn strided_copies_and_dynamic_shapes_transpose_a_matrix() {
    let Some(object) = build(TRANSPOSE, TRANSPOSE_CALL) else {
        return;
    };
    let parameters = vec![
        ranked(
            "in",
            "memref<?x8xi32>",
            ElementType::I32,
            &[None, Some(8)],
            Direction::In,
        ),
        ranked(
            "out",
            "memref<8x?xi32>",
            ElementType::I32,
            &[Some(8), None],
            Direction::Out,
        ),
    ];
    let kernel = load(object, parameters, false);
    for rows in [0, 1, 5, 1000] {
        let input: Vec<i32> = (0..rows * 8).collect();
        let mut output = vec![-1_i32; input.len()];
        let args = &mut [Arg::input(&input), Arg::output(&mut output)];
        kernel.launch(Grid::ONE, args).unwrap();
        let expected: Vec<i32> = (0..8)
            .flat_map(|column| (0..rows).map(move |row| row * 8 + column))
            .collect();
        assert_eq!(output, expected);
    }
    let mut output = [0; 8];
    let args = &mut [Arg::input(&[0; 12]), Arg::output(&mut output)];
    let error = kernel.launch(Grid::ONE, args).unwrap_err().to_string();
    assert_eq!(
        error,
        "kernel `kernel`, argument 0 `in` (memref<?x8xi32>): expected a multiple of 8 elements, \
         got 12"
    );
}

/// A kernel whose name is a C library's function: it, and not that function, must be called.
#[test]
fn a_kernel_may_be_named_like_a_function_of_the_host() {
    const GETPID: &str = "
func.func @getpid(%out: memref<1xi32>) {
  %value = arith.constant 42 : i32
  %c0 = arith.constant 0 : index
  memref.store %value, %out[%c0] : memref<1xi32>
  return
}
";
    let call = "
#define NPU_SLOTS 1
extern void getpid(void *, void *, int64_t, int64_t, int64_t);
static inline void npu_call(const uint64_t *slots, const int32_t grid[3], const int32_t id[3]) {
  getpid((void *)slots[0], (void *)slots[0], 0, 1, 1);
}
";
    let Some(object) = build(GETPID, call) else {
        return;
    };
    let out = ranked(
        "out",
        "memref<1xi32>",
        ElementType::I32,
        &[Some(1)],
        Direction::Out,
    );
    let kernel = load(object, vec![out], false);
    let mut value = [0_i32];
    kernel
        .launch(Grid::ONE, &mut [Arg::output(&mut value)])
        .unwrap();
    assert_eq!(value, [42]);
}
