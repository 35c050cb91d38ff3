//! Why a file is no kernel, or not the one that was asked for. The texts name no file: whoever
//! read it puts its path in front.

use std::fmt;

use super::contract::ContractError;
use super::{Level, Target};
use crate::nearest;

/// A place in a text: line and column from 1, the column in bytes as MLIR's tools count it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The line, from 1.
    pub line: u32,
    /// The byte in the line, from 1.
    pub column: u32,
}

impl Position {
    /// The place of a byte offset.
    pub(super) fn of(text: &str, offset: usize) -> Self {
        Self::in_bytes(text.as_bytes(), offset)
    }

    pub(super) fn in_bytes(bytes: &[u8], offset: usize) -> Self {
        let before = bytes.get(..offset.min(bytes.len())).unwrap_or_default();
        let breaks = before.iter().filter(|c| **c == b'\n').count();
        let column = before.iter().rev().take_while(|c| **c != b'\n').count();
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX).saturating_add(1);
        Self {
            line: number(breaks),
            column: number(column),
        }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// Why bytes are not MLIR text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScanError {
    /// Nothing but white space and comments.
    #[error("the file is empty: a kernel in MLIR text was expected")]
    Empty,
    /// A known kind of file that is not MLIR text.
    #[error("not MLIR text, but {kind}: {remedy}")]
    OtherFormat {
        /// What it is.
        kind: &'static str,
        /// How to get at MLIR text.
        remedy: &'static str,
    },
    /// A zero byte.
    #[error(
        "not MLIR text: a NUL byte at offset {offset} (line {line}); is it a binary file, or text in UTF-16?"
    )]
    Nul {
        /// Bytes before it.
        offset: usize,
        /// Its line, from 1.
        line: u32,
    },
    /// Bytes that are not UTF-8.
    #[error("not MLIR text: invalid UTF-8 at offset {offset} (line {line})")]
    NotUtf8 {
        /// Bytes before the first invalid one.
        offset: usize,
        /// Its line, from 1.
        line: u32,
    },
    /// More bytes than offsets can count.
    #[error("{bytes} bytes are too many for a kernel: the limit is 4 GiB")]
    TooLarge {
        /// The size.
        bytes: usize,
    },
    /// A constant whose content was left out.
    #[error(
        "{at}: the content of dense_resource<{name}> is not in the file: \
         print the file without --mlir-elide-elementsattrs-if-larger and --mlir-elide-resource-strings-if-larger"
    )]
    NoResource {
        /// The constant.
        at: Position,
        /// Its name.
        name: String,
    },
    /// Text that starts with no operation and no alias.
    #[error(
        "not MLIR: {at}: an operation such as 'module' or 'func.func' was expected, not '{found}'"
    )]
    NotMlir {
        /// Where the text starts.
        at: Position,
        /// Its first token.
        found: String,
    },
    /// A bracket that nothing closes: the file is cut off.
    #[error("truncated MLIR: the '{bracket}' at {at} is never closed")]
    Unclosed {
        /// The bracket.
        bracket: char,
        /// Its place.
        at: Position,
    },
    /// A bracket closed by another kind of bracket.
    #[error("unbalanced MLIR: the '{open}' at {at} is closed by the '{close}' at {closed_at}")]
    Mismatched {
        /// The opening bracket.
        open: char,
        /// Its place.
        at: Position,
        /// The closing bracket.
        close: char,
        /// Its place.
        closed_at: Position,
    },
    /// A closing bracket without an opening one.
    #[error("unbalanced MLIR: the '{bracket}' at {at} closes nothing")]
    Unopened {
        /// The bracket.
        bracket: char,
        /// Its place.
        at: Position,
    },
    /// A string literal without its closing quote.
    #[error("truncated MLIR: the string at {at} is not closed on its line")]
    UnclosedString {
        /// The opening quote.
        at: Position,
    },
    /// A `{-#` without its `#-}`.
    #[error("truncated MLIR: the '{{-#' at {at} is never closed")]
    UnclosedMetadata {
        /// The `{-#`.
        at: Position,
    },
}

impl ScanError {
    /// The place in the file, for those errors that have one.
    #[must_use]
    pub const fn position(&self) -> Option<Position> {
        match self {
            Self::NotMlir { at, .. }
            | Self::Unclosed { at, .. }
            | Self::Mismatched { at, .. }
            | Self::Unopened { at, .. }
            | Self::UnclosedString { at }
            | Self::NoResource { at, .. }
            | Self::UnclosedMetadata { at } => Some(*at),
            _ => None,
        }
    }
}

/// Why a function or sequence can't be launched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unlaunchable {
    /// It returns values.
    #[error(
        "line {line}: '{symbol}' returns values: a kernel writes its results to memref arguments"
    )]
    Results {
        /// The function.
        symbol: String,
        /// Its line, from 1.
        line: u32,
    },
    /// An argument of a type that no launcher can pass.
    #[error(
        "line {line}: argument '{argument}' of '{symbol}' has the type {mlir_type}, which can't be passed to a kernel: \
         use a memref, an integer, index, f16, bf16, f32 or f64"
    )]
    Type {
        /// The function.
        symbol: String,
        /// The argument, without `%`.
        argument: String,
        /// Its type as written.
        mlir_type: String,
        /// The argument's line, from 1.
        line: u32,
    },
    /// Memory whose elements have no size that is beyond doubt.
    #[error(
        "line {line}: argument '{argument}' of '{symbol}' is memory of the type {mlir_type}, which has no layout that \
         all compilers agree on: use elements of 8, 16, 32, 64 or 128 bits, complex numbers of them, or vectors of \
         2, 4, 8, 16, 32 or 64 bytes"
    )]
    Element {
        /// The function.
        symbol: String,
        /// The argument, without `%`.
        argument: String,
        /// Its type as written.
        mlir_type: String,
        /// The argument's line, from 1.
        line: u32,
    },
    /// A trace that goes where no launch has memory for it.
    #[error(
        "line {line}: '{symbol}' writes a trace, to memory that no launch passes: leave \
         aie.trace.host_config out, or let its arg_idx be the place of an argument"
    )]
    Traced {
        /// The runtime sequence.
        symbol: String,
        /// Its line, from 1.
        line: u32,
    },
    /// It is not in the outermost module.
    #[error(
        "line {line}: '{symbol}' is in a module inside another, or beside another: only what is in the file's one \
         outermost module can be launched; give the function's module a file of its own"
    )]
    Nested {
        /// The function.
        symbol: String,
        /// Its line, from 1.
        line: u32,
    },
    /// A name that no object file can have.
    #[error(
        "line {line}: the name of '{symbol}' has bytes that are no UTF-8, or a NUL: rename the function"
    )]
    Name {
        /// The function, with U+FFFD for what is no UTF-8.
        symbol: String,
        /// Its line, from 1.
        line: u32,
    },
    /// A header that is not understood.
    #[error(
        "line {line}: the header of '{symbol}' is not understood: '(%name: type, …)' was expected"
    )]
    Header {
        /// The function, if it has a name.
        symbol: String,
        /// Its line, from 1.
        line: u32,
    },
}

/// Why no kernel could be chosen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SelectError {
    /// No public function with a body.
    #[error("no entry function: a public 'func.func' with a body was expected{}", if *.triton {
        "; this is Triton IR, lower it with triton-shared-opt --triton-to-linalg-experimental first"
    } else { "" })]
    NoFunction {
        /// Whether there are `tt.func`s instead.
        triton: bool,
    },
    /// An AIE module without a runtime sequence.
    #[error("no kernel: an 'aie.runtime_sequence' in an 'aie.device' was expected")]
    NoSequence,
    /// Several entry functions and no choice.
    #[error("several entry functions, choose one with --entry: {}", list(.names))]
    Several {
        /// All of them, in the file's order.
        names: Vec<String>,
    },
    /// No entry of that name.
    #[error("no entry '{name}': the file has {}{}", list(.names), nearest::hint(.nearest.as_deref()))]
    Unknown {
        /// What was asked for.
        name: String,
        /// What there is, in the file's order.
        names: Vec<String>,
        /// The closest name, if one is close.
        nearest: Option<String>,
    },
    /// The chosen one can't be launched.
    #[error(transparent)]
    Unlaunchable(#[from] Unlaunchable),
}

/// Why a module can't be compiled for a target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TargetError {
    /// The cpu target compiles the linalg level only.
    #[error(
        "this is {level}-level MLIR, which only an NPU runs: use --target npu1 or npu2, or give the linalg-level kernel for --target cpu"
    )]
    Level {
        /// The module's level.
        level: Level,
    },
    /// A device of the other NPU.
    #[error(
        "line {line}: aie.device({spelling}) is for {target}, not for {wanted}: use --target {target}"
    )]
    Mismatch {
        /// The device as written.
        spelling: String,
        /// What it is for.
        target: Target,
        /// What was asked for.
        wanted: Target,
        /// Its line, from 1.
        line: u32,
    },
    /// A device that is no NPU.
    #[error(
        "line {line}: aie.device({spelling}) is no NPU: write npu1, npu1_1col to npu1_3col, npu2 or npu2_1col to npu2_7col"
    )]
    Device {
        /// The device as written.
        spelling: String,
        /// Its line, from 1.
        line: u32,
    },
}

/// Why an argument's direction or a Triton signature does not fit a kernel.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ArgumentError {
    /// No argument of that name.
    #[error("'{kernel}' has no argument '{name}': its arguments are {}{}", list(.names), nearest::hint(.nearest.as_deref()))]
    Unknown {
        /// The kernel.
        kernel: String,
        /// What was asked for.
        name: String,
        /// The arguments there are.
        names: Vec<String>,
        /// The closest name, if one is close.
        nearest: Option<String>,
    },
    /// A direction for a scalar.
    #[error(
        "argument '{name}' of '{kernel}' is a scalar ({mlir_type}): only memory has a direction"
    )]
    Scalar {
        /// The kernel.
        kernel: String,
        /// The argument.
        name: String,
        /// Its type as written.
        mlir_type: String,
    },
    /// A contract that does not fit.
    #[error("'{kernel}': {source}")]
    Contract {
        /// The kernel.
        kernel: String,
        /// In what.
        source: ContractError,
    },
    /// A Triton signature of another length.
    #[error("the signature has {given} arguments (constexpr not counted), '{kernel}' has {expected}: {}", list(.names))]
    Count {
        /// The kernel.
        kernel: String,
        /// How many the signature has.
        given: usize,
        /// How many the kernel has.
        expected: usize,
        /// The kernel's arguments.
        names: Vec<String>,
    },
    /// A Triton signature that contradicts the MLIR.
    #[error(
        "the signature says '{given}' for argument '{name}' of '{kernel}', the MLIR says {mlir_type}"
    )]
    Contradiction {
        /// The kernel.
        kernel: String,
        /// The argument.
        name: String,
        /// The signature's entry.
        given: String,
        /// The argument's type as written.
        mlir_type: String,
    },
}

/// Names as a sentence has them: a file may hold thousands.
fn list(names: &[String]) -> String {
    const SHOWN: usize = 20;
    match names.len() {
        0 => "none".to_owned(),
        count if count <= SHOWN => names.join(", "),
        count => {
            let shown: Vec<_> = names.iter().take(SHOWN).map(String::as_str).collect();
            format!("{} and {} more", shown.join(", "), count - SHOWN)
        }
    }
}
