//! Real artifacts, ways to damage them, and AIE sections that no packer would write.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use npu_formats::Arch;
use npu_formats::container::{Container, Elf64};
use npu_formats::section::{SectionImage, WriteKernel};
use npu_formats::verdict::{Agent, Judgement, Reader, Status, Verdict, verdicts};

/// The path of a file of `tests/data/aie`.
pub fn path(name: &str) -> PathBuf {
    let mut directories = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let data = directories.find_map(|it| Some(it.join("tests/data/aie")).filter(|it| it.is_dir()));
    data.unwrap().join(name)
}

/// Its contents.
pub fn data(name: &str) -> Vec<u8> {
    std::fs::read(path(name)).unwrap()
}

/// Runs one of LLVM's tools and expects it to succeed.
pub fn llvm(tool: &str, arguments: &[&dyn AsRef<std::ffi::OsStr>]) -> Output {
    let mut command = Command::new(Path::new("/usr/lib/llvm-22/bin").join(tool));
    for argument in arguments {
        command.arg(argument);
    }
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// A kernel as the writer takes it, whose fields a test then changes.
pub fn stream<'a>(name: &'a str, insts: &'a [u8], pdi: &'a [u8]) -> WriteKernel<'a> {
    WriteKernel {
        name,
        kind: npu_formats::KernelKind::PdiInsts,
        insts,
        pdi,
        kernarg_size: 32,
        columns: 4,
    }
}

/// A kernel of a full ELF.
pub fn full_elf<'a>(name: &'a str, elf: &'a [u8]) -> WriteKernel<'a> {
    WriteKernel {
        name,
        kind: npu_formats::KernelKind::FullElf,
        insts: elf,
        pdi: &[],
        kernarg_size: 0,
        columns: 8,
    }
}

/// The section of kernels that nobody checked.
pub fn section(kernels: &[WriteKernel<'_>]) -> Vec<u8> {
    SectionImage::new(kernels).unwrap().to_vec()
}

/// An hsaco with one section of those bytes, whatever they are.
pub fn hsaco(arch: Arch, section: &[u8]) -> Vec<u8> {
    // A section of one blob, of which only the bytes are put in, by their own path.
    let image = SectionImage::new(&[stream("k", b"code", b"")]).unwrap();
    let mut file = Container::fresh(arch, &image).to_vec().unwrap();
    let elf = Elf64::parse(&file).unwrap();
    let start = usize::try_from(elf.headers[2].offset).unwrap();
    let table = 8 * (start + section.len()).div_ceil(8);
    let old_table =
        usize::try_from(u64::from_le_bytes(file[0x28..0x30].try_into().unwrap())).unwrap();
    let mut headers = file.split_off(old_table);
    let size = u64::try_from(section.len()).unwrap();
    headers[128 + 32..128 + 40].copy_from_slice(&size.to_le_bytes());
    file.truncate(start);
    file.extend(section);
    file.resize(table, 0);
    file.extend(headers);
    file[0x28..0x30].copy_from_slice(&u64::try_from(table).unwrap().to_le_bytes());
    file
}

/// An hsaco of kernels that nobody checked.
pub fn hsaco_of(arch: Arch, kernels: &[WriteKernel<'_>]) -> Vec<u8> {
    hsaco(arch, &section(kernels))
}

/// Writes a little-endian word.
pub fn put(bytes: &mut [u8], at: usize, word: u32) {
    bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
}

/// A word.
pub fn get(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// A full ELF that can be changed section by section.
pub struct Elf(pub Vec<u8>);

impl Elf {
    pub fn copy_npu2() -> Self {
        Self(data("copy_npu2/aie.elf"))
    }

    pub fn two_kernels() -> Self {
        Self(data("two_kernels_npu2/aie.elf"))
    }

    fn word(&self, at: usize) -> usize {
        usize::try_from(get(&self.0, at)).unwrap()
    }

    /// Where the header of the `nth` section of that name is.
    pub fn header(&self, name: &str, nth: usize) -> usize {
        let table = self.word(0x20);
        let count = usize::from(u16::from_le_bytes([self.0[0x30], self.0[0x31]]));
        let names = self.word(table + 40 * usize::from(self.0[0x32]) + 16);
        let wanted = [name.as_bytes(), b"\0"].concat();
        (0..count)
            .map(|index| table + 40 * index)
            .filter(|header| self.0[names + self.word(*header)..].starts_with(&wanted))
            .nth(nth)
            .unwrap_or_else(|| panic!("no section {name}"))
    }

    /// Where the bytes of the section of that name are.
    pub fn offset(&self, name: &str) -> usize {
        self.word(self.header(name, 0) + 16)
    }

    /// Gives a section other bytes, at the end of the file.
    pub fn replace(&mut self, name: &str, bytes: &[u8]) -> &mut Self {
        let header = self.header(name, 0);
        let end = u32::try_from(self.0.len()).unwrap();
        self.0.extend(bytes);
        put(&mut self.0, header + 16, end);
        put(
            &mut self.0,
            header + 20,
            u32::try_from(bytes.len()).unwrap(),
        );
        self
    }

    /// Changes a word of a section.
    pub fn put(&mut self, name: &str, at: usize, word: u32) -> &mut Self {
        let at = self.offset(name) + at;
        put(&mut self.0, at, word);
        self
    }

    /// Changes a word of a section's header.
    pub fn put_header(&mut self, name: &str, nth: usize, at: usize, word: u32) -> &mut Self {
        let at = self.header(name, nth) + at;
        put(&mut self.0, at, word);
        self
    }

    /// Takes the first section of that name its name.
    pub fn rename(&mut self, name: &str) -> &mut Self {
        let names = self.header(".shstrtab", 0);
        let names = self.word(names + 16);
        let at = names + self.word(self.header(name, 0));
        self.0[at] = b'x';
        self
    }

    /// Names the symbol of argument 0 anew.
    pub fn rename_argument(&mut self, name: &str) -> &mut Self {
        let strings = [b"\0.pdi.1\0", name.as_bytes(), b"\x001\0"].concat();
        let last = u32::try_from(strings.len() - 2).unwrap();
        self.replace(".dynstr", &strings);
        // The third symbol is argument 0, the fourth argument 1.
        self.put(".dynsym", 3 * 16, last)
    }
}

/// What everybody says of a file, ROCR on devices with all their columns.
pub fn judged(bytes: &[u8]) -> Vec<Judgement> {
    judged_by(bytes, &Arch::ALL.map(Agent::of))
}

pub fn judged_by(bytes: &[u8], agents: &[Agent]) -> Vec<Judgement> {
    verdicts(bytes, agents)
}

/// What one of them says.
pub fn verdict_of(judgements: &[Judgement], reader: Reader) -> Verdict {
    (judgements.iter())
        .find(|judgement| judgement.reader == reader)
        .unwrap()
        .verdict
        .clone()
}

/// ROCR's on a device of that architecture.
pub fn rocr(arch: Arch) -> Reader {
    Reader::Rocr(Agent::of(arch))
}

pub const ACCEPTS: Verdict = Verdict::Accepts {
    variables: Vec::new(),
};

/// Expects a refusal with 0x1010 and that reason among its words.
#[track_caller]
pub fn assert_invalid(verdict: &Verdict, expected: &str) {
    match verdict {
        Verdict::Refuses {
            status: Some(Status::InvalidCodeObject),
            reason,
            ..
        } if reason.contains(expected) => {}
        other => panic!("expected a refusal for '{expected}': {other:?}"),
    }
}
