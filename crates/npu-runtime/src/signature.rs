//! What a kernel takes: the vocabulary that `npu-build` reads out of MLIR, generated launchers
//! carry as constants, and this runtime checks every launch against.
//!
//! A signature names no runtime and no device: the same one serves cpu, HSA and XRT.

use crate::extent::{Bounds, Extent};
use std::borrow::Cow;
use std::fmt;

/// The type of a scalar, or of one element in memory, as Rust sees it.
///
/// MLIR's signless and signed integers are Rust's signed ones; the exact MLIR spelling stays in
/// [`Parameter::mlir_type`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
#[non_exhaustive]
pub enum ElementType {
    /// `i1`: one byte in memory, 0 or 1; a `bool` as a scalar.
    I1,
    /// `i8` or `si8`.
    I8,
    /// `i16` or `si16`.
    I16,
    /// `i32` or `si32`.
    I32,
    /// `i64` or `si64`.
    I64,
    /// `ui8`.
    Ui8,
    /// `ui16`.
    Ui16,
    /// `ui32`.
    Ui32,
    /// `ui64`.
    Ui64,
    /// `index`, 64 bits wide on every target.
    Index,
    /// `f16`, IEEE 754 binary16.
    F16,
    /// `bf16`, the upper half of a binary32.
    Bf16,
    /// `f32`.
    F32,
    /// `f64`.
    F64,
    /// A type without a Rust counterpart, such as `f8E4M3FN`, `complex<f32>` or `vector<4xf32>`:
    /// bytes whose meaning only the kernel knows.
    Bytes {
        /// Bytes of one element.
        size: u32,
        /// A power of two: the address of the memory has to be a multiple of it.
        align: u32,
    },
}

impl ElementType {
    /// [`ElementType::Bytes`], for constants in generated launchers.
    #[must_use]
    pub const fn bytes(size: u32, align: u32) -> Self {
        Self::Bytes { size, align }
    }

    /// Bytes that one element takes in memory.
    #[must_use]
    pub const fn size(&self) -> usize {
        match self {
            Self::I1 | Self::I8 | Self::Ui8 => 1,
            Self::I16 | Self::Ui16 | Self::F16 | Self::Bf16 => 2,
            Self::I32 | Self::Ui32 | Self::F32 => 4,
            Self::I64 | Self::Ui64 | Self::Index | Self::F64 => 8,
            Self::Bytes { size, .. } => *size as usize,
        }
    }

    /// MLIR's name of the type, `bytes` for what has no Rust counterpart.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::I1 => "i1",
            Self::I8 => "i8",
            Self::I16 => "i16",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::Ui8 => "ui8",
            Self::Ui16 => "ui16",
            Self::Ui32 => "ui32",
            Self::Ui64 => "ui64",
            Self::Index => "index",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::Bytes { .. } => "bytes",
        }
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The extent of a memory argument.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum Shape {
    /// `memref<*xT>`, a pointer of Triton's: any number of elements.
    Unranked,
    /// One entry per dimension, outermost first; `None` is a dynamic one (`?`).
    Ranked(Cow<'static, [Option<u64>]>),
}

impl Shape {
    /// The number of elements, if no dimension is dynamic and the product fits 64 bits.
    #[must_use]
    pub fn elements(&self) -> Option<u64> {
        match self {
            Self::Unranked => None,
            Self::Ranked(dims) => dims
                .iter()
                .try_fold(1u64, |product, dim| product.checked_mul((*dim)?)),
        }
    }
}

/// Which copies a launch owes an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum Direction {
    /// Read only: copied in, never out.
    In,
    /// Every element is overwritten: copied out, never in.
    Out,
    /// Written, and the old content may matter: copied both ways. Always safe.
    InOut,
}

impl Direction {
    /// Whether the kernel may write the argument.
    #[must_use]
    pub const fn is_written(self) -> bool {
        matches!(self, Self::Out | Self::InOut)
    }

    /// `in`, `out` or `inout`, as `--arg` spells it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::In => "in",
            Self::Out => "out",
            Self::InOut => "inout",
        }
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What an argument is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum Kind {
    /// Passed by value.
    Scalar(ElementType),
    /// Memory that the kernel reads, writes or both.
    Memory {
        /// The type of one element.
        element: ElementType,
        /// How many elements there are, as far as the MLIR says.
        shape: Shape,
        /// Which way the data flows.
        direction: Direction,
    },
}

/// One argument of a kernel, without those that the launch itself supplies.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Parameter {
    /// Its name in the MLIR, without the `%`.
    pub name: Cow<'static, str>,
    /// Its type as the MLIR spells it.
    pub mlir_type: Cow<'static, str>,
    /// Scalar or memory, with element type, shape and direction.
    pub kind: Kind,
    /// What a launch checks of the sizes beyond the shape: one entry for each dimension, or none.
    /// Memory that is not ranked has one dimension.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "no_extents"))]
    pub extents: Cow<'static, [Extent]>,
}

#[cfg(feature = "serde")]
fn no_extents(extents: &[Extent]) -> bool {
    extents.is_empty()
}

impl Parameter {
    /// A scalar argument, for constants in generated launchers.
    #[must_use]
    pub const fn scalar(name: &'static str, mlir_type: &'static str, element: ElementType) -> Self {
        Self {
            name: Cow::Borrowed(name),
            mlir_type: Cow::Borrowed(mlir_type),
            kind: Kind::Scalar(element),
            extents: Cow::Borrowed(&[]),
        }
    }

    /// A memory argument, for constants in generated launchers.
    #[must_use]
    pub const fn memory(
        name: &'static str,
        mlir_type: &'static str,
        element: ElementType,
        shape: Shape,
        direction: Direction,
    ) -> Self {
        Self::memory_of(name, mlir_type, element, shape, direction, &[])
    }

    /// The same with a contract on the sizes of its dimensions.
    #[must_use]
    pub const fn memory_of(
        name: &'static str,
        mlir_type: &'static str,
        element: ElementType,
        shape: Shape,
        direction: Direction,
        extents: &'static [Extent],
    ) -> Self {
        Self {
            name: Cow::Borrowed(name),
            mlir_type: Cow::Borrowed(mlir_type),
            kind: Kind::Memory {
                element,
                shape,
                direction,
            },
            extents: Cow::Borrowed(extents),
        }
    }
}

/// A kernel's name and what it takes, in the order of its MLIR.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Signature {
    /// The entry function, or `device:sequence` at the AIE level.
    pub name: Cow<'static, str>,
    /// The arguments that the caller gives.
    pub parameters: Cow<'static, [Parameter]>,
    /// Whether the kernel is launched over a grid of programs (Triton's six trailing `i32`,
    /// which are not among the parameters).
    pub grid: bool,
    /// What keeps the kernel within its arguments, and so whether launching it is safe.
    pub bounds: Bounds,
}
