//! What is loaded is loaded once, kept for a while, and bounded; queues have 32 places for PDIs.

use crate::emulated::{alone, counters, directory};
use crate::kernels::{self, device, idle_image, unary};
use npu_runtime::{Arg, Artifact, Chain, Device, Grid, Image, Kernel};
use sha2::Digest;

fn load(device: &Device, number: u32) -> Kernel {
    Kernel::load(device, &[idle_image(number)], unary()).unwrap()
}

fn launch(kernel: &Kernel) {
    let mut x = [0_i32; 4];
    kernel
        .launch(Grid::ONE, &mut [Arg::output(&mut x)])
        .unwrap();
}

#[test]
fn the_same_content_is_loaded_once_wherever_it_comes_from() {
    alone(&[], || {
        let device = device();
        let first = load(&device, 1);
        let _second = load(&device, 1);
        let Image::Hsaco {
            hsaco: Artifact::Bytes(bytes),
            kernel,
            compiled,
        } = idle_image(1)
        else {
            panic!();
        };
        let path = directory("files").join(format!("{}.hsaco", std::process::id()));
        std::fs::write(&path, &bytes).unwrap();
        let digest: [u8; 32] = sha2::Sha256::digest(&bytes).into();
        let file = |digest| Image::Hsaco {
            hsaco: Artifact::file(&path, digest),
            kernel: kernel.clone(),
            compiled,
        };
        Kernel::load(&device, &[file(digest)], unary()).unwrap();
        assert_eq!(counters().executables.total, 1);
        // It is also there when nobody has it for a moment, and needs no file then.
        std::fs::remove_file(&path).unwrap();
        drop(first);
        Kernel::load(&device, &[file(digest)], unary()).unwrap();
        assert_eq!(counters().executables.total, 1);
        Kernel::load(&device, &[file([1; 32])], unary()).unwrap_err();
    });
}

#[test]
fn what_no_kernel_uses_is_bounded_and_the_oldest_goes_first() {
    alone(&[], || {
        let device = device();
        for number in 0..40 {
            load(&device, number);
            assert!(counters().executables.live <= 33);
        }
        assert_eq!(counters().executables.live, 32);
        // The last 32 are there, and the one before them is not.
        for number in 8..40 {
            load(&device, number);
        }
        assert_eq!(counters().executables.total, 40);
        load(&device, 7);
        assert_eq!(counters().executables.total, 41);
    });
}

#[test]
fn a_hundred_kernels_may_be_loaded_at_once() {
    alone(&[], || {
        let device = device();
        let kernels: Vec<Kernel> = (0..100).map(|number| load(&device, number)).collect();
        assert_eq!(counters().executables.live, 100);
        for kernel in &kernels {
            launch(kernel);
        }
        for kernel in kernels.iter().rev() {
            launch(kernel);
        }
        let counters = counters();
        assert_eq!((counters.packets, counters.refusals), (200, 0));
        assert!(counters.most_pdis <= 32);
        drop(kernels);
        // The idle ones are bounded.
        assert_eq!(crate::emulated::counters().executables.live, 32);
    });
}

/// The 33rd distinct PDI would be refused, and its queue lost.
#[test]
fn the_33rd_pdi_gets_a_new_queue() {
    alone(&[], || {
        let device = device();
        let kernels: Vec<Kernel> = (0..33).map(|number| load(&device, number)).collect();
        for kernel in &kernels[..32] {
            launch(kernel);
            launch(kernel);
        }
        assert_eq!(device.counters().queues, 1);
        assert_eq!(counters().most_pdis, 32);
        launch(&kernels[32]);
        assert_eq!(device.counters().queues, 2);
        // One at a time, as the agent allows.
        assert_eq!((counters().queues.live, counters().queues.total), (1, 2));
        for kernel in kernels.iter().take(31) {
            launch(kernel);
        }
        assert_eq!(device.counters().queues, 2);
        assert_eq!(counters().refusals, 0);
    });
}

#[test]
fn a_chain_with_more_pdis_than_places_is_rung_for_in_between() {
    alone(&[], || {
        let device = device();
        let kernels: Vec<Kernel> = (0..70).map(|number| load(&device, number)).collect();
        let mut buffer = device.buffer::<i32>(4).unwrap();
        let shared = buffer.share();
        let mut chain = Chain::new(&device);
        // 20 kernels do not end at a doorbell's 64.
        for kernel in kernels.iter().take(20).chain(&kernels) {
            chain
                .push(kernel.bind(Grid::ONE, [shared.output()]).unwrap())
                .unwrap();
        }
        chain.run().unwrap();
        let counters = counters();
        assert_eq!((counters.packets, counters.refusals), (90, 0));
        assert_eq!(device.counters().queues, 3);
    });
}

/// A PDI is known to a queue by its memory, which a later executable may get.
#[test]
fn a_queue_does_not_take_a_new_pdi_for_one_that_is_gone() {
    alone(&[], || {
        let device = device();
        for number in 0..40 {
            launch(&load(&device, number));
        }
        // Eight executables went, all after the queue had seen them.
        assert!(counters().executables.live <= 33);
        assert!(device.counters().queues > 1);
        assert_eq!(counters().refusals, 0);
    });
}

/// Full ELFs bring their PDIs along.
#[test]
fn full_elfs_take_no_places() {
    alone(&[], || {
        let device = device();
        let kernels: Vec<Kernel> = (0..34)
            .map(|i| {
                let compute = format!("%s = arith.addi %x, %y : i32\n%k = arith.constant {i} : i32\n%z = arith.addi %s, %k : i32");
                let design = crate::designs::core("npu2", "i32", &compute);
                let image = kernels::image(&design, kernels::Form::FullElf, npu_runtime::Npu::Npu2, 3);
                let signature = kernels::binary(npu_runtime::ElementType::I32);
                Kernel::load(&device, &[image], signature).unwrap()
            })
            .collect();
        let x = [1_i32; 1024];
        for (i, kernel) in (0..).zip(&kernels) {
            let mut z = [0_i32; 1024];
            let args = &mut [Arg::input(&x), Arg::input(&x), Arg::output(&mut z)];
            kernel.launch(Grid::ONE, args).unwrap();
            assert_eq!(z, [2 + i; 1024]);
        }
        assert_eq!(device.counters().queues, 1);
    });
}
