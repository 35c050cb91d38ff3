//! The ELF64 around the AIE sections.
//!
//! Reading takes what aie-hsaco-dump takes: any little-endian ELF64 with section names, of whatever
//! type and machine; ROCR's reading is another one. Writing is [`Container`]'s.

use super::Arch;
use super::bytes::{array, part, size_of, u16_at, u32_at, u64_at};

pub use super::edit::{Container, EditFault};

/// Size of an ELF64 file header.
pub(super) const FILE_HEADER: u64 = 64;
/// Size of an ELF64 section header.
pub(super) const SECTION_HEADER: u64 = 64;
/// Size of an ELF64 program header.
pub(super) const PROGRAM_HEADER: u64 = 56;

pub(super) const SHT_NULL: u32 = 0;
pub(super) const SHT_PROGBITS: u32 = 1;
pub(super) const SHT_STRTAB: u32 = 3;
pub(super) const SHT_NOBITS: u32 = 8;
pub(super) const SHF_ALLOC: u64 = 2;

/// `e_shstrndx` when the index is in the first section header.
const SHN_XINDEX: u16 = 0xffff;
/// `e_phnum` when the number is in the first section header.
const PN_XNUM: u16 = 0xffff;

/// Why a file is no container.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ContainerFault {
    /// It has no room for the header.
    #[error("too small to be an ELF file")]
    TooSmall,
    /// It is no ELF.
    #[error("not an ELF file (bad magic)")]
    Magic,
    /// It is a 32-bit ELF, such as a full ELF, or something unknown.
    #[error("not an ELF64 file (an hsaco is one; a full ELF has to be packed into it)")]
    Class,
    /// It is big-endian.
    #[error("not a little-endian ELF file")]
    ByteOrder,
    /// It has no sections.
    #[error("the ELF has no section headers")]
    NoSections,
    /// Its section headers are too small, or of another size than is written.
    #[error("section headers of {0} bytes, ELF64 has 64")]
    EntrySize(u16),
    /// The section header table is not all there.
    #[error("section header table out of bounds")]
    Table,
    /// The program header table is not all there.
    #[error("program header table out of bounds")]
    ProgramHeaders,
    /// There are no section names.
    #[error("the ELF has no section-name table")]
    NoNames,
    /// The section name table is not all there.
    #[error("section-name table out of range")]
    Names,
    /// The section's bytes are not all there.
    #[error("section {0} runs past end of file")]
    PastEnd(usize),
}

/// A section header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Offset of the name in the section name table.
    pub name: u32,
    /// `sh_type`.
    pub kind: u32,
    /// `sh_flags`.
    pub flags: u64,
    /// `sh_addr`.
    pub address: u64,
    /// Where its bytes are in the file.
    pub offset: u64,
    /// How many there are.
    pub size: u64,
    /// `sh_link`.
    pub link: u32,
    /// `sh_info`.
    pub info: u32,
    /// `sh_addralign`.
    pub alignment: u64,
    /// `sh_entsize`.
    pub entry_size: u64,
}

impl Header {
    fn read(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            name: u32_at(bytes, 0)?,
            kind: u32_at(bytes, 4)?,
            flags: u64_at(bytes, 8)?,
            address: u64_at(bytes, 16)?,
            offset: u64_at(bytes, 24)?,
            size: u64_at(bytes, 32)?,
            link: u32_at(bytes, 40)?,
            info: u32_at(bytes, 44)?,
            alignment: u64_at(bytes, 48)?,
            entry_size: u64_at(bytes, 56)?,
        })
    }

    /// Bytes that it takes in the file.
    #[must_use]
    pub const fn file_size(&self) -> u64 {
        if matches!(self.kind, SHT_NULL | SHT_NOBITS) {
            0
        } else {
            self.size
        }
    }
}

/// A little-endian ELF64 whose section headers and names are all there.
#[derive(Clone, Debug)]
pub struct Elf64<'a> {
    bytes: &'a [u8],
    /// `e_type`.
    pub file_type: u16,
    /// `e_machine`.
    pub machine: u16,
    /// Its sections, the empty first one included.
    pub headers: Vec<Header>,
    /// From one header to the next, 64 bytes unless a reader is to be surprised.
    pub(super) entry_size: u16,
    /// Index of the section name table.
    pub(super) names_index: usize,
    names: &'a [u8],
}

impl<'a> Elf64<'a> {
    /// Reads the headers.
    ///
    /// # Errors
    /// See [`ContainerFault`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ContainerFault> {
        let ident: [u8; 6] = array(bytes, 0).ok_or(ContainerFault::TooSmall)?;
        match ident {
            [0x7f, b'E', b'L', b'F', 2, 1] => {}
            [0x7f, b'E', b'L', b'F', 2, _] => return Err(ContainerFault::ByteOrder),
            [0x7f, b'E', b'L', b'F', _, _] => return Err(ContainerFault::Class),
            _ => return Err(ContainerFault::Magic),
        }
        if size_of(bytes) < FILE_HEADER {
            return Err(ContainerFault::TooSmall);
        }
        let too_small = ContainerFault::TooSmall;
        let half = |offset| u16_at(bytes, offset).ok_or(too_small.clone());
        let table = u64_at(bytes, 0x28).ok_or(too_small.clone())?;
        if table == 0 {
            return Err(ContainerFault::NoSections);
        }
        let entry_size = half(0x3a)?;
        if u64::from(entry_size) < SECTION_HEADER {
            return Err(ContainerFault::EntrySize(entry_size));
        }
        let first = (part(bytes, table, SECTION_HEADER).and_then(Header::read))
            .ok_or(ContainerFault::Table)?;
        let count = match half(0x3c)? {
            0 => first.size,
            count => count.into(),
        };
        let names_index = match half(0x3e)? {
            SHN_XINDEX => first.link,
            index => index.into(),
        };
        let stride = u64::from(entry_size);
        let place = |index: u64| table.checked_add(index.checked_mul(stride)?);
        if let Some(last) = count.checked_sub(1) {
            place(last)
                .and_then(|last| part(bytes, last, SECTION_HEADER))
                .ok_or(ContainerFault::Table)?;
        }
        let headers: Vec<_> = (0..count)
            .map_while(|index| Header::read(part(bytes, place(index)?, SECTION_HEADER)?))
            .collect();
        if names_index == 0 {
            return Err(ContainerFault::NoNames);
        }
        let names_index = usize::try_from(names_index).map_err(|_| ContainerFault::Names)?;
        let names = (headers.get(names_index))
            .and_then(|header| part(bytes, header.offset, header.size))
            .ok_or(ContainerFault::Names)?;
        Ok(Self {
            bytes,
            file_type: half(0x10)?,
            machine: half(0x12)?,
            headers,
            entry_size,
            names_index,
            names,
        })
    }

    /// The whole file.
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The section name table.
    pub(super) const fn names(&self) -> &'a [u8] {
        self.names
    }

    /// Whether a section has that name; one whose name lies outside of the table has none.
    #[must_use]
    pub fn is_named(&self, header: &Header, name: &str) -> bool {
        let start = usize::try_from(header.name).unwrap_or(usize::MAX);
        (self.names.get(start..))
            .and_then(|rest| rest.strip_prefix(name.as_bytes()))
            .is_some_and(|rest| rest.first() == Some(&0))
    }

    /// A section's bytes in the file, if they are all there.
    #[must_use]
    pub fn data(&self, header: &Header) -> Option<&'a [u8]> {
        match header.file_size() {
            0 => Some(&[]),
            size => part(self.bytes, header.offset, size),
        }
    }

    /// The indices of the sections with the name of `arch`.
    pub fn named(&self, arch: Arch) -> impl Iterator<Item = usize> + '_ {
        (self.headers.iter().enumerate())
            .filter(move |(_, header)| self.is_named(header, arch.name()))
            .map(|(index, _)| index)
    }

    /// What aie-hsaco-dump takes for the section of `arch`: the first of that name.
    ///
    /// # Errors
    /// When its bytes are not all in the file.
    pub fn section(&self, arch: Arch) -> Result<Option<&'a [u8]>, ContainerFault> {
        let Some(index) = self.named(arch).next() else {
            return Ok(None);
        };
        let data = self
            .headers
            .get(index)
            .and_then(|header| match header.kind {
                SHT_NOBITS => Some(Default::default()),
                _ => part(self.bytes, header.offset, header.size),
            });
        data.map(Some).ok_or(ContainerFault::PastEnd(index))
    }

    /// How many program headers there are, and where.
    pub(super) fn program_headers(&self) -> Result<&'a [u8], ContainerFault> {
        let fault = ContainerFault::ProgramHeaders;
        let offset = u64_at(self.bytes, 0x20).ok_or(fault.clone())?;
        let entry_size = u16_at(self.bytes, 0x36).ok_or(fault.clone())?;
        let count = match u16_at(self.bytes, 0x38).ok_or(fault.clone())? {
            PN_XNUM => self.headers.first().map_or(0, |first| first.info),
            count => count.into(),
        };
        if count == 0 {
            return Ok(&[]);
        }
        if u64::from(entry_size) != PROGRAM_HEADER {
            return Err(fault);
        }
        part(self.bytes, offset, PROGRAM_HEADER * u64::from(count)).ok_or(fault)
    }
}
