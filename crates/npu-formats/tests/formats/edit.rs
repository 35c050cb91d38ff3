//! Putting an AIE section into files that hold other things, as LLVM's tools see it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::files::{llvm, stream};
use npu_formats::Arch;
use npu_formats::container::{Container, ContainerFault, EditFault, Elf64};
use npu_formats::section::SectionImage;
use proptest::prelude::*;
use tempfile::TempDir;

const KERNEL: &str = r#"
target triple = "amdgcn-amd-amdhsa"
@table = addrspace(1) constant [4 x i32] [i32 1, i32 2, i32 3, i32 4]
define amdgpu_kernel void @k(ptr addrspace(1) %p) {
  %v = load i32, ptr addrspace(1) @table
  store i32 %v, ptr addrspace(1) %p
  ret void
}
"#;

const PROGRAM: &str = "
int zeros[1000];
int words[3] = {1, 2, 3};
static int twice(int x) { return 2 * x; }
int sum(int x) { return twice(x) + words[x] + zeros[x]; }
";

/// What a GPU's linker makes: program headers over loaded sections, then symbols and names.
const CODE_OBJECT: &str = "
--- !ELF
FileHeader:
  Class:      ELFCLASS64
  Data:       ELFDATA2LSB
  OSABI:      ELFOSABI_AMDGPU_HSA
  ABIVersion: 4
  Type:       ET_DYN
  Machine:    EM_AMDGPU
  Flags:      [ EF_AMDGPU_MACH_AMDGCN_GFX90A ]
ProgramHeaders:
  - { Type: PT_LOAD, Flags: [ PF_R ], FirstSec: .note, LastSec: .rodata, VAddr: 0x200, Align: 0x1000 }
  - { Type: PT_LOAD, Flags: [ PF_R, PF_X ], FirstSec: .text, LastSec: .text, VAddr: 0x1300, Align: 0x1000 }
  - { Type: PT_NOTE, Flags: [ PF_R ], FirstSec: .note, LastSec: .note, VAddr: 0x200 }
Sections:
  - { Name: .note, Type: SHT_NOTE, Flags: [ SHF_ALLOC ], Address: 0x200, AddressAlign: 4, Notes: [ { Name: AMDGPU, Type: 0x20, Desc: 81a1 } ] }
  - { Name: .rodata, Type: SHT_PROGBITS, Flags: [ SHF_ALLOC ], Address: 0x240, AddressAlign: 64, Content: 000102030405060708 }
  - { Name: .text, Type: SHT_PROGBITS, Flags: [ SHF_ALLOC, SHF_EXECINSTR ], Address: 0x1300, AddressAlign: 256, Content: 000080bf000081bf }
  - { Name: .comment, Type: SHT_PROGBITS, Flags: [ SHF_MERGE, SHF_STRINGS ], AddressAlign: 1, EntSize: 1, Content: 4c4c564d00 }
Symbols:
  - { Name: k, Type: STT_FUNC, Section: .text, Binding: STB_GLOBAL, Value: 0x1300, Size: 8 }
  - { Name: k.kd, Type: STT_OBJECT, Section: .rodata, Binding: STB_GLOBAL, Value: 0x240, Size: 9 }
...
";

/// Files with other sections than AIE ones, by what made them.
fn others(directory: &TempDir) -> Vec<PathBuf> {
    let at = |name: &str| directory.path().join(name);
    std::fs::write(at("k.ll"), KERNEL).unwrap();
    std::fs::write(at("p.c"), PROGRAM).unwrap();
    std::fs::write(at("o.yaml"), CODE_OBJECT).unwrap();
    llvm(
        "llc",
        &[
            &"-mcpu=gfx90a",
            &"-filetype=obj",
            &at("k.ll"),
            &"-o",
            &at("gpu.o"),
        ],
    );
    llvm(
        "clang",
        &[
            &"-c",
            &"-g",
            &"-ffunction-sections",
            &at("p.c"),
            &"-o",
            &at("host.o"),
        ],
    );
    llvm("yaml2obj", &[&at("o.yaml"), &"-o", &at("gpu.so")]);
    let linked = Command::new("gcc")
        .args(["-shared", "-fPIC"])
        .args([at("p.c"), "-o".into(), at("host.so")])
        .status()
        .unwrap();
    assert!(linked.success());
    ["gpu.o", "host.o", "gpu.so", "host.so"].map(at).into()
}

/// What llvm-readelf says of the section headers, without offsets: name, then the rest.
fn headers(file: &Path) -> Vec<(String, Vec<String>)> {
    let output = llvm("llvm-readelf", &[&"-SW", &file]);
    let text = String::from_utf8(output.stdout).unwrap();
    (text.lines())
        .filter_map(|line| line.trim_start().strip_prefix('[')?.split_once(']'))
        .filter(|(index, _)| index.trim().parse::<u32>().is_ok_and(|index| index > 0))
        .map(|(_, line)| {
            let mut fields: Vec<_> = line.split_whitespace().map(str::to_owned).collect();
            fields.remove(3);
            (fields.remove(0), fields)
        })
        .collect()
}

/// What objcopy extracts of each section.
fn contents(file: &Path, directory: &TempDir) -> BTreeMap<String, Vec<u8>> {
    let mut contents = BTreeMap::new();
    for (name, fields) in headers(file) {
        if fields[0] == "NOBITS" || fields[2].trim_start_matches('0').is_empty() {
            continue;
        }
        let out = directory.path().join("extracted");
        let option = format!("--dump-section={name}={}", out.display());
        llvm("llvm-objcopy", &[&option, &file, &"/dev/null"]);
        contents.insert(name, std::fs::read(&out).unwrap());
    }
    contents
}

/// Segments, symbols, relocations, notes and the file header, but for the section header table.
fn meaning(file: &Path) -> String {
    let text = |options: &str| {
        let output = llvm("llvm-readelf", &[&options, &file]);
        let text = String::from_utf8(output.stdout).unwrap();
        let lines = text.lines().filter(|line| {
            // The new section is in the list of those that are in no segment.
            !line.contains("section headers") && !line.trim_start().starts_with("None")
        });
        lines
            .map(|line| match line.split_once(" at offset ") {
                Some((section, rest)) => {
                    format!("{section} {}\n", rest.split_once(' ').unwrap_or_default().1)
                }
                None => format!("{line}\n"),
            })
            .collect::<String>()
    };
    text("-hlsrnW")
}

fn edited(file: &[u8], arch: Arch, image: &SectionImage<'_>) -> Vec<u8> {
    Container::edited(file, arch, image)
        .unwrap()
        .to_vec()
        .unwrap()
}

#[test]
fn every_other_section_stays_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let blob = vec![7; 5000];
    let short = SectionImage::new(&[stream("k", b"code", b"pdi")]).unwrap();
    let long = SectionImage::new(&[stream("kernel", &blob, b"pdi")]).unwrap();
    for original in others(&directory) {
        let before = (
            headers(&original),
            contents(&original, &directory),
            meaning(&original),
        );
        let mut bytes = std::fs::read(&original).unwrap();
        let file = directory.path().join("edited");
        let mut expected: BTreeMap<Arch, Vec<u8>> = BTreeMap::new();
        // Added, added beside it, replaced by more, by less, by the same.
        for (arch, image) in [
            (Arch::Aie2p, &short),
            (Arch::Aie2, &long),
            (Arch::Aie2p, &long),
            (Arch::Aie2p, &short),
            (Arch::Aie2p, &short),
        ] {
            bytes = edited(&bytes, arch, image);
            expected.insert(arch, image.to_vec());
            std::fs::write(&file, &bytes).unwrap();

            let names_table = ["", ".strtab", ".shstrtab"];
            let after = headers(&file);
            for (before, after) in before.0.iter().zip(&after) {
                if names_table.contains(&before.0.as_str()) {
                    assert_eq!(before.0, after.0);
                } else {
                    assert_eq!(before, after, "{}", original.display());
                }
            }
            let added: Vec<_> = after[before.0.len()..]
                .iter()
                .map(|(name, _)| &**name)
                .collect();
            assert_eq!(
                added,
                ["aie2p", "aie2"][..expected.len()],
                "{}",
                original.display()
            );
            let mut extracted = contents(&file, &directory);
            for (arch, section) in &expected {
                assert_eq!(extracted.remove(arch.name()).as_ref(), Some(section));
            }
            for (name, old) in &before.1 {
                let new = extracted.remove(name).unwrap();
                if names_table.contains(&name.as_str()) {
                    assert!(new.starts_with(old), "{name}");
                } else {
                    assert!(*old == new, "{name} of {}", original.display());
                }
            }
            assert!(extracted.is_empty());
            assert_eq!(meaning(&file), before.2, "{}", original.display());
        }
        let once_more = edited(&bytes, Arch::Aie2p, &short);
        assert!(once_more == bytes, "the same section again changes nothing");
        assert!(bytes.len() < std::fs::read(&original).unwrap().len() + 20_000);
    }
}

#[test]
fn rocr_and_the_dumper_find_the_section_beside_gpu_code() {
    let directory = tempfile::tempdir().unwrap();
    let (insts, pdi) = (
        super::files::data("copy_npu2/insts.bin"),
        super::files::data("copy_npu2/design.pdi"),
    );
    let image = SectionImage::new(&[stream("k", &insts, &pdi)]).unwrap();
    for original in others(&directory) {
        let bytes = edited(&std::fs::read(original).unwrap(), Arch::Aie2p, &image);
        let judgements = super::files::judged(&bytes);
        for reader in [
            npu_formats::verdict::Reader::Dumper,
            super::files::rocr(Arch::Aie2p),
        ] {
            assert_eq!(
                super::files::verdict_of(&judgements, reader),
                super::files::ACCEPTS
            );
        }
    }
}

#[test]
fn alignment_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    let image = SectionImage::new(&[stream("kkk", b"codes", b"pdi")]).unwrap();
    for original in others(&directory) {
        let bytes = std::fs::read(original).unwrap();
        let first = edited(&bytes, Arch::Aie2, &image);
        for bytes in [&first, &edited(&first, Arch::Aie2p, &image)] {
            let headers = Elf64::parse(bytes).unwrap().headers;
            // Where nothing is in the file, its place there means nothing.
            for header in headers.iter().filter(|header| header.kind != 8) {
                assert_eq!(header.offset % header.alignment.max(1), 0);
            }
        }
    }
}

#[test]
fn sections_that_can_not_be_replaced_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let image = SectionImage::new(&[stream("k", b"code", b"pdi")]).unwrap();
    let fault = |bytes: &[u8]| Container::edited(bytes, Arch::Aie2, &image).unwrap_err();
    // Beside another section, so that the file is not one that is simply made anew.
    let object = |sections: &str| {
        let yaml = directory.path().join("o.yaml");
        let out = directory.path().join("o");
        let text = format!(
            "--- !ELF\nFileHeader: {{ Class: ELFCLASS64, Data: ELFDATA2LSB, Type: ET_REL, Machine: EM_AMDGPU }}\n\
             Sections:\n  - {{ Name: .text, Type: SHT_PROGBITS, Flags: [ SHF_ALLOC ], Content: 00 }}\n{sections}"
        );
        std::fs::write(&yaml, text).unwrap();
        llvm("yaml2obj", &[&yaml, &"-o", &out]);
        std::fs::read(out).unwrap()
    };
    let two =
        "  - { Name: aie2, Type: SHT_PROGBITS }\n  - { Name: 'aie2 (1)', Type: SHT_PROGBITS }\n";
    assert_eq!(
        fault(&object(two)),
        EditFault::Several {
            arch: Arch::Aie2,
            count: 2
        }
    );
    let loaded = "  - { Name: aie2, Type: SHT_PROGBITS, Flags: [ SHF_ALLOC ], Content: 00 }\n";
    assert_eq!(fault(&object(loaded)), EditFault::Loaded(Arch::Aie2));
    assert_eq!(fault(b""), ContainerFault::TooSmall.into());
    assert_eq!(
        fault(&super::files::data("copy_npu2/aie.elf")),
        ContainerFault::Class.into()
    );
    let mut names = object("");
    let table = usize::try_from(u64::from_le_bytes(names[0x28..0x30].try_into().unwrap())).unwrap();
    let index = usize::from(names[0x3e]);
    let kind = table + 64 * index + 4;
    names[kind] = 0;
    assert_eq!(fault(&names), ContainerFault::Names.into());
    names[kind] = 3;
    // An empty table, behind whose end the sections' names would be.
    let size = kind - 4 + 32..kind - 4 + 40;
    let old: Vec<_> = names.splice(size.clone(), [0; 8]).collect();
    assert_eq!(fault(&names), ContainerFault::Names.into());
    names.splice(size, old);
    let name = Elf64::parse(&names).unwrap().headers[index].offset;
    let name = usize::try_from(name).unwrap()
        + usize::try_from(super::files::get(&names, kind - 4)).unwrap();
    names[name..name + 5].copy_from_slice(b"aie2\0");
    assert_eq!(fault(&names), EditFault::NamesTable(Arch::Aie2));
    let overlapping = object("  - { Name: .one, Type: SHT_PROGBITS, Size: 0x100000 }\n");
    let mut overlapping = overlapping;
    let elf = Elf64::parse(&overlapping).unwrap();
    let table = usize::try_from(u64::from_le_bytes(
        overlapping[0x28..0x30].try_into().unwrap(),
    ))
    .unwrap();
    // Eight headers over the same megabyte would make eight megabytes of one.
    let header = overlapping[table + 128..table + 192].to_vec();
    let count = u16::try_from(elf.headers.len()).unwrap() + 8;
    for _ in 0..8 {
        overlapping.extend(&header);
    }
    overlapping[0x3c..0x3e].copy_from_slice(&count.to_le_bytes());
    assert_eq!(fault(&overlapping), EditFault::Layout);
}

fn objects() -> &'static [Vec<u8>] {
    static OBJECTS: std::sync::OnceLock<Vec<Vec<u8>>> = std::sync::OnceLock::new();
    OBJECTS.get_or_init(|| {
        let directory = tempfile::tempdir().unwrap();
        let mut objects: Vec<_> = (others(&directory).iter())
            .map(|path| std::fs::read(path).unwrap())
            .collect();
        objects.push(super::files::data("upstream_hsaco/copy_npu2_pdi.hsaco"));
        objects
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Damaged containers are edited or refused; what comes out can be read and holds the section.
    #[test]
    fn a_damaged_container_is_edited_or_refused(
        which in 0_usize..5,
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>(), any::<bool>()), 0..6),
        cut in proptest::option::of(any::<prop::sample::Index>()),
    ) {
        let mut bytes = objects()[which].clone();
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        let table = bytes
            .get(0x28..0x30)
            .map_or(0, |table| u64::from_le_bytes(table.try_into().unwrap()));
        for (place, value, in_headers) in changes {
            if bytes.is_empty() {
                break;
            }
            let at = place.index(bytes.len());
            let at = match usize::try_from(table) {
                Ok(table) if in_headers && table < bytes.len() => {
                    table + at % (bytes.len() - table)
                }
                _ => at % bytes.len().min(0x200),
            };
            bytes[at] = value;
        }
        let image = SectionImage::new(&[stream("k", b"code", b"pdi")]).unwrap();
        if let Ok(container) = Container::edited(&bytes, Arch::Aie2p, &image) {
            let edited = container.to_vec().unwrap();
            prop_assert_eq!(u64::try_from(edited.len()).unwrap(), container.size());
            prop_assert!(edited.len() <= 3 * bytes.len() + (1 << 21));
            let elf = Elf64::parse(&edited).unwrap();
            let section = image.to_vec();
            prop_assert_eq!(elf.section(Arch::Aie2p).unwrap(), Some(section.as_slice()));
        }
    }
}
