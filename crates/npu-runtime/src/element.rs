//! The Rust types that kernels take, and which of them may stand for which MLIR type.
//!
//! The traits are sealed: every element is a plain number for which all bit patterns, zero among
//! them, are valid, and that is what makes it sound to hand its memory to a kernel.

use crate::ElementType;
use half::{bf16, f16};

/// A number that memory can hold: `u8` to `u64`, `i8` to `i64`, [`half::f16`], [`half::bf16`],
/// `f32` and `f64`.
///
/// MLIR's `i1` is a `u8` that is 0 or 1 in memory, `index` is an `i64`, and an element of a type
/// without a Rust counterpart is as many `u8` as it has bytes.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an element that kernels know",
    note = "elements are u8 to u64, i8 to i64, half::f16, half::bf16, f32 and f64"
)]
pub trait Element:
    sealed::Tagged + sealed::Bits + Copy + Default + Send + Sync + std::fmt::Debug + 'static
{
}

/// A number that is passed by value: every [`Element`], and `bool`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be passed to a kernel by value",
    note = "scalars are bool, u8 to u64, i8 to i64, half::f16, half::bf16, f32 and f64"
)]
pub trait Scalar: sealed::Tagged + sealed::Bits + Copy {}

pub(crate) mod sealed {
    /// Names the Rust type at run time.
    pub trait Tagged {
        const PRIMITIVE: super::Primitive;
    }

    /// The value's bits, zero-extended: what a slot of the launch ABI holds.
    pub trait Bits {
        fn bits(self) -> u64;

        /// The value that has these bits; those beyond its size do not count.
        fn from_bits(bits: u64) -> Self;
    }
}

/// A Rust type, known at run time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Primitive {
    Bool,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    F16,
    Bf16,
    F32,
    F64,
}

impl Primitive {
    /// Bytes of one.
    #[inline]
    pub(crate) const fn size(self) -> usize {
        match self {
            Self::Bool | Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 | Self::F16 | Self::Bf16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
        }
    }

    /// The type as Rust spells it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::I8 => "i8",
            Self::I16 => "i16",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::U8 => "u8",
            Self::U16 => "u16",
            Self::U32 => "u32",
            Self::U64 => "u64",
            Self::F16 => "half::f16",
            Self::Bf16 => "half::bf16",
            Self::F32 => "f32",
            Self::F64 => "f64",
        }
    }
}

/// A set of Rust types: those that a parameter takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Accepted(u16);

impl Accepted {
    const fn of(types: &[Primitive]) -> Self {
        let mut set = 0;
        let mut rest = types;
        while let [first, tail @ ..] = rest {
            set |= 1 << (*first as u8);
            rest = tail;
        }
        Self(set)
    }

    pub(crate) const fn contains(self, primitive: Primitive) -> bool {
        self.0 & (1 << (primitive as u8)) != 0
    }

    /// What may stand for `element` in memory. MLIR's integers are mostly signless, so the
    /// unsigned Rust type of the same width is as good as the signed one.
    pub(crate) const fn in_memory(element: &ElementType) -> Self {
        match element {
            ElementType::I1 => Self::of(&[Primitive::U8, Primitive::I8]),
            ElementType::Bytes { .. } => Self::of(&[Primitive::U8]),
            other => Self::by_value(other),
        }
    }

    /// What may be passed by value for `element`; nothing for bytes.
    pub(crate) const fn by_value(element: &ElementType) -> Self {
        match element {
            ElementType::I1 => Self::of(&[Primitive::Bool]),
            ElementType::I8 => Self::of(&[Primitive::I8, Primitive::U8]),
            ElementType::I16 => Self::of(&[Primitive::I16, Primitive::U16]),
            ElementType::I32 => Self::of(&[Primitive::I32, Primitive::U32]),
            ElementType::I64 | ElementType::Index => Self::of(&[Primitive::I64, Primitive::U64]),
            ElementType::Ui8 => Self::of(&[Primitive::U8]),
            ElementType::Ui16 => Self::of(&[Primitive::U16]),
            ElementType::Ui32 => Self::of(&[Primitive::U32]),
            ElementType::Ui64 => Self::of(&[Primitive::U64]),
            ElementType::F16 => Self::of(&[Primitive::F16]),
            ElementType::Bf16 => Self::of(&[Primitive::Bf16]),
            ElementType::F32 => Self::of(&[Primitive::F32]),
            ElementType::F64 => Self::of(&[Primitive::F64]),
            ElementType::Bytes { .. } => Self::of(&[]),
        }
    }
}

macro_rules! elements {
    ($($rust:ty, $primitive:ident, $value:ident => $bits:expr, $from:expr;)*) => {$(
        impl sealed::Tagged for $rust {
            const PRIMITIVE: Primitive = Primitive::$primitive;
        }
        impl sealed::Bits for $rust {
            fn bits(self) -> u64 {
                let $value = self;
                $bits
            }

            fn from_bits($value: u64) -> Self {
                $from
            }
        }
        impl Element for $rust {}
        impl Scalar for $rust {}
    )*};
}

elements! {
    i8, I8, x => u64::from(x.cast_unsigned()), x as Self;
    i16, I16, x => u64::from(x.cast_unsigned()), x as Self;
    i32, I32, x => u64::from(x.cast_unsigned()), x as Self;
    i64, I64, x => x.cast_unsigned(), x.cast_signed();
    u8, U8, x => u64::from(x), x as Self;
    u16, U16, x => u64::from(x), x as Self;
    u32, U32, x => u64::from(x), x as Self;
    u64, U64, x => x, x;
    f16, F16, x => u64::from(x.to_bits()), Self::from_bits(x as u16);
    bf16, Bf16, x => u64::from(x.to_bits()), Self::from_bits(x as u16);
    f32, F32, x => u64::from(x.to_bits()), Self::from_bits(x as u32);
    f64, F64, x => x.to_bits(), Self::from_bits(x);
}

impl sealed::Tagged for bool {
    const PRIMITIVE: Primitive = Primitive::Bool;
}

impl sealed::Bits for bool {
    fn bits(self) -> u64 {
        u64::from(self)
    }

    fn from_bits(bits: u64) -> Self {
        bits & 1 == 1
    }
}

impl Scalar for bool {}
