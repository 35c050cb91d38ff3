//! What is wrong with an artifact, and with the grid that its kernel is to be launched over.

use super::{HsacoFault, XrtFault};
use crate::Grid;
use std::fmt;

/// What is wrong with an artifact.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ArtifactFault {
    /// It is empty.
    Empty,
    /// It does not begin as an ELF file does.
    NotElf,
    /// It is an ELF file, but no 64-bit shared object of the host's byte order.
    NotSharedObject,
    /// It is for another machine.
    Machine {
        /// The host's `e_machine`.
        expected: u16,
        /// The artifact's.
        found: u16,
    },
    /// A part that its headers name is not there.
    Truncated {
        /// Its size in bytes.
        size: usize,
    },
    /// A header contradicts itself or another one.
    Malformed {
        /// Which one.
        part: &'static str,
    },
    /// It lacks a symbol of the launch ABI.
    MissingSymbol {
        /// The symbol.
        symbol: &'static str,
    },
    /// It is not an hsaco that the device can run.
    Hsaco(Box<HsacoFault>),
    /// It is not what XRT can launch.
    Xrt(XrtFault),
}

/// What is wrong with a grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GridFault {
    /// The kernel is not launched over a grid, and this one is not 1x1x1.
    NoGrid,
    /// A dimension is above `i32::MAX`, or all programs together are above 2⁶³ − 1.
    TooLarge,
    /// The kernel's instruction stream is that of another grid.
    Frozen {
        /// The grid that it was compiled with.
        compiled: Grid,
    },
}

impl fmt::Display for ArtifactFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("this is empty; rebuild the kernel"),
            Self::NotElf => f.write_str("this is not an ELF file; a cpu kernel is a shared object"),
            Self::NotSharedObject => {
                f.write_str("this ELF file is not a 64-bit shared object of this host's kind")
            }
            Self::Machine { expected, found } => write!(
                f,
                "this shared object is for ELF machine {found}, and the host is {expected}; build \
                 the kernel for this machine"
            ),
            Self::Truncated { size } => write!(
                f,
                "this shared object is truncated: it has {size} bytes and names more; rebuild the \
                 kernel"
            ),
            Self::Malformed { part } => write!(
                f,
                "this shared object is damaged (its {part} makes no sense); rebuild the kernel"
            ),
            Self::MissingSymbol { symbol } => write!(
                f,
                "this shared object has no symbol `{symbol}`: it is no kernel, or one of another \
                 npu-build version than this runtime's ({}); rebuild it",
                env!("CARGO_PKG_VERSION")
            ),
            Self::Hsaco(fault) => fault.fmt(f),
            Self::Xrt(fault) => fault.fmt(f),
        }
    }
}

impl fmt::Display for GridFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoGrid => f.write_str("it has no grid; use `Grid::ONE`"),
            Self::TooLarge => f.write_str(
                "a dimension may have at most 2147483647 programs and all together 2^63 - 1",
            ),
            Self::Frozen { compiled } => write!(
                f,
                "on an NPU the grid is part of the compiled kernel, and this one was compiled with \
                 {compiled}; compile it with the grid that it is launched over"
            ),
        }
    }
}
