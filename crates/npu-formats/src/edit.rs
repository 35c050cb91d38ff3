//! Making a container, and putting the section of one architecture into an existing one.
//!
//! A container that holds AIE sections alone comes out byte for byte as llvm-objcopy leaves it
//! under upstream's packer. In any other ELF64 every section keeps its index, its header and its
//! contents, so that symbols and relocations stay valid, and what program headers cover stays
//! where it is; only the section name table grows by the new name.

use std::io::{self, Write};

use super::Arch;
use super::bytes::size_of;
use super::container::{
    ContainerFault, Elf64, FILE_HEADER, Header, SECTION_HEADER, SHT_PROGBITS, SHT_STRTAB,
};
use super::layout::Layout;
use super::section::SectionImage;

/// `ET_REL`.
const ET_REL: u16 = 1;
/// `EM_AMDGPU`.
const EM_AMDGPU: u16 = 224;
/// How section names are ordered in the table that llvm-objcopy writes: by their last letters.
const NAMES: [&str; 3] = ["aie2p", ".shstrtab", "aie2"];

/// Why a section can't be put into a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditFault {
    /// The file is no container.
    #[error(transparent)]
    Container(#[from] ContainerFault),
    /// Which section is to be replaced can't be told.
    #[error("the file has {count} sections named {arch}; remove all but one")]
    Several {
        /// Their name.
        arch: Arch,
        /// How many there are.
        count: usize,
    },
    /// What is to be replaced belongs to the program.
    #[error("the section {0} of this file is loaded with the program: it is no AIE section")]
    Loaded(Arch),
    /// What is to be replaced holds the names of all sections.
    #[error("the section {0} of this file is its section-name table: it is no AIE section")]
    NamesTable(Arch),
    /// A name has to be added to a table that belongs to the program.
    #[error(
        "the section-name table of this file is loaded with the program, so no name can be added"
    )]
    LoadedNames,
    /// Sections that lie over each other, or alignments out of all proportion.
    #[error("the sections of this file overlap or are aligned so that a copy would be far larger")]
    Layout,
    /// The result would not fit 64 bits, or a string table 32.
    #[error("the file would be too large")]
    TooLarge,
}

/// Bytes of the new file, one after the other.
#[derive(Debug)]
pub(super) enum Piece<'a> {
    Borrowed(&'a [u8]),
    Made(Vec<u8>),
    Section(&'a SectionImage<'a>),
    Zeros(u64),
}

/// A container as it will be in the file.
#[derive(Debug)]
pub struct Container<'a> {
    pub(super) pieces: Vec<Piece<'a>>,
    pub(super) size: u64,
}

impl<'a> Container<'a> {
    /// A new container with one section.
    #[must_use]
    pub fn fresh(arch: Arch, section: &'a SectionImage<'a>) -> Self {
        Self::of_sections(vec![(arch, Piece::Section(section), section.size().into())])
    }

    /// `existing` with the section of `arch` added or replaced.
    ///
    /// # Errors
    /// See [`EditFault`].
    pub fn edited(
        existing: &'a [u8],
        arch: Arch,
        section: &'a SectionImage<'a>,
    ) -> Result<Self, EditFault> {
        let elf = Elf64::parse(existing)?;
        if u64::from(elf.entry_size) != SECTION_HEADER {
            return Err(ContainerFault::EntrySize(elf.entry_size).into());
        }
        let named: Vec<_> = elf.named(arch).collect();
        if named.len() > 1 {
            return Err(EditFault::Several {
                arch,
                count: named.len(),
            });
        }
        if let Some(others) = only_aie(&elf)? {
            let mut sections: Vec<_> = (others.into_iter())
                .filter(|(other, _)| *other != arch)
                .map(|(other, data)| (other, Piece::Borrowed(data), size_of(data)))
                .collect();
            sections.push((arch, Piece::Section(section), section.size().into()));
            return Ok(Self::of_sections(sections));
        }
        Layout::new(&elf)?.place(arch, named.first().copied(), section)
    }

    /// As upstream's packer and llvm-objcopy write it.
    fn of_sections(sections: Vec<(Arch, Piece<'a>, u64)>) -> Self {
        let mut names = vec![0];
        let mut name_of = |name: &str| {
            let offset = u32::try_from(names.len()).unwrap_or(u32::MAX);
            names.extend(name.as_bytes());
            names.push(0);
            offset
        };
        let mut offsets = [0; NAMES.len()];
        for (offset, name) in offsets.iter_mut().zip(NAMES) {
            if name == ".shstrtab" || sections.iter().any(|(arch, ..)| arch.name() == name) {
                *offset = name_of(name);
            }
        }
        let [aie2p, shstrtab, aie2] = offsets;

        let mut table = header_bytes(&Header::default());
        table.extend(header_bytes(&Header {
            name: shstrtab,
            kind: SHT_STRTAB,
            offset: FILE_HEADER,
            size: size_of(&names),
            alignment: 1,
            ..Header::default()
        }));
        let mut end = FILE_HEADER + size_of(&names);
        let mut count = 2;
        let mut pieces = vec![Piece::Made(Vec::new()), Piece::Made(names)];
        for (arch, piece, size) in sections {
            table.extend(header_bytes(&Header {
                name: match arch {
                    Arch::Aie2 => aie2,
                    Arch::Aie2p => aie2p,
                },
                kind: SHT_PROGBITS,
                offset: end,
                size,
                alignment: 1,
                ..Header::default()
            }));
            pieces.push(piece);
            end += size;
            count += 1;
        }
        let padding = end.next_multiple_of(8) - end;
        pieces.push(Piece::Zeros(padding));
        let table_offset = end + padding;
        let size = table_offset + size_of(&table);
        pieces.push(Piece::Made(table));
        if let Some(first) = pieces.first_mut() {
            *first = Piece::Made(file_header(table_offset, count));
        }
        Self { pieces, size }
    }

    /// Bytes that it has.
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// Writes it.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
        for piece in &self.pieces {
            match piece {
                Piece::Borrowed(bytes) => out.write_all(bytes)?,
                Piece::Made(bytes) => out.write_all(bytes)?,
                Piece::Section(section) => section.write_to(out)?,
                Piece::Zeros(count) => {
                    io::copy(&mut io::Read::take(io::repeat(0), *count), out)?;
                }
            }
        }
        Ok(())
    }

    /// The container in one piece.
    ///
    /// # Errors
    /// None that memory does not have.
    pub fn to_vec(&self) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.write_to(&mut bytes)?;
        Ok(bytes)
    }
}

/// AIE sections in the order of the file.
type Sections<'a> = Vec<(Arch, &'a [u8])>;

/// The sections of a file that has no others than AIE ones and is otherwise as upstream's packer
/// makes it.
fn only_aie<'a>(elf: &Elf64<'a>) -> Result<Option<Sections<'a>>, EditFault> {
    let mut canonical = file_header(0, 0);
    let variable = |at: usize| (0x28..0x30).contains(&at) || (0x3c..0x40).contains(&at);
    let is_ours = (canonical.iter_mut().zip(elf.bytes()).enumerate())
        .all(|(at, (ours, theirs))| variable(at) || ours == theirs);
    if !is_ours || !elf.program_headers()?.is_empty() {
        return Ok(None);
    }
    let mut sections = Sections::new();
    for (index, header) in elf.headers.iter().enumerate().skip(1) {
        let arch = (Arch::ALL.into_iter()).find(|arch| elf.is_named(header, arch.name()));
        match arch {
            _ if index == elf.names_index && header.kind == SHT_STRTAB => {}
            Some(arch)
                if header.kind == SHT_PROGBITS
                    && header.flags == 0
                    && sections.iter().all(|(other, _)| *other != arch) =>
            {
                let data = elf.data(header).ok_or(ContainerFault::PastEnd(index))?;
                sections.push((arch, data));
            }
            _ => return Ok(None),
        }
    }
    Ok(Some(sections))
}

pub(super) fn patch(bytes: &mut [u8], at: usize, value: &[u8]) {
    if let Some(place) = bytes.get_mut(at..at + value.len()) {
        place.copy_from_slice(value);
    }
}

/// The header of a container that nobody else made.
fn file_header(table: u64, count: u16) -> Vec<u8> {
    let mut bytes = vec![0; 64];
    patch(&mut bytes, 0, b"\x7fELF\x02\x01\x01");
    patch(&mut bytes, 0x10, &ET_REL.to_le_bytes());
    patch(&mut bytes, 0x12, &EM_AMDGPU.to_le_bytes());
    patch(&mut bytes, 0x14, &1_u32.to_le_bytes());
    patch(&mut bytes, 0x28, &table.to_le_bytes());
    patch(&mut bytes, 0x34, &64_u16.to_le_bytes());
    patch(&mut bytes, 0x3a, &64_u16.to_le_bytes());
    patch(&mut bytes, 0x3c, &count.to_le_bytes());
    patch(&mut bytes, 0x3e, &1_u16.to_le_bytes());
    bytes
}

pub(super) fn header_bytes(header: &Header) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(64);
    bytes.extend(header.name.to_le_bytes());
    bytes.extend(header.kind.to_le_bytes());
    bytes.extend(header.flags.to_le_bytes());
    bytes.extend(header.address.to_le_bytes());
    bytes.extend(header.offset.to_le_bytes());
    bytes.extend(header.size.to_le_bytes());
    bytes.extend(header.link.to_le_bytes());
    bytes.extend(header.info.to_le_bytes());
    bytes.extend(header.alignment.to_le_bytes());
    bytes.extend(header.entry_size.to_le_bytes());
    bytes
}
