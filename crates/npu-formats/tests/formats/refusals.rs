//! Who refuses what, row by row of the format's table: what the packer and the dumper of mid 2026
//! and ROCR's own parser were seen to do.

use super::files::{
    ACCEPTS, Elf, assert_invalid, data, full_elf, get, hsaco, hsaco_of, judged, judged_by, put,
    rocr, section, stream, verdict_of,
};
use npu_formats::Arch;
use npu_formats::container::Container;
use npu_formats::dump::Dump;
use npu_formats::elf32::ElfFault;
use npu_formats::full_elf::FullElf;
use npu_formats::section::{EntryFault, Section, SectionFault, SectionImage};
use npu_formats::verdict::{Agent, Reader, Status, Verdict};

const PDI: &[u8] = b"PDIDATA!";
const INSTS: &[u8] = &[0; 8];

/// Packer, dumper and ROCR of a file, in that order.
fn everybody(bytes: &[u8], arch: Arch) -> [Verdict; 3] {
    let judgements = judged(bytes);
    [Reader::Packer, Reader::Dumper, rocr(arch)].map(|reader| verdict_of(&judgements, reader))
}

/// Expects that packer and dumper accept what ROCR refuses with 0x1010.
#[track_caller]
fn only_rocr_refuses(bytes: &[u8], arch: Arch, reason: &str) {
    let [packer, dumper, rocr] = everybody(bytes, arch);
    assert_eq!((packer, dumper), (ACCEPTS, ACCEPTS));
    assert_invalid(&rocr, reason);
}

#[track_caller]
fn all_accept(bytes: &[u8], arch: Arch) {
    assert_eq!(everybody(bytes, arch), [ACCEPTS, ACCEPTS, ACCEPTS]);
}

/// An hsaco with the kernel `copyrows:copy` of that full ELF.
fn of_elf(elf: &Elf) -> Vec<u8> {
    hsaco_of(Arch::Aie2p, &[full_elf("copyrows:copy", &elf.0)])
}

/// The rows where a full ELF was changed.
#[track_caller]
fn elf_refused(change: impl FnOnce(&mut Elf), reason: &str) {
    let mut elf = Elf::copy_npu2();
    change(&mut elf);
    only_rocr_refuses(&of_elf(&elf), Arch::Aie2p, reason);
}

#[test]
fn upstreams_own_files_are_accepted_by_everybody() {
    for (name, arch) in [
        ("copy_npu2_elf", Arch::Aie2p),
        ("two_kernels_npu2_elf", Arch::Aie2p),
        ("copy_npu1_xclbin", Arch::Aie2),
        ("copy_npu2_pdi", Arch::Aie2p),
    ] {
        let bytes = data(&format!("upstream_hsaco/{name}.hsaco"));
        all_accept(&bytes, arch);
        let newest = verdict_of(&judged(&bytes), Reader::NewestPacker);
        assert_eq!(newest, ACCEPTS);
    }
}

#[test]
fn duplicate_names() {
    let bytes = hsaco_of(
        Arch::Aie2,
        &[stream("k", INSTS, PDI), stream("k", INSTS, PDI)],
    );
    let [packer, dumper, rocr] = everybody(&bytes, Arch::Aie2);
    assert!(matches!(packer, Verdict::Refuses { reason, .. } if reason.contains("duplicate")));
    assert_eq!(dumper, ACCEPTS);
    assert_invalid(&rocr, "duplicate kernel name");
}

#[test]
fn kind_2() {
    let mut section = section(&[stream("k", INSTS, PDI)]);
    put(&mut section, 48 + 28, 2);
    let [packer, dumper, rocr] = everybody(&hsaco(Arch::Aie2, &section), Arch::Aie2);
    assert!(matches!(packer, Verdict::NotConcerned { .. }));
    assert!(matches!(dumper, Verdict::Refuses { reason, .. } if reason.contains("unknown kind 2")));
    assert_invalid(&rocr, "unknown kind 2");
}

#[test]
fn insts_that_are_no_words() {
    let bytes = hsaco_of(Arch::Aie2, &[stream("k", &INSTS[..7], PDI)]);
    only_rocr_refuses(&bytes, Arch::Aie2, "no multiple of 4");
}

#[test]
fn pdi_insts_without_a_pdi() {
    let bytes = hsaco_of(Arch::Aie2, &[stream("k", INSTS, &[])]);
    only_rocr_refuses(&bytes, Arch::Aie2, "has no PDI to configure the array with");
}

#[test]
fn a_full_elf_in_aie2() {
    let elf = Elf::copy_npu2();
    let mut kernel = full_elf("copyrows:copy", &elf.0);
    kernel.columns = 4;
    let bytes = hsaco_of(Arch::Aie2, &[kernel]);
    only_rocr_refuses(&bytes, Arch::Aie2, "no full-ELF format for arch aie2");
}

#[test]
fn columns_that_the_agent_does_not_have() {
    let with = |columns| {
        let mut kernel = stream("k", INSTS, PDI);
        kernel.columns = columns;
        hsaco_of(Arch::Aie2, &[kernel])
    };
    let zero = with(0);
    only_rocr_refuses(&zero, Arch::Aie2, "declares 0 columns; the agent has 4");
    let newest = verdict_of(&judged(&zero), Reader::NewestPacker);
    assert!(matches!(newest, Verdict::Refuses { reason, .. } if reason.contains("num_cols 0")));
    only_rocr_refuses(&with(5), Arch::Aie2, "declares 5 columns; the agent has 4");
    // The same file on a device with more of them.
    let agent = Agent {
        arch: Arch::Aie2,
        columns: 5,
    };
    let verdict = verdict_of(&judged_by(&with(5), &[agent]), Reader::Rocr(agent));
    assert_eq!(verdict, ACCEPTS);
}

#[test]
fn a_kernarg_size_that_is_not_the_full_elfs() {
    let elf = Elf::copy_npu2();
    let with = |kernarg_size| {
        let mut kernel = full_elf("copyrows:copy", &elf.0);
        kernel.kernarg_size = kernarg_size;
        hsaco_of(Arch::Aie2p, &[kernel])
    };
    for size in [16, 48, u32::MAX] {
        only_rocr_refuses(&with(size), Arch::Aie2p, "kernarg size mismatch");
    }
    all_accept(&with(0), Arch::Aie2p);
    all_accept(&with(32), Arch::Aie2p);
    // A stream says nothing of its arguments.
    let mut kernel = stream("k", INSTS, PDI);
    kernel.kernarg_size = 7;
    all_accept(&hsaco_of(Arch::Aie2, &[kernel]), Arch::Aie2);
}

#[test]
fn columns_that_contradict_the_note() {
    let elf = Elf::copy_npu2();
    let mut kernel = full_elf("copyrows:copy", &elf.0);
    kernel.columns = 4;
    let bytes = hsaco_of(Arch::Aie2p, &[kernel]);
    all_accept(&bytes, Arch::Aie2p);
    let newest = verdict_of(&judged(&bytes), Reader::NewestPacker);
    assert!(matches!(newest, Verdict::Refuses { reason, .. } if reason.contains("records 8")));
    let notes = Dump::of(&bytes, &[]).notes;
    assert!(notes[0].contains("declares 4 columns; its full ELF was compiled for 8"));
}

#[test]
fn no_aie_section_at_all() {
    let section = section(&[stream("k", INSTS, PDI)]);
    let mut no_magic = section.clone();
    no_magic[0] = b'a';
    for (bytes, reason) in [
        (hsaco(Arch::Aie2, &no_magic), "bad magic"),
        (
            hsaco(Arch::Aie2, &section[..47]),
            "section smaller than header",
        ),
        (b"\x7fELF".to_vec(), "too small"),
        (b"text".repeat(20), "bad magic"),
        (data("copy_npu2/aie.elf"), "not an ELF64"),
        (Vec::new(), "too small"),
    ] {
        let [packer, dumper, rocr] = everybody(&bytes, Arch::Aie2);
        // aie-hsaco has llvm-objcopy write, which takes any ELF.
        if bytes.starts_with(b"\x7fELF") && bytes.len() > 4 {
            assert!(matches!(packer, Verdict::NotConcerned { .. }), "{packer:?}");
        } else {
            let words = "The file was not recognized as a valid object file";
            let found =
                matches!(&packer, Verdict::Refuses { reason, .. } if reason.contains(words));
            assert!(found, "{packer:?}");
        }
        assert!(
            matches!(&dumper, Verdict::Refuses { reason: said, .. } if said.contains(reason)),
            "{dumper:?}"
        );
        assert!(matches!(rocr, Verdict::NotConcerned { reason } if reason.contains("GPU")));
    }
}

#[test]
fn another_arch_only() {
    let bytes = hsaco_of(Arch::Aie2p, &[stream("k", INSTS, PDI)]);
    let [packer, dumper, rocr] = everybody(&bytes, Arch::Aie2);
    assert_eq!((packer, dumper), (ACCEPTS, ACCEPTS));
    let Verdict::Refuses {
        status: Some(status),
        ..
    } = rocr
    else {
        panic!("{rocr:?}")
    };
    assert_eq!(status, Status::IncompatibleArguments);
    assert_eq!(status.code(), 0x100d);
}

#[test]
fn a_kernel_name_that_a_full_elf_has_twice() {
    // Both groups have the signature of the first.
    let mut elf = Elf::two_kernels();
    let first = get(&elf.0, elf.header(".group.0", 0) + 28);
    elf.put_header(".group.1", 0, 28, first);
    let bytes = hsaco_of(Arch::Aie2p, &[full_elf("first:copy_i32", &elf.0)]);
    let [packer, dumper, rocr] = everybody(&bytes, Arch::Aie2p);
    let words = "duplicate kernel name(s): first:copy_i32";
    assert!(matches!(&packer, Verdict::Refuses { reason, .. } if reason == words));
    assert_eq!(dumper, ACCEPTS);
    assert_invalid(&rocr, "two kernels are named first:copy_i32");
}

#[test]
fn a_pdi_of_0_bytes() {
    elf_refused(
        |elf| {
            elf.put_header(".pdi.1", 0, 20, 0);
        },
        "its PDI in the full ELF has 0 bytes",
    );
}

#[test]
fn groups_that_are_no_kernels() {
    elf_refused(
        |elf| {
            elf.put(".group.0", 0, 0);
        },
        "group is not a COMDAT group",
    );
    elf_refused(
        |elf| {
            elf.rename(".ctrltext.0");
        },
        "no dispatchable kernels",
    );
    elf_refused(
        |elf| {
            elf.put_header(".group.0", 0, 4, 1);
        },
        "no COMDAT groups",
    );
}

#[test]
fn an_external_variable_has_to_be_defined() {
    let mut elf = Elf::copy_npu2();
    elf.rename_argument("scratch-pad-ctrl")
        .put(".rela.dyn", 12 + 4, 2 << 8 | 8);
    let [packer, dumper, rocr] = everybody(&of_elf(&elf), Arch::Aie2p);
    assert_eq!((packer, dumper), (ACCEPTS, ACCEPTS));
    let Verdict::Accepts { variables } = rocr else {
        panic!("{rocr:?}")
    };
    assert_eq!(variables.len(), 1);
    assert_eq!(
        (&*variables[0].name, variables[0].size),
        ("scratch-pad-ctrl", 16384)
    );
    let notes = Dump::of(&of_elf(&elf), &[]).notes;
    assert!(notes[0].contains("#14004") && notes[0].contains("unsupported relocation symbol"));
    // It is no argument: those are counted to the highest that is left.
    let kernels = FullElf::parse(&elf.0, Arch::Aie2p).unwrap().kernels;
    assert_eq!(kernels[0].argument_count(), 2);

    let mut scheme = Elf::copy_npu2();
    scheme.rename_argument("scratch-pad-ctrl");
    let fault = FullElf::parse(&scheme.0, Arch::Aie2p).unwrap_err();
    assert_eq!(fault, ElfFault::VariableScheme("scratch-pad-ctrl".into()));
    elf.put(".dynsym", 2 * 16 + 8, 3);
    let fault = FullElf::parse(&elf.0, Arch::Aie2p).unwrap_err();
    assert_eq!(fault, ElfFault::VariableSize("scratch-pad-ctrl".into()));
}

#[test]
fn the_other_encoding_of_relocations() {
    elf_refused(|elf| elf.0[8] = 1, "unexpected patch scheme for PDI symbol");
    // And with the encoding that belongs to it.
    let mut elf = Elf::copy_npu2();
    elf.0[8] = 1;
    for (index, scheme) in [(0, 8), (1, 5), (2, 0x45)] {
        elf.put(".rela.dyn", 12 * index + 8, scheme);
    }
    all_accept(&of_elf(&elf), Arch::Aie2p);
    let kernels = FullElf::parse(&elf.0, Arch::Aie2p).unwrap().kernels;
    assert_eq!(kernels[0].arguments[1].addend, 4);
    // Any other version has the encoding of the real file.
    for version in [0, 2, 0x10, 0x21, 0xff] {
        let mut elf = Elf::copy_npu2();
        elf.0[8] = version;
        all_accept(&of_elf(&elf), Arch::Aie2p);
    }
}

#[test]
fn another_osabi() {
    for osabi in [0, 0x40, 0x46, 0xff] {
        elf_refused(|elf| elf.0[7] = osabi, "not an aie2p AIE ELF");
    }
}

#[test]
fn pdi_sections_of_the_same_name() {
    let two = |elf: &Elf| {
        let kernels = ["first:copy_i32", "second:copy_i8"].map(|name| full_elf(name, &elf.0));
        hsaco_of(Arch::Aie2p, &kernels)
    };
    let mut elf = Elf::two_kernels();
    all_accept(&two(&elf), Arch::Aie2p);
    let second = get(&elf.0, elf.header(".pdi.1", 1) + 16);
    elf.0[usize::try_from(second).unwrap() + 0x100] ^= 1;
    only_rocr_refuses(
        &two(&elf),
        Arch::Aie2p,
        "ambiguous PDI: sections named .pdi.1 differ",
    );
    let mut missing = Elf::two_kernels();
    missing.rename(".pdi.1").rename(".pdi.1");
    only_rocr_refuses(&two(&missing), Arch::Aie2p, "PDI section not found");
}

#[test]
fn patch_sites_outside_of_the_control_code() {
    let size = 0x13c;
    elf_refused(
        |elf| {
            elf.put(".rela.dyn", 0, 0);
        },
        "PDI patch site at offset 0",
    );
    for offset in [1, 2, 0x1a, size - 4, size, size + 4, u32::MAX - 3, u32::MAX] {
        elf_refused(
            |elf| {
                elf.put(".rela.dyn", 0, offset);
            },
            "PDI patch site does not fit",
        );
    }
    for offset in [1, 0x32, size - 8, size, u32::MAX - 3, u32::MAX] {
        elf_refused(
            |elf| {
                elf.put(".rela.dyn", 12, offset);
            },
            "argument patch site does not fit",
        );
    }
    for (at, offset) in [(0, size - 8), (12, size - 12), (12, 0)] {
        let mut elf = Elf::copy_npu2();
        elf.put(".rela.dyn", at, offset);
        all_accept(&of_elf(&elf), Arch::Aie2p);
    }
}

#[test]
fn arguments_beyond_the_last() {
    elf_refused(
        |elf| {
            elf.rename_argument("4096");
        },
        "kernel argument index out of range",
    );
    let mut elf = Elf::copy_npu2();
    elf.rename_argument("4095");
    all_accept(&of_elf(&elf), Arch::Aie2p);
    let kernels = FullElf::parse(&elf.0, Arch::Aie2p).unwrap().kernels;
    assert_eq!(kernels[0].kernarg_size(), 16 * 4096);
    elf_refused(
        |elf| {
            // The type of the relocation, for an argument that is stored as 64 bits.
            elf.put(".rela.dyn", 12 + 4, 2 << 8 | 8);
        },
        "unsupported patch scheme for a kernel argument",
    );
}

#[test]
fn no_pdi_site() {
    for name in [".rela.dyn", ".dynsym"] {
        elf_refused(
            |elf| {
                elf.rename(name);
            },
            "has no PDI patch site in its control code",
        );
    }
    elf_refused(
        |elf| {
            elf.put_header(".rela.dyn", 0, 20, 0);
        },
        "has no PDI patch site in its control code",
    );
    elf_refused(
        |elf| {
            // The PDI's symbol is in a section that no group has: the relocation is skipped.
            elf.put(".dynsym", 16 + 12, 0x0004_0011);
        },
        "has no PDI patch site in its control code",
    );
}

#[test]
fn several_pdi_sites_a_kernel() {
    let mut elf = Elf::copy_npu2();
    let relocations = elf.offset(".rela.dyn");
    let mut bytes = elf.0[relocations..relocations + 36].to_vec();
    bytes.extend_from_within(..12);
    put(&mut bytes, 36, 0x40);
    elf.replace(".rela.dyn", &bytes);
    all_accept(&of_elf(&elf), Arch::Aie2p);
    let dump = Dump::of(&of_elf(&elf), &[]);
    let kernel = dump.sections[0].kernels[0].full_elf.as_ref().unwrap();
    assert_eq!(kernel.pdi_sites, [0x18, 0x40]);
    assert!(dump.notes[0].contains("older ROCR takes one PDI patch site"));
}

#[test]
fn a_kernel_that_the_full_elf_does_not_have() {
    let elf = Elf::copy_npu2();
    let bytes = hsaco_of(Arch::Aie2p, &[full_elf("copyrows:other", &elf.0)]);
    only_rocr_refuses(&bytes, Arch::Aie2p, "has no kernel of that name");
}

#[test]
fn sections_out_of_order() {
    let original = section(&[stream("k", INSTS, PDI), stream("l", INSTS, PDI)]);
    let size = u32::try_from(original.len()).unwrap();
    let check = |at: usize, word: u32| {
        let mut bytes = original.clone();
        put(&mut bytes, at, word);
        let section = Section::parse(&bytes)?;
        let dumped = section.check_as_dumper().map(|_| ()).map_err(Some);
        section.check().map(|_| dumped.err().flatten())
    };
    // Where the fault is, what ROCR makes of it.
    for (at, word, fault) in [
        (4, 0x0000_0002, SectionFault::Version { major: 2, minor: 0 }),
        (8, 47, SectionFault::HeaderSize(47)),
        (8, u32::MAX, SectionFault::Table),
        (12, 0, SectionFault::NoKernels),
        (12, 9, SectionFault::Table),
        (12, u32::MAX, SectionFault::Table),
        (16, 43, SectionFault::EntrySize(43)),
        (16, u32::MAX, SectionFault::Table),
        (20, 0, SectionFault::StringsOverlap),
        (20, 135, SectionFault::StringsOverlap),
        (20, u32::MAX, SectionFault::Strings),
        (24, u32::MAX, SectionFault::Strings),
        (28, 139, SectionFault::PoolOverlap),
        (28, size + 1, SectionFault::Pool),
    ] {
        assert_eq!(check(at, word), Err(fault), "{word:#x} at {at}");
    }
    let kernel = |fault| SectionFault::Kernel { index: 0, fault };
    for (at, word, fault) in [
        (0, 4, EntryFault::NameOffset),
        (0, u32::MAX, EntryFault::NameOffset),
        (4, 0, EntryFault::Insts),
        (4, 139, EntryFault::Insts),
        (4, size - 4, EntryFault::Insts),
        (4, u32::MAX, EntryFault::Insts),
        (8, 0, EntryFault::NoInsts),
        (8, u32::MAX - 3, EntryFault::Insts),
        (12, 0, EntryFault::Pdi),
        (12, u32::MAX, EntryFault::Pdi),
        (16, 0, EntryFault::PdiOffset),
        (16, u32::MAX, EntryFault::Pdi),
        (28, 1, EntryFault::SeparatePdi),
        (28, u32::MAX, EntryFault::Kind(u32::MAX)),
    ] {
        assert_eq!(
            check(48 + at, word),
            Err(kernel(fault)),
            "{word:#x} at {at}"
        );
    }
    // What nobody looks at: minor version, reserved words.
    for (at, word) in [
        (4, 0xffff_0001),
        (32, 1),
        (44, u32::MAX),
        (48 + 32, 1),
        (48 + 40, 9),
    ] {
        assert_eq!(check(at, word), Ok(None), "{word:#x} at {at}");
    }
}

#[test]
fn tables_with_wider_entries_are_walked_with_their_own_stride() {
    let original = section(&[stream("k", INSTS, PDI), stream("l", INSTS, PDI)]);
    // A header of 56 and entries of 52 bytes, as a later minor version may have.
    let mut bytes = original[..48].to_vec();
    bytes.extend([0xaa; 8]);
    for entry in original[48..136].chunks(44) {
        let mut entry = entry.to_vec();
        for at in [4, 12] {
            let offset = get(&entry, at) + 24;
            put(&mut entry, at, offset);
        }
        bytes.extend(entry);
        bytes.extend([0xbb; 8]);
    }
    bytes.extend(&original[136..]);
    for (at, word) in [(8, 56), (16, 52), (20, 160), (28, 164)] {
        put(&mut bytes, at, word);
    }
    let kernels = Section::parse(&bytes).unwrap().check().unwrap();
    assert_eq!(
        kernels.iter().map(|kernel| kernel.name).collect::<Vec<_>>(),
        [b"k", b"l"]
    );
    assert!(
        kernels
            .iter()
            .all(|kernel| (kernel.insts, kernel.pdi) == (INSTS, PDI))
    );
}

#[test]
fn names_that_are_none() {
    let original = section(&[stream("kk", INSTS, PDI)]);
    let with = |name: &[u8; 3]| {
        let mut bytes = original.clone();
        bytes[92..95].copy_from_slice(name);
        hsaco(Arch::Aie2, &bytes)
    };
    let [_, dumper, rocr] = everybody(&with(b"abc"), Arch::Aie2);
    assert!(matches!(dumper, Verdict::Refuses { reason, .. } if reason.contains("not terminated")));
    assert_invalid(&rocr, "name not terminated");
    let [_, dumper, rocr] = everybody(&with(b"\xff\xfe\0"), Arch::Aie2);
    assert!(matches!(dumper, Verdict::Refuses { reason, .. } if reason.contains("UTF-8")));
    assert_eq!(rocr, ACCEPTS);
    all_accept(&with(b"\0b\0"), Arch::Aie2);
}

#[test]
fn the_container_may_be_any_elf64() {
    let image = SectionImage::new(&[stream("k", INSTS, PDI)]).unwrap();
    let mut bytes = Container::fresh(Arch::Aie2, &image).to_vec().unwrap();
    // e_type and e_machine of a shared object for x86-64.
    bytes[0x10] = 3;
    bytes[0x12] = 62;
    all_accept(&bytes, Arch::Aie2);
}

#[test]
fn a_stream_of_the_other_generation_is_noted() {
    let (insts, pdi) = (data("copy_npu1/insts.bin"), data("copy_npu1/design.pdi"));
    let notes = |arch| Dump::of(&hsaco_of(arch, &[stream("k", &insts, &pdi)]), &[]).notes;
    assert_eq!(notes(Arch::Aie2), Vec::<String>::new());
    assert!(notes(Arch::Aie2p)[0].contains("device generation 3, aie2p is generation 4"));
}
