//! Launches: results, copies, and what is there already.

use crate::counting::allocations;
use crate::scene::{
    Scene, adding, binary, binary_with, binary_with_scalar, changed, counting, multiplying,
    products, sums,
};
use npu_runtime::{Arg, Artifact, Direction, Error, Grid, Image, Kernel, Npu, Runtime};

#[test]
fn kernels_compute_on_either_generation() {
    for (model, npu) in [("npu1", Npu::Npu1), ("npu2", Npu::Npu2)] {
        let scene = Scene::on(model);
        let device = scene.device();
        assert_eq!(device.runtime(), Runtime::Xrt);
        assert_eq!(device.npu(), Some(npu));
        assert_eq!(format!("{device:?}"), format!("Device(xrt, {npu})"));
        let kernel = Kernel::load(&device, &[adding(npu)], binary()).unwrap();
        let (x, y, mut z) = (counting(), vec![1000; 256], vec![0; 256]);
        let mut args = [Arg::input(&x), Arg::input(&y), Arg::output(&mut z)];
        kernel.launch(Grid::ONE, &mut args).unwrap();
        assert_eq!(z, sums(&x, &y));
    }
}

#[test]
fn the_image_that_fits_the_device_is_loaded() {
    let images = [
        Image::Object(Artifact::embedded(b"")),
        adding(Npu::Npu1),
        adding(Npu::Npu2),
    ];
    for model in ["npu1", "npu2"] {
        let scene = Scene::on(model);
        let kernel = Kernel::load(&scene.device(), &images, binary()).unwrap();
        let (x, y, mut z) = (counting(), vec![-1; 256], vec![0; 256]);
        let mut args = [Arg::input(&x), Arg::input(&y), Arg::output(&mut z)];
        kernel.launch(Grid::ONE, &mut args).unwrap();
        assert_eq!(z, sums(&x, &y));
    }
}

#[test]
fn scalars_stay_with_the_host() {
    let scene = Scene::on("npu2");
    let device = scene.device();
    let kernel = Kernel::load(&device, &[adding(Npu::Npu2)], binary_with_scalar()).unwrap();
    let (x, y, mut z) = (counting(), vec![4; 256], vec![0; 256]);
    let mut args = [
        Arg::input(&x),
        Arg::scalar(77),
        Arg::input(&y),
        Arg::output(&mut z),
    ];
    kernel.launch(Grid::ONE, &mut args).unwrap();
    assert_eq!(z, sums(&x, &y));
}

#[test]
fn launches_after_the_first_set_nothing_up() {
    for (model, npu) in [("npu1", Npu::Npu1), ("npu2", Npu::Npu2)] {
        let scene = Scene::on(model);
        let device = scene.device();
        let kernel = Kernel::load(&device, &[adding(npu)], binary()).unwrap();
        let (x, y, mut z) = (counting(), vec![1; 256], vec![0; 256]);
        let mut launch = || {
            let mut args = [Arg::input(&x), Arg::input(&y), Arg::output(&mut z)];
            kernel.launch(Grid::ONE, &mut args).unwrap();
        };
        launch();
        let many = || (0..1000).for_each(|_| launch());
        let (set_up, ()) = scene.driver.growth("set_up", many);
        assert_eq!(set_up, 0, "{model}");
        assert_eq!(device.counters().dispatches, 1001);
        assert_eq!(allocations(launch), 0);
    }
}

#[test]
fn inputs_are_not_copied_back_and_outputs_not_in() {
    let scene = Scene::on("npu2");
    let device = scene.device();
    let (x, y) = (counting(), vec![1; 256]);
    let copied = |signature| {
        let kernel = Kernel::load(&device, &[adding(Npu::Npu2)], signature).unwrap();
        let mut z = vec![0; 256];
        let mut args = [Arg::input(&x), Arg::input(&y), Arg::output(&mut z)];
        let launch = || kernel.launch(Grid::ONE, &mut args).unwrap();
        let (bytes_in, (bytes_out, ())) = scene
            .driver
            .growth("bytes_in", || scene.driver.growth("bytes_out", launch));
        assert_eq!(z, sums(&x, &y));
        (bytes_in, bytes_out)
    };
    assert_eq!(copied(binary()), (2048, 1024));
    let in_out = binary_with(Direction::In, Direction::InOut);
    assert_eq!(copied(in_out), (3072, 1024));
}

#[test]
fn buffers_and_slices_mix() {
    for (model, npu) in [("npu1", Npu::Npu1), ("npu2", Npu::Npu2)] {
        let scene = Scene::on(model);
        let device = scene.device();
        let kernel = Kernel::load(&device, &[adding(npu)], binary()).unwrap();
        let x = device.buffer_from(&counting()).unwrap();
        let mut z = device.buffer::<i32>(256).unwrap();
        assert!(z.iter().all(|&z| z == 0));
        assert_eq!(z.as_ptr() as usize % 64, 0);
        let y = [7; 256];
        for _ in 0..3 {
            let mut args = [Arg::input(&x), Arg::input(&y), Arg::output(&mut z)];
            kernel.launch(Grid::ONE, &mut args).unwrap();
        }
        assert_eq!(&z[..], sums(&x, &y));
        // What was an output is read where it is.
        let mut w = device.buffer::<i32>(256).unwrap();
        let mut args = [Arg::input(&z), Arg::input(&x), Arg::output(&mut w)];
        let (made, launched) = scene
            .driver
            .growth("bos", || kernel.launch(Grid::ONE, &mut args));
        launched.unwrap();
        assert_eq!(made, 0);
        assert_eq!(&w[..], sums(&z, &x));
        // A part of a buffer is an ordinary slice.
        let large = device.buffer_from(&[3; 600]).unwrap();
        let mut args = [
            Arg::input(&large[100..356]),
            Arg::input(&x),
            Arg::output(&mut w),
        ];
        kernel.launch(Grid::ONE, &mut args).unwrap();
        assert_eq!(&w[..], sums(&[3; 256], &x));
    }
}

#[test]
fn everything_may_be_dropped_in_any_order() {
    let scene = Scene::on("npu2");
    let device = scene.device();
    let kernel = Kernel::load(&device, &[adding(Npu::Npu2)], binary()).unwrap();
    let x = device.buffer_from(&counting()).unwrap();
    let mut z = device.buffer::<i32>(256).unwrap();
    drop(device);
    assert_eq!(scene.driver.count("devices_live"), 1);
    let mut args = [Arg::input(&x), Arg::input(&x), Arg::output(&mut z)];
    kernel.launch(Grid::ONE, &mut args).unwrap();
    let other = kernel.clone();
    drop(kernel);
    drop(other);
    assert_eq!(scene.driver.count("contexts_live"), 0);
    assert_eq!(&z[..], sums(&x, &x));
    drop(x);
    assert_eq!(scene.driver.count("devices_live"), 1);
    drop(z);
    assert_eq!(scene.driver.count("devices_live"), 0);
    // And it opens again.
    drop(scene.device());
}

#[test]
fn the_same_content_is_loaded_once() {
    let scene = Scene::on("npu2");
    let device = scene.device();
    let load = || Kernel::load(&device, &[adding(Npu::Npu2)], binary()).unwrap();
    let kernels: Vec<Kernel> = (0..10).map(|_| load()).collect();
    assert_eq!(scene.driver.count("kernels_live"), 1);
    drop(kernels);
    assert_eq!(scene.driver.count("kernels_live"), 0);
    load();
}

#[test]
fn a_hundred_kernels_are_loaded_at_once() {
    let scene = Scene::on("npu2");
    let device = scene.device();
    // What follows the sections belongs to none of them.
    let image = |i: u32| changed(|elf| elf.extend(i.to_le_bytes()));
    let load = |i| Kernel::load(&device, &[image(i)], binary()).unwrap();
    let kernels: Vec<Kernel> = (0..100).map(load).collect();
    assert_eq!(scene.driver.count("contexts_live"), 16);
    let (x, y, mut z) = (counting(), vec![9; 256], vec![0; 256]);
    for kernel in &kernels {
        z.fill(0);
        let mut args = [Arg::input(&x), Arg::input(&y), Arg::output(&mut z)];
        kernel.launch(Grid::ONE, &mut args).unwrap();
        assert_eq!(z, sums(&x, &y));
    }
}

#[test]
fn thirty_two_threads_launch_a_thousand_times_each() {
    let scene = Scene::on("npu2");
    let device = scene.device();
    let add = Kernel::load(&device, &[adding(Npu::Npu2)], binary()).unwrap();
    let multiply = Kernel::load(&device, &[multiplying()], binary()).unwrap();
    std::thread::scope(|threads| {
        for thread in 0..32 {
            let (add, multiply) = (&add, &multiply);
            threads.spawn(move || {
                let (x, mut y, mut z) = (counting(), vec![thread; 256], vec![0; 256]);
                for round in 0..1000_usize {
                    y[round % 256] = round as i32;
                    let (kernel, expected) = match round % 2 {
                        0 => (add, sums(&x, &y)),
                        _ => (multiply, products(&x, &y)),
                    };
                    let mut args = [Arg::input(&x), Arg::input(&y), Arg::output(&mut z)];
                    kernel.launch(Grid::ONE, &mut args).unwrap();
                    assert_eq!(z, expected);
                }
            });
        }
    });
    assert_eq!(device.counters().dispatches, 32_000);
}

#[test]
fn a_run_that_does_not_complete_is_an_error_and_the_next_one_is_well() {
    for (model, npu) in [("npu1", Npu::Npu1), ("npu2", Npu::Npu2)] {
        let scene = Scene::on(model);
        let device = scene.device();
        let kernel = Kernel::load(&device, &[adding(npu)], binary()).unwrap();
        let (x, y, mut z) = (counting(), vec![1; 256], vec![-1; 256]);
        scene.driver.set("STATE", "timeout@1");
        let mut args = [Arg::input(&x), Arg::input(&y), Arg::output(&mut z)];
        let error = kernel.launch(Grid::ONE, &mut args).unwrap_err();
        let Error::Xrt(failure) = &error else {
            panic!("{error}");
        };
        assert_eq!(failure.state, Some(8));
        let text = error.to_string();
        assert!(
            text.starts_with("xrt: launching kernel `combine`: "),
            "{text}"
        );
        assert!(text.contains("TIMEOUT (8) instead of COMPLETED"), "{text}");
        kernel.launch(Grid::ONE, &mut args).unwrap();
        assert_eq!(z, sums(&x, &y));
    }
}
