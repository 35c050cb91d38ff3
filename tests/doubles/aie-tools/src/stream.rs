//! The instruction stream of a runtime sequence (`insts.bin`, and `.ctrltext` of a full ELF): a
//! header of four words, then operations, as real aiecc writes them.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// The byte at which it makes no sense.
    pub offset: usize,
}

/// Which generation of the array: word 0 of the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    Npu1,
    Npu2,
}

impl Generation {
    fn word(self) -> u32 {
        match self {
            Self::Npu1 => 0x0603_0100,
            Self::Npu2 => 0x0604_0100,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Instruction {
    Write32 {
        address: u32,
        value: u32,
    },
    BlockWrite {
        address: u32,
        words: Vec<u32>,
    },
    MaskWrite {
        address: u32,
        value: u32,
        mask: u32,
    },
    /// Configures the array; the PDI's address is patched in.
    LoadPdi {
        /// The PDI's number in the ELF, 0 in an `insts.bin`.
        id: u16,
    },
    /// Names the external variables' memory, whose address is patched in. The opcode is aie-rt's
    /// XAIE_IO_CREATE_SCRATCHPAD; the operands are the doubles' own.
    CreateScratchpad {
        bytes: u32,
    },
    Sync {
        tile: u32,
        channel: u32,
    },
    /// Adds an argument's address to a buffer descriptor's.
    AddressPatch {
        address: u32,
        argument: u32,
        offset: u32,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    pub generation: Generation,
    pub columns: u8,
    pub instructions: Vec<Instruction>,
}

impl Instruction {
    fn words(&self) -> Vec<u32> {
        match self {
            Self::Write32 { address, value } => vec![0, 0, *address, 0, *value, 24],
            Self::BlockWrite { address, words } => {
                let size = 16 + 4 * words.len() as u32;
                [&[1, 0, *address, size], words.as_slice()].concat()
            }
            Self::MaskWrite {
                address,
                value,
                mask,
            } => vec![3, 0, *address, 0, *value, *mask, 28],
            Self::LoadPdi { id } => vec![8 | u32::from(*id) << 16, 0, 0, 0],
            Self::CreateScratchpad { bytes } => vec![10, *bytes, 0, 0],
            Self::Sync { tile, channel } => vec![0x80, 16, *tile, *channel],
            Self::AddressPatch {
                address,
                argument,
                offset,
            } => vec![0x81, 48, 0, 0, 0, 0, *address, 0, *argument, 0, *offset, 0],
        }
    }
}

impl Stream {
    pub fn bytes(&self) -> Vec<u8> {
        let body: Vec<u32> = self
            .instructions
            .iter()
            .flat_map(Instruction::words)
            .collect();
        let count = self.instructions.len() as u32;
        let header = [
            self.generation.word(),
            1 << 8 | u32::from(self.columns),
            count,
            16 + 4 * body.len() as u32,
        ];
        let words = header.iter().chain(&body);
        words.flat_map(|word| word.to_le_bytes()).collect()
    }

    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let (stream, _) = Self::parse_with_offsets(bytes)?;
        Ok(stream)
    }

    /// Reads a stream, and says at which byte each of its operations starts.
    pub fn parse_with_offsets(bytes: &[u8]) -> Result<(Self, Vec<usize>), Malformed> {
        let word = |index: usize| {
            let four = bytes.get(index * 4..index * 4 + 4);
            let four = four.and_then(|four| four.try_into().ok());
            four.map(u32::from_le_bytes)
                .ok_or(Malformed { offset: index * 4 })
        };
        let generation = match word(0)? {
            0x0603_0100 => Generation::Npu1,
            0x0604_0100 => Generation::Npu2,
            _ => return Err(Malformed { offset: 0 }),
        };
        let columns = (word(1)? & 0xff) as u8;
        let count = word(2)?;
        if word(3)? as usize != bytes.len() {
            return Err(Malformed { offset: 12 });
        }
        let (mut instructions, mut offsets, mut at) = (Vec::new(), Vec::new(), 4);
        for _ in 0..count {
            let instruction = instruction(&word, at)?;
            offsets.push(at * 4);
            at += instruction.words().len();
            instructions.push(instruction);
        }
        if at * 4 != bytes.len() {
            return Err(Malformed { offset: at * 4 });
        }
        let stream = Self {
            generation,
            columns,
            instructions,
        };
        Ok((stream, offsets))
    }
}

fn instruction(
    word: &impl Fn(usize) -> Result<u32, Malformed>,
    at: usize,
) -> Result<Instruction, Malformed> {
    let first = word(at)?;
    Ok(match first & 0xff {
        0 => Instruction::Write32 {
            address: word(at + 2)?,
            value: word(at + 4)?,
        },
        1 => {
            let size = word(at + 3)? as usize;
            if size < 16 || !size.is_multiple_of(4) {
                return Err(Malformed {
                    offset: at * 4 + 12,
                });
            }
            let words = (at + 4..at + size / 4)
                .map(word)
                .collect::<Result<_, _>>()?;
            Instruction::BlockWrite {
                address: word(at + 2)?,
                words,
            }
        }
        3 => Instruction::MaskWrite {
            address: word(at + 2)?,
            value: word(at + 4)?,
            mask: word(at + 5)?,
        },
        8 => Instruction::LoadPdi {
            id: (first >> 16) as u16,
        },
        10 => Instruction::CreateScratchpad {
            bytes: word(at + 1)?,
        },
        0x80 => Instruction::Sync {
            tile: word(at + 2)?,
            channel: word(at + 3)?,
        },
        0x81 => Instruction::AddressPatch {
            address: word(at + 6)?,
            argument: word(at + 8)?,
            offset: word(at + 10)?,
        },
        _ => return Err(Malformed { offset: at * 4 }),
    })
}
