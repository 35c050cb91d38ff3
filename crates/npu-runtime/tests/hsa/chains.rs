//! Chains: one doorbell for up to 64 launches, any length, and what was completed when one fails.

use crate::emulated::{alone, counters};
use crate::kernels::{self, Form, add, binary, device};
use npu_runtime::{Arg, Chain, Device, ElementType, Error, Grid, Kernel, Runtime};

/// `z = x + y`, where all are shared, so that launches depend on each other.
fn sum<'a>(
    kernel: &Kernel,
    [x, y, z]: [npu_runtime::Shared<'a, i32>; 3],
) -> npu_runtime::Launch<'a> {
    kernel
        .bind(Grid::ONE, [x.input(), y.input(), z.output()])
        .unwrap()
}

#[test]
fn launches_run_in_order_and_may_depend_on_each_other() {
    alone(&[], || {
        let device = device();
        let kernel = add(&device);
        let mut buffers = [0, 1, 0].map(|value| device.buffer_from(&[value; 1024]).unwrap());
        let [a, b, c] = buffers.each_mut().map(npu_runtime::Buffer::share);
        // Fibonacci, three steps at a time.
        let mut chain = Chain::new(&device);
        for _ in 0..10 {
            for launch in [[a, b, c], [b, c, a], [c, a, b]] {
                chain.push(sum(&kernel, launch)).unwrap();
            }
        }
        chain.run().unwrap();
        assert_eq!(counters().doorbells, 1);
        assert_eq!(counters().most_packets, 30);
        drop(chain);
        // F(31), as everybody knows it.
        assert_eq!(buffers[1][..], [1_346_269; 1024]);
    });
}

/// What is not the device's own memory is copied for each launch afresh.
#[test]
fn launches_may_depend_on_each_other_through_memory_of_another_device() {
    alone(&[], || {
        let device = device();
        let kernel = add(&device);
        let cpu = Device::open(Runtime::Cpu).unwrap();
        let mut a = cpu.buffer_from(&[0; 1024]).unwrap();
        let mut b = device.buffer_from(&[1; 1024]).unwrap();
        let mut c = cpu.buffer_from(&[0; 1024]).unwrap();
        let mut chain = Chain::new(&device);
        {
            let [a, b, c] = [a.share(), b.share(), c.share()];
            for _ in 0..10 {
                for launch in [[a, b, c], [b, c, a], [c, a, b]] {
                    chain.push(sum(&kernel, launch)).unwrap();
                }
            }
        }
        chain.run().unwrap();
        drop(chain);
        assert_eq!(b[..], [1_346_269; 1024]);
    });
}

#[test]
fn ten_thousand_launches_ring_once_for_64() {
    alone(&[], || {
        let device = device();
        let kernel = add(&device);
        let mut total = device.buffer_from(&[0_i32; 1024]).unwrap();
        let mut one = device.buffer_from(&[1_i32; 1024]).unwrap();
        let (shared, one) = (total.share(), one.share());
        let mut chain = Chain::new(&device);
        for _ in 0..10_000 {
            chain.push(sum(&kernel, [shared, one, shared])).unwrap();
        }
        assert_eq!(chain.len(), 10_000);
        chain.run().unwrap();
        let counters = counters();
        assert_eq!((counters.packets, counters.most_packets), (10_000, 64));
        assert_eq!(counters.doorbells, 10_000_u64.div_ceil(64));
        drop(chain);
        assert_eq!(total[..], [10_000; 1024]);
    });
}

#[test]
fn a_chain_can_be_run_again_and_takes_slices_as_well() {
    alone(&[], || {
        let device = device();
        let kernel = add(&device);
        let inputs: Vec<Vec<i32>> = (0..100).map(|i| vec![i; 1024]).collect();
        let mut outputs = vec![vec![0_i32; 1024]; 100];
        let one = device.buffer_from(&[1_i32; 1024]).unwrap();
        let mut chain = Chain::new(&device);
        for (input, output) in inputs.iter().zip(&mut outputs) {
            let args = [Arg::input(input), Arg::input(&one), Arg::output(output)];
            chain.push(kernel.bind(Grid::ONE, args).unwrap()).unwrap();
        }
        for round in 1..=3 {
            chain.run().unwrap();
            // 64 and 36.
            assert_eq!(counters().doorbells, 2 * round);
        }
        drop(chain);
        for (i, output) in (0..).zip(&outputs) {
            assert_eq!(*output, [i + 1; 1024]);
        }
    });
}

/// One doorbell rings for more than the driver has room for in one chain, which ROCR splits.
#[test]
fn one_doorbell_rings_for_41_and_for_64_of_either_form() {
    alone(&[], || {
        let device = device();
        for (form, count, chains) in [
            // Three arguments: a command has 52 bytes and 12 dwords, 40 of which are in 4096 bytes.
            (Form::Stream, 41, 2),
            (Form::Stream, 64, 2),
            (Form::FullElf, 64, 1),
        ] {
            let images = [kernels::add_image(form)];
            let kernel = Kernel::load(&device, &images, binary(ElementType::I32)).unwrap();
            let mut total = device.buffer_from(&[0_i32; 1024]).unwrap();
            let mut one = device.buffer_from(&[1_i32; 1024]).unwrap();
            let (shared, one) = (total.share(), one.share());
            let mut chain = Chain::new(&device);
            for _ in 0..count {
                chain.push(sum(&kernel, [shared, one, shared])).unwrap();
            }
            let before = counters();
            chain.run().unwrap();
            let after = counters();
            assert_eq!(after.doorbells - before.doorbells, 1);
            assert_eq!(after.chains - before.chains, chains);
            drop(chain);
            assert_eq!(total[..], [count; 1024]);
        }
        assert_eq!(counters().most_packets, 64);
    });
}

/// A batch with both forms would be refused, and the queue lost.
#[test]
fn launches_of_both_forms_may_alternate() {
    alone(&[], || {
        let device = device();
        let elf = add(&device);
        let images = [kernels::add_image(Form::Stream)];
        let stream = Kernel::load(&device, &images, binary(ElementType::I32)).unwrap();
        let mut total = device.buffer_from(&[0_i32; 1024]).unwrap();
        let mut one = device.buffer_from(&[1_i32; 1024]).unwrap();
        let (shared, one) = (total.share(), one.share());
        let mut chain = Chain::new(&device);
        for kernel in [&elf, &elf, &stream, &elf, &stream, &stream] {
            chain.push(sum(kernel, [shared, one, shared])).unwrap();
        }
        chain.run().unwrap();
        assert_eq!(counters().doorbells, 4);
        drop(chain);
        assert_eq!(total[..], [6; 1024]);
    });
}

/// The device fails at the 45th packet of the first doorbell's 64: those before it are completed and
/// copied back.
#[test]
fn a_device_that_is_lost_in_mid_chain_tells_what_was_completed() {
    alone(&[("ROCR_DOUBLE_DISPATCH", "45=error:0x1000")], || {
        let device = device();
        let kernel = add(&device);
        let inputs: Vec<Vec<i32>> = (0..100).map(|i| vec![i; 1024]).collect();
        let mut outputs = vec![vec![-1_i32; 1024]; 100];
        let mut chain = Chain::new(&device);
        for (input, output) in inputs.iter().zip(&mut outputs) {
            let args = [Arg::input(input), Arg::input(input), Arg::output(output)];
            chain.push(kernel.bind(Grid::ONE, args).unwrap()).unwrap();
        }
        let error = chain.run().unwrap_err();
        let text = error.to_string();
        let Error::Chain {
            completed,
            launches,
            source,
        } = error
        else {
            panic!("{text}");
        };
        assert_eq!((completed, launches), (44, 100));
        assert!(matches!(*source, Error::Lost(_)), "{text}");
        assert!(text.contains("launch 45 of a chain of 100"), "{text}");
        // It stays lost, and says so.
        assert!(matches!(
            chain.run(),
            Err(Error::Chain { completed: 0, source, .. }) if matches!(*source, Error::Lost(_))
        ));
        drop(chain);
        for (i, output) in (0..).zip(&outputs) {
            let expected = if i < 44 { 2 * i } else { -1 };
            assert_eq!(*output, [expected; 1024], "{i}");
        }
    });
}

#[test]
fn a_refused_batch_completes_nothing_of_it() {
    alone(&[("ROCR_DOUBLE_DISPATCH", "70=refuse:0x1009")], || {
        let device = device();
        let kernel = add(&device);
        let x = device.buffer_from(&[1_i32; 1024]).unwrap();
        let mut outputs = vec![vec![-1_i32; 1024]; 100];
        let mut chain = Chain::new(&device);
        for output in &mut outputs {
            let args = [Arg::input(&x), Arg::input(&x), Arg::output(output)];
            chain.push(kernel.bind(Grid::ONE, args).unwrap()).unwrap();
        }
        let Err(Error::Chain {
            completed, source, ..
        }) = chain.run()
        else {
            panic!();
        };
        assert_eq!(completed, 64);
        let text = source.to_string();
        assert!(
            text.contains("0x1009") && text.contains("INVALID_PACKET_FORMAT"),
            "{text}"
        );
        drop(chain);
        let written = outputs
            .iter()
            .filter(|output| **output == [2; 1024])
            .count();
        assert_eq!(written, 64);
    });
}

#[test]
fn a_chain_is_for_one_runtime() {
    alone(&[], || {
        let kernel = add(&device());
        let x = [0_i32; 1024];
        let mut z = [0_i32; 1024];
        let args = [Arg::input(&x), Arg::input(&x), Arg::output(&mut z)];
        let launch = kernel.bind(Grid::ONE, args).unwrap();
        let mut chain = Chain::new(&Device::open(Runtime::Cpu).unwrap());
        let error = chain.push(launch).unwrap_err();
        assert!(matches!(error, Error::ChainRuntime { .. }), "{error}");
        assert!(chain.is_empty());
        chain.run().unwrap();
    });
}
