//! The ELF of a core: what `elf_file` names, and what aiecc puts into a PDI.
//!
//! aie-rt, which aiecc loads it with, trusts every offset: of a truncated ELF, or one of another
//! machine's, it takes whatever is in memory, and ends well.

use super::bytes::{part, size_of, u16_at, u32_at};

/// Size of an ELF32's header.
const HEADER: u64 = 52;
/// Size of an ELF32's program header.
const PROGRAM_HEADER: u64 = 32;
/// `ET_EXEC`.
const EXECUTABLE: u16 = 2;

/// What is wrong with the ELF of a core.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CoreElfFault {
    /// It is something else.
    #[error("it is no 32-bit little-endian ELF, which a core's program is")]
    NoElf32,
    /// It was not linked.
    #[error("it is no linked program: its ELF type is {0}")]
    Unlinked(u16),
    /// Something is not all there.
    #[error("it is truncated: its {0} is out of bounds")]
    Truncated(&'static str),
}

/// Checks that all that aie-rt will read is there.
///
/// # Errors
/// The first thing that is wrong.
pub fn check(bytes: &[u8]) -> Result<(), CoreElfFault> {
    if !bytes.starts_with(b"\x7fELF\x01\x01") {
        return Err(CoreElfFault::NoElf32);
    }
    let truncated = |what| CoreElfFault::Truncated(what);
    let header = part(bytes, 0, HEADER).ok_or(truncated("header"))?;
    let word = |at| u32_at(header, at).unwrap_or_default();
    let half = |at| u16_at(header, at).unwrap_or_default();
    if half(16) != EXECUTABLE {
        return Err(CoreElfFault::Unlinked(half(16)));
    }
    let count = u64::from(half(44));
    let table = part(bytes, word(28).into(), count * PROGRAM_HEADER);
    let table = table.ok_or(truncated("program header table"))?;
    for segment in table.as_chunks::<32>().0 {
        let word = |at| u64::from(u32_at(segment, at).unwrap_or_default());
        if word(4).saturating_add(word(16)) > size_of(bytes) {
            return Err(truncated("segment"));
        }
    }
    Ok(())
}
