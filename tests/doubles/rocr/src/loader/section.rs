//! The AIE section of an hsaco: header, kernel table, string table, blob pool.

use std::collections::BTreeSet;

use super::bytes::Bytes;
use super::{Refusal, invalid};
use crate::abi::Status;

const MAGIC: u32 = 0x4b45_4941;
const HEADER: u64 = 48;
const ENTRY: u64 = 44;

/// A kernel of the table.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// Its instruction stream or full ELF.
    pub insts: &'a [u8],
    /// Its PDI, or nothing.
    pub pdi: &'a [u8],
    /// Bytes of its arguments' addresses and sizes.
    pub kernarg_size: u32,
    /// The columns of the partition.
    pub columns: u32,
    /// 0 stream and PDI, 1 full ELF.
    pub kind: u32,
}

/// The section of one arch.
#[derive(Debug)]
pub struct Section<'a> {
    /// Names and kernels, in the order of the table.
    pub kernels: Vec<(String, Entry<'a>)>,
}

/// Names and contents of the sections of an ELF64 that begin as an AIE section does.
fn candidates(file: Bytes<'_>) -> Option<Vec<(String, &[u8])>> {
    if file.part(0, 6)? != b"\x7fELF\x02\x01" {
        return None;
    }
    let (table, entry) = (file.u64(0x28)?, file.u16(0x3a)?);
    let (count, names) = (file.u16(0x3c)?, file.u16(0x3e)?);
    if entry != 64 {
        return None;
    }
    let header = |index: u16| table.checked_add(64 * u64::from(index));
    let place = |index: u16| {
        let at = header(index)?;
        Some((
            file.u64(at.checked_add(0x18)?)?,
            file.u64(at.checked_add(0x20)?)?,
        ))
    };
    let (offset, size) = place(names)?;
    let names = Bytes(file.part(offset, size)?);
    let mut found = Vec::new();
    for index in 0..count {
        let (offset, size) = place(index)?;
        let Some(bytes) = file.part(offset, size).filter(|_| size >= HEADER) else {
            continue;
        };
        if Bytes(bytes).u32(0) == Some(MAGIC) {
            let name = names.text(u64::from(file.u32(header(index)?)?));
            found.push((name?, bytes));
        }
    }
    Some(found)
}

impl<'a> Section<'a> {
    /// The section for an arch.
    ///
    /// # Errors
    /// 100D if there are sections for other archs only, 1010 for anything else.
    pub fn find(file: &'a [u8], arch: &str) -> Result<Self, Refusal> {
        let found = candidates(Bytes(file)).ok_or_else(|| invalid("not a readable ELF64"))?;
        if found.is_empty() {
            return Err(invalid("no AIE section: a code object for the GPU"));
        }
        let own = found.iter().find(|(name, _)| name == arch);
        let Some((_, bytes)) = own else {
            let names: Vec<_> = found.iter().map(|(name, _)| name.as_str()).collect();
            return Err(Refusal::new(
                Status::INCOMPATIBLE_ARGUMENTS,
                format!("only for {}; the agent is {arch}", names.join(", ")),
            ));
        };
        Self::parse(bytes)
    }

    fn parse(bytes: &'a [u8]) -> Result<Self, Refusal> {
        let section = Bytes(bytes);
        let word = |offset: u64| {
            let word = section.u32(offset);
            word.map(u64::from)
                .ok_or_else(|| invalid("the section ends in its header"))
        };
        let major = section.u16(4);
        if major != Some(1) {
            return Err(invalid(format!("section version {major:?}")));
        }
        let (header, count, entry) = (word(8)?, word(12)?, word(16)?);
        let (strings, strings_size, pool) = (word(20)?, word(24)?, word(28)?);
        if header < HEADER || entry < ENTRY || count == 0 {
            return Err(invalid("header or kernel table too small"));
        }
        // No overflow: all numbers have 32 bits.
        let table_end = header + count * entry;
        let size = bytes.len() as u64;
        if strings < table_end || strings + strings_size > size {
            return Err(invalid("the string table is not behind the kernel table"));
        }
        if pool < strings + strings_size || pool > size {
            return Err(invalid("the blob pool is not behind the string table"));
        }
        let names = section.part(strings, strings_size).unwrap_or_default();
        let mut kernels = Vec::new();
        let mut known = BTreeSet::new();
        for index in 0..count {
            let at = header + index * entry;
            let [
                name,
                insts,
                insts_size,
                pdi,
                pdi_size,
                kernarg,
                columns,
                kind,
            ] = [0, 4, 8, 12, 16, 20, 24, 28].map(|field| section.u32(at + field).unwrap_or(0));
            if name >= strings_size as u32 {
                return Err(invalid(format!("kernel {index}: name outside the strings")));
            }
            let name = Bytes(names)
                .text(u64::from(name))
                .ok_or_else(|| invalid(format!("kernel {index}: name without an end")))?;
            let blob = |offset: u32, size: u32, what: &str| {
                let outside = || invalid(format!("{name}: {what} outside the blob pool"));
                if u64::from(offset) < pool {
                    return Err(outside());
                }
                section
                    .part(u64::from(offset), u64::from(size))
                    .ok_or_else(outside)
            };
            if insts_size == 0 || (kind == 0 && !insts_size.is_multiple_of(4)) {
                return Err(invalid(format!(
                    "{name}: {insts_size} bytes of instructions"
                )));
            }
            let pdi = match (pdi, pdi_size) {
                (0, 0) => &[],
                (_, 0) => return Err(invalid(format!("{name}: a PDI without a size"))),
                (offset, size) => blob(offset, size, "PDI")?,
            };
            let kernel = Entry {
                insts: blob(insts, insts_size, "instructions")?,
                pdi,
                kernarg_size: kernarg,
                columns,
                kind,
            };
            if !known.insert(name.clone()) {
                return Err(invalid(format!("{name}: twice in the table")));
            }
            kernels.push((name, kernel));
        }
        Ok(Self { kernels })
    }
}
