//! Full ELFs: what loads, what does not, and where addresses go.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::undocumented_unsafe_blocks,
    reason = "these are tests, which keep the promises of ROCR's headers"
)]

mod common;

use common::elf::{copy, data_of, get, header_of, invalid, loads, put, relocations};
use common::hsaco::{full_elf, hsaco, real};
use common::{Device, PAGE};

/// The words at the argument sites of `copy_npu2/aie.elf` are zero, so that they are then the
/// argument's address alone, 2 GiB up.
#[test]
fn addresses_are_patched_into_the_loaded_copy_at_each_dispatch() {
    let device = Device::new();
    let elf = real("copy_npu2/aie.elf");
    let executable = device
        .load(&hsaco("aie2p", &[full_elf("copyrows:copy", &elf)]), &[])
        .unwrap();
    let kernel = device.kernel(executable, "copyrows:copy");
    let original = real("copy_npu2/insts.bin");
    let mut size = 0;
    let code = unsafe { (device.rocr.api.rocr_double_control_code)(kernel, &mut size) };
    let code = code.cast::<u8>();
    let word = |at: usize| unsafe { code.add(at).cast::<u32>().read_unaligned() };
    assert!(
        (code as usize).is_multiple_of(16384),
        "as the firmware wants it"
    );
    let relocations = relocations(&elf);
    assert_eq!(relocations.len(), 3);
    for _ in 0..2 {
        // Other memory each time: the addresses of the last dispatch are not added to.
        let buffers = [device.buffer(PAGE), device.buffer(PAGE)];
        assert_eq!(
            device.dispatch(kernel, &buffers),
            1,
            "{}",
            device.rocr.reason()
        );
        for (offset, name, addend) in &relocations {
            let Ok(argument) = name.parse::<usize>() else {
                // The PDI's address, whole: its first words are a PDI's.
                let address = u64::from(word(*offset)) | u64::from(word(offset + 4)) << 32;
                let head = unsafe { (address as *const u32).read() };
                assert_eq!(head, 0xdd);
                continue;
            };
            let expected = buffers[argument].address as u64 + u64::from(*addend) + 0x8000_0000;
            assert_eq!(word(offset + 4), expected as u32, "argument {argument}");
            assert_eq!(word(offset + 8) & 0xffff, (expected >> 32) as u32);
        }
    }
    assert!(size >= original.len());
}

#[test]
fn aie2_has_no_full_elfs() {
    let mut kernel = copy();
    kernel.columns = 4;
    invalid(
        "aie2",
        &hsaco("aie2", &[kernel]),
        "no full-ELF format for arch aie2",
    );
}

/// Two groups whose signature is one symbol: they have one name.
#[test]
fn a_kernel_name_is_once_in_a_full_elf() {
    let mut elf = real("two_kernels_npu2/aie.elf");
    let info = |elf: &[u8], name: &str| get(elf, header_of(elf, name) + 28);
    let first = info(&elf, ".group.0");
    let second = header_of(&elf, ".group.1");
    assert_ne!(get(&elf, second + 28), first);
    put(&mut elf, second + 28, first);
    let kernel = full_elf("first:copy_i32", &elf);
    invalid("aie2p", &hsaco("aie2p", &[kernel]), "first:copy_i32: twice");
}

#[test]
fn a_pdi_has_bytes() {
    let mut elf = real("copy_npu2/aie.elf");
    let at = header_of(&elf, ".pdi.1") + 20;
    put(&mut elf, at, 0);
    let kernel = full_elf("copyrows:copy", &elf);
    invalid("aie2p", &hsaco("aie2p", &[kernel]), ".pdi.1 has 0 bytes");
}

#[test]
fn a_full_elf_knows_its_kernels_and_their_arguments() {
    let mut kernel = copy();
    kernel.name = "copyrows:copies".to_owned();
    invalid("aie2p", &hsaco("aie2p", &[kernel]), "not in its full ELF");
    for (size, good) in [
        (0, true),
        (32, true),
        (16, false),
        (48, false),
        (u32::MAX, false),
    ] {
        let mut kernel = copy();
        kernel.kernarg_size = size;
        let bytes = hsaco("aie2p", &[kernel]);
        match good {
            true => loads("aie2p", &bytes),
            false => invalid("aie2p", &bytes, "kernarg size mismatch"),
        }
    }
}

/// `copy_npu2/aie.elf`, changed.
#[track_caller]
fn elf_refused(change: impl FnOnce(&mut Vec<u8>), reason: &str) {
    let mut kernel = copy();
    change(&mut kernel.insts);
    invalid("aie2p", &hsaco("aie2p", &[kernel]), reason);
}

#[test]
fn malformed_full_elfs() {
    elf_refused(|elf| elf[4] = 2, "ELF32");
    elf_refused(|elf| elf.truncate(4), "ELF32");
    elf_refused(|elf| elf.truncate(8), "malformed section headers");
    elf_refused(|elf| elf[7] = 0, "not an aie2p AIE ELF");
    elf_refused(|elf| elf[0x2e] = 64, "malformed section headers");
    elf_refused(|elf| put(elf, 0x20, u32::MAX), "malformed section headers");
    elf_refused(|elf| elf[0x30..0x32].fill(0), "malformed section headers");
    elf_refused(
        |elf| {
            let at = data_of(elf, ".group.0");
            put(elf, at, 0);
        },
        "group is not a COMDAT group",
    );
    elf_refused(
        |elf| {
            let at = data_of(elf, ".group.0");
            put(elf, at + 4, 999);
        },
        "group member out of range",
    );
    elf_refused(
        |elf| {
            let at = data_of(elf, ".group.0");
            put(elf, at + 4, 1);
        },
        "no dispatchable kernels",
    );
    elf_refused(
        |elf| {
            let at = header_of(elf, ".group.0");
            put(elf, at + 4, 1);
        },
        "no groups",
    );
    elf_refused(
        |elf| {
            let at = header_of(elf, ".group.0");
            put(elf, at + 28, 99);
        },
        "bad group signature symbol",
    );
    elf_refused(
        |elf| {
            let at = header_of(elf, ".symtab");
            put(elf, at + 36, 8);
        },
        "missing or malformed .symtab",
    );
    elf_refused(
        |elf| {
            let at = header_of(elf, ".ctrltext.0");
            put(elf, at + 20, u32::MAX);
        },
        "section extends past end of file",
    );
    elf_refused(
        |elf| {
            let at = header_of(elf, ".rela.dyn");
            put(elf, at + 20, 0);
        },
        "has no PDI patch site",
    );
    elf_refused(
        |elf| {
            let at = header_of(elf, ".rela.dyn");
            put(elf, at + 36, 8);
        },
        "malformed .rela.dyn",
    );
}

/// Changes the relocation of a symbol.
#[track_caller]
fn site_refused(symbol: &str, change: impl FnOnce(&mut [u8]), reason: &str) {
    elf_refused(
        |elf| {
            let index = relocations(elf)
                .iter()
                .position(|(_, name, _)| name == symbol)
                .unwrap();
            let at = data_of(elf, ".rela.dyn") + 12 * index;
            change(&mut elf[at..at + 12]);
        },
        reason,
    );
}

#[test]
fn patch_sites_fit_the_control_code() {
    let pdi = relocations(&real("copy_npu2/aie.elf"));
    let pdi = pdi
        .iter()
        .find(|(_, name, _)| name.starts_with(".pdi"))
        .unwrap()
        .1
        .clone();
    let size = get(
        &real("copy_npu2/aie.elf"),
        header_of(&real("copy_npu2/aie.elf"), ".ctrltext.0") + 20,
    );
    for offset in [0, 2, size - 4, 0xffff_fffc] {
        site_refused(&pdi, |r| put(r, 0, offset), "does not fit the control code");
    }
    for offset in [2, size - 8, size] {
        site_refused("0", |r| put(r, 0, offset), "does not fit the control code");
    }
    site_refused(&pdi, |r| r[4] = 5, "unexpected patch scheme for PDI symbol");
    site_refused("0", |r| r[4] = 8, "unsupported patch scheme");
    site_refused("0", |r| put(r, 4, 0xffff_ff05), "bad relocation symbol");
}

#[test]
fn abi_version_1_has_the_scheme_in_the_addend() {
    let site = |elf: &mut [u8]| {
        let at = data_of(elf, ".rela.dyn");
        let end = at + get(elf, header_of(elf, ".rela.dyn") + 20) as usize;
        for at in (at..end).step_by(12) {
            let word = get(elf, at + 8) << 4 | u32::from(elf[at + 4]);
            put(elf, at + 8, word);
            elf[at + 4] = 0;
        }
    };
    let mut kernel = copy();
    site(&mut kernel.insts);
    invalid("aie2p", &hsaco("aie2p", &[kernel.clone()]), "patch scheme");
    kernel.insts[8] = 1;
    loads("aie2p", &hsaco("aie2p", &[kernel]));
    elf_refused(|elf| elf[8] = 1, "unexpected patch scheme for PDI symbol");
}

#[test]
fn pdis_of_one_name_are_equal() {
    let elf = real("two_kernels_npu2/aie.elf");
    let name = relocations(&elf)
        .into_iter()
        .find(|(_, name, _)| name.starts_with(".pdi"));
    let name = name.unwrap().1;
    let mut kernel = full_elf("first:copy_i32", &elf);
    loads("aie2p", &hsaco("aie2p", &[kernel.clone()]));
    let at = data_of(&elf, &name) + 100;
    kernel.insts[at] ^= 1;
    invalid("aie2p", &hsaco("aie2p", &[kernel]), "ambiguous PDI");
}
