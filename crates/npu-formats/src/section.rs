//! The AIE section of one architecture: header, kernel table, names, blobs.
//!
//! [`Section::parse`] takes what every reader needs to walk the table at all; on top of it
//! [`Section::check`] applies the rules of ROCR's loader, and [`Section::check_as_dumper`] those of
//! aie-hsaco-dump, each in its own order. The writer is [`SectionImage`].

use std::collections::HashSet;

use super::KernelKind;
use super::bytes::{array, part, size_of, u16_at, u32_at};

pub use super::write::{SectionImage, TooLarge, WriteKernel};

/// `AIEK`, from ROCR's `amd_aie_section.h`.
pub const MAGIC: u32 = 0x4b45_4941;
/// The version that is read and written.
pub const VERSION: (u16, u16) = (1, 0);
/// Size of the header in version 1.0.
pub const HEADER_SIZE: u32 = 48;
/// Size of an entry of the kernel table in version 1.0.
pub const ENTRY_SIZE: u32 = 44;

/// What is wrong with an AIE section.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SectionFault {
    /// It has no room for the header.
    #[error("section smaller than header")]
    TooSmall,
    /// It is no AIE section.
    #[error("bad magic {0:#010x}")]
    Magic(u32),
    /// It has another major version.
    #[error("unsupported section version {major}.{minor}; only 1.x is known")]
    Version {
        /// Major version.
        major: u16,
        /// Minor version.
        minor: u16,
    },
    /// The stride of the kernel table is smaller than an entry.
    #[error("kernel_entry_size too small ({0})")]
    EntrySize(u32),
    /// The kernel table would begin in the header.
    #[error("header_size smaller than the header ({0})")]
    HeaderSize(u32),
    /// The kernel table is not all there.
    #[error("kernel table out of bounds")]
    Table,
    /// The string table begins in the kernel table.
    #[error("string table overlaps the kernel table")]
    StringsOverlap,
    /// The string table is not all there.
    #[error("string table out of bounds")]
    Strings,
    /// The blob pool begins in the string table.
    #[error("blob pool overlaps the string table")]
    PoolOverlap,
    /// The blob pool begins behind the section.
    #[error("blob pool out of bounds")]
    Pool,
    /// The kernel table is empty.
    #[error("no kernels")]
    NoKernels,
    /// An entry is wrong.
    #[error("kernel {index}: {fault}")]
    Kernel {
        /// Which one.
        index: u32,
        /// What is wrong with it.
        fault: EntryFault,
    },
}

/// What is wrong with an entry of the kernel table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EntryFault {
    /// A kind that this version does not have.
    #[error("unknown kind {0}")]
    Kind(u32),
    /// A full ELF holds its own PDI.
    #[error("FullElf entry carries a separate PDI")]
    SeparatePdi,
    /// There is no code.
    #[error("insts are empty")]
    NoInsts,
    /// The code is not in the blob pool.
    #[error("insts out of bounds/overrun")]
    Insts,
    /// The instruction stream does not consist of words.
    #[error("insts are {0} bytes, which is no multiple of 4")]
    NotWords(u32),
    /// The PDI is not in the blob pool.
    #[error("pdi out of bounds/overrun")]
    Pdi,
    /// There is an offset of a PDI that has no size.
    #[error("pdi_size is 0 and pdi_offset is not")]
    PdiOffset,
    /// The name is not in the string table.
    #[error("name offset outside the string table")]
    NameOffset,
    /// The name has no end in the string table.
    #[error("name not terminated")]
    NameEnd,
    /// The name is not UTF-8.
    #[error("name is not UTF-8")]
    NameText,
    /// An earlier kernel has the same name.
    #[error("duplicate kernel name")]
    Duplicate,
    /// The names lie over each other so often that reading them takes far more than their size.
    #[error("names overlap")]
    NamesOverlap,
}

impl EntryFault {
    const fn of(self, index: u32) -> SectionFault {
        SectionFault::Kernel { index, fault: self }
    }
}

/// An entry of the kernel table, as it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Offset in the string table.
    pub name_offset: u32,
    /// Where the code is, from the start of the section.
    pub insts_offset: u32,
    /// Its size in bytes.
    pub insts_size: u32,
    /// Where the PDI is, from the start of the section; 0 if there is none.
    pub pdi_offset: u32,
    /// Its size in bytes.
    pub pdi_size: u32,
    /// Size of the kernarg block in bytes; for a full ELF 0 means what the ELF says.
    pub kernarg_size: u32,
    /// Columns of the partition that it was compiled for.
    pub columns: u32,
    /// The word that [`KernelKind`] is made of.
    pub kind: u32,
}

/// A kernel of a section that was checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectionKernel<'a> {
    /// Its name, without NUL.
    pub name: &'a [u8],
    /// What it consists of.
    pub kind: KernelKind,
    /// The instruction stream, or the full ELF.
    pub insts: &'a [u8],
    /// The PDI; empty if there is none.
    pub pdi: &'a [u8],
    /// The entry of the kernel table.
    pub entry: Entry,
}

/// An AIE section whose kernel table is all there.
#[derive(Clone, Copy, Debug)]
pub struct Section<'a> {
    bytes: &'a [u8],
    /// Version of the format, major and minor.
    pub version: (u16, u16),
    /// How many kernels the table has.
    pub kernel_count: u32,
    header_size: u32,
    entry_size: u32,
    strings_offset: u32,
    strings_size: u32,
    pool_offset: u32,
}

impl<'a> Section<'a> {
    /// Reads the header.
    ///
    /// # Errors
    /// When there is no table that any reader would walk.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, SectionFault> {
        if size_of(bytes) < HEADER_SIZE.into() {
            return Err(SectionFault::TooSmall);
        }
        let word = |offset| u32_at(bytes, offset).ok_or(SectionFault::TooSmall);
        let half = |offset| u16_at(bytes, offset).ok_or(SectionFault::TooSmall);
        let magic = word(0)?;
        if magic != MAGIC {
            return Err(SectionFault::Magic(magic));
        }
        let section = Self {
            bytes,
            version: (half(4)?, half(6)?),
            header_size: word(8)?,
            kernel_count: word(12)?,
            entry_size: word(16)?,
            strings_offset: word(20)?,
            strings_size: word(24)?,
            pool_offset: word(28)?,
        };
        let (major, minor) = section.version;
        if major != VERSION.0 {
            return Err(SectionFault::Version { major, minor });
        }
        if section.header_size < HEADER_SIZE {
            return Err(SectionFault::HeaderSize(section.header_size));
        }
        if section.entry_size < ENTRY_SIZE {
            return Err(SectionFault::EntrySize(section.entry_size));
        }
        if section.table_end() > section.size() {
            return Err(SectionFault::Table);
        }
        Ok(section)
    }

    /// The whole section.
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    fn size(&self) -> u64 {
        size_of(self.bytes)
    }

    fn table_end(&self) -> u64 {
        u64::from(self.header_size) + u64::from(self.kernel_count) * u64::from(self.entry_size)
    }

    fn strings_end(&self) -> u64 {
        u64::from(self.strings_offset) + u64::from(self.strings_size)
    }

    /// The entries of the kernel table, as they stand.
    pub fn entries(&self) -> impl Iterator<Item = (u32, Entry)> + use<'a> {
        let section = *self;
        (0..section.kernel_count).map_while(move |index| {
            let offset =
                u64::from(section.header_size) + u64::from(index) * u64::from(section.entry_size);
            let entry: [u8; 32] = array(section.bytes, offset)?;
            let word = |index: u64| u32_at(&entry, 4 * index);
            Some((
                index,
                Entry {
                    name_offset: word(0)?,
                    insts_offset: word(1)?,
                    insts_size: word(2)?,
                    pdi_offset: word(3)?,
                    pdi_size: word(4)?,
                    kernarg_size: word(5)?,
                    columns: word(6)?,
                    kind: word(7)?,
                },
            ))
        })
    }

    /// The kernels, if ROCR's loader takes the section as such. What it then asks of each kernel
    /// is [`verdict`](super::verdict)'s.
    ///
    /// # Errors
    /// What ROCR would find first; it says no more than that the code object is invalid.
    pub fn check(&self) -> Result<Vec<SectionKernel<'a>>, SectionFault> {
        if u64::from(self.strings_offset) < self.table_end() {
            return Err(SectionFault::StringsOverlap);
        }
        if self.strings_end() > self.size() {
            return Err(SectionFault::Strings);
        }
        if u64::from(self.pool_offset) < self.strings_end() {
            return Err(SectionFault::PoolOverlap);
        }
        if u64::from(self.pool_offset) > self.size() {
            return Err(SectionFault::Pool);
        }
        let mut names = Names::new(self);
        let mut seen = HashSet::new();
        let mut kernels = Vec::new();
        for (index, entry) in self.entries() {
            let fault = |fault: EntryFault| fault.of(index);
            let kind = KernelKind::from_word(entry.kind);
            if entry.insts_size == 0 {
                return Err(fault(EntryFault::NoInsts));
            }
            if kind == Some(KernelKind::PdiInsts) && !entry.insts_size.is_multiple_of(4) {
                return Err(fault(EntryFault::NotWords(entry.insts_size)));
            }
            let insts = self.insts(entry).ok_or(fault(EntryFault::Insts))?;
            let pdi = self.pdi(entry).ok_or(fault(EntryFault::Pdi))?;
            if entry.pdi_size == 0 && entry.pdi_offset != 0 {
                return Err(fault(EntryFault::PdiOffset));
            }
            if kind == Some(KernelKind::FullElf) && entry.pdi_size != 0 {
                return Err(fault(EntryFault::SeparatePdi));
            }
            let name = names.get(entry).map_err(fault)?;
            if !seen.insert(name) {
                return Err(fault(EntryFault::Duplicate));
            }
            let kind = kind.ok_or(fault(EntryFault::Kind(entry.kind)))?;
            kernels.push(SectionKernel {
                name,
                kind,
                insts,
                pdi,
                entry,
            });
        }
        if kernels.is_empty() {
            return Err(SectionFault::NoKernels);
        }
        Ok(kernels)
    }

    /// The kernels, if aie-hsaco-dump takes the section.
    ///
    /// # Errors
    /// What the dumper would say.
    pub fn check_as_dumper(&self) -> Result<Vec<SectionKernel<'a>>, SectionFault> {
        if self.strings_end() > self.size() {
            return Err(SectionFault::Strings);
        }
        if u64::from(self.pool_offset) > self.size() {
            return Err(SectionFault::Pool);
        }
        let mut names = Names::new(self);
        let entries = self.entries().map(|(index, entry)| {
            let fault = |fault: EntryFault| fault.of(index);
            let kind = KernelKind::from_word(entry.kind);
            let kind = kind.ok_or(fault(EntryFault::Kind(entry.kind)))?;
            if kind == KernelKind::FullElf && entry.pdi_size != 0 {
                return Err(fault(EntryFault::SeparatePdi));
            }
            if entry.insts_size == 0 {
                return Err(fault(EntryFault::NoInsts));
            }
            let insts = self.insts(entry).ok_or(fault(EntryFault::Insts))?;
            let pdi = self.pdi(entry).ok_or(fault(EntryFault::Pdi))?;
            let name = names.get(entry).map_err(fault)?;
            if std::str::from_utf8(name).is_err() {
                return Err(fault(EntryFault::NameText));
            }
            Ok(SectionKernel {
                name,
                kind,
                insts,
                pdi,
                entry,
            })
        });
        entries.collect()
    }

    fn insts(&self, entry: Entry) -> Option<&'a [u8]> {
        self.blob(entry.insts_offset, entry.insts_size)
    }

    /// Empty if there is none, wherever it is said to be.
    fn pdi(&self, entry: Entry) -> Option<&'a [u8]> {
        match entry.pdi_size {
            0 => Some(&[]),
            size => self.blob(entry.pdi_offset, size),
        }
    }

    fn blob(&self, offset: u32, size: u32) -> Option<&'a [u8]> {
        if offset < self.pool_offset {
            return None;
        }
        part(self.bytes, offset.into(), size.into())
    }
}

/// Reads names, and stops when they were made to be read again and again.
struct Names<'a> {
    strings: &'a [u8],
    budget: u64,
}

impl<'a> Names<'a> {
    fn new(section: &Section<'a>) -> Self {
        let strings = part(
            section.bytes,
            section.strings_offset.into(),
            section.strings_size.into(),
        );
        Self {
            strings: strings.unwrap_or_default(),
            budget: 2 * section.size(),
        }
    }

    fn get(&mut self, entry: Entry) -> Result<&'a [u8], EntryFault> {
        let start = usize::try_from(entry.name_offset).unwrap_or(usize::MAX);
        let rest = match self.strings.get(start..) {
            Some(rest) if !rest.is_empty() => rest,
            _ => return Err(EntryFault::NameOffset),
        };
        let length = rest.iter().position(|byte| *byte == 0);
        let name = length.and_then(|length| rest.get(..length));
        let name = name.ok_or(EntryFault::NameEnd)?;
        self.budget = (self.budget)
            .checked_sub(size_of(name))
            .ok_or(EntryFault::NamesOverlap)?;
        Ok(name)
    }
}
