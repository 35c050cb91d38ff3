//! Kernels that were once refused or came to nothing, from files.

use npu_runtime::{Arg, Device, Error, Grid, Runtime};

use crate::workshop::{Workshop, load};

macro_rules! case {
    ($name:literal) => {
        include_str!(concat!("../data/kernels/", $name, ".mlir"))
    };
}

/// Launches a kernel from one memory to another.
#[track_caller]
fn from_to(mlir: &str, x: &[f32], out: &mut [f32]) {
    let arguments = &mut [Arg::input(x), Arg::output(out)];
    let kernel = Workshop::new().kernel(mlir);
    kernel.launch(Grid::ONE, arguments).unwrap();
}

#[test]
fn what_only_moves_elements_moves_all_of_them() {
    for (mlir, count) in [
        (case!("memory-space"), 8),
        (case!("pack-unpack"), 64),
        (case!("to-tensor-without-restrict"), 64),
        (case!("transfer-read-2d"), 64),
    ] {
        let x: Vec<f32> = (0..count).map(|x| x as f32 - 7.5).collect();
        let mut out = vec![0.0; count];
        from_to(mlir, &x, &mut out);
        assert_eq!(out, x, "{mlir}");
    }
}

#[test]
fn a_value_that_is_poison_at_first_is_what_it_becomes() {
    let (x, mut out) = ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], [0.0; 8]);
    from_to(case!("used-poison"), &x, &mut out);
    assert_eq!(out, [8.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
}

#[test]
fn exp_of_a_complex_number_is_eulers() {
    let (mut x, mut out) = ([0.0; 64], [0.0; 64]);
    x[0] = 1.25;
    from_to(case!("complex-exp"), &x, &mut out);
    let expected = 1.25f64.exp() * 7.0f64.cos();
    assert!(
        (f64::from(out[0]) / expected - 1.0).abs() < 1e-6,
        "{}",
        out[0]
    );
}

#[test]
fn a_float_of_8_bits_is_the_nearest() {
    // Eighths between 1 and 2, quarters between 2 and 4; the largest is 448.
    for (x, expected) in [
        (1.07, 1.125),
        (1.06, 1.0),
        (-3.3, -3.25),
        (440.0, 448.0),
        (0.001, 0.001_953_125),
    ] {
        let (mut input, mut out) = ([0.0; 64], [0.0; 64]);
        input[0] = x;
        from_to(case!("f8-truncf"), &input, &mut out);
        assert_eq!(out[0], expected, "{x}");
    }
}

#[test]
fn powers_of_integers_wrap_and_those_with_negative_exponents_are_fractions() {
    let base: Vec<i32> = (0..64)
        .map(|i| [3, -2, 1, -1, 7, 2, -5, 0][i % 8])
        .collect();
    let exponent: Vec<i32> = (0..64).map(|i| i / 8 * 5 - 5).map(|e| e.max(-5)).collect();
    let power = |base: i32, exponent: i32| match (base, exponent) {
        (_, 0..) => base.wrapping_pow(exponent.unsigned_abs()),
        (1, _) => 1,
        (-1, _) => 1 - 2 * (exponent & 1),
        _ => 0,
    };
    let mut out = [0; 64];
    let arguments = &mut [
        Arg::input(&base),
        Arg::input(&exponent),
        Arg::output(&mut out),
    ];
    let kernel = Workshop::new().kernel(case!("ipowi"));
    kernel.launch(Grid::ONE, arguments).unwrap();
    for (i, out) in out.iter().enumerate() {
        // 0 to a negative power is undefined.
        if (base[i], exponent[i].signum()) != (0, -1) {
            assert_eq!(
                *out,
                power(base[i], exponent[i]),
                "{} to {}",
                base[i],
                exponent[i]
            );
        }
    }
}

#[test]
fn powers_of_floats_take_exponents_of_any_width() {
    let body: String = ["i8", "i16", "i32", "i64"]
        .iter()
        .enumerate()
        .map(|(at, width)| {
            format!(
                "%i{at} = arith.constant {at} : index
                 %p{at} = math.fpowi %x, %n{at} : f64, {width}
                 memref.store %p{at}, %out[%i{at}] : memref<4xf64>\n"
            )
        })
        .collect();
    let kernel = Workshop::new().kernel(&format!(
        "func.func @k(%x: f64, %n0: i8, %n1: i16, %n2: i32, %n3: i64, %out: memref<4xf64>) {{
           {body} return
         }}"
    ));
    let mut out = [0.0f64; 4];
    let arguments = &mut [
        Arg::scalar(2.0_f64),
        Arg::scalar(-7_i8),
        Arg::scalar(300_i16),
        Arg::scalar(0_i32),
        Arg::scalar(-1000_i64),
        Arg::output(&mut out),
    ];
    kernel.launch(Grid::ONE, arguments).unwrap();
    assert_eq!(out, [-7, 300, 0, -1000].map(|n| f64::from(n).exp2()));
}

#[test]
fn a_large_product_is_that_of_a_plain_loop_to_the_bit() {
    const N: usize = 512;
    let matrix = |seed: u32| -> Vec<f32> {
        let next = |state: &mut u32| {
            *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            Some(f32::from((*state >> 16) as u16) / 65536.0 - 0.5)
        };
        std::iter::repeat_with(|| ())
            .scan(seed, |state, ()| next(state))
            .take(N * N)
            .collect()
    };
    let (a, b, mut c) = (matrix(1), matrix(2), vec![0.0f32; N * N]);
    let kernel = Workshop::new().kernel(case!("matmul-512"));
    let arguments = &mut [Arg::input(&a), Arg::input(&b), Arg::output(&mut c)];
    kernel.launch(Grid::ONE, arguments).unwrap();
    for i in (0..N).step_by(37) {
        for j in 0..N {
            let products = (0..N).map(|k| a[i * N + k] * b[k * N + j]);
            assert_eq!(
                c[i * N + j],
                products.fold(0.0, |sum, x| sum + x),
                "{i}, {j}"
            );
        }
    }
}

#[test]
fn a_false_assertion_ends_the_launch_and_not_the_host() {
    let kernel = Workshop::new().kernel(case!("false-assert"));
    for _ in 0..2 {
        let error = kernel
            .launch(Grid::ONE, &mut [Arg::input(&[0.0f32; 8])])
            .unwrap_err();
        assert!(
            matches!(&error, Error::Assertion { text, .. } if &**text == "always false"),
            "{error:?}"
        );
    }
}

/// On several threads, deep in calls, and with memory that a program has allocated; what follows finds
/// all as it was.
#[test]
fn an_assertion_counts_in_every_program_of_a_grid() {
    let workshop = Workshop::new();
    let build = workshop
        .build(
            "func.func private @check(%v: i32) {
               %limit = arith.constant 5000 : i32
               %p = arith.cmpi slt, %v, %limit : i32
               cf.assert %p, \"v is below 5000\"
               return
             }
             func.func @k(%out: memref<*xi32>, %v: i32,
                          %nx: i32, %ny: i32, %nz: i32, %px: i32, %py: i32, %pz: i32) {
               %m = memref.cast %out : memref<*xi32> to memref<?xi32>
               %i = arith.index_cast %px : i32 to index
               %n = arith.constant 100 : index
               %local = memref.alloc(%n) : memref<?xi32>
               %w = arith.addi %v, %px : i32
               linalg.fill ins(%w : i32) outs(%local : memref<?xi32>)
               %j = arith.constant 99 : index
               %x = memref.load %local[%j] : memref<?xi32>
               func.call @check(%x) : (i32) -> ()
               memref.store %x, %m[%i] : memref<?xi32>
               return
             }",
        )
        .unwrap();
    for threads in [1, 4] {
        let device = Device::open(Runtime::Cpu).unwrap().with_threads(threads);
        let kernel = load(&build, &device);
        let mut out = vec![0; 4000];
        let mut launch =
            |v: i32| kernel.launch(4000.into(), &mut [Arg::output(&mut out), Arg::scalar(v)]);
        let error = launch(2000).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("false assertion: v is below 5000"),
            "{error}"
        );
        launch(1000).unwrap();
        assert_eq!(out, (1000..5000).collect::<Vec<_>>());
    }
}

#[test]
fn what_the_tools_would_not_compile_is_refused_before_they_run() {
    let workshop = Workshop::new();
    let kernel = "func.func @k(%a: memref<4xf32>) { return }";
    let other = kernel.replace("@k", "@other");
    for (mlir, reason) in [
        (
            case!("nested-module").to_owned(),
            "'nested' is in a module inside another",
        ),
        (
            format!("module {{ {kernel} }}\nmodule {{ }}"),
            "or beside another",
        ),
        (kernel.replace("@k", r#"@"k\FF""#), "no UTF-8"),
        (kernel.replace("@k", r#"@"k\00k""#), "or a NUL"),
        (
            format!("module {{ {kernel} }}\nmodule {{ {other} }}"),
            "several entry functions",
        ),
    ] {
        let error = workshop.build(&mlir).unwrap_err().report();
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn what_no_pass_lowers_is_named_with_the_way_out() {
    let workshop = Workshop::new();
    let refuse = |mlir: &str, reason: &str| {
        let error = workshop.build(mlir).unwrap_err().report();
        assert!(error.contains(reason), "{error}");
    };
    refuse(
        "func.func @k(%a: memref<4x8xf32>, %o: memref<4x8xf32>) {
           linalg.softmax dimension(1) ins(%a : memref<4x8xf32>) outs(%o : memref<4x8xf32>)
           return
         }",
        "no pass of the cpu target lowers 'linalg.softmax': MLIR has loops for it over tensors only",
    );
    refuse(
        "func.func @k(%a: memref<4x4xf32>) {
           %z = arith.constant 0 : index
           %v = vector.load %a[%z, %z] : memref<4x4xf32>, vector<4x4xf32>
           vector.store %v, %a[%z, %z] : memref<4x4xf32>, vector<4x4xf32>
           return
         }",
        "are read and written by vector.transfer_read",
    );
    let converted = |inner: &str, element: &str, operation: &str| {
        format!(
            "func.func @k(%a: memref<1x{element}>) {{
               %z = arith.constant 0 : index
               %v = memref.load %a[%z] : memref<1x{element}>
               %w = arith.truncf %v : {element} to {inner}
               {operation}
               %y = arith.extf %x : {inner} to {element}
               memref.store %y, %a[%z] : memref<1x{element}>
               return
             }}"
        )
    };
    let add = "%x = arith.addf %w, %w : f8E4M3B11FNUZ";
    refuse(
        &converted("f8E4M3B11FNUZ", "f32", add),
        "only converts f8E4M3B11FNUZ: compute in f32",
    );
    let negate = "%x = arith.negf %w : f8E5M2";
    refuse(
        &converted("f8E5M2", "f64", negate),
        "can't be converted from or to f64",
    );
    refuse(
        "func.func private @elsewhere(f32) -> f32
         func.func @k(%a: memref<1xf32>) {
           %z = arith.constant 0 : index
           %v = memref.load %a[%z] : memref<1xf32>
           %w = call @elsewhere(%v) : (f32) -> f32
           memref.store %w, %a[%z] : memref<1xf32>
           return
         }",
        "the kernel calls @elsewhere, which neither the file nor the C library defines",
    );
}
