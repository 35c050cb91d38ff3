//! What ROCR's own dispatch tests do with two designs, each as stream with PDI and as full ELF: one
//! adds a number to 1024 elements, the other multiplies them in place.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::undocumented_unsafe_blocks,
    reason = "these are tests, which keep the promises of ROCR's headers"
)]

mod common;

use std::ffi::c_void;
use std::sync::LazyLock;

use common::elf::get;
use common::hsaco::Compiler;
use common::{Device, designs};
use rocr_double::Status;

const ELEMENTS: usize = 1024;
const SIZE: usize = 4 * ELEMENTS;
const FACTOR: u32 = 3;

struct Codes {
    add: Vec<u8>,
    mul: Vec<u8>,
    add_elf: Vec<u8>,
    mul_elf: Vec<u8>,
}

static CODES: LazyLock<Codes> = LazyLock::new(|| {
    let compiler = Compiler::new();
    let one = "%one = arith.constant 1 : i32\n        %z = arith.addi %x, %one : i32";
    let factor = "%f = arith.constant 3 : i32\n        %z = arith.muli %x, %f : i32";
    let add = designs::map("npu2", one, false);
    let mul = designs::map("npu2", factor, true);
    Codes {
        add: compiler.stream(&add, "aie2p", 32, 8),
        mul: compiler.stream(&mul, "aie2p", 16, 8),
        add_elf: compiler.full_elf(&add, 0),
        mul_elf: compiler.full_elf(&mul, 0),
    }
});

/// A kernel of an executable of its own, which places a PDI of its own.
fn load(device: &Device, code: &[u8]) -> u64 {
    let executable = device.load(code, &[]).unwrap();
    let names = ["k", "main:sequence"];
    let mut symbols = names.map(|name| device.rocr.symbol(executable, device.agent, name));
    let symbol = symbols.iter_mut().find_map(|symbol| symbol.ok()).unwrap();
    device.rocr.symbol_info(symbol, 22).unwrap()
}

/// Numbers from `first` on in the pool that a program takes for its data.
fn numbers(device: &Device, first: u32, count: usize) -> *mut u32 {
    let memory = device.rocr.allocate(device.pools[0], 4 * count).unwrap();
    let memory = memory.cast::<u32>();
    for index in 0..count {
        unsafe { memory.add(index).write(first + index as u32) };
    }
    memory
}

fn read(memory: *const u32, count: usize) -> Vec<u32> {
    (0..count)
        .map(|i| unsafe { memory.add(i).read() })
        .collect()
}

fn expected(first: u32, count: usize, of: impl Fn(u32) -> u32) -> Vec<u32> {
    (first..first + count as u32).map(of).collect()
}

fn put(device: &Device, kernel: u64, arguments: &[*mut u32]) {
    let arguments: Vec<_> = (arguments.iter())
        .map(|argument| (argument.cast::<c_void>(), SIZE))
        .collect();
    device.publish(device.packet(kernel, &arguments));
}

/// As many additions as there are, rung for as the batches say.
fn additions(device: &Device, kernel: u64, batches: &[usize]) {
    let count = ELEMENTS * batches.iter().sum::<usize>();
    let (from, to) = (numbers(device, 0, count), numbers(device, 0, count));
    let mut at = 0;
    for batch in batches {
        for _ in 0..*batch {
            let [from, to] = [from, to].map(|p| unsafe { p.add(at) });
            put(device, kernel, &[from, to]);
            at += ELEMENTS;
        }
        device.ring();
    }
    assert_eq!(device.errors(), [], "{}", device.rocr.reason());
    assert_eq!(read(to, count), expected(0, count, |n| n + 1));
    assert_eq!(device.read_index(), device.write_index());
}

#[test]
fn single_and_many_dispatches_in_batches_that_wrap_around() {
    let device = Device::new();
    let kernel = load(&device, &CODES.add);
    additions(&device, kernel, &[1]);
    additions(&device, kernel, &[1; 100]);
    additions(&device, kernel, &[40]);
    additions(&device, kernel, &[vec![1; 63], vec![40]].concat());
    // More than a chain of two arguments holds.
    additions(&device, kernel, &[64]);
    let kernel = load(&device, &CODES.add_elf);
    additions(&device, kernel, &[1, 2, 64, 1, 64]);
}

/// The device heap gives control codes other addresses each time.
#[test]
fn control_codes_are_aligned_whatever_lies_before_them() {
    let device = Device::new();
    for size in [4, 1024, 4100, 16384, 16388, 32772] {
        let spacer = device.rocr.allocate(device.pools[1], size).unwrap();
        let kernel = load(&device, &CODES.add_elf);
        additions(&device, kernel, &[2]);
        assert_eq!(device.rocr.free(spacer), Status::SUCCESS);
    }
}

#[test]
fn two_designs_alternate_in_one_batch_and_in_many() {
    for (add, mul) in [(&CODES.add, &CODES.mul), (&CODES.add_elf, &CODES.mul_elf)] {
        let device = Device::new();
        let (add, mul) = (load(&device, add), load(&device, mul));
        for batch in [8, 2] {
            let (from, to) = (
                numbers(&device, 0, 4 * ELEMENTS),
                numbers(&device, 9, 4 * ELEMENTS),
            );
            let own = numbers(&device, 0, 4 * ELEMENTS);
            for pair in 0..4 {
                let [from, to, own] = [from, to, own].map(|p| unsafe { p.add(pair * ELEMENTS) });
                put(&device, add, &[from, to]);
                put(&device, mul, &[own]);
                if (2 * pair + 2) % batch == 0 {
                    device.ring();
                }
            }
            assert_eq!(device.errors(), [], "{}", device.rocr.reason());
            assert_eq!(read(to, 4 * ELEMENTS), expected(0, 4 * ELEMENTS, |n| n + 1));
            let products = expected(0, 4 * ELEMENTS, |n| n * FACTOR);
            assert_eq!(read(own, 4 * ELEMENTS), products);
        }
    }
}

#[test]
fn batches_of_streams_and_of_full_elfs_alternate() {
    let device = Device::new();
    let kernels = [load(&device, &CODES.add), load(&device, &CODES.add_elf)];
    for round in 0..4 {
        additions(&device, kernels[round % 2], &[2]);
    }
}

#[test]
fn a_full_elf_needs_no_place_for_its_pdi() {
    let device = Device::new();
    for _ in 0..40 {
        let kernel = load(&device, &CODES.add_elf);
        additions(&device, kernel, &[1]);
    }
    for _ in 0..32 {
        let kernel = load(&device, &CODES.add);
        additions(&device, kernel, &[1]);
    }
    let buffer = numbers(&device, 0, ELEMENTS);
    let kernel = load(&device, &CODES.add);
    put(&device, kernel, &[buffer; 2]);
    device.ring();
    assert_eq!(device.errors(), [Status::OUT_OF_RESOURCES]);
    assert_eq!(read(buffer, ELEMENTS), expected(0, ELEMENTS, |n| n));
}

/// Instructions that the device cannot execute, in the last packet of a batch of two chains.
#[test]
fn what_ran_before_a_device_error_is_retired() {
    let device = Device::new();
    let mut broken = CODES.add.clone();
    // The section begins at 0x51, its first entry behind the header, offset and size in it.
    let section = 0x51;
    let [offset, size] = [4, 8].map(|field| get(&broken, section + 48 + field) as usize);
    broken[section + offset..section + offset + size].fill(0xff);
    let (good, bad) = (load(&device, &CODES.add), load(&device, &broken));
    let (from, to) = (
        numbers(&device, 0, 64 * ELEMENTS),
        numbers(&device, 0, 64 * ELEMENTS),
    );
    for packet in 0..64 {
        let [from, to] = [from, to].map(|p| unsafe { p.add(packet * ELEMENTS) });
        put(&device, if packet == 63 { bad } else { good }, &[from, to]);
    }
    device.ring();
    assert_eq!(device.errors(), [Status::ERROR]);
    let done = device.read_index() as usize;
    assert_eq!(-device.rocr.load(device.signal), done as i64);
    assert!(
        (44..64).contains(&done),
        "the first chain, at least: {done}"
    );
    assert_eq!(
        read(to, done * ELEMENTS),
        expected(0, done * ELEMENTS, |n| n + 1)
    );
    let last = unsafe { to.add(63 * ELEMENTS) };
    assert_eq!(read(last, ELEMENTS), expected(63 * 1024, ELEMENTS, |n| n));
}
