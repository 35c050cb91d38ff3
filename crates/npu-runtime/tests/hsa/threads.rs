//! Any number of threads may launch.

use crate::emulated::{alone, counters};
use crate::kernels::{add, device};
use npu_runtime::{Arg, Chain, Grid};

#[test]
fn thirty_two_threads_launch_a_thousand_times_each() {
    alone(&[], || {
        let device = device();
        let kernel = add(&device);
        std::thread::scope(|scope| {
            for thread in 0..32 {
                let (kernel, device) = (&kernel, &device);
                scope.spawn(move || {
                    let x = [thread; 1024];
                    let y = device.buffer_from(&[1000_i32; 1024]).unwrap();
                    let mut z = vec![0_i32; 1024];
                    for _ in 0..1000 {
                        z.fill(-1);
                        let args = &mut [Arg::input(&x), Arg::input(&y), Arg::output(&mut z)];
                        kernel.launch(Grid::ONE, args).unwrap();
                        assert!(z.iter().all(|&z| z == 1000 + thread));
                    }
                });
            }
        });
        let counters = counters();
        assert_eq!((counters.packets, counters.misuses), (32_000, 0));
        // Two copies and a buffer for each, at most.
        assert!(counters.memories.total <= 96);
    });
}

/// Devices, kernels and buffers come and go while others launch.
#[test]
fn opening_loading_and_dropping_may_happen_at_any_time() {
    alone(&[], || {
        std::thread::scope(|scope| {
            for thread in 0..8 {
                scope.spawn(move || {
                    for _ in 0..30 {
                        let device = device();
                        let kernel = add(&device);
                        let mut x = device.buffer_from(&[thread; 1024]).unwrap();
                        drop(device);
                        let shared = x.share();
                        let device = crate::kernels::device();
                        let mut chain = Chain::new(&device);
                        let args = [shared.input(), shared.input(), shared.output()];
                        chain.push(kernel.bind(Grid::ONE, args).unwrap()).unwrap();
                        drop((kernel, device));
                        chain.run().unwrap();
                        drop(chain);
                        assert_eq!(x[..], [2 * thread; 1024]);
                    }
                });
            }
        });
    });
}
