//! Truncated, damaged and hostile files: never a panic, and never taken for whole.

use super::files::{ACCEPTS, Elf, data, full_elf, hsaco_of, judged, put, rocr, stream, verdict_of};
use npu_formats::container::Elf64;
use npu_formats::dump::Dump;
use npu_formats::elf32::ElfFault;
use npu_formats::full_elf::{self, FullElf};
use npu_formats::insts::Insts;
use npu_formats::pack::Kernel;
use npu_formats::section::{EntryFault, Section, SectionFault};
use npu_formats::verdict::{Agent, Reader, Verdict};
use npu_formats::xclbin::{Partition, Xclbin, XclbinFault};
use npu_formats::{Arch, pdi};
use proptest::prelude::*;

const HSACOS: [(&str, Arch); 4] = [
    ("upstream_hsaco/copy_npu2_elf.hsaco", Arch::Aie2p),
    ("upstream_hsaco/two_kernels_npu2_elf.hsaco", Arch::Aie2p),
    ("upstream_hsaco/copy_npu1_xclbin.hsaco", Arch::Aie2),
    ("upstream_hsaco/copy_npu2_pdi.hsaco", Arch::Aie2p),
];

/// Everything that reads such files.
fn read_all(bytes: &[u8]) {
    let agents = Arch::ALL.map(Agent::of);
    let dump = Dump::of(bytes, &agents);
    let _ = (dump.text(), dump.errors(), serde_json::to_string(&dump));
    for judgement in &dump.verdicts {
        let _ = judgement.to_string();
    }
    for arch in Arch::ALL {
        let _ = FullElf::parse(bytes, arch);
        let _ = Insts::parse_for(bytes, arch);
    }
    let _ = full_elf::outline(bytes);
    let _ = Kernel::of_elf(bytes, 0, None);
    let _ = pdi::validate(bytes);
    let _ = Partition::parse(bytes);
    if let Ok(section) = Section::parse(bytes) {
        let _ = (section.check(), section.check_as_dumper());
    }
    if let Ok(xclbin) = Xclbin::parse(bytes) {
        let _ = (xclbin.partition(), xclbin.kernel_names(), xclbin.kernels());
    }
}

#[test]
fn every_truncation_of_an_hsaco_is_refused() {
    for (name, arch) in HSACOS {
        let bytes = data(name);
        for cut in 0..bytes.len() {
            let judgements = judged(&bytes[..cut]);
            for reader in [Reader::Dumper, rocr(arch)] {
                let verdict = verdict_of(&judgements, reader);
                assert_ne!(verdict, ACCEPTS, "{name} cut to {cut} bytes");
            }
        }
    }
}

#[test]
fn every_truncation_of_a_section_is_refused_or_still_holds_all_blobs() {
    for (name, arch) in HSACOS {
        let bytes = data(name);
        let section = Elf64::parse(&bytes)
            .unwrap()
            .section(arch)
            .unwrap()
            .unwrap();
        for cut in 0..section.len() {
            let parsed = Section::parse(&section[..cut]).and_then(|section| section.check());
            assert!(parsed.is_err(), "{name} cut to {cut} bytes");
        }
    }
}

#[test]
fn every_truncation_of_a_full_elf_is_refused() {
    for design in ["copy_npu2", "copy_npu2_4col", "two_kernels_npu2"] {
        let bytes = data(&format!("{design}/aie.elf"));
        for cut in 0..bytes.len() {
            assert!(FullElf::parse(&bytes[..cut], Arch::Aie2p).is_err());
            assert!(full_elf::outline(&bytes[..cut]).is_err());
        }
    }
}

#[test]
fn every_truncation_of_an_xclbin_is_refused() {
    for design in ["copy_npu1", "copy_npu2", "copy_npu2_4col"] {
        let bytes = data(&format!("{design}/design.xclbin"));
        for cut in 0..bytes.len() {
            assert!(Xclbin::parse(&bytes[..cut]).is_err());
        }
        let longer = [&bytes[..], b"\0"].concat();
        assert!(matches!(
            Xclbin::parse(&longer),
            Err(XclbinFault::Size { .. })
        ));
        // Even where the length field agrees, the sections do not.
        for cut in 0x1c8..bytes.len() {
            let mut bytes = bytes[..cut].to_vec();
            bytes[0x130..0x138].copy_from_slice(&u64::try_from(cut).unwrap().to_le_bytes());
            let all = Xclbin::parse(&bytes).is_ok_and(|xclbin| {
                xclbin.partition().is_ok()
                    && xclbin.kernels().is_ok_and(|kernels| kernels.len() == 1)
            });
            // Behind the last section there is only the mirror of the metadata.
            assert!(!all || cut >= 0xed8 + 0x58, "cut to {cut} bytes");
        }
    }
}

#[test]
fn every_truncation_of_a_pdi_is_refused() {
    let bytes = data("copy_npu2/design.pdi");
    for cut in 0..bytes.len() {
        assert!(pdi::validate(&bytes[..cut]).is_err(), "cut to {cut} bytes");
    }
    for at in [0, 4, 15, 0x28, 0x2b, 0x38] {
        let mut bytes = bytes.clone();
        bytes[at] ^= 1;
        assert!(pdi::validate(&bytes).is_err(), "changed at {at:#x}");
    }
}

#[test]
fn every_header_field_may_be_zero_one_or_all_ones() {
    let mut files: Vec<_> = HSACOS.iter().map(|(name, _)| data(name)).collect();
    for name in [
        "two_kernels_npu2/aie.elf",
        "copy_npu2/aie.elf",
        "copy_npu1/design.xclbin",
        "copy_npu1/insts.bin",
        "copy_npu1/design.pdi",
    ] {
        files.push(data(name));
    }
    for bytes in files {
        for width in [1, 2, 4, 8] {
            // Headers of one and two bytes stand at the start, tables of words and more anywhere.
            let end = if width < 4 { 256 } else { bytes.len() };
            for at in (0..end.min(bytes.len()) - width).step_by(width) {
                for value in [0_u64, 1, u64::MAX] {
                    let mut bytes = bytes.clone();
                    bytes[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
                    read_all(&bytes);
                }
            }
        }
    }
}

#[test]
fn fields_of_an_xclbin_are_checked() {
    let original = data("copy_npu1/design.xclbin");
    let with = |at: usize, value: &[u8]| {
        let mut bytes = original.clone();
        bytes[at..at + value.len()].copy_from_slice(value);
        let xclbin = Xclbin::parse(&bytes)?;
        let pdi = xclbin.partition()?.only_pdi()?.len();
        Ok((pdi, xclbin.kernel_names()?.len(), xclbin.kernels()?.len()))
    };
    let max = [0xff; 8];
    assert_eq!(with(0x1a0, &max), Ok((880, 1, 1)));
    assert_eq!(with(0, b"xclbin1"), Err(XclbinFault::Magic));
    let size = u64::try_from(original.len()).unwrap();
    for declared in [0, 1, size - 1, size + 1, u64::MAX] {
        let fault = XclbinFault::Size { declared, size };
        assert_eq!(with(0x130, &declared.to_le_bytes()), Err(fault));
    }
    assert_eq!(with(0x1c0, &max[..4]), Err(XclbinFault::Headers(u32::MAX)));
    assert_eq!(with(0x1c0, &[0; 4]), Err(XclbinFault::NoPartition));
    let outside = XclbinFault::Section { index: 1, kind: 32 };
    // The second header is the partition's: its offset, then its size.
    for (at, value) in [(24, &max), (32, &max)] {
        assert_eq!(with(0x1c8 + 40 + at, value), Err(outside.clone()));
    }
    // In the headers, and over the section before it.
    let overlap = |index, kind| XclbinFault::Overlap { index, kind };
    assert_eq!(with(0x1c8 + 40 + 24, &[0; 8]), Err(overlap(1, 32)));
    assert_eq!(
        with(0x1c8 + 40 + 24, &0x2e0_u64.to_le_bytes()),
        Err(overlap(1, 32))
    );
    let partition = 0x338;
    let malformed = |what| Err(XclbinFault::Partition(what));
    assert_eq!(with(partition + 32, &[0, 0]), Err(XclbinFault::NoColumns));
    assert_eq!(with(partition + 40, &max[..4]), malformed("start_columns"));
    assert_eq!(with(partition + 44, &max[..4]), malformed("start_columns"));
    assert_eq!(with(partition + 120, &max[..4]), malformed("aie_pdi"));
    assert_eq!(with(partition + 124, &max[..4]), malformed("aie_pdi"));
    assert_eq!(
        with(partition + 120, &[0; 4]),
        Err(XclbinFault::PdiCount(0))
    );
    // What lies behind the first PDI is no second one.
    let two = with(partition + 120, &[2, 0, 0, 0]);
    assert!(
        matches!(
            two,
            Err(XclbinFault::PdiCount(2) | XclbinFault::Partition(_))
        ),
        "{two:?}"
    );
    let at = original[partition + 124..partition + 128]
        .try_into()
        .unwrap();
    let pdi = partition + usize::try_from(u32::from_le_bytes(at)).unwrap();
    assert_eq!(with(pdi + 16, &max[..4]), malformed("pdi_image"));
    assert_eq!(with(pdi + 20, &max[..4]), malformed("pdi_image"));
    let names = 0xd98;
    for count in [2_u32, u32::MAX] {
        assert_eq!(
            with(names, &count.to_le_bytes()),
            Err(XclbinFault::IpLayout)
        );
    }
}

#[test]
fn metadata_is_read_as_xml() {
    let section = |xml: &str| {
        let mut bytes = data("copy_npu1/design.xclbin");
        let metadata = 0x850..0x850 + 0x548;
        bytes[metadata.clone()].fill(b' ');
        bytes[metadata][..xml.len()].copy_from_slice(xml.as_bytes());
        bytes
    };
    let kernels = |xml: &str| Xclbin::parse(&section(xml)).unwrap().kernels();
    let read = kernels(
        "<a><!-- <kernel name='no'> isn't --><kernel type='dpu' name=\"a&lt;b\">\
         <arg offset='16' name = 'x>y'/></kernel><arg name='outside'/><kernel name='c'/></a>",
    )
    .unwrap();
    assert_eq!(read.len(), 2);
    assert_eq!((&*read[0].name, &*read[0].kind), ("a<b", "dpu"));
    assert_eq!(
        (&*read[0].arguments[0].name, read[0].arguments[0].offset),
        ("x>y", 16)
    );
    for xml in [
        "<kernel",
        "<kernel name='a>",
        "<kernel>",
        "<!-- <",
        "<kernel name='k'><arg name='a'/>",
        "<kernel name='k'><arg offset='1'/>",
        "<kernel name='k'><arg name='a' offset='0xg'/>",
        "<kernel name='k'><instance/>",
    ] {
        assert!(
            matches!(kernels(xml), Err(XclbinFault::Metadata(_))),
            "{xml}"
        );
    }
}

#[test]
fn overlapping_groups_do_not_make_the_work_a_square() {
    // Thousands of groups, each as large as the file.
    let mut elf = Elf::copy_npu2();
    let group = elf.header(".group.0", 0);
    let header = elf.0[group..group + 40].to_vec();
    let table = u32::try_from(elf.0.len()).unwrap();
    let old = usize::try_from(super::files::get(&elf.0, 0x20)).unwrap();
    let headers = elf.0[old..old + 13 * 40].to_vec();
    elf.0.extend(headers);
    for _ in 0..10_000 {
        let mut header = header.clone();
        put(&mut header, 16, table);
        put(&mut header, 20, 10_000 * 40);
        elf.0.extend(header);
    }
    put(&mut elf.0, 0x20, table);
    elf.0[0x30..0x32].copy_from_slice(&10_013_u16.to_le_bytes());
    let fault = FullElf::parse(&elf.0, Arch::Aie2p).unwrap_err();
    assert!(
        matches!(fault, ElfFault::Overlap | ElfFault::Member),
        "{fault:?}"
    );
}

#[test]
fn names_that_overlap_do_not_make_the_work_a_square() {
    let count = 20_000;
    let names: Vec<_> = (0..count).map(|index| format!("{index:05}")).collect();
    let kernels: Vec<_> = (names.iter())
        .map(|name| stream(name, b"code", b"pdi"))
        .collect();
    let mut section = super::files::section(&kernels);
    // One name of 120,000 bytes, of which every kernel takes another tail.
    let strings = 48 + 44 * count;
    section[strings..strings + 6 * count - 1].fill(b'a');
    for index in 0..count {
        put(&mut section, 48 + 44 * index, u32::try_from(index).unwrap());
    }
    let fault = Section::parse(&section).unwrap().check().unwrap_err();
    assert!(
        matches!(
            fault,
            SectionFault::Kernel {
                fault: EntryFault::NamesOverlap,
                ..
            }
        ),
        "{fault:?}"
    );
}

#[test]
fn many_kernels_of_one_full_elf_are_judged_by_reading_it_once() {
    let elf = Elf::two_kernels();
    let kernels = ["first:copy_i32", "second:copy_i8"].map(|name| full_elf(name, &elf.0));
    let bytes = hsaco_of(Arch::Aie2p, &kernels);
    assert_eq!(verdict_of(&judged(&bytes), rocr(Arch::Aie2p)), ACCEPTS);
}

/// Files with a few bytes changed, words set to telling values, and ends cut off.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let names = [
        "upstream_hsaco/copy_npu2_elf.hsaco",
        "upstream_hsaco/two_kernels_npu2_elf.hsaco",
        "upstream_hsaco/copy_npu1_xclbin.hsaco",
        "two_kernels_npu2/aie.elf",
        "copy_npu2/aie.elf",
        "copy_npu2_4col/design.xclbin",
        "copy_npu1/insts.bin",
        "copy_npu1/design.pdi",
    ];
    let word = prop_oneof![
        Just(0_u32),
        Just(1),
        Just(u32::MAX),
        Just(0x8000_0000),
        0_u32..0x2000,
        any::<u32>()
    ];
    (
        prop::sample::select(names.to_vec()),
        prop::collection::vec((any::<prop::sample::Index>(), word), 0..5),
        prop::option::weighted(0.2, any::<prop::sample::Index>()),
    )
        .prop_map(|(name, words, cut)| {
            let mut bytes = data(name);
            for (place, word) in words {
                let at = place.index(bytes.len() - 3);
                put(&mut bytes, at, word);
            }
            if let Some(cut) = cut {
                bytes.truncate(cut.index(bytes.len()));
            }
            bytes
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn damaged_files_are_read_or_refused(bytes in damaged()) {
        read_all(&bytes);
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        read_all(&bytes);
    }

    /// A section that ROCR takes is one that the dumper takes, but for names that are no text.
    #[test]
    fn what_rocr_takes_the_dumper_takes(
        changes in prop::collection::vec((0_usize..37, any::<u32>(), 0_u32..200), 0..4),
        small in any::<bool>(),
    ) {
        let mut bytes = super::files::section(&[stream("k", &[0; 8], b"PDI."), stream("l", &[0; 8], b"PDI.")]);
        for (at, any, few) in changes {
            put(&mut bytes, 4 * at, if small { few } else { any });
        }
        if let Ok(section) = Section::parse(&bytes)
            && let Ok(kernels) = section.check()
        {
            let is_text = kernels.iter().all(|kernel| std::str::from_utf8(kernel.name).is_ok());
            prop_assert_eq!(section.check_as_dumper().is_ok(), is_text);
        }
    }

    /// What is written is read again.
    #[test]
    fn sections_are_read_as_they_were_written(
        kernels in prop::collection::btree_map(
            "[a-zä:_]{1,12}",
            (prop::collection::vec(any::<u32>(), 1..4), prop::collection::vec(any::<u8>(), 1..9), any::<u32>(), any::<u32>()),
            1..8,
        ),
    ) {
        let streams: Vec<Vec<u8>> = kernels
            .values()
            .map(|(words, ..)| words.iter().flat_map(|word| word.to_le_bytes()).collect())
            .collect();
        let written: Vec<_> = kernels
            .iter()
            .zip(&streams)
            .map(|((name, (_, pdi, kernarg_size, columns)), insts)| npu_formats::section::WriteKernel {
                kernarg_size: *kernarg_size,
                columns: *columns,
                ..stream(name, insts, pdi)
            })
            .collect();
        let bytes = hsaco_of(Arch::Aie2p, &written);
        let section = Elf64::parse(&bytes).unwrap().section(Arch::Aie2p).unwrap().unwrap();
        let read = Section::parse(section).unwrap().check().unwrap();
        prop_assert_eq!(read.len(), written.len());
        for (written, read) in written.iter().zip(read) {
            prop_assert_eq!(written.name.as_bytes(), read.name);
            prop_assert_eq!((written.insts, written.pdi), (read.insts, read.pdi));
            prop_assert_eq!(
                (written.kernarg_size, written.columns),
                (read.entry.kernarg_size, read.entry.columns)
            );
        }
    }
}

#[test]
fn a_damaged_section_of_one_arch_does_not_hide_the_other() {
    let mut bytes = data("upstream_hsaco/copy_npu1_xclbin.hsaco");
    let image = npu_formats::section::SectionImage::new(&[stream("k", &[0; 4], b"pdi")]).unwrap();
    bytes = npu_formats::container::Container::edited(&bytes, Arch::Aie2p, &image)
        .unwrap()
        .to_vec()
        .unwrap();
    let at = usize::try_from(Elf64::parse(&bytes).unwrap().headers[2].offset).unwrap();
    put(&mut bytes, at + 12, u32::MAX);
    let dump = Dump::of(&bytes, &Arch::ALL.map(Agent::of));
    assert_eq!(
        dump.text(),
        "arch section: aie2\narch section: aie2p\nversion: 1.0\n  \
         kernel k: kind=PdiInsts insts=4B pdi=yes kernarg=32 cols=4\n"
    );
    assert_eq!(dump.errors(), ["aie2: kernel table out of bounds"]);
    let verdict = |arch| verdict_of(&dump.verdicts, rocr(arch));
    super::files::assert_invalid(&verdict(Arch::Aie2), "kernel table out of bounds");
    assert_eq!(verdict(Arch::Aie2p), ACCEPTS);
    assert!(matches!(
        verdict_of(&dump.verdicts, Reader::Dumper),
        Verdict::Refuses { .. }
    ));
}
