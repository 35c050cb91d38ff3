//! The ELF64 around AIE sections, as ROCR's ELF library shows it: it looks at less than a linker does,
//! and what it cannot read it does not always survive.

use super::bytes::Bytes;
use super::{Refusal, invalid};
use crate::abi::Status;

const MAGIC: u32 = 0x4b45_4941;
const AIE_HEADER: u64 = 48;
const NULL: u32 = 0;
const RELA: u32 = 4;
const NOBITS: u32 = 8;

/// A section that begins as an AIE section does: its name, if it has one, and its bytes.
pub type AieSection<'a> = (Option<String>, &'a [u8]);

struct Header {
    name: u32,
    kind: u32,
    offset: u64,
    size: u64,
}

impl Header {
    fn read(file: Bytes<'_>, at: u64) -> Option<Self> {
        Some(Self {
            name: file.u32(at)?,
            kind: file.u32(at + 4)?,
            offset: file.u64(at + 24)?,
            size: file.u64(at + 32)?,
        })
    }

    /// Whether the library has the section's data: all in the file, and a table's in whole entries.
    fn is_readable(&self, file: Bytes<'_>) -> bool {
        let entry = match self.kind {
            2 | RELA | 11 => 24,
            6 | 9 => 16,
            14..=16 => 8,
            5 | 17 | 18 => 4,
            _ => 1,
        };
        self.kind == NOBITS
            || file.part(self.offset, self.size).is_some() && self.size.is_multiple_of(entry)
    }
}

/// The sections that make a file an AIE code object, in order; none of a file that is no readable
/// ELF64, which the GPU's loader gets.
///
/// # Errors
/// What ends the process there.
pub fn aie_sections(file: &[u8]) -> Result<Vec<AieSection<'_>>, Refusal> {
    let bytes = Bytes(file);
    let (names, headers) = headers(bytes).ok_or_else(|| invalid("not a readable ELF64"))?;
    let dies = |what: &str| Refusal::new(Status::ERROR, format!("ROCR dies of {what}"));
    let mut found = Vec::new();
    for (index, header) in headers.iter().enumerate() {
        let readable = header.is_readable(bytes);
        if index != 0 && index != names && header.kind == NULL {
            return Err(dies("a second section of type NULL"));
        }
        if header.kind == RELA && !readable {
            return Err(dies("relocations that it cannot read"));
        }
        let data = bytes.part(header.offset, header.size);
        let Some(data) = data.filter(|_| readable && header.size >= AIE_HEADER) else {
            continue;
        };
        if Bytes(data).u32(0) == Some(MAGIC) {
            let table = headers.get(names);
            let inside = table.filter(|table| u64::from(header.name) < table.size);
            if inside.is_some_and(|table| table.kind == NOBITS) {
                return Err(dies("names without bytes"));
            }
            let inside = inside.filter(|table| table.is_readable(bytes));
            // The end of the name is not looked for in the table.
            let name = inside.map(|table| {
                let start = table.offset.saturating_add(u64::from(header.name));
                bytes.text(start).unwrap_or_default()
            });
            found.push((name, data));
        }
    }
    Ok(found)
}

/// The section headers, and which of them has the names.
fn headers(file: Bytes<'_>) -> Option<(usize, Vec<Header>)> {
    if file.part(0, 7)? != b"\x7fELF\x02\x01\x01" {
        return None;
    }
    let (count, names) = (file.u16(0x3c)?, file.u16(0x3e)?);
    let table = file.u64(0x28)?;
    file.part(table, 64 * u64::from(count))?;
    if names >= count || !has_programs(file, table)? {
        return None;
    }
    let headers: Option<Vec<_>> = (0..u64::from(count))
        .map(|index| Header::read(file, table + 64 * index))
        .collect();
    Some((usize::from(names), headers?))
}

/// Whether the library is content with the program headers: there are none, or none that fits into
/// what is left of the file, or all do.
fn has_programs(file: Bytes<'_>, sections: u64) -> Option<bool> {
    let offset = file.u64(0x20)?;
    let count = match file.u16(0x38)? {
        0xffff => file.u32(sections + 44)?,
        count => u32::from(count),
    };
    let rest = (file.0.len() as u64).saturating_sub(offset);
    let fitting = rest / 56;
    Some(offset == 0 || rest > 0 && (fitting == 0 || u64::from(count) <= fitting))
}
