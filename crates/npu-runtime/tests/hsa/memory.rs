//! Buffers and the copies of slices: mapped once, used again, bounded.

use crate::emulated::{alone, counters};
use crate::kernels::{add, device, idle_image, unary};
use npu_runtime::{Arg, Error, Grid, Kernel};

#[test]
fn buffers_are_zero_aligned_and_used_again() {
    alone(&[], || {
        let device = device();
        for _ in 0..10 {
            let mut buffer = device.buffer::<i32>(1000).unwrap();
            assert!(buffer.iter().all(|&x| x == 0));
            assert_eq!(buffer.as_ptr().addr() % 4096, 0);
            buffer.fill(-1);
        }
        assert_eq!(
            (counters().memories.total, device.counters().allocations),
            (1, 1)
        );
    });
}

#[test]
fn launches_use_the_same_blocks_again_and_again() {
    alone(&[], || {
        let kernel = add(&device());
        let x = [1_i32; 1024];
        let mut z = [0_i32; 1024];
        for _ in 0..1000 {
            let args = &mut [Arg::input(&x), Arg::input(&x), Arg::output(&mut z)];
            kernel.launch(Grid::ONE, args).unwrap();
        }
        assert_eq!(counters().memories.total, 3);
    });
}

/// Idle memory is bounded: 128 MiB, and the longest idle goes first.
#[test]
fn idle_buffers_are_given_back_when_there_are_too_many() {
    alone(&[], || {
        let device = device();
        let buffers: Vec<_> = (0..5)
            .map(|_| device.buffer::<u8>(32 << 20).unwrap())
            .collect();
        assert_eq!(counters().memories.live, 5);
        drop(buffers);
        assert_eq!(counters().memories.live, 4);
        // What one launch needs at a time is kept for the next one, however much it is.
        let kernel = Kernel::load(&device, &[idle_image(0)], unary()).unwrap();
        let mut x = vec![0_i32; 40 << 20];
        for _ in 0..3 {
            kernel
                .launch(Grid::ONE, &mut [Arg::output(&mut x)])
                .unwrap();
        }
        let total = counters().memories.total;
        kernel
            .launch(Grid::ONE, &mut [Arg::output(&mut x)])
            .unwrap();
        assert_eq!(counters().memories.total, total);
    });
}

#[test]
fn idle_buffers_make_room_when_memory_runs_out() {
    alone(
        &[("ROCR_DOUBLE_FAIL", "hsa_amd_vmem_handle_create@2=0x1008")],
        || {
            let device = device();
            drop(device.buffer::<u8>(4096).unwrap());
            // The second one fails, the idle one is given up, and the next try works.
            device.buffer::<u8>(8192).unwrap();
            assert_eq!(counters().memories.total, 2);
            assert_eq!(counters().memories.live, 1);
        },
    );
}

#[test]
fn each_call_of_making_a_buffer_is_named_and_undone_when_it_fails() {
    const CALLS: [&str; 4] = [
        "hsa_amd_vmem_handle_create",
        "hsa_amd_vmem_address_reserve_align",
        "hsa_amd_vmem_map",
        "hsa_amd_vmem_set_access",
    ];
    let failures = CALLS.map(|call| format!("{call}@1=0x1008")).join(",");
    alone(&[("ROCR_DOUBLE_FAIL", &failures)], || {
        let device = device();
        for call in CALLS {
            let error = device.buffer::<u8>(100).unwrap_err();
            let Error::Call(error) = error else {
                panic!("{error}");
            };
            assert_eq!(error.call, call);
            assert!(error.to_string().contains("100 bytes"), "{error}");
            let counters = counters();
            assert_eq!(counters.memories.live, 0);
            assert_eq!(counters.reservations.live, 0);
            assert_eq!(counters.mappings.live, 0);
        }
        device.buffer::<u8>(100).unwrap();
    });
}

/// A launch that gets no memory for its slices has not begun.
#[test]
fn a_launch_without_memory_is_an_error_and_can_be_made_again() {
    alone(
        &[(
            "ROCR_DOUBLE_FAIL",
            "hsa_amd_vmem_handle_create@2=0x1008,hsa_amd_vmem_handle_create@3=0x1008",
        )],
        || {
            let kernel = add(&device());
            let x = [1_i32; 1024];
            let mut z = [7_i32; 1024];
            let launch = |z: &mut [i32]| {
                let args = &mut [Arg::input(&x), Arg::input(&x), Arg::output(z)];
                kernel.launch(Grid::ONE, args)
            };
            let error = launch(&mut z).unwrap_err();
            assert!(matches!(error, Error::Call(_)), "{error}");
            assert_eq!((z, counters().doorbells), ([7; 1024], 0));
            launch(&mut z).unwrap_err();
            launch(&mut z).unwrap();
            assert_eq!(z, [2; 1024]);
        },
    );
}

#[test]
fn a_buffer_beyond_all_memory_is_an_error() {
    alone(&[], || {
        let device = device();
        for len in [usize::MAX, usize::MAX / 8, isize::MAX as usize] {
            let error = device.buffer::<u64>(len).unwrap_err();
            assert!(
                matches!(error, Error::Allocation { .. } | Error::Call(_)),
                "{error}"
            );
        }
    });
}

/// Some ROCRs do not unmap what somebody still has a right to.
#[test]
fn rights_are_revoked_before_memory_is_unmapped() {
    alone(&[("ROCR_DOUBLE_OLD", "unmap")], || {
        drop(device().buffer::<u8>(100).unwrap());
    });
}
