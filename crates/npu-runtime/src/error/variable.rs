//! Why an external variable can't be used.

use super::quoted;
use crate::Runtime;
use std::fmt;

/// An external variable that can't be used as it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct VariableError {
    /// The variable.
    pub name: String,
    /// Why not.
    pub fault: VariableFault,
}

/// Why a variable can't be used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum VariableFault {
    /// The kernel has none of that name.
    Undefined {
        /// The kernel.
        kernel: String,
        /// Those that it has.
        found: Vec<String>,
    },
    /// It is defined twice for one kernel.
    Twice,
    /// The kernel wants it larger.
    TooSmall {
        /// The kernel.
        kernel: String,
        /// Bytes that the kernel wants.
        needed: usize,
        /// Bytes that it has.
        found: usize,
    },
    /// Its size is not a multiple of 4 bytes, or 0.
    Size {
        /// Its size in bytes.
        bytes: usize,
    },
    /// The type's size does not divide its own.
    Element {
        /// Its size in bytes.
        bytes: usize,
        /// The type's.
        element: usize,
    },
    /// It has no such element.
    Index {
        /// The element.
        index: usize,
        /// How many there are.
        len: usize,
    },
    /// No symbol can have this name.
    Name,
    /// The runtime has no external variables.
    Runtime {
        /// The runtime.
        runtime: Runtime,
    },
}

impl fmt::Display for VariableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "variable `{}`: ", self.name)?;
        match &self.fault {
            VariableFault::Undefined { kernel, found } => write!(
                f,
                "kernel `{kernel}` has no such variable; it has {}",
                quoted(found)
            ),
            VariableFault::Twice => {
                f.write_str("it is defined twice; a kernel takes one of each name")
            }
            VariableFault::TooSmall {
                kernel,
                needed,
                found,
            } => write!(
                f,
                "kernel `{kernel}` needs {needed} bytes of it, and it has {found}; make it larger"
            ),
            VariableFault::Size { bytes } => write!(
                f,
                "it has {bytes} bytes; a variable has 4 or a multiple of 4"
            ),
            VariableFault::Element { bytes, element } => write!(
                f,
                "it has {bytes} bytes, which elements of {element} bytes do not fill"
            ),
            VariableFault::Index { index, len } => {
                write!(f, "it has {len} elements, and none of index {index}")
            }
            VariableFault::Name => f.write_str("no symbol can have this name"),
            VariableFault::Runtime { runtime } => {
                write!(f, "kernels on {runtime} have no external variables")
            }
        }
    }
}
