use super::*;
use proptest::prelude::*;

/// What ROCR's own packer made of real designs.
const PDI: &[u8] =
    include_bytes!("../../../../../tests/data/aie/upstream_hsaco/copy_npu1_xclbin.hsaco");
const ELF: &[u8] =
    include_bytes!("../../../../../tests/data/aie/upstream_hsaco/copy_npu2_elf.hsaco");
const TWO: &[u8] =
    include_bytes!("../../../../../tests/data/aie/upstream_hsaco/two_kernels_npu2_elf.hsaco");

/// The worked example of the format's documentation, without its container.
const WORKED: &str = "
    41 49 45 4b 01 00 00 00 30 00 00 00 02 00 00 00 2c 00 00 00 88 00 00 00 06 00 00 00 8e 00 00 00
    00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 8e 00 00 00 08 00 00 00 96 00 00 00
    08 00 00 00 20 00 00 00 04 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 03 00 00 00
    8e 00 00 00 08 00 00 00 96 00 00 00 08 00 00 00 10 00 00 00 04 00 00 00 00 00 00 00 00 00 00 00
    00 00 00 00 00 00 00 00 6b 31 00 6b 32 00 01 02 03 04 05 06 07 08 50 44 49 44 41 54 41 21";

fn worked() -> Vec<u8> {
    WORKED
        .split_whitespace()
        .map(|byte| u8::from_str_radix(byte, 16).unwrap())
        .collect()
}

#[test]
fn the_worked_example_is_read() {
    let section = worked();
    let code: &[u8] = &[1, 2, 3, 4, 5, 6, 7, 8];
    let entry = |name| Entry {
        name,
        form: Form::Instructions,
        columns: 4,
        code,
    };
    assert_eq!(table(&section).unwrap(), [entry("k1"), entry("k2")]);
}

#[test]
fn real_hsacos_are_read() {
    let one = kernels(PDI, "aie2").unwrap();
    assert_eq!(one.len(), 1);
    assert_eq!(one[0].form, Form::Instructions);
    // The column width of the partition that the design's xclbin has.
    assert_eq!(one[0].columns, 4);
    // The header of npu1's instruction streams.
    assert_eq!(one[0].code[..4], 0x0603_0100_u32.to_le_bytes());

    let elf = kernels(ELF, "aie2p").unwrap();
    assert_eq!(elf[0].form, Form::FullElf);
    assert!(elf[0].name.contains(':'), "{}", elf[0].name);
    assert!(elf[0].code.starts_with(b"\x7fELF"));
    assert_eq!(externals(elf[0].code).unwrap(), []);

    let two = kernels(TWO, "aie2p").unwrap();
    assert_eq!(two.len(), 2);
    assert_eq!(two[0].code, two[1].code);
}

#[test]
fn another_arch_and_no_arch_are_told_apart() {
    assert_eq!(
        kernels(PDI, "aie2p"),
        Err(HsacoFault::Arch {
            expected: "aie2p".into(),
            found: vec!["aie2".into()]
        })
    );
    let mut plain = PDI.to_vec();
    let magic = plain.windows(4).position(|bytes| bytes == b"AIEK").unwrap();
    plain[magic] = 0;
    assert_eq!(kernels(&plain, "aie2"), Err(HsacoFault::NoSection));
    assert_eq!(kernels(b"", "aie2"), Err(HsacoFault::Empty));
    assert_eq!(kernels(b"xclbin2\0", "aie2"), Err(HsacoFault::NotElf));
    // A full ELF that nobody packed is an ELF file of 32 bits.
    let elf = kernels(ELF, "aie2p").unwrap()[0].code;
    assert_eq!(kernels(elf, "aie2p"), Err(HsacoFault::NotElf));
}

#[test]
fn later_versions_and_kinds_are_refused() {
    let mut section = worked();
    section[4] = 2;
    assert_eq!(table(&section), Err(HsacoFault::Version { major: 2 }));
    let mut section = worked();
    section[48 + 28] = 2;
    assert!(matches!(table(&section), Err(HsacoFault::Malformed { .. })));
    // A minor version is compatible.
    let mut section = worked();
    section[6] = 9;
    table(&section).unwrap();
}

#[test]
fn larger_headers_and_entries_are_walked_with_their_own_sizes() {
    let mut section = worked();
    // Four more bytes in the header and in each entry, so that everything behind moves.
    for (at, by) in [(8, 4), (16, 4), (20, 12), (28, 12)] {
        section[at] += by;
    }
    for entry in [48, 92] {
        section[entry + 4] += 12;
        section[entry + 12] += 12;
    }
    for at in [136, 92, 48] {
        section.splice(at..at, [0xee; 4]);
    }
    let kernels = table(&section).unwrap();
    assert_eq!(kernels[1].name, "k2");
    assert_eq!(kernels[1].code, [1, 2, 3, 4, 5, 6, 7, 8]);
}

#[test]
fn a_file_that_was_cut_short_anywhere_is_refused() {
    for hsaco in [PDI, TWO] {
        // The section header table comes last.
        for len in (0..hsaco.len()).step_by(7) {
            kernels(&hsaco[..len], "aie2p").unwrap_err();
        }
    }
    let section = worked();
    for len in 0..section.len() {
        // The PDI is not looked at.
        let cut = table(&section[..len]);
        assert_eq!(cut.is_ok(), len >= 0x96, "{len}");
    }
}

/// A full ELF with nothing but section names, dynamic symbols and their names.
fn full_elf(symbols: &[(&str, u32)]) -> Vec<u8> {
    let sections = b"\0.dynstr\0.dynsym\0".to_vec();
    let mut names = vec![0];
    let mut table = vec![0; 16];
    for (name, size) in symbols {
        table.extend((names.len() as u32).to_le_bytes());
        table.extend([0; 4]);
        table.extend(size.to_le_bytes());
        table.extend([0; 4]);
        names.extend(name.bytes().chain([0]));
    }
    let mut elf = vec![0; 52];
    elf[..6].copy_from_slice(b"\x7fELF\x01\x01");
    let mut headers = vec![0_u8; 40];
    for (name, link, content) in [(0, 0, sections), (1, 0, names), (9, 2, table)] {
        let mut header = [0_u8; 40];
        header[..4].copy_from_slice(&u32::to_le_bytes(name));
        header[0x10..0x14].copy_from_slice(&(elf.len() as u32).to_le_bytes());
        header[0x14..0x18].copy_from_slice(&(content.len() as u32).to_le_bytes());
        header[0x18..0x1c].copy_from_slice(&u32::to_le_bytes(link));
        headers.extend(header);
        elf.extend(content);
    }
    let start = elf.len() as u32;
    elf[0x20..0x24].copy_from_slice(&start.to_le_bytes());
    elf[0x2e] = 40;
    elf[0x30] = 4;
    elf[0x32] = 1;
    elf.extend(headers);
    elf
}

#[test]
fn what_is_neither_a_pdi_nor_an_argument_is_a_variable() {
    let elf = full_elf(&[
        (".pdi.0", 0),
        ("0", 0),
        ("12", 0),
        ("scratch-pad-ctrl", 16),
        ("gain", 4),
        ("scratch-pad-ctrl", 8),
    ]);
    let external = |name: &str, size| External {
        name: name.into(),
        size,
    };
    assert_eq!(
        externals(&elf).unwrap(),
        [external("scratch-pad-ctrl", 16), external("gain", 4)]
    );
    externals(b"\x7fELF\x02\x01").unwrap_err();
}

proptest! {
    #[test]
    fn damaged_files_never_panic(
        which in 0..3_usize,
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut hsaco = [PDI, ELF, TWO][which].to_vec();
        for (at, value) in changes {
            let at = at.index(hsaco.len());
            hsaco[at] = value;
        }
        for arch in ["aie2", "aie2p"] {
            if let Ok(kernels) = kernels(&hsaco, arch) {
                for kernel in kernels {
                    externals(kernel.code).ok();
                }
            }
        }
    }

    /// Changes where they matter: the section's header and table.
    #[test]
    fn damaged_sections_never_panic(
        changes in proptest::collection::vec((0..158_usize, any::<u8>()), 1..12),
    ) {
        let mut section = worked();
        for (at, value) in changes {
            section[at] = value;
        }
        table(&section).ok();
    }

    #[test]
    fn damaged_full_elfs_never_panic(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
    ) {
        let mut elf = full_elf(&[(".pdi.0", 0), ("scratch-pad-ctrl", 16)]);
        for (at, value) in changes {
            let at = at.index(elf.len());
            elf[at] = value;
        }
        externals(&elf).ok();
    }

    #[test]
    fn garbage_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
        kernels(&bytes, "aie2").ok();
        table(&bytes).ok();
        externals(&bytes).ok();
    }
}

/// An ELF32 with a string table and as many dynamic symbols as there are offsets in it.
fn elf_with_symbols(names: &[u8], offsets: impl Iterator<Item = u32>) -> Vec<u8> {
    let mut elf = b"\x7fELF\x01\x01".to_vec();
    elf.resize(52, 0);
    let mut headers = vec![[0_u32; 10]];
    let mut add = |elf: &mut Vec<u8>, name: u32, link: u32, content: &[u8]| {
        let (start, size) = (elf.len() as u32, content.len() as u32);
        headers.push([name, 1, 0, 0, start, size, link, 0, 1, 0]);
        elf.extend_from_slice(content);
    };
    add(&mut elf, 0, 0, b"\0.dynsym\0");
    add(&mut elf, 0, 0, names);
    let symbols: Vec<u8> = offsets
        .flat_map(|offset| [offset, 0, 4, 0].map(u32::to_le_bytes).concat())
        .collect();
    add(&mut elf, 1, 2, &symbols);
    let start = elf.len() as u32;
    elf[0x20..0x24].copy_from_slice(&start.to_le_bytes());
    elf[0x2e..0x30].copy_from_slice(&40_u16.to_le_bytes());
    elf[0x30..0x32].copy_from_slice(&4_u16.to_le_bytes());
    elf[0x32..0x34].copy_from_slice(&1_u16.to_le_bytes());
    for header in &headers {
        elf.extend(header.iter().flat_map(|word| word.to_le_bytes()));
    }
    elf
}

#[test]
fn names_that_lie_over_each_other_take_no_more_than_the_file() {
    let honest = elf_with_symbols(b"\0one\0two\0", [1, 5, 1].into_iter());
    let found = externals(&honest).unwrap();
    let names: Vec<_> = found.iter().map(|external| &*external.name).collect();
    assert_eq!(names, ["one", "two"]);
    // Each symbol's name is what follows the first letter of the one before it.
    let (length, symbols) = if cfg!(miri) {
        (1_000, 100)
    } else {
        (100_000, 10_000)
    };
    let mut names = vec![b'x'; length];
    names.push(0);
    let hostile = elf_with_symbols(&names, 0..symbols);
    assert!(externals(&hostile).is_err());
    let many: Vec<u8> = (0..2000_u32)
        .flat_map(|n| format!("v{n:04}\0").into_bytes())
        .collect();
    assert!(externals(&elf_with_symbols(&many, (0..2000).map(|n| 6 * n))).is_err());
}
