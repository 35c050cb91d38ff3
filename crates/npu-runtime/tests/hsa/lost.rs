//! A device that fails is lost, and every later launch says so instead of returning zeros.

use crate::emulated::{alone, counters};
use crate::kernels::{add, device};
use npu_runtime::{Arg, Error, Grid, Kernel};

fn launch(kernel: &Kernel) -> Result<[i32; 1024], Error> {
    let x = [1_i32; 1024];
    let mut z = [7_i32; 1024];
    let args = &mut [Arg::input(&x), Arg::input(&x), Arg::output(&mut z)];
    let done = kernel.launch(Grid::ONE, args);
    if done.is_err() {
        assert_eq!(z, [7; 1024]);
    }
    done.map(|()| z)
}

#[track_caller]
fn assert_lost(kernel: &Kernel, parts: &[&str]) {
    let error = launch(kernel).unwrap_err();
    assert!(matches!(error, Error::Lost(_)), "{error}");
    let text = error.to_string();
    for part in parts {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn a_failed_launch_is_an_error_and_so_are_all_later_ones() {
    alone(&[("ROCR_DOUBLE_DISPATCH", "2=error:0x1000")], || {
        let device = device();
        let kernel = add(&device);
        assert_eq!(launch(&kernel).unwrap(), [2; 1024]);
        for _ in 0..3 {
            let parts = ["device is lost", "`kernel`", "0x1000", "HSA_STATUS_ERROR: "];
            assert_lost(&kernel, &parts);
        }
        // The first failure is the last time that the device was told of anything.
        assert_eq!((counters().doorbells, counters().callbacks), (2, 1));
        // What needs no launch still works.
        assert_eq!(device.buffer_from(&[1, 2]).unwrap()[..], [1, 2]);
        drop((device, kernel));
        // Opened again, it is another queue.
        let device = crate::kernels::device();
        assert_eq!(launch(&add(&device)).unwrap(), [2; 1024]);
    });
}

#[test]
fn a_refused_packet_is_told_with_its_status() {
    alone(&[("ROCR_DOUBLE_DISPATCH", "1=refuse:0x1009")], || {
        let kernel = add(&device());
        assert_lost(
            &kernel,
            &["0x1009", "HSA_STATUS_ERROR_INVALID_PACKET_FORMAT"],
        );
    });
}

/// What the doorbell refuses, and what a device reports.
#[test]
fn every_status_of_a_launch_is_told_in_rocr_s_words() {
    alone(&[("ROCR_DOUBLE_DISPATCH", "1=refuse:0x1003")], || {
        assert_lost(&add(&device()), &["0x1003", "INVALID_ALLOCATION"]);
    });
    alone(&[("ROCR_DOUBLE_DISPATCH", "1=refuse:0x1008")], || {
        assert_lost(&add(&device()), &["0x1008", "OUT_OF_RESOURCES"]);
    });
    alone(&[("ROCR_DOUBLE_DISPATCH", "1=error:0x1016")], || {
        assert_lost(&add(&device()), &["0x1016", "EXCEPTION"]);
    });
    alone(&[("ROCR_DOUBLE_DISPATCH", "1=error:0x1026")], || {
        assert_lost(&add(&device()), &["0x1026", "FATAL"]);
    });
}

/// The driver ends what makes no progress; the doorbell does not return before that.
#[test]
fn a_device_that_hangs_is_lost_when_the_driver_gives_up() {
    alone(&[("ROCR_DOUBLE_DISPATCH", "1=hang:200")], || {
        let kernel = add(&device());
        assert_lost(&kernel, &["device is lost"]);
        assert_lost(&kernel, &["device is lost"]);
    });
}

#[test]
fn a_slow_device_is_waited_for() {
    alone(&[("ROCR_DOUBLE_DISPATCH", "1=slow:200")], || {
        assert_eq!(launch(&add(&device())).unwrap(), [2; 1024]);
    });
}

/// Threads that wait for the queue learn of it as well.
#[test]
fn all_threads_learn_that_the_device_is_lost() {
    alone(&[("ROCR_DOUBLE_DISPATCH", "50=error:0x1000")], || {
        let kernel = add(&device());
        let completed: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|_| {
                    let launches = || (0..20).filter(|_| launch(&kernel).is_ok()).count();
                    scope.spawn(launches)
                })
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .sum()
        });
        assert_eq!(completed, 49);
    });
}
