//! The instruction stream of a kernel, `insts.bin`: 32-bit words behind a header of four.
//!
//! The fourth word is the size of the whole file, so a truncated or a stale stream is found out
//! before a device runs it.

use super::Arch;
use super::bytes::{array, size_of, u32_at};

/// The header of an instruction stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Insts {
    /// Rows of the device.
    pub rows: u8,
    /// Generation of the device: [`Arch::generation`].
    pub generation: u8,
    /// Version of the stream: major and minor.
    pub version: (u8, u8),
    /// Rows of memory tiles.
    pub memory_rows: u8,
    /// Columns of the device.
    pub columns: u8,
    /// How many operations follow.
    pub operations: u32,
}

/// The firmware adds `APERTURE` to the addresses of so many buffers. Later ones are as the host
/// gives them, so that the instructions have to add it: `kNumFirmwareTranslatedArgs` and
/// `kDDRAIEAddrOffset` in mlir-aie's `AIETargetNPU.cpp`.
pub const TRANSLATED: u32 = 5;
/// Where the host's memory begins for the array.
const APERTURE: u32 = 0x8000_0000;

/// The first buffer, counted from 0, whose address the instructions use untranslated. Older releases
/// of aiecc know nothing of that.
#[must_use]
pub fn untranslated(bytes: &[u8]) -> Option<u32> {
    let mut at = 16;
    loop {
        let word = |index: u64| u32_at(bytes, at + 4 * index);
        let operation = word(0)? & 0xff;
        if operation == 0x81 {
            let (argument, offset) = (word(8)?, word(10)?);
            if argument >= TRANSLATED && offset < APERTURE {
                return Some(argument);
            }
        }
        // Writes, block writes and masked writes have their sizes behind their operands.
        let size = match operation {
            0 => word(5)?,
            1 => word(3)?,
            3 => word(6)?,
            8 => 16,
            0x80.. => word(1)?,
            _ => return None,
        };
        at += u64::from(size.max(4));
    }
}

/// What is wrong with an instruction stream.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InstsFault {
    /// There is nothing.
    #[error("the instruction stream is empty")]
    Empty,
    /// The header is not complete.
    #[error("the instruction stream has {size} bytes, its header alone has 16")]
    NoHeader {
        /// Bytes there are.
        size: u64,
    },
    /// The size is no multiple of a word's.
    #[error("the instruction stream has {size} bytes, which is no multiple of 4")]
    NotWords {
        /// Bytes there are.
        size: u64,
    },
    /// The size in the header is another.
    #[error("the instruction stream says that it has {declared} bytes and has {size}")]
    Size {
        /// What the fourth word says.
        declared: u32,
        /// Bytes there are.
        size: u64,
    },
    /// It is for another generation of devices.
    #[error(
        "the instruction stream is for device generation {found}, {arch} is generation {}",
        arch.generation()
    )]
    Generation {
        /// What the first word says.
        found: u8,
        /// What was asked for.
        arch: Arch,
    },
}

impl Insts {
    /// Reads the header of a complete stream.
    ///
    /// # Errors
    /// Every [`InstsFault`] but [`InstsFault::Generation`].
    pub fn parse(bytes: &[u8]) -> Result<Self, InstsFault> {
        let size = size_of(bytes);
        if size == 0 {
            return Err(InstsFault::Empty);
        }
        let no_header = || InstsFault::NoHeader { size };
        let [major, minor, generation, rows] = array(bytes, 0).ok_or_else(no_header)?;
        let [columns, memory_rows, _, _] = array(bytes, 4).ok_or_else(no_header)?;
        let operations = u32_at(bytes, 8).ok_or_else(no_header)?;
        let declared = u32_at(bytes, 12).ok_or_else(no_header)?;
        if !size.is_multiple_of(4) {
            return Err(InstsFault::NotWords { size });
        }
        if u64::from(declared) != size {
            return Err(InstsFault::Size { declared, size });
        }
        Ok(Self {
            rows,
            generation,
            version: (major, minor),
            memory_rows,
            columns,
            operations,
        })
    }

    /// The architecture that it is for, if that is a known one.
    #[must_use]
    pub fn arch(&self) -> Option<Arch> {
        Arch::ALL
            .into_iter()
            .find(|arch| arch.generation() == self.generation)
    }

    /// Reads the header of a complete stream for `arch`.
    ///
    /// # Errors
    /// See [`InstsFault`].
    pub fn parse_for(bytes: &[u8], arch: Arch) -> Result<Self, InstsFault> {
        let insts = Self::parse(bytes)?;
        if insts.generation == arch.generation() {
            Ok(insts)
        } else {
            Err(InstsFault::Generation {
                found: insts.generation,
                arch,
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What aiecc of April 2026 makes of five and of six buffers.
    #[test]
    fn a_sixth_buffer_is_translated_by_nobody() {
        let six = include_bytes!("../../../tests/data/aie/six_buffers/insts.bin");
        assert_eq!(untranslated(six), Some(5));
        // The last operation but two patches the sixth address; as a later aiecc writes it.
        let patch = |words: &[u8]| words.starts_with(&[0x81, 0, 0, 0]) && words[32] == 5;
        let at = six.windows(48).position(patch).unwrap();
        let mut folded = six.to_vec();
        folded[at + 43] = 0x80;
        assert_eq!(untranslated(&folded), None);
        let mut fewer = six.to_vec();
        fewer[at + 32] = 4;
        assert_eq!(untranslated(&fewer), None);
    }

    #[test]
    fn damaged_streams_end() {
        let six = include_bytes!("../../../tests/data/aie/six_buffers/insts.bin");
        for length in 0..six.len() {
            let _ = untranslated(&six[..length]);
        }
        for value in [0, 0xff] {
            assert_eq!(untranslated(&[value; 4096]), None);
        }
    }
}
