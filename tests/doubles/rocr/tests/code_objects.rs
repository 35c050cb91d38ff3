//! Code objects: which sections load, and which do not.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::undocumented_unsafe_blocks,
    reason = "these are tests, which keep the promises of ROCR's headers"
)]

mod common;

use common::elf::{get, invalid, loads, on, put, refused};
use common::hsaco::{file, hsaco, real, section, stream};
use common::{Device, PAGE};
use rocr_double::Status;

#[test]
fn upstreams_own_files_load_and_run() {
    for (name, agent, kernels, arguments) in [
        ("copy_npu2_elf", "aie2p", &["copyrows:copy"][..], 2),
        (
            "two_kernels_npu2_elf",
            "aie2p",
            &["first:copy_i32", "second:copy_i8"],
            2,
        ),
        ("copy_npu1_xclbin", "aie2", &["MLIR_AIE"], 2),
        ("copy_npu2_pdi", "aie2p", &["MLIR_AIE"], 2),
    ] {
        let device = on(agent);
        let executable = device
            .load(&real(&format!("upstream_hsaco/{name}.hsaco")), &[])
            .unwrap();
        let buffer = device.buffer(PAGE);
        for kernel in kernels {
            let symbol = device
                .rocr
                .symbol(executable, device.agent, kernel)
                .unwrap();
            assert_eq!(
                device.rocr.symbol_info(symbol, 11),
                Ok(16 * arguments as u64)
            );
            let kernel = device.kernel(executable, kernel);
            assert_eq!(
                device.dispatch(kernel, &vec![buffer; arguments]),
                1,
                "{name}"
            );
        }
        assert_eq!(
            device.rocr.counters().computed,
            0,
            "a real compiler's: nothing is known"
        );
    }
}

#[test]
fn what_nobody_knows_can_be_an_error() {
    let device = Device::with(&[("ROCR_DOUBLE_EXECUTE", "known")]);
    let executable = device
        .load(&real("upstream_hsaco/copy_npu2_elf.hsaco"), &[])
        .unwrap();
    let buffer = device.buffer(PAGE);
    let kernel = device.kernel(executable, "copyrows:copy");
    assert_eq!(device.dispatch(kernel, &[buffer; 2]), 0);
    assert_eq!(device.errors(), [Status::ERROR]);
}

#[test]
fn a_section_for_another_arch_only() {
    let bytes = hsaco("aie2", &[stream("k", b"PDI")]);
    refused(
        "aie2p",
        &bytes,
        Status::INCOMPATIBLE_ARGUMENTS,
        "only for aie2",
    );
    loads("aie2", &bytes);
    let (one, two) = (section(&[stream("k", b"1")]), section(&[stream("k", b"2")]));
    let both = file(&[("aie2p", &one), ("gfx", b"GPU code"), ("aie2", &two)]);
    loads("aie2", &both);
    loads("aie2p", &both);
}

#[test]
fn no_aie_section_at_all() {
    invalid("aie2p", b"not an ELF", "ELF64");
    invalid("aie2p", b"\x7fELF\x02\x01", "ELF64");
    invalid("aie2p", &real("copy_npu2/aie.elf"), "ELF64");
    invalid("aie2p", &file(&[(".text", b"GPU code")]), "no AIE section");
    let mut other = section(&[stream("k", b"PDI")]);
    other[0] ^= 1;
    invalid("aie2p", &file(&[("aie2p", &other)]), "no AIE section");
    let short = &section(&[stream("k", b"PDI")])[..47];
    invalid("aie2p", &file(&[("aie2p", short)]), "no AIE section");
}

/// Upstream's file with one place changed: what ROCR's ELF library makes of each was seen.
#[test]
fn a_container_is_read_as_its_own_elf_library_reads_it() {
    let original = real("upstream_hsaco/copy_npu2_pdi.hsaco");
    let changed = |at: usize, bytes: &[u8]| {
        let mut file = original.clone();
        file[at..at + bytes.len()].copy_from_slice(bytes);
        file
    };
    let table = get(&original, 0x28) as usize;
    let (names, section) = (table + 64, table + 128);
    let size = original.len() as u32;
    for file in [
        // EI_VERSION.
        changed(6, &[2]),
        // Program headers behind the end, though there are none.
        changed(0x20, &size.to_le_bytes()),
        // No sections; no such section for the names; a table that is a byte short.
        changed(0x3c, &[0]),
        changed(0x3e, &[3]),
        original[..original.len() - 1].to_vec(),
    ] {
        invalid("aie2p", &file, "not a readable ELF64");
    }
    for file in [
        // Tables that are not of whole entries have no data, so they are no AIE section.
        changed(section + 4, &[2]),
        changed(section + 4, &[17]),
    ] {
        invalid("aie2p", &file, "no AIE section");
    }
    for file in [
        // e_version, e_shentsize.
        changed(0x14, &[2]),
        changed(0x3a, &[4]),
        changed(0x20, &(size - 1).to_le_bytes()),
        // Nobody looks where the names' table ends, nor of what type it is.
        changed(names + 32, &[2]),
        changed(names + 4, &[1]),
        changed(section + 4, &[8]),
        changed(section + 4, &[7]),
        [&original[..], &[0; 64]].concat(),
    ] {
        loads("aie2p", &file);
    }
    for (file, reason) in [
        (
            changed(section + 4, &[4]),
            "relocations that it cannot read",
        ),
        (changed(section + 4, &[0]), "a second section of type NULL"),
        (changed(names + 4, &[8]), "names without bytes"),
        (changed(0x3e, &[0]), "in no name table"),
        (changed(names + 33, &[0x27]), "in no name table"),
    ] {
        refused("aie2p", &file, Status::ERROR, reason);
    }
}

#[test]
fn a_full_elf_has_no_separate_pdi() {
    let mut kernel = stream("k", b"PDI");
    kernel.kind = 1;
    invalid("aie2p", &hsaco("aie2p", &[kernel]), "with a separate PDI");
}

#[test]
fn the_worked_example_of_the_format_loads() {
    let mut words = [
        0x4b45_4941,
        1,
        0x30,
        2,
        0x2c,
        0x88,
        6,
        0x8e,
        0,
        0,
        0,
        0, // header
        0,
        0x8e,
        8,
        0x96,
        8,
        0x20,
        4,
        0,
        0,
        0,
        0, // k1
        3,
        0x8e,
        8,
        0x96,
        8,
        0x10,
        4,
        0,
        0,
        0,
        0u32, // k2
    ]
    .map(u32::to_le_bytes)
    .concat();
    words.extend(b"k1\0k2\0\x01\x02\x03\x04\x05\x06\x07\x08PDIDATA!");
    assert_eq!(words.len(), 158);
    let device = Device::new();
    let executable = device.load(&file(&[("aie2p", &words)]), &[]).unwrap();
    for (name, size) in [("k1", 0x20), ("k2", 0x10)] {
        let symbol = device.rocr.symbol(executable, device.agent, name).unwrap();
        assert_eq!(device.rocr.symbol_info(symbol, 11), Ok(size));
    }
    // One blob, one PDI in the heap, one compute unit.
    device.dispatch(device.kernel(executable, "k1"), &[]);
    device.dispatch(device.kernel(executable, "k2"), &[]);
    assert_eq!(device.rocr.counters().most_pdis, 1);
}

/// A section with one word of its header or its first entry changed.
fn changed(at: usize, word: u32) -> Vec<u8> {
    let mut bytes = section(&[stream("k1", b"PDI1"), stream("k2", b"PDI2")]);
    put(&mut bytes, at, word);
    file(&[("aie2p", &bytes)])
}

#[test]
fn malformed_sections() {
    let entry = |field: usize| 48 + 4 * field;
    for (at, word, reason) in [
        (4, 2, "version"),
        (8, 47, "too small"),
        (12, 0, "too small"),
        (12, u32::MAX, "not behind the kernel table"),
        (16, 43, "too small"),
        (16, u32::MAX, "not behind the kernel table"),
        (20, 48 + 87, "not behind the kernel table"),
        (24, u32::MAX, "not behind the kernel table"),
        (28, 0, "not behind the string table"),
        (28, u32::MAX, "not behind the string table"),
        (entry(0), 6, "outside the strings"),
        (entry(1), 0, "outside the blob pool"),
        (entry(1), u32::MAX, "outside the blob pool"),
        (entry(2), 0, "0 bytes of instructions"),
        (entry(2), 7, "7 bytes of instructions"),
        (entry(2), 0xffff_fffc, "outside the blob pool"),
        (entry(3), 0, "outside the blob pool"),
        (entry(4), 0, "a PDI without a size"),
        (entry(4), u32::MAX, "outside the blob pool"),
        (entry(6), 0, "declares 0 columns; the agent has 8"),
        (entry(6), 9, "declares 9 columns; the agent has 8"),
        (entry(7), 2, "unknown kind 2"),
    ] {
        invalid("aie2p", &changed(at, word), reason);
    }
    // What nobody checks: the minor version, reserved words, the size of kernargs.
    for at in [32, 44, entry(5), entry(8), entry(10)] {
        loads("aie2p", &changed(at, 1));
    }
    loads("aie2p", &changed(4, 7 << 16 | 1));
}

#[test]
fn a_name_ends_in_the_strings() {
    let mut bytes = section(&[stream("k", b"PDI")]);
    let at = get(&bytes, 20) as usize + 1;
    bytes[at] = b'x';
    invalid("aie2p", &file(&[("aie2p", &bytes)]), "name without an end");
}

#[test]
fn names_are_unique() {
    let bytes = hsaco("aie2p", &[stream("k", b"1"), stream("k", b"2")]);
    invalid("aie2p", &bytes, "twice");
}

#[test]
fn a_stream_needs_a_pdi() {
    let bytes = hsaco("aie2", &[stream("k", b"")]);
    invalid("aie2", &bytes, "has no PDI to configure the array with");
}

#[test]
fn the_columns_are_the_agents() {
    let with = |columns| {
        let mut kernel = stream("k", b"PDI");
        kernel.columns = columns;
        hsaco("aie2", &[kernel])
    };
    loads("aie2", &with(4));
    invalid("aie2", &with(5), "declares 5 columns; the agent has 4");
}

#[test]
fn no_damage_does_more_than_fail() {
    let device = Device::new();
    let files = [
        real("upstream_hsaco/two_kernels_npu2_elf.hsaco"),
        hsaco("aie2p", &[stream("k", b"PDI")]),
    ];
    for bytes in files {
        for at in 0..bytes.len() {
            for value in [0x00, 0xff] {
                let mut damaged = bytes.clone();
                damaged[at] = value;
                let _ = device.load(&damaged, &[]);
            }
            let _ = device.load(&bytes[..at.max(1)], &[]);
        }
    }
    assert!(
        device
            .load(&real("upstream_hsaco/copy_npu2_elf.hsaco"), &[])
            .is_ok()
    );
}
