//! What the double is told to do wrong.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::undocumented_unsafe_blocks,
    reason = "these are tests, which keep the promises of ROCR's headers"
)]

mod common;

use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use common::hsaco::{Compiler, hsaco, stream};
use common::{Device, OK, PAGE, Rocr, designs};
use rocr_double::Status;

#[test]
fn the_nth_call_fails_and_does_nothing() {
    let fail = "hsa_amd_memory_pool_allocate@2=0x1008,hsa_amd_vmem_handle_create@1=0x1008";
    let rocr = Rocr::with(&[("ROCR_DOUBLE_FAIL", fail)]);
    rocr.init();
    let pools = rocr.pools(rocr.agents()[1]);
    assert!(rocr.allocate(pools[0], 8).is_ok());
    assert_eq!(rocr.allocate(pools[0], 8), Err(Status::OUT_OF_RESOURCES));
    assert!(rocr.allocate(pools[0], 8).is_ok());
    assert_eq!(rocr.memory(pools[2], PAGE), Err(Status::OUT_OF_RESOURCES));
    assert!(rocr.memory(pools[2], PAGE).is_ok());
    let counters = rocr.counters();
    assert_eq!(
        (counters.pool_allocations.total, counters.memories.total),
        (2, 1)
    );
}

#[test]
fn initialisation_can_fail_once() {
    let rocr = Rocr::with(&[("ROCR_DOUBLE_FAIL", "hsa_init=0x1008")]);
    assert_eq!(rocr.init(), Status::OUT_OF_RESOURCES);
    assert_eq!(rocr.shut_down(), Status::NOT_INITIALIZED);
    assert_eq!(rocr.init(), OK);
}

#[test]
fn a_setting_that_is_not_understood_does_not_pass() {
    let rocr = Rocr::with(&[("ROCR_DOUBLE_DISPATCH", "1=explode")]);
    assert_eq!(rocr.init(), Status::FATAL);
}

#[test]
fn an_agent_of_another_kind_has_its_name() {
    let device = Device::with(&[("ROCR_DOUBLE_AGENT", "aie9")]);
    let loaded = device.load(&hsaco("aie2p", &[stream("k", b"PDI")]), &[]);
    assert_eq!(loaded, Err(Status::INCOMPATIBLE_ARGUMENTS));
}

#[test]
fn settings_are_read_again_when_initialised_again() {
    let rocr = Rocr::with(&[("ROCR_DOUBLE_AGENT", "none")]);
    rocr.init();
    let (name, value) = (c"ROCR_DOUBLE_AGENT".as_ptr(), c"aie2".as_ptr());
    unsafe { (rocr.api.rocr_double_set)(name, value) };
    assert_eq!(rocr.agents().len(), 1);
    rocr.shut_down();
    rocr.init();
    assert_eq!(rocr.agents().len(), 2);
}

#[test]
fn the_environment_is_read() {
    if std::env::var_os("ROCR_DOUBLE_TEST_CHILD").is_some() {
        let rocr = Rocr::with(&[]);
        assert_eq!(rocr.init(), Status(0x1026));
        assert_eq!(rocr.init(), OK);
        assert_eq!(rocr.agents().len(), 1);
        return;
    }
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_environment_is_read"])
        .env("ROCR_DOUBLE_TEST_CHILD", "1")
        .env("ROCR_DOUBLE_FAIL", "hsa_init@1=0x1026")
        .env("ROCR_DOUBLE_AGENT", "none")
        .status()
        .unwrap();
    assert!(status.success());
}

#[test]
fn calls_take_as_long_as_they_are_told_to() {
    let latencies = "hsa_queue_create=3000000,doorbell=2000000,packet=1000000";
    let start = Instant::now();
    let device = Device::with(&[("ROCR_DOUBLE_LATENCY", latencies)]);
    assert!(start.elapsed() >= Duration::from_millis(3));
    let executable = device
        .load(&hsaco("aie2p", &[stream("k", b"PDI")]), &[])
        .unwrap();
    let kernel = device.kernel(executable, "k");
    let start = Instant::now();
    device.dispatch(kernel, &[]);
    assert!(start.elapsed() >= Duration::from_millis(3));
}

#[test]
fn a_slow_packet_ends_well() {
    let device = Device::with(&[("ROCR_DOUBLE_DISPATCH", "1=slow:5")]);
    let executable = device
        .load(&hsaco("aie2p", &[stream("k", b"PDI")]), &[])
        .unwrap();
    let start = Instant::now();
    assert_eq!(device.dispatch(device.kernel(executable, "k"), &[]), 1);
    assert!(start.elapsed() >= Duration::from_millis(5));
}

#[test]
fn any_number_of_threads_may_dispatch_one_after_the_other() {
    let device = Device::new();
    let text = designs::core("npu2", "i32", "%z = arith.addi %x, %y : i32");
    let executable = device
        .load(&Compiler::new().full_elf(&text, 0), &[])
        .unwrap();
    let kernel = device.kernel(executable, "main:sequence");
    struct Shared(Mutex<Device>);
    // SAFETY: its pointers are to memory that any thread may use, one at a time.
    unsafe impl Sync for Shared {}
    let shared = Shared(Mutex::new(device));
    let shared = &shared;
    std::thread::scope(|threads| {
        for thread in 0..8i32 {
            threads.spawn(move || {
                let buffers = {
                    let device = shared.0.lock().unwrap();
                    let input = device.buffer_of(&[thread; 1024]);
                    [input, input, device.buffer(4096)]
                };
                for round in 0..100 {
                    buffers[0].write(&[thread * round; 1024]);
                    let device = shared.0.lock().unwrap();
                    assert_eq!(device.dispatch(kernel, &buffers), 1);
                    drop(device);
                    assert_eq!(buffers[2].read::<i32>(1024), [2 * thread * round; 1024]);
                }
            });
        }
    });
    let device = shared.0.lock().unwrap();
    assert_eq!(device.rocr.counters().packets, 800);
    assert_eq!(device.rocr.counters().misuses, 0);
}
