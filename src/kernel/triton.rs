//! Triton's own way to write a signature, `*fp32,*fp32:out,i32,constexpr`, as a statement about a
//! kernel that is checked against its MLIR.
//!
//! `:in`, `:out` and `:inout` after a pointer are this project's; Triton's `:16` (a divisibility)
//! and plain numbers (a constexpr's value) are accepted and change nothing.

use std::borrow::Cow;
use std::fmt;

use npu_runtime::signature::{Direction, ElementType, Kind};

use super::{ArgumentError, Kernel};
use crate::nearest;

/// A whole signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// Its entries, `constexpr` ones included.
    pub entries: Vec<Entry>,
}

/// One argument of a Triton function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// As given, without white space around.
    pub text: String,
    /// What it says.
    pub kind: EntryKind,
}

/// What an entry says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// Compiled in: no argument of the kernel.
    Constexpr,
    /// `i32`, `fp32`…
    Scalar(ElementType),
    /// `*bf16`, `*fp32:out`…
    Pointer {
        /// What it points to.
        element: ElementType,
        /// The suffix, if there is one.
        direction: Option<Direction>,
    },
}

/// Why text is no signature.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' (entry {position} of the signature): {reason}")]
pub struct ParseError {
    /// The entry.
    pub text: String,
    /// Its position, from 1.
    pub position: usize,
    /// What is wrong.
    pub reason: Reason,
}

/// What is wrong with an entry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// Nothing between two commas.
    #[error("an entry is empty: write types such as '*fp32' or 'i32' between the commas")]
    Empty,
    /// No type of Triton's.
    #[error("'{name}' is no type of Triton's: there are {TYPES}, with '*' for pointers, and constexpr{}", nearest::hint(.nearest.as_deref()))]
    Type {
        /// The type.
        name: String,
        /// The closest type, if one is close.
        nearest: Option<String>,
    },
    /// A pointer to a pointer.
    #[error("a pointer to a pointer can't be passed")]
    PointerToPointer,
    /// A suffix that is no direction.
    #[error("'{0}' is no direction: write ':in', ':out' or ':inout'")]
    Suffix(String),
    /// A direction for something that is not memory.
    #[error("only pointers have a direction")]
    Direction,
}

const TYPES: &str = "i1, i8, i16, i32, i64, u8, u16, u32, u64, fp16, bf16, fp32, fp64";

/// A format that Rust does not have.
const BYTE: ElementType = ElementType::Bytes { size: 1, align: 1 };

/// Triton's names and what they are here.
const ELEMENTS: [(&str, ElementType); 22] = [
    ("i1", ElementType::I1),
    ("u1", ElementType::I1),
    ("i8", ElementType::I8),
    ("i16", ElementType::I16),
    ("i32", ElementType::I32),
    ("i64", ElementType::I64),
    ("u8", ElementType::Ui8),
    ("u16", ElementType::Ui16),
    ("u32", ElementType::Ui32),
    ("u64", ElementType::Ui64),
    ("fp16", ElementType::F16),
    ("f16", ElementType::F16),
    ("bf16", ElementType::Bf16),
    ("fp32", ElementType::F32),
    ("f32", ElementType::F32),
    ("fp64", ElementType::F64),
    ("f64", ElementType::F64),
    ("fp8e4nv", BYTE),
    ("fp8e4b8", BYTE),
    ("fp8e4b15", BYTE),
    ("fp8e5", BYTE),
    ("fp8e5b16", BYTE),
];

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, entry) in self.entries.iter().enumerate() {
            if position > 0 {
                f.write_str(",")?;
            }
            f.write_str(&entry.text)?;
        }
        Ok(())
    }
}

/// Reads a signature; blank text is one without arguments.
///
/// # Errors
/// The first entry that is no type.
pub fn parse(text: &str) -> Result<Signature, ParseError> {
    if text.trim().is_empty() {
        return Ok(Signature {
            entries: Vec::new(),
        });
    }
    let entries = text.split(',').enumerate().map(|(index, text)| {
        let text = text.trim();
        match entry(text) {
            Ok(kind) => Ok(Entry {
                text: text.to_owned(),
                kind,
            }),
            Err(reason) => Err(ParseError {
                text: text.chars().take(80).collect(),
                position: index + 1,
                reason,
            }),
        }
    });
    Ok(Signature {
        entries: entries.collect::<Result<_, _>>()?,
    })
}

fn entry(text: &str) -> Result<EntryKind, Reason> {
    let (name, suffix) = match text.split_once(':') {
        Some((name, suffix)) => (name.trim_end(), Some(suffix.trim_start())),
        None => (text, None),
    };
    let direction = match suffix {
        None => None,
        Some("in") => Some(Direction::In),
        Some("out") => Some(Direction::Out),
        Some("inout") => Some(Direction::InOut),
        Some(hint) if is_number(hint) => None,
        Some(other) => return Err(Reason::Suffix(other.chars().take(40).collect())),
    };
    if let Some(name) = name.strip_prefix('*') {
        if name.starts_with('*') {
            return Err(Reason::PointerToPointer);
        }
        let element = element(name)?;
        return Ok(EntryKind::Pointer { element, direction });
    }
    if direction.is_some() {
        return Err(Reason::Direction);
    }
    if name == "constexpr" || is_number(name) {
        return Ok(EntryKind::Constexpr);
    }
    if name.is_empty() {
        return Err(Reason::Empty);
    }
    Ok(EntryKind::Scalar(element(name)?))
}

fn is_number(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|c| c.is_ascii_digit() || c == b'.')
}

fn element(name: &str) -> Result<ElementType, Reason> {
    let known = ELEMENTS.iter().find(|(known, _)| *known == name);
    known.map(|(_, element)| element.clone()).ok_or_else(|| {
        let names = ELEMENTS.iter().map(|(known, _)| *known);
        Reason::Type {
            name: name.chars().take(40).collect(),
            nearest: nearest::of(name, names.chain(["constexpr"])),
        }
    })
}

impl Kernel {
    /// Applies a signature: its directions replace the inferred ones, and its unsigned types make
    /// MLIR's signless integers unsigned for the launcher.
    ///
    /// # Errors
    /// Another number of arguments than the MLIR, a scalar for memory or the reverse, or another
    /// element type. The kernel is then unchanged.
    pub fn apply_triton(&mut self, signature: &Signature) -> Result<(), ArgumentError> {
        let entries = signature.entries.iter();
        let entries: Vec<_> = entries
            .filter(|entry| entry.kind != EntryKind::Constexpr)
            .collect();
        let parameters = &self.signature.parameters;
        if entries.len() != parameters.len() {
            return Err(ArgumentError::Count {
                kernel: self.signature.name.to_string(),
                given: entries.len(),
                expected: parameters.len(),
                names: parameters.iter().map(|it| it.name.to_string()).collect(),
            });
        }
        let mut changed = parameters.to_vec();
        for ((parameter, of_type), entry) in changed.iter_mut().zip(&self.types).zip(entries) {
            let contradiction = || ArgumentError::Contradiction {
                kernel: self.signature.name.to_string(),
                name: parameter.name.to_string(),
                given: entry.text.chars().take(80).collect(),
                mlir_type: parameter.mlir_type.to_string(),
            };
            let signless = !of_type.element().spelling.starts_with("si");
            parameter.kind =
                merged(&parameter.kind, &entry.kind, signless).ok_or_else(contradiction)?;
        }
        self.signature.parameters = Cow::Owned(changed);
        Ok(())
    }
}

/// The MLIR's kind with what the entry adds; `None` if they contradict each other.
fn merged(mlir: &Kind, entry: &EntryKind, signless: bool) -> Option<Kind> {
    match (mlir, entry) {
        (Kind::Scalar(mlir), EntryKind::Scalar(given)) => {
            agreed(mlir, given, signless).map(Kind::Scalar)
        }
        (
            Kind::Memory {
                element,
                shape,
                direction,
            },
            EntryKind::Pointer {
                element: given,
                direction: wanted,
            },
        ) => Some(Kind::Memory {
            // A pointer to i1 is a pointer to bytes.
            element: match (element, given) {
                (ElementType::I8, ElementType::I1) => ElementType::I8,
                _ => agreed(element, given, signless)?,
            },
            shape: shape.clone(),
            direction: wanted.unwrap_or(*direction),
        }),
        _ => None,
    }
}

/// Triton's `u8` and MLIR's signless `i8` are the same type, and the former says more.
fn agreed(mlir: &ElementType, given: &ElementType, signless: bool) -> Option<ElementType> {
    let unsigned = matches!(
        (mlir, given),
        (ElementType::I8, ElementType::Ui8)
            | (ElementType::I16, ElementType::Ui16)
            | (ElementType::I32, ElementType::Ui32)
            | (ElementType::I64, ElementType::Ui64)
    );
    ((unsigned && signless) || mlir == given).then(|| given.clone())
}

#[cfg(test)]
mod tests;
