//! The AIE section of an hsaco: header, kernel table, string table, blob pool.

use std::collections::BTreeSet;

use super::bytes::Bytes;
use super::container::aie_sections;
use super::{Refusal, invalid};
use crate::abi::Status;

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

impl<'a> Section<'a> {
    /// The section for an arch.
    ///
    /// # Errors
    /// 100D if there are sections for other archs only, 1000 where ROCR itself fails, 1010 for
    /// anything else.
    pub fn find(file: &'a [u8], arch: &str) -> Result<Self, Refusal> {
        let sections = aie_sections(file)?;
        if sections.is_empty() {
            return Err(invalid("no AIE section: a code object for the GPU"));
        }
        let mut others = Vec::new();
        for (name, bytes) in &sections {
            let name = name.as_ref().ok_or_else(|| {
                Refusal::new(
                    Status::ERROR,
                    "the name of an AIE section is in no name table",
                )
            })?;
            if name == arch {
                return Self::parse(bytes);
            }
            others.push(name.as_str());
        }
        let reason = format!("only for {}; the agent is {arch}", others.join(", "));
        Err(Refusal::new(Status::INCOMPATIBLE_ARGUMENTS, reason))
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
            if kind == 1 && !pdi.is_empty() {
                return Err(invalid(format!("{name}: a full ELF with a separate PDI")));
            }
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
