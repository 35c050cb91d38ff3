//! Readers, executables, symbols and external variables: the order of things.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::undocumented_unsafe_blocks,
    reason = "these are tests, which keep the promises of ROCR's headers"
)]

mod common;

use std::ffi::{CString, c_void};
use std::os::fd::AsRawFd as _;
use std::ptr;

use common::hsaco::{Compiler, hsaco, real, stream};
use common::{Device, OK, PAGE, designs};
use rocr_double::Status;

const SCRATCHPAD: &str = "scratch-pad-ctrl";

fn two() -> Vec<u8> {
    hsaco("aie2p", &[stream("k1", b"one"), stream("k2", b"two")])
}

/// An hsaco whose kernel `main:sequence` has an external variable of four bytes.
fn scaled() -> Vec<u8> {
    Compiler::new().full_elf(&designs::scaled(), 0)
}

#[test]
fn readers_take_files_and_memory() {
    let device = Device::new();
    let api = &device.rocr.api;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("k.hsaco");
    std::fs::write(&path, two()).unwrap();
    let file = std::fs::File::open(&path).unwrap();
    let mut reader = 0;
    let from_file = api.hsa_code_object_reader_create_from_file;
    let status = unsafe { from_file(file.as_raw_fd(), &mut reader) };
    assert_eq!(status, OK);
    drop(file);
    let executable = device.rocr.executable();
    assert_eq!(device.rocr.load_into(executable, device.agent, reader), OK);
    assert_eq!(unsafe { from_file(-1, &mut reader) }, Status::INVALID_FILE);
    assert_eq!(
        unsafe { from_file(9999, &mut reader) },
        Status::INVALID_FILE
    );

    let from_memory = api.hsa_code_object_reader_create_from_memory;
    let bytes = two();
    let empty = unsafe { from_memory(bytes.as_ptr().cast(), 0, &mut reader) };
    assert_eq!(empty, Status::INVALID_ARGUMENT);
    let null = unsafe { from_memory(ptr::null(), 8, &mut reader) };
    assert_eq!(null, Status::INVALID_ARGUMENT);
}

#[test]
fn handles_are_checked() {
    let device = Device::new();
    let rocr = &device.rocr;
    let destroy_reader = rocr.api.hsa_code_object_reader_destroy;
    let destroy = rocr.api.hsa_executable_destroy;
    let (reader, executable) = (rocr.reader(&two()), rocr.executable());
    assert_eq!(
        rocr.load_into(executable, device.agent, 0),
        Status::INVALID_CODE_OBJECT_READER
    );
    assert_eq!(
        rocr.load_into(0, device.agent, reader),
        Status::INVALID_EXECUTABLE
    );
    assert_eq!(
        rocr.load_into(executable, device.cpu, reader),
        Status::INVALID_AGENT
    );
    assert_eq!(unsafe { destroy_reader(reader) }, OK);
    assert_eq!(
        unsafe { destroy_reader(reader) },
        Status::INVALID_CODE_OBJECT_READER
    );
    let status = rocr.load_into(executable, device.agent, reader);
    assert_eq!(status, Status::INVALID_CODE_OBJECT_READER);
    assert_eq!(unsafe { destroy(executable) }, OK);
    assert_eq!(unsafe { destroy(executable) }, Status::INVALID_EXECUTABLE);
    assert_eq!(rocr.freeze(executable), Status::INVALID_EXECUTABLE);
    let symbol = rocr.symbol(executable, device.agent, "k1");
    assert_eq!(symbol, Err(Status::INVALID_EXECUTABLE));
    assert_eq!(
        rocr.symbol_info(17, 22),
        Err(Status::INVALID_EXECUTABLE_SYMBOL)
    );
}

#[test]
fn nothing_changes_in_a_frozen_executable() {
    let device = Device::new();
    let rocr = &device.rocr;
    let (reader, executable) = (rocr.reader(&two()), rocr.executable());
    assert_eq!(rocr.load_into(executable, device.agent, reader), OK);
    assert_eq!(rocr.freeze(executable), OK);
    assert_eq!(rocr.freeze(executable), Status::FROZEN_EXECUTABLE);
    let load = rocr.load_into(executable, device.agent, reader);
    assert_eq!(
        load,
        Status::FROZEN_EXECUTABLE,
        "checked before the name that is taken"
    );
    let nonsense = rocr.reader(b"nonsense");
    let load = rocr.load_into(executable, device.agent, nonsense);
    assert_eq!(
        load,
        Status::FROZEN_EXECUTABLE,
        "checked before the code object"
    );
    let define = rocr.define(executable, device.agent, "v", ptr::dangling_mut());
    assert_eq!(define, Status::FROZEN_EXECUTABLE);
}

#[test]
fn a_kernel_has_its_object_when_frozen() {
    let device = Device::new();
    let rocr = &device.rocr;
    let (reader, executable) = (rocr.reader(&two()), rocr.executable());
    assert_eq!(rocr.load_into(executable, device.agent, reader), OK);
    let symbol = rocr.symbol(executable, device.agent, "k1").unwrap();
    assert_eq!(rocr.symbol_info(symbol, 22), Ok(0));
    assert_eq!(rocr.freeze(executable), OK);
    assert_ne!(rocr.symbol_info(symbol, 22).unwrap(), 0);
    // TYPE, NAME_LENGTH, KERNARG_SEGMENT_SIZE, KERNARG_ALIGN, GROUP, PRIVATE, IS_DEFINITION.
    for (attribute, value) in [
        (0, 1),
        (1, 2),
        (11, 32),
        (12, 64),
        (13, 0),
        (14, 0),
        (17, 1),
    ] {
        assert_eq!(
            rocr.symbol_info(symbol, attribute),
            Ok(value),
            "{attribute}"
        );
    }
    assert_eq!(rocr.symbol_info(symbol, 20), Ok(device.agent));
    assert_eq!(
        rocr.symbol_info(symbol, 2),
        Ok(u64::from_le_bytes(*b"k1\0\0\0\0\0\0"))
    );
    assert_eq!(
        rocr.symbol_info(symbol, 21),
        Err(Status::INVALID_ARGUMENT),
        "no variable"
    );
    assert_ne!(
        device.kernel(executable, "k1"),
        device.kernel(executable, "k2")
    );
}

#[test]
fn unknown_names_are_not_found() {
    let device = Device::new();
    let executable = device.load(&two(), &[]).unwrap();
    let rocr = &device.rocr;
    for name in ["", "k", "k11", "K1"] {
        let symbol = rocr.symbol(executable, device.agent, name);
        assert_eq!(symbol, Err(Status::INVALID_SYMBOL_NAME), "{name}");
    }
    let symbol = rocr.symbol(executable, device.cpu, "k1");
    assert_eq!(symbol, Err(Status::INVALID_SYMBOL_NAME));
    let (name, mut symbol) = (CString::new("k1").unwrap(), 0);
    let get = rocr.api.hsa_executable_get_symbol_by_name;
    let status = unsafe { get(executable, name.as_ptr(), ptr::null(), &mut symbol) };
    assert_eq!(status, Status::INVALID_SYMBOL_NAME);
}

#[test]
fn an_executable_takes_each_name_once() {
    let device = Device::new();
    let rocr = &device.rocr;
    let executable = rocr.executable();
    let load = |bytes: &[u8]| rocr.load_into(executable, device.agent, rocr.reader(bytes));
    assert_eq!(load(&two()), OK);
    let overlapping = hsaco("aie2p", &[stream("k3", b"three"), stream("k2", b"two")]);
    assert_eq!(load(&overlapping), Status::VARIABLE_ALREADY_DEFINED);
    let symbol = rocr.symbol(executable, device.agent, "k3");
    assert_eq!(
        symbol,
        Err(Status::INVALID_SYMBOL_NAME),
        "nothing of it was loaded"
    );
    // The name is checked before what is wrong with the kernel.
    let mut broken = stream("k1", b"one");
    broken.columns = 0;
    assert_eq!(
        load(&hsaco("aie2p", &[broken])),
        Status::VARIABLE_ALREADY_DEFINED
    );
    assert_eq!(load(&hsaco("aie2p", &[stream("k3", b"three")])), OK);
    let define = |name| rocr.define(executable, device.agent, name, ptr::dangling_mut());
    assert_eq!(define("v"), OK);
    assert_eq!(define("v"), Status::VARIABLE_ALREADY_DEFINED);
    assert_eq!(define("k1"), Status::VARIABLE_ALREADY_DEFINED);
}

#[test]
fn an_external_variable_is_defined_before_loading() {
    let device = Device::new();
    assert_eq!(device.load(&scaled(), &[]), Err(Status::VARIABLE_UNDEFINED));
    assert!(
        device.rocr.reason().contains(SCRATCHPAD),
        "{}",
        device.rocr.reason()
    );
    let heap = device.rocr.allocate(device.pools[1], 4).unwrap();
    assert!(
        device.load(&scaled(), &[("scale", heap)]).is_err(),
        "another name"
    );
    let executable = device.load(&scaled(), &[(SCRATCHPAD, heap)]).unwrap();
    let symbol = device
        .rocr
        .symbol(executable, device.agent, SCRATCHPAD)
        .unwrap();
    assert_eq!(device.rocr.symbol_info(symbol, 0), Ok(0));
    assert_eq!(device.rocr.symbol_info(symbol, 21), Ok(heap as u64));
}

#[test]
fn an_external_variable_is_inside_one_allocation() {
    let device = Device::new();
    let heap = device.rocr.allocate(device.pools[1], 6).unwrap();
    let own = [0u32; 4];
    for address in [
        heap.wrapping_byte_add(4),
        own.as_ptr().cast_mut().cast::<c_void>(),
        ptr::null_mut(),
    ] {
        let loaded = device.load(&scaled(), &[(SCRATCHPAD, address)]);
        assert_eq!(loaded, Err(Status::INVALID_ALLOCATION));
    }
}

#[test]
fn a_scratchpad_outside_the_heap_loads_and_fails() {
    let device = Device::new();
    let data = device.rocr.allocate(device.pools[2], 4).unwrap();
    let executable = device.load(&scaled(), &[(SCRATCHPAD, data)]).unwrap();
    let buffer = device.buffer(PAGE);
    let kernel = device.kernel(executable, "main:sequence");
    assert_eq!(device.dispatch(kernel, &[buffer; 3]), 0);
    assert_eq!(device.errors(), [Status::ERROR]);
}

#[test]
fn a_scratchpad_that_was_freed_is_refused() {
    let device = Device::new();
    let heap = device.rocr.allocate(device.pools[1], 4).unwrap();
    let executable = device.load(&scaled(), &[(SCRATCHPAD, heap)]).unwrap();
    assert_eq!(device.rocr.free(heap), OK);
    let buffer = device.buffer(PAGE);
    let kernel = device.kernel(executable, "main:sequence");
    assert_eq!(device.dispatch(kernel, &[buffer; 3]), 0);
    assert_eq!(device.errors(), [Status::INVALID_ALLOCATION]);
}

#[test]
fn an_older_rocr_knows_no_variables() {
    let device = Device::with(&[("ROCR_DOUBLE_OLD", "variables")]);
    let heap = device.rocr.allocate(device.pools[1], 4).unwrap();
    let loaded = device.load(&scaled(), &[(SCRATCHPAD, heap)]);
    assert_eq!(loaded, Err(Status::INVALID_CODE_OBJECT));
    assert!(device.load(&two(), &[]).is_ok());
}

#[test]
fn a_still_older_rocr_knows_no_hsacos() {
    let device = Device::with(&[("ROCR_DOUBLE_OLD", "hsaco,variables")]);
    assert_eq!(device.load(&two(), &[]), Err(Status::INVALID_CODE_OBJECT));
}

#[test]
fn kernels_take_room_in_the_heap() {
    let device = Device::new();
    let half = device.rocr.allocate(device.pools[1], 32 << 20).unwrap();
    let rest = device.rocr.allocate(device.pools[1], 32 << 20).unwrap();
    assert_eq!(device.load(&two(), &[]), Err(Status::OUT_OF_RESOURCES));
    assert_eq!(device.rocr.free(rest), OK);
    let executable = device.load(&two(), &[]).unwrap();
    assert!(device.rocr.allocate(device.pools[1], 32 << 20).is_err());
    let destroy = device.rocr.api.hsa_executable_destroy;
    assert_eq!(unsafe { destroy(executable) }, OK);
    assert!(
        device.rocr.allocate(device.pools[1], 32 << 20).is_ok(),
        "all of it came back"
    );
    assert_eq!(device.rocr.free(half), OK);
}

#[test]
fn a_failed_load_leaves_nothing_in_the_heap() {
    let device = Device::new();
    let mut broken = stream("k2", b"two");
    broken.columns = 9;
    let bytes = hsaco("aie2p", &[stream("k1", b"one"), broken]);
    assert_eq!(device.load(&bytes, &[]), Err(Status::INVALID_CODE_OBJECT));
    assert!(device.rocr.allocate(device.pools[1], 64 << 20).is_ok());
}

#[test]
fn a_hundred_kernels_are_loaded_at_once() {
    let device = Device::new();
    let buffer = device.buffer(PAGE);
    let elf = hsaco(
        "aie2p",
        &[common::hsaco::full_elf(
            "copyrows:copy",
            &real("copy_npu2/aie.elf"),
        )],
    );
    let executables: Vec<u64> = (0..100).map(|_| device.load(&elf, &[]).unwrap()).collect();
    for executable in &executables {
        let kernel = device.kernel(*executable, "copyrows:copy");
        assert_eq!(device.dispatch(kernel, &[buffer; 2]), 1);
    }
    assert_eq!(device.rocr.counters().executables.live, 100);
}
