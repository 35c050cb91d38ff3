//! Chains.

use crate::scene::{Scene, adding, binary, counting, multiplying, products, sums};
use npu_runtime::{Arg, Chain, Error, Grid, Kernel, Npu};

#[test]
fn a_chain_of_ten_thousand_launches_runs_in_order() {
    for (model, npu) in [("npu1", Npu::Npu1), ("npu2", Npu::Npu2)] {
        let scene = Scene::on(model);
        let device = scene.device();
        let kernel = Kernel::load(&device, &[adding(npu)], binary()).unwrap();
        let mut sum = device.buffer::<i32>(256).unwrap();
        let one = device.buffer_from(&[1; 256]).unwrap();
        let shared = sum.share();
        let mut chain = Chain::new(&device);
        for _ in 0..10_000 {
            let args = [shared.input(), Arg::input(&one), shared.output()];
            chain.push(kernel.bind(Grid::ONE, args).unwrap()).unwrap();
        }
        let (told, ran) = scene.driver.growth("executes", || chain.run());
        ran.unwrap();
        // The last sixteen are a list, too.
        assert_eq!(told, 10_000_u64.div_ceil(32), "{model}");
        let (set_up, ran) = scene.driver.growth("set_up", || chain.run());
        ran.unwrap();
        assert_eq!(set_up, 0, "{model}");
        drop(chain);
        assert_eq!(&sum[..], [20_000; 256]);
    }
}

/// What is not the device's own memory is copied for each launch afresh.
#[test]
fn launches_may_depend_on_each_other_through_memory_of_another_device() {
    let scene = Scene::on("npu2");
    let device = scene.device();
    let kernel = Kernel::load(&device, &[adding(Npu::Npu2)], binary()).unwrap();
    let cpu = npu_runtime::Device::open(npu_runtime::Runtime::Cpu).unwrap();
    let mut sum = cpu.buffer_from(&[1; 256]).unwrap();
    let shared = sum.share();
    let mut chain = Chain::new(&device);
    for _ in 0..10 {
        let args = [shared.input(), shared.input(), shared.output()];
        chain.push(kernel.bind(Grid::ONE, args).unwrap()).unwrap();
    }
    chain.run().unwrap();
    drop(chain);
    assert_eq!(&sum[..], [1024; 256]);
}

#[test]
fn kernels_and_slices_mix() {
    let scene = Scene::on("npu2");
    let device = scene.device();
    let add = Kernel::load(&device, &[adding(Npu::Npu2)], binary()).unwrap();
    let multiply = Kernel::load(&device, &[multiplying()], binary()).unwrap();
    let (x, y) = (counting(), vec![3; 256]);
    let (mut first, mut second) = (vec![0; 256], vec![0; 256]);
    let mut buffer = device.buffer::<i32>(256).unwrap();
    let shared = buffer.share();
    let mut chain = Chain::new(&device);
    let sum = [Arg::input(&x), Arg::input(&y), shared.output()];
    chain.push(add.bind(Grid::ONE, sum).unwrap()).unwrap();
    let product = [shared.input(), Arg::input(&x), Arg::output(&mut first)];
    chain
        .push(multiply.bind(Grid::ONE, product).unwrap())
        .unwrap();
    let double = [shared.input(), shared.input(), Arg::output(&mut second)];
    chain.push(add.bind(Grid::ONE, double).unwrap()).unwrap();
    chain.run().unwrap();
    drop(chain);
    assert_eq!(&buffer[..], sums(&x, &y));
    assert_eq!(first, products(&buffer, &x));
    assert_eq!(second, sums(&buffer, &buffer));
}

#[test]
fn a_failure_tells_what_was_completed() {
    let scene = Scene::on("npu2");
    let device = scene.device();
    let kernel = Kernel::load(&device, &[adding(Npu::Npu2)], binary()).unwrap();
    let (x, y) = (counting(), vec![3; 256]);
    let mut outputs = vec![vec![-1; 256]; 40];
    let mut chain = Chain::new(&device);
    for z in &mut outputs {
        let args = [Arg::input(&x), Arg::input(&y), Arg::output(z)];
        chain.push(kernel.bind(Grid::ONE, args).unwrap()).unwrap();
    }
    scene.driver.set("STATE", "error@36");
    let error = chain.run().unwrap_err();
    let Error::Chain {
        completed,
        launches,
        source,
    } = &error
    else {
        panic!("{error}");
    };
    assert_eq!((*completed, *launches), (35, 40));
    assert!(
        matches!(&**source, Error::Xrt(failure) if failure.state == Some(5)),
        "{error}"
    );
    drop(chain);
    for (index, z) in outputs.iter().enumerate() {
        let expected = if index < 35 {
            sums(&x, &y)
        } else {
            vec![-1; 256]
        };
        assert_eq!(*z, expected, "{index}");
    }
}

#[test]
fn an_empty_chain_runs() {
    let scene = Scene::on("npu2");
    let device = scene.device();
    Chain::new(&device).run().unwrap();
}
