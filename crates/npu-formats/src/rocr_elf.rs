//! The file around AIE sections as ROCR's ELF library shows it to the loader.
//!
//! It reads either class and byte order, ignores what a linker would insist on (`e_version`,
//! `e_shentsize`, where a name table ends), and does not survive everything that it cannot read.

use super::bytes::{part, size_of, u32_at};
use super::section::{HEADER_SIZE, MAGIC};

const SHT_NULL: u64 = 0;
const SHT_RELA: u64 = 4;
const SHT_NOBITS: u64 = 8;

/// A section that has room for an AIE section's header and begins with its magic.
pub struct AieSection<'a> {
    /// Its name; `None` if that is not in the name table.
    pub name: Option<&'a [u8]>,
    /// Its bytes.
    pub data: &'a [u8],
}

/// Why there are no sections to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unseen {
    /// The library does not read the file.
    Unreadable,
    /// The library ends the process.
    Fatal(&'static str),
}

/// Where a number of the two ELF classes is: offset and size.
type Field = [(u64, u64); 2];

const E_PHOFF: Field = [(0x1c, 4), (0x20, 8)];
const E_SHOFF: Field = [(0x20, 4), (0x28, 8)];
const E_PHNUM: Field = [(0x2c, 2), (0x38, 2)];
const E_SHNUM: Field = [(0x30, 2), (0x3c, 2)];
const E_SHSTRNDX: Field = [(0x32, 2), (0x3e, 2)];
const SH_NAME: Field = [(0, 4), (0, 4)];
const SH_TYPE: Field = [(4, 4), (4, 4)];
const SH_OFFSET: Field = [(16, 4), (24, 8)];
const SH_SIZE: Field = [(20, 4), (32, 8)];
const SH_INFO: Field = [(28, 4), (44, 4)];
/// `e_phnum` when the number is in the first section header.
const PN_XNUM: u64 = 0xffff;

/// A file whose identification is an ELF's.
#[derive(Clone, Copy)]
struct File<'a> {
    bytes: &'a [u8],
    is_wide: bool,
    is_big: bool,
}

#[derive(Clone, Copy)]
struct Header {
    name: u64,
    kind: u64,
    offset: u64,
    size: u64,
}

impl<'a> File<'a> {
    fn number(self, base: u64, field: Field) -> Option<u64> {
        let [narrow, wide] = field;
        let (offset, size) = if self.is_wide { wide } else { narrow };
        let bytes = part(self.bytes, base.checked_add(offset)?, size)?;
        let join = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
        Some(if self.is_big {
            bytes.iter().fold(0, join)
        } else {
            bytes.iter().rev().fold(0, join)
        })
    }

    fn header(self, at: u64) -> Option<Header> {
        Some(Header {
            name: self.number(at, SH_NAME)?,
            kind: self.number(at, SH_TYPE)?,
            offset: self.number(at, SH_OFFSET)?,
            size: self.number(at, SH_SIZE)?,
        })
    }

    /// The section headers, and which of them has the names.
    fn headers(self) -> Option<(usize, Vec<Header>)> {
        let table = self.number(0, E_SHOFF)?;
        let (count, names) = (self.number(0, E_SHNUM)?, self.number(0, E_SHSTRNDX)?);
        let size = if self.is_wide { 64 } else { 40 };
        // The library takes a number that the first header has; its user does not look there.
        let known = match count {
            0 if table != 0 => self.number(table, SH_SIZE)?,
            count => count,
        };
        part(self.bytes, table, known.checked_mul(size)?)?;
        if names >= known {
            return None;
        }
        let headers = (0..count).map(|index| self.header(table + size * index));
        Some((
            usize::try_from(names).ok()?,
            headers.collect::<Option<_>>()?,
        ))
    }

    /// Whether the program headers, which nobody needs, are read: all of them, or none that fits.
    fn has_programs(self) -> Option<bool> {
        let offset = self.number(0, E_PHOFF)?;
        if offset == 0 {
            return Some(true);
        }
        let count = match self.number(0, E_PHNUM)? {
            PN_XNUM => self.number(self.number(0, E_SHOFF)?, SH_INFO)?,
            count => count,
        };
        let rest = size_of(self.bytes)
            .checked_sub(offset)
            .filter(|rest| *rest > 0)?;
        let fitting = rest / if self.is_wide { 56 } else { 32 };
        Some(fitting == 0 || count <= fitting)
    }

    /// A section's bytes if the library has them: all in the file, a table's in whole entries.
    fn data(self, header: Header) -> Option<&'a [u8]> {
        let of_class = |narrow, wide| if self.is_wide { wide } else { narrow };
        let entry = match header.kind {
            2 | 11 => of_class(16, 24),
            SHT_RELA => of_class(12, 24),
            6 | 9 => of_class(8, 16),
            14..=16 => of_class(4, 8),
            5 | 17 | 18 => 4,
            _ => 1,
        };
        let data = part(self.bytes, header.offset, header.size);
        data.filter(|_| header.size.is_multiple_of(entry))
    }
}

/// The sections for the sake of which ROCR takes a file for an AIE code object, in order.
///
/// # Errors
/// See [`Unseen`].
pub fn aie_sections(bytes: &[u8]) -> Result<Vec<AieSection<'_>>, Unseen> {
    let (is_wide, is_big) = match bytes.get(..7) {
        Some([0x7f, b'E', b'L', b'F', class @ 1..=2, order @ 1..=2, 1]) => {
            (*class == 2, *order == 2)
        }
        _ => return Err(Unseen::Unreadable),
    };
    let file = File {
        bytes,
        is_wide,
        is_big,
    };
    // The loader itself wants room for an ELF64's header.
    let headers = file.headers().filter(|_| bytes.len() >= 64);
    let (names, headers) = headers.ok_or(Unseen::Unreadable)?;
    let mut found = Vec::new();
    for (index, header) in headers.iter().enumerate() {
        if header.kind == SHT_NULL && index != 0 && index != names {
            return Err(Unseen::Fatal("a second section of type SHT_NULL"));
        }
        let data = file.data(*header);
        if header.kind == SHT_RELA && data.is_none() && index != names {
            return Err(Unseen::Fatal(
                "a section of type SHT_RELA that is no relocations",
            ));
        }
        let Some(data) = data.filter(|data| size_of(data) >= HEADER_SIZE.into()) else {
            continue;
        };
        if u32_at(data, 0) == Some(MAGIC) && (header.kind != SHT_NULL || index == names) {
            let name = name(file, headers.get(names), *header)?;
            found.push(AieSection { name, data });
        }
    }
    match file.has_programs() {
        Some(true) => Ok(found),
        _ => Err(Unseen::Unreadable),
    }
}

/// A name begins in the table, and ends wherever in the file there is a NUL.
fn name<'a>(
    file: File<'a>,
    table: Option<&Header>,
    section: Header,
) -> Result<Option<&'a [u8]>, Unseen> {
    let Some(table) = table.filter(|table| section.name < table.size) else {
        return Ok(None);
    };
    if table.kind == SHT_NOBITS {
        return Err(Unseen::Fatal("a section-name table of type SHT_NOBITS"));
    }
    Ok(text(file, *table, section))
}

fn text<'a>(file: File<'a>, table: Header, section: Header) -> Option<&'a [u8]> {
    file.data(table)?;
    let start = usize::try_from(table.offset + section.name).ok()?;
    let rest = file.bytes.get(start..)?;
    // No architecture's name is longer.
    let end = rest.iter().take(16).position(|byte| *byte == 0);
    Some(rest.get(..end.unwrap_or(16)).unwrap_or(rest))
}
