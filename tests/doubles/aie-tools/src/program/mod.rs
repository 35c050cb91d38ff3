//! What a kernel computes, as a small program that a double compiler puts into its instruction
//! stream and an emulated device executes.
//!
//! A program is a list of steps. Each gives one value: an argument of the kernel, or a temporary for
//! the steps behind it. Elementwise steps work on `elements` elements of every operand (arguments
//! in order, constants and external variables repeated); [`Operation::MatMul`] works on matrices.
//! An argument keeps what no step gives it.
//!
//! # Encoding
//! Word `i` of the encoded program is a `write32` of register [`REGISTERS`]` + 4 * i`, in order,
//! behind all other operations of the stream. AM025 has no register there, so that no real stream
//! writes to it, and every other word of a stream is as it would be without the program. The words:
//!
//! | word | content |
//! |---|---|
//! | 0 | [`MAGIC`] |
//! | 1 | version 1 in the high half, number of arguments in the low half |
//! | 2 | number of steps; `0xffff_ffff`: a computation that the double did not understand |
//! | 3 | number of elements, 0: as many as the result has room for |
//! | then | per argument, its element type ([`Element`] as a number; 0xff: none) |
//! | then | per step 12 words: operation (bits 0–7) and element type of the computation (8–15); result; three operands; m, n, k of a matrix product, else 0 |
//!
//! A result or operand is two words: kind (0 none, 1 argument, 2 temporary, 3 constant, 4 external
//! variable) and value (index; the constant's bits in the step's type; the variable's word).

mod encode;
mod execute;

pub use encode::{MAGIC, NotAProgram, REGISTERS};
pub use execute::CannotRun;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Element {
    I8,
    I16,
    I32,
    Bf16,
    F32,
}

impl Element {
    /// The element type that MLIR writes as `text`.
    pub fn from_mlir(text: &str) -> Option<Self> {
        Some(match text {
            "i8" | "si8" | "ui8" => Self::I8,
            "i16" | "si16" | "ui16" => Self::I16,
            "i32" | "si32" | "ui32" => Self::I32,
            "bf16" => Self::Bf16,
            "f32" => Self::F32,
            _ => return None,
        })
    }

    pub fn mlir(self) -> &'static str {
        match self {
            Self::I8 => "i8",
            Self::I16 => "i16",
            Self::I32 => "i32",
            Self::Bf16 => "bf16",
            Self::F32 => "f32",
        }
    }

    pub fn bytes(self) -> usize {
        match self {
            Self::I8 => 1,
            Self::I16 | Self::Bf16 => 2,
            Self::I32 | Self::F32 => 4,
        }
    }

    pub fn is_float(self) -> bool {
        matches!(self, Self::Bf16 | Self::F32)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// `a`, converted to the step's type: saturation and sign as in Rust's `as`.
    Copy,
    Add,
    Sub,
    Mul,
    Fma,
    Max,
    Min,
    /// The matrix product of `a` (m × k) and `b` (k × n), row-major, added to `c`: products are
    /// computed and added up, for k = 0, 1, 2…, in the step's type.
    MatMul,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operand {
    None,
    Argument(u32),
    Temporary(u32),
    /// A constant: its bits in the step's type, sign-extended if it is an integer.
    Constant(u32),
    /// An external variable: the 32-bit word of that index in the control scratchpad, an integer or
    /// (for float types) the bits of an f32.
    Variable(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    pub operation: Operation,
    /// The type that it computes in. An argument that it reads is converted to it, and one that it
    /// gives is converted from it.
    pub element: Element,
    pub result: Operand,
    pub operands: [Operand; 3],
    /// m, n and k of a matrix product, else 0.
    pub dimensions: [u32; 3],
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The element types of the arguments; `None` for one that no step touches.
    pub arguments: Vec<Option<Element>>,
    /// How many elements an elementwise step works on; `None`: as many as its result has room for.
    pub elements: Option<u32>,
    /// The steps, or `None` if the double did not understand the computation.
    pub steps: Option<Vec<Step>>,
}

impl Program {
    /// A program for `arguments` arguments that nobody understood.
    pub fn opaque(arguments: usize) -> Self {
        Self {
            arguments: vec![None; arguments],
            elements: None,
            steps: None,
        }
    }
}
