//! What is copied which way, and the verify mode that finds wrong directions.

use crate::designs;
use crate::emulated::alone;
use crate::kernels::{self, Form, device, image, memory, signature};
use npu_runtime::{Arg, Direction, ElementType, Error, Grid, Kernel, Npu};

/// `z = x + y` with any directions.
fn adding([x, y, z]: [Direction; 3]) -> Kernel {
    let parameters = [("x", x), ("y", y), ("z", z)]
        .map(|(name, direction)| memory(name, ElementType::I32, direction));
    let images = [kernels::add_image(Form::FullElf)];
    Kernel::load(&device(), &images, signature(parameters.to_vec())).unwrap()
}

use Direction::{In, InOut, Out};

/// A kernel that does nothing shows what the copies do.
#[test]
fn an_inout_keeps_what_the_kernel_does_not_write() {
    alone(&[], || {
        let device = device();
        let images = [kernels::idle_image(0)];
        let kernel = Kernel::load(&device, &images, kernels::unary()).unwrap();
        let mut x: Vec<i32> = (0..5000).collect();
        kernel
            .launch(Grid::ONE, &mut [Arg::output(&mut x)])
            .unwrap();
        assert_eq!(x, (0..5000).collect::<Vec<_>>());
    });
}

/// The other side of it: what is promised to be overwritten is not copied in.
#[test]
fn an_output_is_not_copied_in() {
    alone(&[], || {
        let device = device();
        let mut signature = kernels::unary();
        signature.parameters = vec![memory("x", ElementType::I32, Out)].into();
        let kernel = Kernel::load(&device, &[kernels::idle_image(0)], signature).unwrap();
        let mut x = [7_i32; 16];
        kernel
            .launch(Grid::ONE, &mut [Arg::output(&mut x)])
            .unwrap();
        // A new block is zero, and nothing of `x` went there.
        assert_eq!(x, [0; 16]);
    });
}

#[test]
fn an_input_is_not_copied_back() {
    alone(&[], || {
        // A wrong direction, without verify mode: the output is lost, and nothing else happens.
        let kernel = adding([In, In, In]);
        let (x, z) = ([1_i32; 1024], [7_i32; 1024]);
        let args = &mut [Arg::input(&x), Arg::input(&x), Arg::input(&z)];
        kernel.launch(Grid::ONE, args).unwrap();
        assert_eq!(z, [7; 1024]);
    });
}

const VERIFY: (&str, &str) = ("NPU_RUNTIME_VERIFY_DIRECTIONS", "1");

#[track_caller]
fn assert_names_z(error: &Error) {
    let Error::InputWritten {
        argument, offset, ..
    } = error
    else {
        panic!("{error}");
    };
    assert_eq!((&**argument, *offset), (&(2, "z".to_owned()), 0));
    let text = error.to_string();
    assert!(text.contains("--arg z=inout"), "{text}");
}

#[test]
fn verify_mode_names_an_output_that_is_called_an_input() {
    alone(&[VERIFY], || {
        let kernel = adding([In, In, In]);
        let (x, z) = ([1_i32; 1024], [7_i32; 1024]);
        let args = &mut [Arg::input(&x), Arg::input(&x), Arg::input(&z)];
        assert_names_z(&kernel.launch(Grid::ONE, args).unwrap_err());

        let device = device();
        let (x, z) = (
            device.buffer_from(&x).unwrap(),
            device.buffer_from(&z).unwrap(),
        );
        let args = &mut [Arg::input(&x), Arg::input(&x), Arg::input(&z)];
        assert_names_z(&kernel.launch(Grid::ONE, args).unwrap_err());
    });
}

#[test]
fn verify_mode_looks_at_every_launch_of_a_chain() {
    alone(&[VERIFY], || {
        let (right, wrong) = (adding([In, In, Out]), adding([In, In, In]));
        let device = device();
        let x = device.buffer_from(&[1_i32; 1024]).unwrap();
        let (mut z, other) = ([0_i32; 1024], [7_i32; 1024]);
        let mut chain = npu_runtime::Chain::new(&device);
        let args = [Arg::input(&x), Arg::input(&x), Arg::output(&mut z)];
        chain.push(right.bind(Grid::ONE, args).unwrap()).unwrap();
        let args = [Arg::input(&x), Arg::input(&x), Arg::input(&other)];
        chain.push(wrong.bind(Grid::ONE, args).unwrap()).unwrap();
        let Err(Error::Chain {
            completed, source, ..
        }) = chain.run()
        else {
            panic!();
        };
        // Both ran; the error tells which one is to blame.
        assert_eq!(completed, 1);
        assert_names_z(&source);
        assert_eq!(z, [2; 1024]);
    });
}

#[test]
fn verify_mode_has_nothing_against_right_directions() {
    alone(&[VERIFY], || {
        let kernel = adding([In, In, InOut]);
        let device = device();
        let (x, mut z) = ([1_i32; 1024], [7_i32; 1024]);
        let y = device.buffer_from(&[2_i32; 1024]).unwrap();
        let args = &mut [Arg::input(&x), Arg::input(&y), Arg::output(&mut z)];
        kernel.launch(Grid::ONE, args).unwrap();
        assert_eq!(z, [3; 1024]);
    });
}

#[test]
fn a_part_that_is_not_written_keeps_its_content() {
    alone(&[], || {
        // The kernel writes 1024 elements of more.
        let design = designs::core("npu2", "i32", "%z = arith.muli %x, %y : i32");
        let image = image(&design, Form::Stream, Npu::Npu2, 3);
        let parameters = [("x", In), ("y", In), ("z", InOut)]
            .map(|(name, direction)| memory(name, ElementType::I32, direction));
        let signature = signature(parameters.to_vec());
        let kernel = Kernel::load(&device(), &[image], signature).unwrap();
        let (x, mut z) = ([3_i32; 1024], [5_i32; 2000]);
        let args = &mut [Arg::input(&x), Arg::input(&x), Arg::output(&mut z)];
        kernel.launch(Grid::ONE, args).unwrap();
        assert_eq!(z[..1024], [9; 1024]);
        assert_eq!(z[1024..], [5; 976]);
    });
}
