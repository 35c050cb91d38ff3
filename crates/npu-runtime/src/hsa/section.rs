//! What the runtime has to know of an hsaco before it gives it to ROCR: the kernels in the
//! section of its arch, with their kind and columns, and the variables that a full ELF expects.
//! The format is that of ROCR's `amd_aie_section.h`.
//!
//! The bytes are anybody's: every offset is checked, and nothing is allocated beyond what they
//! justify. What only ROCR can judge is left to it.

use crate::error::HsacoFault;

/// `AIEK`.
const MAGIC: u32 = 0x4b45_4941;
const HEADER: usize = 48;
const ENTRY: usize = 44;

/// How a kernel is dispatched. One doorbell's packets are all of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// An instruction stream, and a PDI that takes one of a queue's 32 places.
    Instructions,
    /// A full ELF, which loads its PDIs itself.
    FullElf,
}

/// A kernel of a section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry<'a> {
    pub(super) name: &'a str,
    pub(super) form: Form,
    pub(super) columns: u32,
    /// The instruction stream or the full ELF.
    pub(super) code: &'a [u8],
}

/// The kernels that `hsaco` has for `arch`, in the order of its table.
pub(super) fn kernels<'a>(hsaco: &'a [u8], arch: &str) -> Result<Vec<Entry<'a>>, HsacoFault> {
    if hsaco.is_empty() {
        return Err(HsacoFault::Empty);
    }
    let sections = sections(hsaco)?;
    let of_arch = sections.iter().find(|(name, _)| *name == arch);
    let Some((_, section)) = of_arch else {
        let found: Vec<String> = sections.iter().map(|(name, _)| name.to_string()).collect();
        return Err(match found.is_empty() {
            true => HsacoFault::NoSection,
            false => HsacoFault::Arch {
                expected: arch.into(),
                found,
            },
        });
    };
    table(section)
}

/// The AIE sections of an ELF file, by name. As ROCR does, they are told by their magic.
fn sections(hsaco: &[u8]) -> Result<Vec<(&str, &[u8])>, HsacoFault> {
    if hsaco.get(..4) != Some(b"\x7fELF") {
        return Err(HsacoFault::NotElf);
    }
    // ELFCLASS64 and ELFDATA2LSB.
    if hsaco.get(4..6) != Some(&[2, 1]) {
        return Err(HsacoFault::NotElf);
    }
    let header = Fields::new(hsaco, "ELF header");
    let (start, size) = (header.u64(0x28)?, usize::from(header.u16(0x3a)?));
    let (count, names) = (header.u16(0x3c)?, header.u16(0x3e)?);
    if start == 0 || count == 0 {
        return Ok(Vec::new());
    }
    let headers = part(
        hsaco,
        start,
        size as u64 * u64::from(count),
        "section header table",
    )?;
    if size < 64 {
        return Err(malformed("section header table"));
    }
    let headers: Vec<Fields<'_>> = headers
        .chunks_exact(size)
        .map(|bytes| Fields::new(bytes, "section header"))
        .collect();
    let content = |header: &Fields<'_>| -> Result<(u64, u64), HsacoFault> {
        Ok((header.u64(0x18)?, header.u64(0x20)?))
    };
    let names = headers
        .get(usize::from(names))
        .ok_or_else(|| malformed("section name table"))?;
    let (offset, length) = content(names)?;
    let names = part(hsaco, offset, length, "section name table")?;
    let mut found = Vec::new();
    for header in &headers {
        let (offset, length) = content(header)?;
        // A section without bytes in the file, such as `.bss`, may name any place.
        let Ok(bytes) = part(hsaco, offset, length, "section") else {
            continue;
        };
        if bytes.len() >= HEADER && bytes.starts_with(&MAGIC.to_le_bytes()) {
            found.push((text(names, header.u32(0)?, "section name")?, bytes));
        }
    }
    Ok(found)
}

/// The kernel table of an AIE section.
fn table(section: &[u8]) -> Result<Vec<Entry<'_>>, HsacoFault> {
    let header = Fields::new(section, "AIE section header");
    let major = header.u16(4)?;
    if major != 1 {
        return Err(HsacoFault::Version { major });
    }
    let (header_size, count, entry_size) = (header.u32(8)?, header.u32(12)?, header.u32(16)?);
    if (header_size as usize) < HEADER || (entry_size as usize) < ENTRY || count == 0 {
        return Err(malformed("AIE section header"));
    }
    let length = u64::from(count) * u64::from(entry_size);
    let entries = part(section, u64::from(header_size), length, "kernel table")?;
    let names = part(
        section,
        u64::from(header.u32(20)?),
        u64::from(header.u32(24)?),
        "string table",
    )?;
    let mut kernels = Vec::new();
    for entry in entries.chunks_exact(entry_size as usize) {
        let entry = Fields::new(entry, "kernel table");
        let (offset, size) = (entry.u32(4)?, entry.u32(8)?);
        let form = match entry.u32(28)? {
            0 => Form::Instructions,
            1 => Form::FullElf,
            _ => return Err(malformed("kernel table")),
        };
        kernels.push(Entry {
            name: text(names, entry.u32(0)?, "string table")?,
            form,
            columns: entry.u32(24)?,
            code: part(section, u64::from(offset), u64::from(size), "blob pool")?,
        });
    }
    Ok(kernels)
}

/// More external variables no kernel has: each is an allocation of its own in the device's heap.
const MOST_EXTERNALS: usize = 256;

/// A variable that a full ELF expects to be defined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct External {
    pub(super) name: String,
    /// In bytes.
    pub(super) size: usize,
}

/// The external variables of a full ELF: the dynamic symbols that are neither a PDI nor the
/// number of an argument.
pub(super) fn externals(elf: &[u8]) -> Result<Vec<External>, HsacoFault> {
    const PART: &str = "full ELF";
    let header = Fields::new(elf, PART);
    // ELFCLASS32 and ELFDATA2LSB.
    if elf.get(..6) != Some(b"\x7fELF\x01\x01") {
        return Err(malformed(PART));
    }
    let (start, size) = (header.u32(0x20)?, usize::from(header.u16(0x2e)?));
    let (count, names) = (header.u16(0x30)?, header.u16(0x32)?);
    if size < 40 {
        return Err(malformed(PART));
    }
    let headers = part(elf, u64::from(start), size as u64 * u64::from(count), PART)?;
    let headers: Vec<Fields<'_>> = headers
        .chunks_exact(size)
        .map(|bytes| Fields::new(bytes, PART))
        .collect();
    let content = |index: usize| -> Result<&[u8], HsacoFault> {
        let header = headers.get(index).ok_or_else(|| malformed(PART))?;
        part(
            elf,
            u64::from(header.u32(0x10)?),
            u64::from(header.u32(0x14)?),
            PART,
        )
    };
    let section_names = content(usize::from(names))?;
    let mut symbols = None;
    for (index, header) in headers.iter().enumerate() {
        // The last one of a name counts.
        if text(section_names, header.u32(0)?, PART)? == ".dynsym" {
            symbols = Some((index, header.u32(0x18)?));
        }
    }
    let Some((symbols, link)) = symbols else {
        return Ok(Vec::new());
    };
    let names = content(usize::try_from(link).unwrap_or(usize::MAX))?;
    let mut found: Vec<(&str, usize)> = Vec::new();
    // Names that lie over each other could be more than the file has bytes, many times over.
    let mut justified = names.len();
    for symbol in content(symbols)?.chunks_exact(16) {
        let symbol = Fields::new(symbol, PART);
        let name = text(names, symbol.u32(0)?, PART)?;
        if !is_external(name) {
            continue;
        }
        let size = symbol.u32(8)? as usize;
        match found.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = (*known).max(size),
            None => {
                let left = justified.checked_sub(name.len());
                justified = left
                    .filter(|_| found.len() < MOST_EXTERNALS)
                    .ok_or(malformed(PART))?;
                found.push((name, size));
            }
        }
    }
    let external = |(name, size): (&str, usize)| External {
        name: name.to_owned(),
        size,
    };
    Ok(found.into_iter().map(external).collect())
}

fn is_external(name: &str) -> bool {
    let is_argument = name.bytes().all(|byte| byte.is_ascii_digit());
    !name.starts_with(".pdi") && !is_argument
}

fn malformed(part: &'static str) -> HsacoFault {
    HsacoFault::Malformed { part }
}

/// `length` bytes from `offset` on, if they are all there.
fn part<'a>(
    bytes: &'a [u8],
    offset: u64,
    length: u64,
    name: &'static str,
) -> Result<&'a [u8], HsacoFault> {
    let end = offset.checked_add(length);
    let range = usize::try_from(offset)
        .ok()
        .zip(end.and_then(|end| usize::try_from(end).ok()));
    range
        .and_then(|(start, end)| bytes.get(start..end))
        .ok_or_else(|| malformed(name))
}

/// The NUL-terminated name at `offset` of a string table.
fn text<'a>(names: &'a [u8], offset: u32, part: &'static str) -> Result<&'a str, HsacoFault> {
    let rest = names.get(offset as usize..).unwrap_or_default();
    let end = rest.iter().position(|&byte| byte == 0);
    let name = end.and_then(|end| std::str::from_utf8(&rest[..end]).ok());
    name.ok_or_else(|| malformed(part))
}

/// Little-endian numbers of a structure.
struct Fields<'a> {
    bytes: &'a [u8],
    part: &'static str,
}

impl<'a> Fields<'a> {
    fn new(bytes: &'a [u8], part: &'static str) -> Self {
        Self { bytes, part }
    }

    fn array<const N: usize>(&self, offset: usize) -> Result<[u8; N], HsacoFault> {
        let bytes = self.bytes.get(offset..).and_then(|rest| rest.first_chunk());
        bytes.copied().ok_or_else(|| malformed(self.part))
    }

    fn u16(&self, offset: usize) -> Result<u16, HsacoFault> {
        self.array(offset).map(u16::from_le_bytes)
    }

    fn u32(&self, offset: usize) -> Result<u32, HsacoFault> {
        self.array(offset).map(u32::from_le_bytes)
    }

    fn u64(&self, offset: usize) -> Result<u64, HsacoFault> {
        self.array(offset).map(u64::from_le_bytes)
    }
}

#[cfg(test)]
mod tests;
