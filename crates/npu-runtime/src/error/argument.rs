//! Why an argument does not fit its parameter.

use crate::Direction;
use std::fmt;

/// An argument that does not fit its parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ArgumentError {
    /// The kernel.
    pub kernel: String,
    /// The argument's position, counted from 0.
    pub index: usize,
    /// The parameter's name in the MLIR.
    pub name: String,
    /// The parameter's type in the MLIR.
    pub mlir_type: String,
    /// In what they differ.
    pub fault: ArgumentFault,
}

/// In what an argument differs from its parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ArgumentFault {
    /// The parameter is memory, the argument a scalar.
    NotMemory {
        /// The scalar's Rust type.
        found: &'static str,
    },
    /// The parameter is a scalar, the argument memory.
    NotScalar,
    /// Another element type.
    Element {
        /// MLIR's name of the expected type.
        expected: &'static str,
        /// The given Rust type.
        found: &'static str,
    },
    /// An input where the kernel writes, or an output where it only reads.
    Direction {
        /// What the kernel does.
        expected: Direction,
    },
    /// Memory of another length.
    Length {
        /// The lengths that fit.
        expected: Lengths,
        /// The given length in elements.
        found: usize,
    },
    /// Memory of a type with two or more dynamic dimensions, and no shape.
    ShapeNeeded {
        /// The shape as the type has it.
        expected: Vec<Option<u64>>,
    },
    /// A shape that is none of the type's.
    Shape {
        /// The shape as the type has it.
        expected: Vec<Option<u64>>,
        /// The given shape.
        found: Vec<usize>,
    },
    /// A shape that has another number of elements than the memory.
    ShapeLength {
        /// The given shape.
        shape: Vec<usize>,
        /// The memory's length in elements.
        found: usize,
    },
    /// A scalar with a shape.
    ScalarShape,
    /// Memory at an address that the elements' type can't have.
    Alignment {
        /// What the address has to be a multiple of.
        expected: u32,
    },
    /// A dimension of another size than the kernel's contract asks for.
    Extent {
        /// The dimension, counted from 0, if there are several.
        dimension: Option<usize>,
        /// The sizes that fit, and why.
        expected: String,
        /// The given size.
        found: u64,
    },
    /// A scalar that is a size by the kernel's contract, and negative.
    NegativeSize {
        /// Its value.
        found: i64,
    },
}

/// Which lengths of memory fit a parameter, in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lengths {
    /// This one only.
    Exactly(u64),
    /// Every multiple.
    MultipleOf(u64),
}

impl fmt::Display for ArgumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "kernel `{}`, argument {} `{}` ({}): {}",
            self.kernel, self.index, self.name, self.mlir_type, self.fault
        )
    }
}

impl std::error::Error for ArgumentError {}

impl fmt::Display for ArgumentFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotMemory { found } => write!(f, "expected memory, got a scalar {found}"),
            Self::NotScalar => f.write_str("expected a scalar, got memory"),
            Self::Element { expected, found } => write!(f, "expected {expected}, got {found}"),
            Self::Direction { expected } => match expected {
                Direction::In => {
                    f.write_str("the kernel only reads it: expected an input, got an output")
                }
                Direction::Out | Direction::InOut => {
                    f.write_str("the kernel writes it: expected an output, got an input")
                }
            },
            Self::Length {
                expected: Lengths::Exactly(expected),
                found,
            } => write!(f, "expected {expected} elements, got {found}"),
            Self::Length {
                expected: Lengths::MultipleOf(expected),
                found,
            } => write!(f, "expected a multiple of {expected} elements, got {found}"),
            Self::ShapeNeeded { expected } => write!(
                f,
                "its length alone does not tell the dimensions {}; give them with `with_shape`",
                Dims(expected)
            ),
            Self::Shape { expected, found } => {
                write!(f, "expected a shape {}, got {found:?}", Dims(expected))
            }
            Self::ShapeLength { shape, found } => {
                write!(
                    f,
                    "the shape {shape:?} does not have the memory's {found} elements"
                )
            }
            Self::ScalarShape => f.write_str("a scalar has no shape"),
            Self::Alignment { expected } => write!(
                f,
                "its memory has to be aligned to {expected} bytes, as that of a buffer is"
            ),
            Self::Extent {
                dimension: None,
                expected,
                found,
            } => write!(f, "expected {expected}, got {found}"),
            Self::Extent {
                dimension: Some(dimension),
                expected,
                found,
            } => write!(f, "dimension {dimension}: expected {expected}, got {found}"),
            Self::NegativeSize { found } => {
                write!(f, "it is a number of elements, which {found} can't be")
            }
        }
    }
}

/// A shape as MLIR prints it, `[4, ?]`.
struct Dims<'a>(&'a [Option<u64>]);

impl fmt::Display for Dims<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (i, dim) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str(", ")?;
            }
            match dim {
                Some(size) => write!(f, "{size}")?,
                None => f.write_str("?")?,
            }
        }
        f.write_str("]")
    }
}
