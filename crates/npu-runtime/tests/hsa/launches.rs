//! Right results: every form, target, type and way to pass memory.

use crate::emulated::{alone, counters};
use crate::kernels::{self, Form, binary, device, image, memory, signature};
use crate::{designs, kernels::add};
use npu_runtime::{Arg, Direction, Element, ElementType, Error, Grid, GridFault, Kernel, Npu};
use npu_runtime::{Parameter, half::bf16};

fn launch_binary<T: Element>(kernel: &Kernel, x: &[T], y: &[T]) -> Vec<T> {
    let mut z = vec![T::default(); x.len()];
    let args = &mut [Arg::input(x), Arg::input(y), Arg::output(&mut z)];
    kernel.launch(Grid::ONE, args).unwrap();
    z
}

/// Loads `z = x op y` and compares with what plain Rust computes.
fn check<T: Element + PartialEq>(
    form: Form,
    npu: Npu,
    [mlir, operation]: [&str; 2],
    element: ElementType,
    value: impl Fn(usize) -> T,
    expected: impl Fn(T, T) -> T,
) {
    let design = designs::core(
        npu.name(),
        mlir,
        &format!("%z = {operation} %x, %y : {mlir}"),
    );
    let image = image(&design, form, npu, 3);
    let kernel = Kernel::load(&device(), &[image], binary(element)).unwrap();
    let x: Vec<T> = (0..1024).map(&value).collect();
    let y: Vec<T> = (0..1024).rev().map(&value).collect();
    let z: Vec<T> = x.iter().zip(&y).map(|(&x, &y)| expected(x, y)).collect();
    assert_eq!(launch_binary(&kernel, &x, &y), z, "{mlir} {operation}");
}

#[test]
fn full_elfs_compute_in_every_type() {
    alone(&[], || {
        let (form, npu) = (Form::FullElf, Npu::Npu2);
        let add = |mlir| [mlir, "arith.addi"];
        check(
            form,
            npu,
            add("i8"),
            ElementType::I8,
            |i| i as i8,
            i8::wrapping_add,
        );
        check(
            form,
            npu,
            add("i16"),
            ElementType::I16,
            |i| (i * 31) as i16,
            i16::wrapping_add,
        );
        check(
            form,
            npu,
            add("i32"),
            ElementType::I32,
            |i| i as i32 - 500,
            i32::wrapping_add,
        );
        check(
            form,
            npu,
            ["f32", "arith.mulf"],
            ElementType::F32,
            |i| i as f32 * 0.25,
            |x, y| x * y,
        );
        // Sums of small integers are exact.
        check(
            form,
            npu,
            ["bf16", "arith.addf"],
            ElementType::Bf16,
            |i| bf16::from_f32((i % 64) as f32),
            |x, y| bf16::from_f32(x.to_f32() + y.to_f32()),
        );
    });
}

#[test]
fn instruction_streams_compute_on_npu1() {
    alone(&[("ROCR_DOUBLE_AGENT", "aie2")], || {
        let (form, npu) = (Form::Stream, Npu::Npu1);
        assert_eq!(device().npu(), Some(npu));
        let multiply = ["i32", "arith.muli"];
        check(
            form,
            npu,
            multiply,
            ElementType::I32,
            |i| i as i32,
            i32::wrapping_mul,
        );
        let add = ["f32", "arith.addf"];
        check(
            form,
            npu,
            add,
            ElementType::F32,
            |i| i as f32 * 0.5,
            |x, y| x + y,
        );
    });
}

#[test]
fn instruction_streams_compute_on_npu2() {
    alone(&[], || {
        let (form, npu) = (Form::Stream, Npu::Npu2);
        let subtract = ["i16", "arith.subi"];
        check(
            form,
            npu,
            subtract,
            ElementType::I16,
            |i| i as i16,
            i16::wrapping_sub,
        );
    });
}

fn product<T: Copy, R: Copy + Default>(
    [m, n, k]: [usize; 3],
    a: &[T],
    b: &[T],
    step: impl Fn(R, T, T) -> R,
) -> Vec<R> {
    let cell = |i: usize, j: usize| {
        (0..k).fold(R::default(), |sum, p| step(sum, a[i * k + p], b[p * n + j]))
    };
    (0..m * n).map(|at| cell(at / n, at % n)).collect()
}

#[test]
fn matrix_products_of_linalg_kernels_are_right() {
    alone(&[], || {
        let device = device();
        let sizes @ [m, n, k] = [8, 16, 32];
        let parameters = |element: ElementType, result| {
            let mut parameters = vec![
                memory("a", element.clone(), Direction::In),
                memory("b", element, Direction::In),
                memory("c", result, Direction::Out),
            ];
            parameters.push(Parameter::scalar("n", "i32", ElementType::I32));
            signature(parameters)
        };
        // A scalar is accepted, for the sake of hosts that run the kernel on cpu as well.
        let image_of = |design: &str| image(design, Form::Linalg([1, 1, 1]), Npu::Npu2, 3);

        let design = designs::matmul("i8", "i32", "0", sizes);
        let signature = parameters(ElementType::I8, ElementType::I32);
        let kernel = Kernel::load(&device, &[image_of(&design)], signature).unwrap();
        let a: Vec<i8> = (0..m * k).map(|i| (i % 251) as u8 as i8).collect();
        let b: Vec<i8> = (0..k * n).map(|i| (i % 127) as i8 - 60).collect();
        let mut c = vec![-1_i32; m * n];
        let args = &mut [
            Arg::input(&a),
            Arg::input(&b),
            Arg::output(&mut c),
            Arg::scalar(7),
        ];
        kernel.launch(Grid::ONE, args).unwrap();
        let step = |sum: i32, x: i8, y: i8| sum + i32::from(x) * i32::from(y);
        assert_eq!(c, product(sizes, &a, &b, step));

        let design = designs::matmul("f32", "f32", "0.0", sizes);
        let signature = parameters(ElementType::F32, ElementType::F32);
        let kernel = Kernel::load(&device, &[image_of(&design)], signature).unwrap();
        // Small integers: exact, in whatever order they are summed up.
        let a: Vec<f32> = (0..m * k).map(|i| (i % 9) as f32 - 4.0).collect();
        let b: Vec<f32> = (0..k * n).map(|i| (i % 7) as f32).collect();
        let mut c = vec![-1.0_f32; m * n];
        let args = &mut [
            Arg::input(&a),
            Arg::input(&b),
            Arg::output(&mut c),
            Arg::scalar(7),
        ];
        kernel.launch(Grid::ONE, args).unwrap();
        assert_eq!(
            c,
            product(sizes, &a, &b, |sum: f32, x: f32, y: f32| sum + x * y)
        );
    });
}

#[test]
fn the_grid_is_the_compiled_one() {
    alone(&[], || {
        let design = designs::matmul("i8", "i32", "0", [8, 16, 32]);
        let image = image(&design, Form::Linalg([2, 1, 1]), Npu::Npu2, 3);
        let mut signature = signature(vec![
            memory("a", ElementType::I8, Direction::In),
            memory("b", ElementType::I8, Direction::In),
            memory("c", ElementType::I32, Direction::Out),
        ]);
        signature.grid = true;
        let kernel = Kernel::load(&device(), &[image], signature).unwrap();
        let (a, b) = ([0_i8; 512], [0_i8; 512]);
        let mut c = [0_i32; 256];
        for (grid, fits) in [((2, 1, 1), true), ((1, 1, 1), false), ((1, 2, 1), false)] {
            let args = &mut [Arg::input(&a), Arg::input(&b), Arg::output(&mut c)];
            match kernel.launch(grid.into(), args) {
                Ok(()) => assert!(fits, "{grid:?}"),
                Err(Error::Grid { fault, .. }) => {
                    assert!(!fits);
                    let compiled = Grid::from((2, 1, 1));
                    assert_eq!(fault, GridFault::Frozen { compiled });
                }
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(counters().packets, 1);
        // Nothing is nothing on every device.
        let args = &mut [Arg::input(&a), Arg::input(&b), Arg::output(&mut c)];
        kernel.launch((0, 1, 1).into(), args).unwrap();
        assert_eq!(counters().packets, 1);
    });
}

#[test]
fn slices_and_buffers_may_be_mixed() {
    alone(&[], || {
        let device = device();
        let kernel = add(&device);
        let (x, y) = ([5_i32; 1024], vec![7_i32; 1024]);
        let (mut z, mut out) = ([0_i32; 1024], device.buffer::<i32>(1024).unwrap());
        let held = device.buffer_from(&y).unwrap();
        let launch = |args: &mut [Arg<'_>]| kernel.launch(Grid::ONE, args).unwrap();
        launch(&mut [Arg::input(&x), Arg::input(&y), Arg::output(&mut z)]);
        assert_eq!(z, [12; 1024]);
        launch(&mut [Arg::input(&x), Arg::input(&held), Arg::output(&mut out)]);
        assert_eq!(out[..], [12; 1024]);
        launch(&mut [Arg::input(&out), Arg::input(&held), Arg::output(&mut z)]);
        assert_eq!(z, [19; 1024]);
        // The device's buffers are memory like any other for a part of them.
        let mut wide = device.buffer_from(&[1_i32; 3000]).unwrap();
        launch(&mut [
            Arg::input(&wide[7..1031].to_vec()),
            Arg::input(&x),
            Arg::output(&mut z),
        ]);
        launch(&mut [
            Arg::input(&x),
            Arg::input(&z),
            Arg::output(&mut wide[1001..2025]),
        ]);
        assert_eq!(wide[1001..2025], [11; 1024]);
        assert_eq!((wide[1000], wide[2025]), (1, 1));
    });
}

#[test]
fn buffers_are_not_copied() {
    alone(&[], || {
        let device = device();
        let kernel = add(&device);
        let (x, y) = (device.buffer_from(&[1_i32; 1024]).unwrap(), [2_i32; 1024]);
        let y = device.buffer_from(&y).unwrap();
        let mut z = device.buffer::<i32>(1024).unwrap();
        let made = counters().memories.total;
        kernel
            .launch(
                Grid::ONE,
                &mut [Arg::input(&x), Arg::input(&y), Arg::output(&mut z)],
            )
            .unwrap();
        assert_eq!(z[..], [3; 1024]);
        // Nothing was staged, and a launch takes no call that can fail.
        assert_eq!(counters().memories.total, made);
    });
}

#[test]
fn memory_of_any_alignment_is_taken() {
    alone(&[], || {
        let kernel = add(&device());
        let x = vec![3_i32; 1025];
        let mut z = vec![0_i32; 1027];
        let args = &mut [
            Arg::input(&x[1..]),
            Arg::input(&x[..1024]),
            Arg::output(&mut z[3..]),
        ];
        kernel.launch(Grid::ONE, args).unwrap();
        assert_eq!(z[..3], [0; 3]);
        assert_eq!(z[3..], [6; 1024]);
    });
}

#[test]
fn slices_may_be_empty() {
    alone(&[], || {
        let device = device();
        let image = kernels::idle_image(0);
        let kernel = Kernel::load(&device, &[image], kernels::unary()).unwrap();
        let mut nothing: [i32; 0] = [];
        kernel
            .launch(Grid::ONE, &mut [Arg::output(&mut nothing)])
            .unwrap();
        let mut nothing = device.buffer::<i32>(0).unwrap();
        kernel
            .launch(Grid::ONE, &mut [Arg::output(&mut nothing)])
            .unwrap();
        assert_eq!(counters().packets, 2);
    });
}

/// 256 bytes of kernargs are 16 arguments, as many as mlir-aie compiles; the place for them grows
/// with the kernels that others make.
#[test]
fn kernels_may_have_many_arguments() {
    alone(&[], || {
        let device = device();
        for count in [1, 16, 17, 40, 300] {
            let mut parameters = vec![memory("a0", ElementType::I32, Direction::In)];
            parameters.resize(count, memory("a", ElementType::I32, Direction::Out));
            let images = [kernels::counting_image(count)];
            let kernel = Kernel::load(&device, &images, signature(parameters)).unwrap();
            let source: Vec<i32> = (0..64).map(|i| i * count as i32).collect();
            let mut sums = vec![vec![0_i32; 64]; count - 1];
            let mut args = vec![Arg::input(&source)];
            args.extend(sums.iter_mut().map(Arg::output));
            // More launches than the ring has places.
            for _ in 0..70 {
                kernel.launch(Grid::ONE, &mut args).unwrap();
            }
            drop(args);
            for (i, sums) in (1..).zip(&sums) {
                let expected: Vec<i32> = source.iter().map(|x| x + i).collect();
                assert_eq!(*sums, expected, "{i} of {count}");
            }
        }
    });
}

#[test]
fn a_launch_that_does_not_fit_changes_nothing() {
    alone(&[], || {
        let device = device();
        let design = designs::core("npu2", "i32", "%z = arith.addi %x, %y : i32");
        let image = image(&design, Form::FullElf, Npu::Npu2, 3);
        let shape = || npu_runtime::Shape::Ranked(vec![Some(1024)].into());
        let parameter = |name, direction| {
            Parameter::memory(
                name,
                "memref<1024xi32>",
                ElementType::I32,
                shape(),
                direction,
            )
        };
        let signature = signature(vec![
            parameter("x", Direction::In),
            parameter("y", Direction::In),
            parameter("z", Direction::Out),
        ]);
        let kernel = Kernel::load(&device, &[image], signature).unwrap();
        let (x, mut z) = ([1_i32; 1024], [9_i32; 1024]);
        let short = [1_i32; 1023];
        let floats = [1.0_f32; 1024];
        let refused = |args: &mut [Arg<'_>]| kernel.launch(Grid::ONE, args).unwrap_err();
        let errors = [
            refused(&mut [Arg::input(&x), Arg::input(&short), Arg::output(&mut z)]),
            refused(&mut [Arg::input(&x), Arg::input(&floats), Arg::output(&mut z)]),
            refused(&mut [Arg::input(&x), Arg::output(&mut z)]),
            refused(&mut [Arg::input(&x), Arg::input(&x), Arg::input(&x)]),
            refused(&mut [Arg::input(&x), Arg::input(&x), Arg::scalar(1)]),
        ];
        let texts = errors.map(|error| error.to_string());
        let expected = [
            "expected 1024 elements, got 1023",
            "expected i32, got f32",
            "takes 3 arguments, 2 were given",
            "expected an output",
            "expected memory",
        ];
        for (text, expected) in texts.iter().zip(expected) {
            assert!(text.contains(expected), "{text}");
        }
        assert_eq!(z, [9; 1024]);
        assert_eq!(counters().doorbells, 0);
    });
}

/// What a launch calls of ROCR cannot fail: it moves indices and signals.
#[test]
fn a_launch_makes_no_call_that_has_a_status() {
    alone(&[], || {
        let kernel = add(&device());
        let x = [1_i32; 1024];
        let launch = || launch_binary(&kernel, &x, &x);
        launch();
        let before = counters();
        for _ in 0..100 {
            launch();
        }
        let after = counters();
        assert_eq!(after.calls, before.calls);
        assert_eq!(after.packets, before.packets + 100);
    });
}
