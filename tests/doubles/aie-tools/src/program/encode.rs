//! Programs as words of an instruction stream; see the parent module.

use super::Program;
use crate::stream::{Instruction, Stream};

/// The first of the registers that a program is written to: column 0, row 0, offset 0xFD000.
pub const REGISTERS: u32 = 0x000f_d000;
/// The first word: `NPUB`.
pub const MAGIC: u32 = 0x4255_504e;

/// Why a stream has no program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAProgram {
    /// Nothing is written to the registers: a stream of a real compiler.
    Absent,
    /// The words make no sense.
    Malformed,
}

impl Program {
    /// [`MAGIC`], then the program as JSON, padded with spaces.
    pub fn words(&self) -> Vec<u32> {
        let mut json = serde_json::to_vec(self).unwrap_or_default();
        json.resize(json.len().next_multiple_of(4), b' ');
        let words = json.as_chunks().0.iter();
        let words = words.map(|four| u32::from_le_bytes(*four));
        [MAGIC].into_iter().chain(words).collect()
    }

    /// The operations that carry the program in a stream.
    pub fn instructions(&self) -> Vec<Instruction> {
        let words = (REGISTERS..).step_by(4).zip(self.words());
        words
            .map(|(address, value)| Instruction::Write32 { address, value })
            .collect()
    }

    /// The program in a stream.
    ///
    /// # Errors
    /// There is none, or its words make no sense.
    pub fn of_stream(stream: &Stream) -> Result<Self, NotAProgram> {
        let mut words = Vec::new();
        for instruction in &stream.instructions {
            if let Instruction::Write32 { address, value } = instruction
                && *address == REGISTERS + 4 * words.len() as u32
            {
                words.push(*value);
            }
        }
        match words.as_slice() {
            [] => Err(NotAProgram::Absent),
            words => Self::from_words(words).ok_or(NotAProgram::Malformed),
        }
    }

    /// Reads a program's words.
    pub fn from_words(words: &[u32]) -> Option<Self> {
        let (magic, json) = words.split_first()?;
        let json: Vec<u8> = json.iter().flat_map(|word| word.to_le_bytes()).collect();
        let program = serde_json::from_slice(&json).ok();
        program.filter(|_| *magic == MAGIC)
    }
}
