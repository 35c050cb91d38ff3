//! What is wrong with an hsaco, as far as that is seen before ROCR gets it.

use super::{ArtifactFault, quoted};
use std::fmt;

/// What is wrong with an hsaco.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HsacoFault {
    /// It is empty.
    Empty,
    /// It is no 64-bit ELF file.
    NotElf,
    /// It has no section with kernels for an NPU.
    NoSection,
    /// It has kernels for other NPUs only.
    Arch {
        /// The device's arch.
        expected: String,
        /// The archs that it has kernels for.
        found: Vec<String>,
    },
    /// Its section is of a later version of the format.
    Version {
        /// The major version.
        major: u16,
    },
    /// A part of it is not all there, or makes no sense.
    Malformed {
        /// Which one.
        part: &'static str,
    },
    /// It has no kernel of that name.
    Kernel {
        /// The name.
        name: String,
        /// The kernels that it has.
        found: Vec<String>,
    },
    /// A kernel needs more columns than the device has, or none.
    Columns {
        /// The kernel.
        name: String,
        /// The columns that it declares.
        declared: u32,
        /// The device's.
        available: u32,
    },
}

impl fmt::Display for HsacoFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => ArtifactFault::Empty.fmt(f),
            Self::NotElf => f.write_str(
                "this is no hsaco: it does not begin as a 64-bit ELF file does; pack it with \
                 `npu-build hsaco pack`",
            ),
            Self::NoSection => f.write_str(
                "this hsaco has no kernels for an NPU (no section of an AIE arch); look at it with \
                 `npu-build hsaco dump`",
            ),
            Self::Arch { expected, found } => write!(
                f,
                "this hsaco has kernels for {}, and the device is {expected}; compile the kernel \
                 with `--target {}`",
                found.join(" and "),
                if expected == "aie2" { "npu1" } else { "npu2" }
            ),
            Self::Version { major } => write!(
                f,
                "this hsaco is of version {major} of its format, and this npu-runtime ({}) reads \
                 version 1; use a newer one",
                env!("CARGO_PKG_VERSION")
            ),
            Self::Malformed { part } => write!(
                f,
                "this hsaco is damaged: its {part} is cut short or makes no sense; rebuild the \
                 kernel"
            ),
            Self::Kernel { name, found } => write!(
                f,
                "this hsaco has no kernel `{name}`; it has {}",
                quoted(found)
            ),
            Self::Columns {
                name,
                declared,
                available,
            } => write!(
                f,
                "kernel `{name}` declares {declared} columns, and the device has {available}; \
                 compile it for this device"
            ),
        }
    }
}
