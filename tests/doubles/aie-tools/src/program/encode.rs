//! Programs as words of an instruction stream; see the parent module.

use super::{Element, Operand, Operation, Program, Step};
use crate::stream::{Instruction, Stream};

/// The first of the registers that a program is written to: column 0, row 0, offset 0xFD000.
pub const REGISTERS: u32 = 0x000f_d000;
/// The first word: `NPUB`.
pub const MAGIC: u32 = 0x4255_504e;

const OPAQUE: u32 = u32::MAX;
const STEP_WORDS: usize = 12;
const MAX_STEPS: u32 = 4096;

/// Why a stream has no program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAProgram {
    /// Nothing is written to the registers: a stream of a real compiler.
    Absent,
    /// The words make no sense, from this one on.
    Malformed { word: usize },
}

const ELEMENTS: [Element; 5] = [
    Element::I8,
    Element::I16,
    Element::I32,
    Element::Bf16,
    Element::F32,
];

const OPERATIONS: [Operation; 8] = [
    Operation::Copy,
    Operation::Add,
    Operation::Sub,
    Operation::Mul,
    Operation::Fma,
    Operation::Max,
    Operation::Min,
    Operation::MatMul,
];

fn number<T: PartialEq>(table: &[T], value: &T) -> u32 {
    let place = table.iter().position(|entry| entry == value);
    place.unwrap_or(0xff) as u32
}

fn operand_words(operand: Operand) -> [u32; 2] {
    match operand {
        Operand::None => [0, 0],
        Operand::Argument(index) => [1, index],
        Operand::Temporary(index) => [2, index],
        Operand::Constant(bits) => [3, bits],
        Operand::Variable(word) => [4, word],
    }
}

impl Program {
    pub fn words(&self) -> Vec<u32> {
        let steps = self.steps.as_deref();
        let mut words = vec![
            MAGIC,
            1 << 16 | self.arguments.len() as u32,
            steps.map_or(OPAQUE, |steps| steps.len() as u32),
            self.elements.unwrap_or(0),
        ];
        let element = |e: &Option<Element>| e.map_or(0xff, |e| number(&ELEMENTS, &e));
        words.extend(self.arguments.iter().map(element));
        for step in steps.unwrap_or_default() {
            let operation = number(&OPERATIONS, &step.operation);
            words.push(operation | number(&ELEMENTS, &step.element) << 8);
            words.extend(operand_words(step.result));
            words.extend(step.operands.into_iter().flat_map(operand_words));
            words.extend(step.dimensions);
        }
        words
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
            words => Self::from_words(words),
        }
    }

    /// Reads a program's words.
    ///
    /// # Errors
    /// The words make no sense.
    pub fn from_words(words: &[u32]) -> Result<Self, NotAProgram> {
        let malformed = |word| NotAProgram::Malformed { word };
        let word = |i: usize| words.get(i).copied().ok_or(malformed(i));
        if word(0)? != MAGIC {
            return Err(malformed(0));
        }
        if word(1)? >> 16 != 1 {
            return Err(malformed(1));
        }
        let count = (word(1)? & 0xffff) as usize;
        let element = |at: usize| match word(at)? {
            0xff => Ok(None),
            n => Ok(Some(*ELEMENTS.get(n as usize).ok_or(malformed(at))?)),
        };
        let arguments = (4..4 + count).map(element).collect::<Result<_, _>>()?;
        let steps = match word(2)? {
            OPAQUE => None,
            n if n > MAX_STEPS => return Err(malformed(2)),
            n => {
                let starts = (0..n as usize).map(|i| 4 + count + i * STEP_WORDS);
                Some(starts.map(|at| step(words, at)).collect::<Result<_, _>>()?)
            }
        };
        let length = 4 + count + steps.as_ref().map_or(0, Vec::len) * STEP_WORDS;
        if words.len() != length {
            return Err(malformed(length.min(words.len())));
        }
        Ok(Self {
            arguments,
            elements: Some(word(3)?).filter(|n| *n != 0),
            steps,
        })
    }
}

fn step(words: &[u32], at: usize) -> Result<Step, NotAProgram> {
    let malformed = |word| NotAProgram::Malformed { word };
    let word = |i: usize| words.get(at + i).copied().ok_or(malformed(at + i));
    let operand = |i: usize| {
        let value = word(i + 1)?;
        Ok(match word(i)? {
            0 => Operand::None,
            1 => Operand::Argument(value),
            2 => Operand::Temporary(value),
            3 => Operand::Constant(value),
            4 => Operand::Variable(value),
            _ => return Err(malformed(at + i)),
        })
    };
    let [operation, element, high, _] = word(0)?.to_le_bytes();
    let operation = OPERATIONS.get(usize::from(operation));
    let element = ELEMENTS.get(usize::from(element));
    let (Some(operation), Some(element), 0) = (operation, element, high) else {
        return Err(malformed(at));
    };
    Ok(Step {
        operation: *operation,
        element: *element,
        result: operand(1)?,
        operands: [operand(3)?, operand(5)?, operand(7)?],
        dimensions: [word(9)?, word(10)?, word(11)?],
    })
}
