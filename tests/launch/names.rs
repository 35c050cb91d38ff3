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
    for name in ["getpid", "index", "main", "write", "exit", "_start", "_init", "environ"] {
        check(&workshop.kernel(&named(name)), name);
    }
}
