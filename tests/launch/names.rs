//! Kernels whose names mean something to somebody else.

use npu_runtime::{Arg, Grid, Kernel};

use crate::workshop::Workshop;

/// A kernel that needs memory and copies, and writes 42 and its argument.
fn named(name: &str) -> String {
    format!(
        "func.func @{name}(%x: memref<*xi32>, %out: memref<2xi32>) {{
           %c0 = arith.constant 0 : index
           %c1 = arith.constant 1 : index
           %answer = arith.constant 42 : i32
           %sized = memref.cast %x : memref<*xi32> to memref<?xi32>
           %value = memref.load %sized[%c0] : memref<?xi32>
           %local = memref.alloc() : memref<2xi32>
           memref.store %answer, %local[%c0] : memref<2xi32>
           memref.store %value, %local[%c1] : memref<2xi32>
           memref.copy %local, %out : memref<2xi32> to memref<2xi32>
           memref.dealloc %local : memref<2xi32>
           return
         }}"
    )
}

#[track_caller]
fn check(kernel: &Kernel, name: &str) {
    assert_eq!(kernel.signature().name, name);
    let mut out = [0; 2];
    let arguments = &mut [Arg::input(&[7]), Arg::output(&mut out)];
    kernel.launch(Grid::ONE, arguments).unwrap();
    assert_eq!(out, [42, 7], "{name}");
}

#[test]
fn a_name_need_not_be_an_identifier() {
    let workshop = Workshop::new();
    for (mlir, name) in [
        ("\"my kernel.1\"", "my kernel.1"),
        ("\"größe\"", "größe"),
        ("\"quote\\22 and \\\\ slash\"", "quote\" and \\ slash"),
        ("\"what??!\"", "what??!"),
        ("_", "_"),
        ("a.b$c", "a.b$c"),
        ("self", "self"),
        ("int", "int"),
    ] {
        check(&workshop.kernel(&named(mlir)), name);
    }
}

/// The host program and the C library have functions of these names, too: the kernel's own runs.
#[test]
fn a_name_may_be_that_of_a_function_in_the_host_program() {
    let workshop = Workshop::new();
    for name in [
        "getpid", "index", "main", "write", "exit", "_start", "_init", "_fini", "environ",
    ] {
        check(&workshop.kernel(&named(name)), name);
    }
}

/// A compiler calls functions by these names where the source has none (this kernel's copy is a
/// `memcpy`): they must not reach the kernel.
#[test]
fn a_name_may_be_that_of_a_function_that_compilers_call() {
    let workshop = Workshop::new();
    for name in [
        "malloc",
        "free",
        "memcpy",
        "memset",
        "exp",
        "tanhf",
        "memrefCopy",
        "npu_call",
        "take",
        "current",
        "npu_cpu_run_v1",
        "_DYNAMIC",
        "__tls_get_addr",
    ] {
        check(&workshop.kernel(&named(name)), name);
    }
}

#[test]
fn a_kernel_named_like_the_function_that_it_needs_computes_it() {
    let kernel = Workshop::new().kernel(
        "func.func @exp(%x: memref<4xf64>, %out: memref<4xf64>) {
           linalg.exp ins(%x : memref<4xf64>) outs(%out : memref<4xf64>)
           return
         }",
    );
    let (x, mut out) = ([0.0f64, 1.0, -1.0, 0.5], [0.0f64; 4]);
    let arguments = &mut [Arg::input(&x), Arg::output(&mut out)];
    kernel.launch(Grid::ONE, arguments).unwrap();
    for (x, out) in x.iter().zip(out) {
        assert!((x.exp() - out).abs() < 1e-15, "exp({x}) is not {out}");
    }
}

/// The kernel needs `expf` and `memset`; the file defines functions of those names that do otherwise.
#[test]
fn other_functions_of_the_file_are_not_called_in_place_of_the_c_librarys() {
    let kernel = Workshop::new().kernel(
        "func.func private @expf(%x: f32) -> f32 {
           %c = arith.constant 42.0 : f32
           return %c : f32
         }
         func.func private @memset(%x: f32) -> f32 {
           return %x : f32
         }
         func.func @kernel(%x: memref<4096xf32>, %out: memref<4096xf32>, %own: memref<1xf32>) {
           %zero = arith.constant 0.0 : f32
           linalg.fill ins(%zero : f32) outs(%out : memref<4096xf32>)
           %first = arith.constant 0 : index
           %v = memref.load %x[%first] : memref<4096xf32>
           %e = math.exp %v : f32
           memref.store %e, %out[%first] : memref<4096xf32>
           %o = func.call @expf(%v) : (f32) -> f32
           memref.store %o, %own[%first] : memref<1xf32>
           return
         }",
    );
    let x = [1.0f32; 4096];
    let (mut out, mut own) = ([7.0f32; 4096], [0.0f32]);
    let arguments = &mut [Arg::input(&x), Arg::output(&mut out), Arg::output(&mut own)];
    kernel.launch(Grid::ONE, arguments).unwrap();
    assert!((out[0] - 1.0f32.exp()).abs() < 1e-6, "{}", out[0]);
    assert!(out[1..].iter().all(|zero| *zero == 0.0));
    assert_eq!(own, [42.0]);
}
