//! Code objects that are looked into and changed, and what the double says of them.

use rocr_double::Status;

use super::Device;
use super::hsaco::{Kernel, full_elf, real};

pub fn on(agent: &str) -> Device {
    Device::with(&[("ROCR_DOUBLE_AGENT", agent)])
}

/// Expects that a code object is not loaded, for that reason.
#[track_caller]
pub fn refused(agent: &str, bytes: &[u8], status: Status, reason: &str) {
    let device = on(agent);
    assert_eq!(
        device.load(bytes, &[]),
        Err(status),
        "{}",
        device.rocr.reason()
    );
    let found = device.rocr.reason();
    assert!(found.contains(reason), "{found}");
}

#[track_caller]
pub fn invalid(agent: &str, bytes: &[u8], reason: &str) {
    refused(agent, bytes, Status::INVALID_CODE_OBJECT, reason);
}

#[track_caller]
pub fn loads(agent: &str, bytes: &[u8]) {
    let device = on(agent);
    assert!(device.load(bytes, &[]).is_ok(), "{}", device.rocr.reason());
}

pub fn put(bytes: &mut [u8], at: usize, word: u32) {
    bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
}

pub fn get(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// The relocations of a full ELF that aiebu-asm wrote, by plain reading: offset, name, addend.
pub fn relocations(elf: &[u8]) -> Vec<(usize, String, u32)> {
    let headers = get(elf, 0x20) as usize;
    let count = usize::from(u16::from_le_bytes([elf[0x30], elf[0x31]]));
    let header = |index: usize| headers + 40 * index;
    let strings = get(elf, header(usize::from(elf[0x32])) + 16) as usize;
    let text = |at: usize| {
        let bytes = elf[at..].split(|b| *b == 0).next().unwrap();
        String::from_utf8(bytes.to_vec()).unwrap()
    };
    let place = |name: &str| {
        let found = (0..count).find(|i| text(strings + get(elf, header(*i)) as usize) == name);
        let at = header(found.unwrap());
        (get(elf, at + 16) as usize, get(elf, at + 20) as usize)
    };
    let ((rela, size), (symbols, _), (names, _)) =
        (place(".rela.dyn"), place(".dynsym"), place(".dynstr"));
    let entries = (rela..rela + size).step_by(12);
    entries
        .map(|at| {
            let symbol = symbols + 16 * (get(elf, at + 4) >> 8) as usize;
            let name = text(names + get(elf, symbol) as usize);
            (get(elf, at) as usize, name, get(elf, at + 8))
        })
        .collect()
}

pub fn copy() -> Kernel {
    full_elf("copyrows:copy", &real("copy_npu2/aie.elf"))
}

/// The file offset of a section's header, by name.
pub fn header_of(elf: &[u8], name: &str) -> usize {
    let headers = get(elf, 0x20) as usize;
    let strings = get(elf, headers + 40 * usize::from(elf[0x32]) + 16) as usize;
    let count = usize::from(elf[0x30]);
    let matches = |at: &usize| {
        let start = strings + get(elf, *at) as usize;
        elf[start..].starts_with(name.as_bytes()) && elf[start + name.len()] == 0
    };
    let mut all = (0..count).map(|index| headers + 40 * index);
    all.find(matches).unwrap_or_else(|| panic!("no {name}"))
}

/// The file offset of a section's bytes.
pub fn data_of(elf: &[u8], name: &str) -> usize {
    get(elf, header_of(elf, name) + 16) as usize
}
