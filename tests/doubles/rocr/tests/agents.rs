//! Initialisation, agents and system, and handles that are stale.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::undocumented_unsafe_blocks,
    reason = "these are tests, which keep the promises of ROCR's headers"
)]

mod common;

use std::ffi::{CStr, c_void};
use std::ptr;

use common::{Device, OK, Rocr, collect};
use rocr_double::{Status, install};

/// An agent's text attribute.
fn text(rocr: &Rocr, agent: u64, attribute: u32) -> String {
    let mut bytes = [0xffu8; 64];
    let to = bytes.as_mut_ptr().cast();
    assert_eq!(
        unsafe { (rocr.api.hsa_agent_get_info)(agent, attribute, to) },
        OK
    );
    let text = CStr::from_bytes_until_nul(&bytes).unwrap();
    text.to_str().unwrap().to_owned()
}

#[test]
fn the_library_has_rocrs_name() {
    let root = tempfile::tempdir().unwrap();
    let path = install::install(root.path()).unwrap();
    assert_eq!(path, root.path().join("lib/libhsa-runtime64.so.1"));
    let elf = std::fs::read(path).unwrap();
    let name = b"\0libhsa-runtime64.so.1\0";
    assert!(elf.windows(name.len()).any(|w| w == name), "no SONAME");
}

#[test]
fn nothing_works_before_the_first_and_behind_the_last_init() {
    let rocr = Rocr::with(&[]);
    let agents = || unsafe { (rocr.api.hsa_iterate_agents)(Some(collect), ptr::null_mut()) };
    assert_eq!(agents(), Status::NOT_INITIALIZED);
    assert_eq!(rocr.shut_down(), Status::NOT_INITIALIZED);
    assert_eq!(rocr.init(), OK);
    assert_eq!(rocr.init(), OK);
    assert_eq!(rocr.shut_down(), OK);
    assert_eq!(rocr.agents().len(), 2);
    assert_eq!(rocr.counters().inits.live, 1);
    assert_eq!(rocr.shut_down(), OK);
    assert_eq!(agents(), Status::NOT_INITIALIZED);
    assert_eq!(rocr.init(), OK, "and it can be initialised again");
    assert_eq!(rocr.agents().len(), 2);
}

#[test]
fn the_aie_agent_is_as_rocr_describes_it() {
    for name in ["aie2", "aie2p"] {
        let rocr = Rocr::with(&[("ROCR_DOUBLE_AGENT", name)]);
        assert_eq!(rocr.init(), OK);
        let agent = rocr.agents()[1];
        assert_eq!(text(&rocr, agent, 0), name);
        assert_eq!(text(&rocr, agent, 1), "AMD");
        // FEATURE, PROFILE, QUEUES_MAX, QUEUE_MIN_SIZE, QUEUE_MAX_SIZE, QUEUE_TYPE, DEVICE.
        let numbers = [
            (2, 2),
            (4, 0),
            (12, 1),
            (13, 64),
            (14, 64),
            (15, 1),
            (17, 3),
        ];
        for (attribute, value) in numbers {
            assert_eq!(rocr.agent_info(agent, attribute), Ok(value), "{attribute}");
        }
    }
}

#[test]
fn the_aie_agent_has_a_products_name_and_a_short_uuid() {
    for (name, product) in [("aie2", "RyzenAI-npu1"), ("aie2p", "RyzenAI-npu4")] {
        let rocr = Rocr::with(&[("ROCR_DOUBLE_AGENT", name)]);
        assert_eq!(rocr.init(), OK);
        let agent = rocr.agents()[1];
        // AMD's PRODUCT_NAME and UUID.
        assert_eq!(text(&rocr, agent, 0xa009), product);
        let mut uuid = [0xffu8; 21];
        let to = uuid.as_mut_ptr().cast();
        let status = unsafe { (rocr.api.hsa_agent_get_info)(agent, 0xa011, to) };
        assert_eq!(status, OK);
        let (written, rest) = uuid.split_at(7);
        assert_eq!(written, b"AIE-XX\0");
        assert!(rest.iter().all(|byte| *byte == 0xff), "{rest:?}");
    }
}

#[test]
fn an_unknown_attribute_is_zero_and_an_error() {
    let rocr = Rocr::with(&[]);
    rocr.init();
    let agent = rocr.agents()[1];
    let mut value = u32::MAX;
    let to = ptr::from_mut(&mut value).cast::<c_void>();
    let status = unsafe { (rocr.api.hsa_agent_get_info)(agent, 19, to) };
    assert_eq!((status, value), (Status::INVALID_ARGUMENT, 0));
    assert_eq!(rocr.agent_info(7, 17), Err(Status::INVALID_AGENT));
}

#[test]
fn the_cpu_comes_first() {
    let rocr = Rocr::with(&[]);
    rocr.init();
    let devices: Vec<_> = rocr
        .agents()
        .iter()
        .map(|a| rocr.agent_info(*a, 17))
        .collect();
    assert_eq!(devices, [Ok(0), Ok(3)]);
}

#[test]
fn the_aie_agent_can_be_hidden() {
    for (name, value) in [("HSA_DISABLE_XDNA", "1"), ("ROCR_DOUBLE_AGENT", "none")] {
        let rocr = Rocr::with(&[(name, value)]);
        assert_eq!(rocr.init(), OK);
        assert_eq!(rocr.agents().len(), 1, "{name}");
    }
}

#[test]
fn a_callback_ends_an_iteration() {
    unsafe extern "C" fn first(agent: u64, data: *mut c_void) -> Status {
        unsafe { collect(agent, data) };
        Status::INFO_BREAK
    }
    let rocr = Rocr::with(&[]);
    rocr.init();
    let mut agents: Vec<u64> = Vec::new();
    let data = ptr::from_mut(&mut agents).cast();
    let iterate = rocr.api.hsa_iterate_agents;
    assert_eq!(unsafe { iterate(Some(first), data) }, Status::INFO_BREAK);
    assert_eq!(agents.len(), 1);
    assert_eq!(unsafe { iterate(None, data) }, Status::INVALID_ARGUMENT);
}

#[test]
fn the_system_has_a_clock_in_nanoseconds_and_mappings() {
    let rocr = Rocr::with(&[]);
    rocr.init();
    let info =
        |attribute, to: *mut u64| unsafe { (rocr.api.hsa_system_get_info)(attribute, to.cast()) };
    let (mut first, mut second, mut frequency) = (0u64, 0u64, 0u64);
    assert_eq!(info(2, &mut first), OK);
    assert_eq!(info(2, &mut second), OK);
    assert!(0 < first && first <= second);
    assert_eq!(info(3, &mut frequency), OK);
    assert_eq!(frequency, 1_000_000_000);
    let mut mappings = 0u64;
    assert_eq!(info(0x205, &mut mappings), OK);
    assert_eq!(mappings, 1);
    assert_eq!(info(0x9999, &mut first), Status::INVALID_ARGUMENT);
}

#[test]
fn statuses_have_texts() {
    let rocr = Rocr::with(&[]);
    let mut text = ptr::null();
    for (status, name) in [
        (0, "HSA_STATUS_SUCCESS: "),
        (0x1008, "HSA_STATUS_ERROR_OUT_OF_RESOURCES: "),
        (0x1010, "HSA_STATUS_ERROR_INVALID_CODE_OBJECT: "),
        (0x1015, "HSA_STATUS_ERROR_VARIABLE_UNDEFINED: "),
        (40, "HSA_STATUS_ERROR_INVALID_MEMORY_POOL: "),
    ] {
        assert_eq!(
            unsafe { (rocr.api.hsa_status_string)(Status(status), &mut text) },
            OK
        );
        let found = unsafe { CStr::from_ptr(text) }.to_str().unwrap();
        assert!(found.starts_with(name), "{found}");
    }
    let unknown = unsafe { (rocr.api.hsa_status_string)(Status(0x7777), &mut text) };
    assert_eq!(unknown, Status::INVALID_ARGUMENT);
}

#[test]
fn everything_is_counted() {
    let device = Device::new();
    let buffer = device.buffer(8192);
    let counters = device.rocr.counters();
    let live = [
        counters.queues,
        counters.signals,
        counters.pool_allocations,
        counters.memories,
        counters.reservations,
        counters.mappings,
    ];
    assert!(
        live.iter().all(|count| (count.live, count.total) == (1, 1)),
        "{counters:?}"
    );
    device.drop_buffer(buffer);
    assert_eq!(device.rocr.free(device.kernarg.cast()), OK);
    assert_eq!(
        unsafe { (device.rocr.api.hsa_signal_destroy)(device.signal) },
        OK
    );
    assert_eq!(
        unsafe { (device.rocr.api.hsa_queue_destroy)(device.queue) },
        OK
    );
    assert_eq!(device.rocr.shut_down(), OK);
    let counters = device.rocr.counters();
    let all = [
        counters.inits,
        counters.queues,
        counters.signals,
        counters.pool_allocations,
        counters.memories,
        counters.reservations,
        counters.mappings,
    ];
    assert!(
        all.iter().all(|count| (count.live, count.total) == (0, 1)),
        "{counters:?}"
    );
    assert_eq!(counters.misuses, 0);
    let calls = unsafe { (device.rocr.api.rocr_double_calls)(c"hsa_amd_vmem_map".as_ptr()) };
    assert_eq!(calls, 1);
}

#[test]
fn what_is_left_behind_stays_counted() {
    let rocr = Rocr::with(&[]);
    rocr.init();
    rocr.signal(1);
    rocr.shut_down();
    assert_eq!(rocr.counters().signals.live, 1);
}

#[test]
fn stale_signals_are_noticed() {
    let rocr = Rocr::with(&[]);
    rocr.init();
    let signal = rocr.signal(5);
    assert_eq!(rocr.load(signal), 5);
    unsafe { (rocr.api.hsa_signal_store_screlease)(signal, 6) };
    let wait = rocr.api.hsa_signal_wait_scacquire;
    assert_eq!(unsafe { wait(signal, 0, 6, u64::MAX, 0) }, 6);
    assert_eq!(unsafe { wait(signal, 2, 6, 0, 1) }, 6, "time is up at once");
    assert_eq!(unsafe { (rocr.api.hsa_signal_destroy)(signal) }, OK);
    let destroy = |signal| unsafe { (rocr.api.hsa_signal_destroy)(signal) };
    assert_eq!(destroy(signal), Status::INVALID_SIGNAL);
    assert_eq!(destroy(0), Status::INVALID_ARGUMENT);
    assert_eq!(rocr.counters().misuses, 0);
    rocr.load(signal);
    assert_eq!(rocr.counters().misuses, 1);
}
