//! Files around an AIE section that is good: upstream's own hsaco with one place changed. What ROCR's
//! ELF reader, aie-hsaco-dump and llvm-objcopy make of each was seen on them.

use npu_formats::Arch;
use npu_formats::verdict::{Reader, Status, Verdict};

use super::files::{ACCEPTS, data, judged, rocr, verdict_of};

/// What one of them says of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    /// Takes it.
    Accepts,
    /// Refuses it with these words among others.
    Refuses(&'static str),
    /// The same with a status of ROCR's.
    RefusesAs(Status, &'static str),
    /// ROCR gives it to the GPU's loader; a packer finds no kernels in it.
    Passes(&'static str),
}

use Said::{Accepts, Passes, Refuses, RefusesAs};

#[track_caller]
fn check(what: &str, bytes: &[u8], expected: [Said; 3]) {
    let judgements = judged(bytes);
    let readers = [Reader::Packer, Reader::Dumper, rocr(Arch::Aie2p)];
    for (reader, said) in readers.into_iter().zip(expected) {
        let verdict = verdict_of(&judgements, reader);
        let is_right = match (&verdict, said) {
            (verdict, Accepts) => *verdict == ACCEPTS,
            (Verdict::Refuses { status, reason, .. }, Refuses(words)) => {
                status.is_none() && reason.contains(words)
            }
            (Verdict::Refuses { status, reason, .. }, RefusesAs(expected, words)) => {
                *status == Some(expected) && reason.contains(words)
            }
            (Verdict::NotConcerned { reason }, Passes(words)) => reason.contains(words),
            _ => false,
        };
        assert!(is_right, "{what}: {reader:?}: {verdict:?}, not {said:?}");
    }
}

fn original() -> Vec<u8> {
    data("upstream_hsaco/copy_npu2_pdi.hsaco")
}

fn changed(at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut file = original();
    file[at..at + bytes.len()].copy_from_slice(bytes);
    file
}

/// The section headers: none, names, the AIE section.
const TABLE: usize = 1384;
const NAMES: usize = TABLE + 64;
const SECTION: usize = TABLE + 128;
/// All of the file.
const SIZE: u16 = 1576;

const UNREAD: Said = Passes("its ELF library cannot read it");
const UNSEEN: Said = Passes("there is no AIE section");

#[test]
fn versions_and_program_headers() {
    check("as it is", &original(), [Accepts; 3]);
    let all = |at, bytes: &[u8], rocr| check("", &changed(at, bytes), [Accepts, Accepts, rocr]);
    // EI_VERSION, e_type, e_machine, e_version.
    all(6, &[2], UNREAD);
    all(0x10, &[2], Accepts);
    all(0x12, &[3], Accepts);
    all(0x14, &[2], Accepts);
    // Program headers behind the end, though there are none, and as far as that.
    all(0x20, &SIZE.to_le_bytes(), UNREAD);
    all(0x20, &(SIZE - 1).to_le_bytes(), Accepts);
    // Two, with room for one.
    let mut file = changed(0x20, &(SIZE - 60).to_le_bytes());
    file[0x36] = 56;
    file[0x38] = 2;
    let longer = Refuses("program headers are longer than binary");
    check("two", &file, [longer, Accepts, UNREAD]);
}

#[test]
fn section_headers() {
    let size = |size: u8| {
        Refuses(if size == 4 {
            "e_shentsize in ELF header: 4"
        } else {
            "72"
        })
    };
    check(
        "4",
        &changed(0x3a, &[4]),
        [size(4), Refuses("of 4 bytes"), Accepts],
    );
    // The dumper goes by it, and finds the second header's end elsewhere.
    check(
        "72",
        &changed(0x3a, &[72]),
        [size(72), Refuses("out of bounds"), Accepts],
    );
    let short = &original()[..usize::from(SIZE) - 1];
    let past = Refuses("section table goes past the end of file");
    check(
        "a byte short",
        short,
        [past, Refuses("out of bounds"), UNREAD],
    );
    let longer = [original(), vec![0; 64]].concat();
    check("longer", &longer, [Accepts; 3]);
    check(
        "none",
        &changed(0x28, &[0, 0]),
        [Refuses("e_shstrndx"), Refuses("no section headers"), UNSEEN],
    );
    // The number of sections in the first header instead, which ROCR does not look at.
    let mut extended = changed(0x3c, &[0]);
    extended[TABLE + 32] = 3;
    check("extended", &extended, [Accepts, Accepts, UNSEEN]);
}

#[test]
fn section_names() {
    let unnamed = RefusesAs(Status::Error, "is not in the section-name table");
    check(
        "2 bytes",
        &changed(NAMES + 32, &[2]),
        [
            Refuses("non-null terminated"),
            Refuses("no aie2/aie2p section found"),
            Accepts,
        ],
    );
    check(
        "no bytes",
        &changed(NAMES + 32, &[0]),
        [
            Refuses("is empty"),
            Refuses("no aie2/aie2p section found"),
            unnamed,
        ],
    );
    check(
        "no table",
        &changed(0x3e, &[0]),
        [
            Refuses("section-name table"),
            Refuses("section-name table"),
            unnamed,
        ],
    );
    let other = Refuses("invalid sh_type for string table section");
    check(
        "other type",
        &changed(NAMES + 4, &[1]),
        [other, Accepts, Accepts],
    );
    check(
        "no bits",
        &changed(NAMES + 4, &[8]),
        [
            other,
            Accepts,
            Refuses("ends the process at a section-name table of type SHT_NOBITS"),
        ],
    );
}

/// A table's data must be whole entries; the section here has 1297 bytes.
#[test]
fn types_of_the_section() {
    let of = |kind: u8, packer, dumper, rocr| {
        check(
            &kind.to_string(),
            &changed(SECTION + 4, &[kind]),
            [packer, dumper, rocr],
        );
    };
    for kind in [3, 7, 10, 12, 13, 19] {
        of(kind, Accepts, Accepts, Accepts);
    }
    of(2, Refuses("sh_link"), Accepts, UNSEEN);
    of(
        4,
        Refuses("sh_entsize: expected 24"),
        Accepts,
        Refuses("ends the process at a section"),
    );
    of(9, Refuses("sh_entsize: expected 16"), Accepts, UNSEEN);
    for kind in [5, 6, 11, 14, 15, 16] {
        of(kind, Accepts, Accepts, UNSEEN);
    }
    // The dumper reads no bytes of a section without bits; ROCR reads what lies there.
    of(
        8,
        Passes("no kernels"),
        Refuses("smaller than header"),
        Accepts,
    );
    of(
        0,
        Accepts,
        Accepts,
        Refuses("ends the process at a second section of type SHT_NULL"),
    );
}

/// Of other ELFs ROCR reads the same fields at their places.
#[test]
fn other_classes_and_byte_orders() {
    let section = &original()[0x51..0x51 + 1297];
    for (class, order) in [(1, 1), (1, 2), (2, 2)] {
        let file = container(class, order, section);
        let dumper = if class == 1 {
            "not an ELF64"
        } else {
            "not a little-endian"
        };
        let packer = Passes("it would add a section to it");
        check("other", &file, [packer, Refuses(dumper), Accepts]);
        // Cut at the end of the last section header, and one byte before.
        check(
            "cut",
            &file[..file.len() - 1],
            [packer, Refuses(dumper), UNREAD],
        );
    }
}

/// An ELF of that class and byte order, with names and an AIE section.
fn container(class: u8, order: u8, section: &[u8]) -> Vec<u8> {
    let number = |value: usize, size: usize| {
        let bytes = &value.to_le_bytes()[..size];
        match order {
            1 => bytes.to_vec(),
            _ => bytes.iter().rev().copied().collect(),
        }
    };
    let (word, header, entry) = if class == 1 { (4, 52, 40) } else { (8, 64, 64) };
    let names = b"\0.shstrtab\0aie2p\0";
    let table = (header + names.len() + section.len()).next_multiple_of(8);
    let mut file = [b"\x7fELF", &[class, order, 1][..], &[0; 9]].concat();
    for (value, size) in [
        (1, 2),
        (224, 2),
        (1, 4),
        (0, word),
        (0, word),
        (table, word),
        (0, 4),
    ] {
        file.extend(number(value, size));
    }
    for value in [header, 0, 0, entry, 3, 1] {
        file.extend(number(value, 2));
    }
    file.extend(names);
    file.extend(section);
    file.resize(table, 0);
    file.resize(table + entry, 0);
    let places = [
        (1, 3, header, names.len()),
        (11, 1, header + names.len(), section.len()),
    ];
    for (name, kind, offset, size) in places {
        let fields = [
            (name, 4),
            (kind, 4),
            (0, word),
            (0, word),
            (offset, word),
            (size, word),
        ];
        let rest = [(0, 4), (0, 4), (1, word), (0, word)];
        for (value, size) in fields.into_iter().chain(rest) {
            file.extend(number(value, size));
        }
    }
    file
}
