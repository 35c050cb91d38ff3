//! Launches: right results, and a clear refusal of everything that does not fit.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test that can't go on fails"
)]

mod support;

use half::{bf16, f16};
use npu_runtime::{
    Arg, ArgumentFault, Artifact, Chain, Device, Direction, ElementType, Error, Grid, GridFault,
    Image, Kernel, Lengths, Parameter, Runtime, Signature,
};
use std::sync::LazyLock;
use support::{compile, ranked, signature, unranked};

fn load(object: Vec<u8>, signature: Signature) -> Kernel {
    let device = Device::open(Runtime::Cpu).unwrap();
    Kernel::load(
        &device,
        &[Image::Object(Artifact::bytes(object))],
        signature,
    )
    .unwrap()
}

/// The fault of a refused argument, with its index.
fn fault(result: Result<(), Error>) -> (usize, ArgumentFault) {
    match result {
        Err(Error::Argument(error)) => (error.index, error.fault),
        other => panic!("expected an argument's error, got {other:?}"),
    }
}

static VECADD: LazyLock<Kernel> = LazyLock::new(|| {
    let (object, signature) = support::vecadd();
    load(object, signature)
});

/// Writes what it is called with: sizes, scalars, grid and id, as 64-bit integers.
fn recorder(slots: usize, parameters: Vec<Parameter>, grid: bool) -> Kernel {
    let object = compile(
        slots,
        "void record(const uint64_t *, const int32_t *, const int32_t *)",
        "record(slots, grid, id);",
        &format!(
            "void record(const uint64_t *slots, const int32_t *grid, const int32_t *id) {{
               int64_t *out = (int64_t *)slots[0] + 40 * (id[0] + grid[0] * (id[1] + grid[1] * id[2]));
               for (int i = 0; i < 3; i++) {{ out[i] = grid[i]; out[3 + i] = id[i]; }}
               for (int i = 2; i < {slots} && i < 36; i++) out[6 + i - 2] = (int64_t)slots[i];
             }}"
        ),
    );
    let mut all = vec![unranked("out", ElementType::I64, Direction::InOut)];
    all.extend(parameters);
    load(object, signature("record", grid, all))
}

#[test]
fn a_grid_of_programs_adds_two_vectors() {
    let n = 10_000;
    let a: Vec<f32> = (0..n).map(|i| i as f32).collect();
    let b: Vec<f32> = (0..n).map(|i| (3 * i) as f32).collect();
    let mut c = vec![0.0; n];
    VECADD
        .launch(
            Grid::from(10),
            &mut [
                Arg::input::<f32>(&a),
                Arg::input::<f32>(&b),
                Arg::output::<f32>(&mut c),
                Arg::scalar(n as i32),
            ],
        )
        .unwrap();
    let expected: Vec<f32> = (0..n).map(|i| (4 * i) as f32).collect();
    assert_eq!(c, expected);
}

#[test]
fn slices_arrays_vectors_and_buffers_are_all_taken() {
    let device = Device::open(Runtime::Cpu).unwrap();
    let array = [1.0_f32; 4];
    let buffer = device.buffer_from(&[2.0_f32; 4]).unwrap();
    let mut sums = device.buffer::<f32>(4).unwrap();
    let mut vector = vec![9.0_f32; 8];
    let slice: &mut [f32] = &mut vector[2..6];
    let args = &mut [
        Arg::input(&array),
        Arg::input(&buffer),
        Arg::output(&mut sums),
        Arg::scalar(4_i32),
    ];
    VECADD.launch(Grid::ONE, args).unwrap();
    assert_eq!(*sums, [3.0; 4]);
    let args = &mut [
        Arg::input(&*sums),
        Arg::input(&array),
        Arg::output(slice),
        Arg::scalar(4_u32),
    ];
    VECADD.launch(Grid::ONE, args).unwrap();
    assert_eq!(vector, [9.0, 9.0, 4.0, 4.0, 4.0, 4.0, 9.0, 9.0]);
}

#[test]
fn a_chain_s_launches_share_buffers_by_value() {
    let device = Device::open(Runtime::Cpu).unwrap();
    let mut first = device.buffer_from(&[1.0_f32; 4]).unwrap();
    let mut second = device.buffer_from(&[10.0_f32; 4]).unwrap();
    let mut chain = Chain::new(&device);
    let (one, two) = (first.share(), second.share());
    // As of Fibonacci: 1, 10, 11, 21.
    for (a, b, sum) in [(one, two, one), (one, two, two)] {
        let args = [
            Arg::input(a),
            Arg::input(b),
            Arg::output(sum),
            Arg::scalar(4),
        ];
        chain.push(VECADD.bind(Grid::ONE, args).unwrap()).unwrap();
    }
    chain.run().unwrap();
    assert_eq!(*first, [11.0; 4]);
    assert_eq!(*second, [21.0; 4]);
}

/// What generated launchers look like: their grid is `impl IntoGrid`.
#[test]
fn a_grid_may_be_a_plain_number() {
    fn launch(grid: impl npu_runtime::IntoGrid) -> Grid {
        grid.into_grid()
    }
    assert_eq!(launch(8), Grid { x: 8, y: 1, z: 1 });
    assert_eq!(launch((8, 2)), Grid { x: 8, y: 2, z: 1 });
    assert_eq!(launch([8, 2, 3]), Grid { x: 8, y: 2, z: 3 });
}

#[test]
fn each_program_is_told_its_place_in_the_grid() {
    let kernel = recorder(2, vec![], true);
    let grid = Grid { x: 3, y: 2, z: 4 };
    let mut out = vec![-1_i64; 40 * 24];
    kernel.launch(grid, &mut [Arg::output(&mut out)]).unwrap();
    for z in 0..4 {
        for y in 0..2 {
            for x in 0..3 {
                let program = &out[40 * (x + 3 * (y + 2 * z))..][..6];
                assert_eq!(program, [3, 2, 4, x as i64, y as i64, z as i64]);
            }
        }
    }
}

#[test]
fn scalars_of_each_type_arrive_as_their_bits_zero_extended() {
    use ElementType as E;
    let types = [
        E::I1,
        E::I8,
        E::I16,
        E::I32,
        E::I64,
        E::Ui8,
        E::Ui16,
        E::Ui32,
        E::Ui64,
        E::Index,
        E::F16,
        E::Bf16,
        E::F32,
        E::F64,
        E::I32,
    ];
    let parameters = types
        .iter()
        .map(|t| Parameter::scalar("x", "x", t.clone()))
        .collect();
    let kernel = recorder(2 + types.len(), parameters, false);
    let mut out = [0_i64; 40];
    let args = &mut [
        Arg::output(&mut out),
        Arg::scalar(true),
        Arg::scalar(-2_i8),
        Arg::scalar(-2_i16),
        Arg::scalar(-2_i32),
        Arg::scalar(-2_i64),
        Arg::scalar(200_u8),
        Arg::scalar(60_000_u16),
        Arg::scalar(4_000_000_000_u32),
        Arg::scalar(u64::MAX),
        Arg::scalar(7_i64),
        Arg::scalar(f16::from_f32(1.0)),
        Arg::scalar(bf16::from_f32(1.0)),
        Arg::scalar(1.0_f32),
        Arg::scalar(1.0_f64),
        Arg::scalar(u32::MAX),
    ];
    kernel.launch(Grid::ONE, args).unwrap();
    let expected = [
        1,
        0xfe,
        0xfffe,
        0xffff_fffe,
        -2,
        200,
        60_000,
        4_000_000_000,
        -1,
        7,
        0x3c00,
        0x3f80,
        0x3f80_0000,
        0x3ff0_0000_0000_0000,
        0xffff_ffff,
    ];
    assert_eq!(out[6..][..15], expected);
}

#[test]
fn dynamic_dimensions_follow_from_the_length_or_from_the_shape() {
    let kernel = recorder(
        7,
        vec![
            ranked(
                "one",
                "memref<4x?xi8>",
                ElementType::I8,
                &[Some(4), None],
                Direction::In,
            ),
            ranked(
                "two",
                "memref<?x3x?xi8>",
                ElementType::I8,
                &[None, Some(3), None],
                Direction::In,
            ),
        ],
        false,
    );
    let (one, two) = ([0_i8; 20], [0_u8; 42]);
    let mut out = [0_i64; 40];
    let args = &mut [
        Arg::output(&mut out),
        Arg::input(&one),
        Arg::input(&two).with_shape(&[2, 3, 7]),
    ];
    kernel.launch(Grid::ONE, args).unwrap();
    assert_eq!(out[6], one.as_ptr() as i64);
    assert_eq!(out[7], 5);
    assert_eq!(out[8], two.as_ptr() as i64);
    assert_eq!(out[9..11], [2, 7]);

    // A recorded launch may own its shapes.
    let args = [
        Arg::output(&mut out),
        Arg::input(&one),
        Arg::input(&two).with_shape(vec![7, 3, 2]),
    ];
    let mut chain = Chain::new(&Device::open(Runtime::Cpu).unwrap());
    chain.push(kernel.bind(Grid::ONE, args).unwrap()).unwrap();
    chain.run().unwrap();
    drop(chain);
    assert_eq!(out[9..11], [7, 2]);
}

#[test]
fn unranked_memory_is_told_how_many_elements_it_has() {
    let kernel = recorder(
        6,
        vec![
            unranked("floats", ElementType::F64, Direction::In),
            unranked("blocks", ElementType::bytes(12, 4), Direction::In),
        ],
        false,
    );
    #[repr(align(4))]
    struct Blocks([u8; 36]);
    let (mut out, blocks) = ([0_i64; 40], Blocks([0; 36]));
    let args = &mut [
        Arg::output(&mut out),
        Arg::input(&[0.0_f64; 5]),
        Arg::input(&blocks.0),
    ];
    kernel.launch(Grid::ONE, args).unwrap();
    assert_eq!((out[7], out[9]), (5, 3));
}

#[test]
fn more_arguments_than_fit_the_stack_are_passed_all_the_same() {
    let count = 100;
    let object = compile(
        2 + count,
        "void sum(const uint64_t *)",
        "sum(slots);",
        "void sum(const uint64_t *slots) {
           int64_t *out = (int64_t *)slots[0];
           for (int i = 0; i < 100; i++) out[0] += (i + 1) * (int64_t)slots[2 + i];
         }",
    );
    let mut parameters = vec![unranked("out", ElementType::I64, Direction::InOut)];
    parameters.extend((0..count).map(|_| Parameter::scalar("x", "i64", ElementType::I64)));
    let kernel = load(object, signature("sum", false, parameters));
    for _ in 0..2 {
        let mut out = [0_i64];
        let mut args = vec![Arg::output(&mut out)];
        args.extend((0..count as i64).map(Arg::scalar));
        kernel.launch(Grid::ONE, &mut args).unwrap();
        // The sum of i (i + 1) for i below 100.
        assert_eq!(out, [333_300]);
    }
}

#[test]
fn a_grid_with_a_zero_runs_nothing_but_checks_everything() {
    let input = [1.0_f32; 4];
    let mut output = [7.0_f32; 4];
    for grid in [
        (0, 1, 1),
        (1, 0, 1),
        (1, 1, 0),
        (i32::MAX as u32, i32::MAX as u32, 0),
    ] {
        let args = &mut [
            Arg::input(&input),
            Arg::input(&input),
            Arg::output(&mut output),
            Arg::scalar(4),
        ];
        VECADD.launch(grid.into(), args).unwrap();
        assert!(VECADD.launch(grid.into(), &mut args[..3]).is_err());
    }
    assert_eq!(output, [7.0; 4]);
}

#[test]
fn a_grid_beyond_the_limits_is_refused() {
    let input = [1.0_f32; 4];
    let mut output = [7.0_f32; 4];
    let most = i32::MAX as u32;
    for grid in [
        (most + 1, 1, 1),
        (1, u32::MAX, 1),
        (1, 1, 1 << 31),
        (most, most, 4),
    ] {
        let args = &mut [
            Arg::input(&input),
            Arg::input(&input),
            Arg::output(&mut output),
            Arg::scalar(4),
        ];
        match VECADD.launch(grid.into(), args) {
            Err(Error::Grid {
                fault: GridFault::TooLarge,
                ..
            }) => {}
            other => panic!("{grid:?}: {other:?}"),
        }
    }
    assert_eq!(output, [7.0; 4]);
}

#[test]
fn a_kernel_without_a_grid_takes_one_program() {
    let kernel = recorder(2, vec![], false);
    let mut out = [0_i64; 80];
    let error = kernel
        .launch(Grid::from(2), &mut [Arg::output(&mut out)])
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "kernel `record` can't be launched over a grid of 2x1x1: it has no grid; use `Grid::ONE`"
    );
    assert_eq!(out, [0; 80]);
}

#[test]
fn too_few_and_too_many_arguments_are_refused() {
    let input = [1.0_f32; 4];
    let mut args: Vec<Arg> = (0..5).map(|_| Arg::input(&input)).collect();
    for count in [0, 3, 5] {
        let error = VECADD.launch(Grid::ONE, &mut args[..count]).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("kernel `vecadd` takes 4 arguments, {count} were given")
        );
    }
}

#[test]
fn an_argument_of_another_kind_type_or_direction_is_refused_by_name() {
    let (floats, doubles) = ([1.0_f32; 4], [1.0_f64; 4]);
    let (mut first, mut second) = ([0.0_f32; 4], [0.0_f32; 4]);
    let mut texts = Vec::new();
    {
        let mut refused = |args: &mut [Arg]| {
            texts.push(VECADD.launch(Grid::ONE, args).unwrap_err().to_string());
        };
        let a = || Arg::input(&floats);
        refused(&mut [
            Arg::scalar(1.0_f32),
            a(),
            Arg::output(&mut first),
            Arg::scalar(4),
        ]);
        refused(&mut [a(), a(), Arg::output(&mut first), a()]);
        refused(&mut [
            a(),
            Arg::input(&doubles),
            Arg::output(&mut first),
            Arg::scalar(4),
        ]);
        refused(&mut [a(), a(), Arg::output(&mut first), Arg::scalar(4_i64)]);
        refused(&mut [a(), a(), a(), Arg::scalar(4)]);
        refused(&mut [
            Arg::output(&mut second),
            a(),
            Arg::output(&mut first),
            Arg::scalar(4),
        ]);
        refused(&mut [
            a(),
            a(),
            Arg::output(&mut first),
            Arg::scalar(4).with_shape(&[1]),
        ]);
    }
    assert_eq!(
        texts,
        [
            "kernel `vecadd`, argument 0 `a` (memref<*xT>): expected memory, got a scalar f32",
            "kernel `vecadd`, argument 3 `n` (i32): expected a scalar, got memory",
            "kernel `vecadd`, argument 1 `b` (memref<*xT>): expected f32, got f64",
            "kernel `vecadd`, argument 3 `n` (i32): expected i32, got i64",
            "kernel `vecadd`, argument 2 `c` (memref<*xT>): the kernel writes it: expected an \
             output, got an input",
            "kernel `vecadd`, argument 0 `a` (memref<*xT>): the kernel only reads it: expected an \
             input, got an output",
            "kernel `vecadd`, argument 3 `n` (i32): a scalar has no shape",
        ]
    );
    assert_eq!((first, second), ([0.0; 4], [0.0; 4]));
}

#[test]
fn lengths_and_shapes_are_checked_as_far_as_the_type_says() {
    let parameters = vec![
        ranked(
            "s",
            "memref<2x3xi8>",
            ElementType::I8,
            &[Some(2), Some(3)],
            Direction::In,
        ),
        ranked(
            "o",
            "memref<4x?xi8>",
            ElementType::I8,
            &[Some(4), None],
            Direction::In,
        ),
        ranked(
            "t",
            "memref<?x?xi8>",
            ElementType::I8,
            &[None, None],
            Direction::In,
        ),
        ranked(
            "z",
            "memref<0x?xi8>",
            ElementType::I8,
            &[Some(0), None],
            Direction::In,
        ),
    ];
    let kernel = recorder(2 + 1 + 2 + 3 + 2, parameters, false);
    let memory = [0_i8; 64];
    let mut out = [0_i64; 40];
    let mut launch = |index: usize, len: usize, shape: Option<&[usize]>| {
        let (mut lens, mut shapes) = ([6, 8, 4, 0], [None, None, Some(&[2, 2][..]), None]);
        lens[index] = len;
        shapes[index] = shape;
        let mut args = vec![Arg::output(&mut out)];
        for (len, shape) in lens.into_iter().zip(shapes) {
            let arg = Arg::input(&memory[..len]);
            args.push(match shape {
                Some(dims) => arg.with_shape(dims),
                None => arg,
            });
        }
        kernel.launch(Grid::ONE, &mut args)
    };
    let (two_three, four_any) = (vec![Some(2), Some(3)], vec![Some(4), None]);
    let any_any = vec![None, None];

    launch(0, 6, None).unwrap();
    launch(0, 6, Some(&[2, 3])).unwrap();
    launch(1, 0, None).unwrap();
    launch(1, 12, Some(&[4, 3])).unwrap();
    launch(2, 0, Some(&[0, 9])).unwrap();
    launch(3, 0, Some(&[0, 9])).unwrap();
    let exactly = |expected, found| ArgumentFault::Length {
        expected: Lengths::Exactly(expected),
        found,
    };
    let shape = |expected: &Vec<Option<u64>>, found: &[usize]| ArgumentFault::Shape {
        expected: expected.clone(),
        found: found.to_vec(),
    };
    assert_eq!(fault(launch(0, 5, None)), (1, exactly(6, 5)));
    assert_eq!(fault(launch(0, 0, None)), (1, exactly(6, 0)));
    assert_eq!(
        fault(launch(0, 6, Some(&[3, 2]))),
        (1, shape(&two_three, &[3, 2]))
    );
    assert_eq!(
        fault(launch(0, 6, Some(&[6]))),
        (1, shape(&two_three, &[6]))
    );
    let multiple = ArgumentFault::Length {
        expected: Lengths::MultipleOf(4),
        found: 10,
    };
    assert_eq!(fault(launch(1, 10, None)), (2, multiple));
    assert_eq!(
        fault(launch(1, 12, Some(&[3, 4]))),
        (2, shape(&four_any, &[3, 4]))
    );
    let needed = ArgumentFault::ShapeNeeded {
        expected: any_any.clone(),
    };
    assert_eq!(fault(launch(2, 4, None)), (3, needed));
    let length = ArgumentFault::ShapeLength {
        shape: vec![2, 3],
        found: 4,
    };
    assert_eq!(fault(launch(2, 4, Some(&[2, 3]))), (3, length));
    let huge = [usize::MAX, 0];
    assert_eq!(
        fault(launch(2, 0, Some(&huge))),
        (3, shape(&any_any, &huge))
    );
    let overflow = [1 << 40, 1 << 40];
    assert!(launch(2, 4, Some(&overflow)).is_err());
    assert_eq!(fault(launch(3, 1, None)), (4, exactly(0, 1)));
}

#[test]
fn booleans_in_memory_are_bytes() {
    let flags = ranked(
        "f",
        "memref<3xi1>",
        ElementType::I1,
        &[Some(3)],
        Direction::In,
    );
    let kernel = recorder(3, vec![flags], false);
    let mut out = [0_i64; 40];
    for arg in [Arg::input(&[1_u8, 0, 1]), Arg::input(&[1_i8, 0, 1])] {
        kernel
            .launch(Grid::ONE, &mut [Arg::output(&mut out), arg])
            .unwrap();
    }
    let args = &mut [Arg::output(&mut out), Arg::input(&[1_i16, 0, 1])];
    assert!(kernel.launch(Grid::ONE, args).is_err());
}

#[test]
fn unsigned_parameters_and_scalar_flags_take_their_own_type_only() {
    let parameters = vec![
        unranked("u", ElementType::Ui32, Direction::In),
        Parameter::scalar("b", "i1", ElementType::I1),
    ];
    let kernel = recorder(5, parameters, false);
    let mut out = [0_i64; 40];
    let mut launch = |u, b| {
        kernel
            .launch(Grid::ONE, &mut [Arg::output(&mut out), u, b])
            .map_err(|e| e.to_string())
    };
    launch(Arg::input(&[1_u32]), Arg::scalar(true)).unwrap();
    assert!(
        launch(Arg::input(&[1_i32]), Arg::scalar(true))
            .unwrap_err()
            .contains("got i32")
    );
    assert!(
        launch(Arg::input(&[1_u32]), Arg::scalar(1_u8))
            .unwrap_err()
            .contains("got u8")
    );
}

#[test]
fn a_kernel_and_its_buffers_may_be_dropped_in_any_order() {
    let (object, signature) = support::vecadd();
    let (twin, mut buffer) = {
        let device = Device::open(Runtime::Cpu).unwrap();
        let kernel = Kernel::load(
            &device,
            &[Image::Object(Artifact::bytes(object))],
            signature,
        )
        .unwrap();
        (kernel.clone(), device.buffer::<f32>(8).unwrap())
    };
    let ones = [1.0_f32; 8];
    let args = &mut [
        Arg::input(&ones),
        Arg::input(&ones),
        Arg::output(&mut buffer),
        Arg::scalar(8),
    ];
    twin.launch(Grid::ONE, args).unwrap();
    drop(twin);
    assert_eq!(*buffer, [2.0; 8]);
}

#[test]
fn a_buffer_of_any_length_is_aligned_zero_and_its_own() {
    let device = Device::open(Runtime::Cpu).unwrap();
    for len in [0, 1, 63, 64, 65, 100_000] {
        let buffer = device.buffer::<u16>(len).unwrap();
        assert_eq!(buffer.len(), len);
        assert_eq!(buffer.as_ptr() as usize % 64, 0);
        assert!(buffer.iter().all(|&x| x == 0));
    }
    let text = format!("{:?}", device.buffer_from(&[1_i32, 2]).unwrap());
    assert_eq!(text, "Buffer of 2 i32 [1, 2]");
    let text = format!("{:?}", device.buffer::<u8>(9).unwrap());
    assert_eq!(text, "Buffer of 9 u8 [0, 0, 0, 0, 0, 0, 0, 0, ..]");
}

#[test]
fn a_buffer_beyond_all_memory_is_an_error() {
    let device = Device::open(Runtime::Cpu).unwrap();
    for len in [usize::MAX, usize::MAX / 8, 1 << 59] {
        match device.buffer::<f64>(len) {
            Err(Error::Allocation {
                elements,
                element_size: 8,
            }) => assert_eq!(elements, len),
            other => panic!("{len}: {other:?}"),
        }
    }
}
