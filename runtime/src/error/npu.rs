//! What the NPU runtimes report: libraries that are not there, devices that can't be used, calls
//! that fail, and devices that are lost.

use crate::Runtime;
use std::fmt;
use std::path::PathBuf;

/// No usable library of a runtime was found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LibraryError {
    /// The runtime.
    pub runtime: Runtime,
    /// The library's name.
    pub library: &'static str,
    /// Each place that was looked at, and why it was not taken.
    pub candidates: Vec<Candidate>,
    /// What to do about it.
    pub advice: &'static str,
}

/// A place where a library might have been.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Candidate {
    /// A library, or a directory that has none.
    pub path: PathBuf,
    /// The variable that names it, or what else makes it a candidate.
    pub origin: &'static str,
    /// Why it was not taken.
    pub reason: String,
}

impl Candidate {
    pub(crate) fn new(path: PathBuf, origin: &'static str, reason: String) -> Self {
        Self {
            path,
            origin,
            reason,
        }
    }
}

impl fmt::Display for LibraryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: no usable {} was found", self.runtime, self.library)?;
        for candidate in &self.candidates {
            let Candidate {
                path,
                origin,
                reason,
            } = candidate;
            write!(f, "\n  {} ({origin}): {reason}", path.display())?;
        }
        write!(f, "\n{}", self.advice)?;
        if cfg!(target_feature = "crt-static") {
            f.write_str("\na statically linked host program can't load libraries")?;
        }
        Ok(())
    }
}

/// A runtime whose library works and whose device can't be used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceError {
    /// The runtime.
    pub runtime: Runtime,
    /// The library that was taken.
    pub library: PathBuf,
    /// What is wrong.
    pub fault: DeviceFault,
}

/// What is wrong with a device.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeviceFault {
    /// There is none.
    None {
        /// The limit of locked memory in bytes, if it is below what the device needs.
        locked_memory: Option<u64>,
    },
    /// It has a name that this runtime does not know, and its generation is not guessed.
    Unknown {
        /// The name.
        name: String,
    },
    /// A variable insists on a generation that is not the device's.
    Contradiction {
        /// The variable.
        variable: &'static str,
        /// Its value.
        value: String,
        /// The device's name.
        name: String,
    },
    /// A variable insists on a generation that there is not.
    Variable {
        /// The variable.
        variable: &'static str,
        /// Its value.
        value: String,
    },
    /// It lacks something that every such device has.
    Lacks {
        /// What it lacks.
        what: &'static str,
    },
}

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: ", self.runtime, self.library.display())?;
        match &self.fault {
            DeviceFault::None { locked_memory } => {
                f.write_str(
                    "it finds no NPU: the library may be too old for the device, or the `amdxdna` \
                     driver is not loaded, or /dev/accel can't be opened, or HSA_DISABLE_XDNA is \
                     set",
                )?;
                match locked_memory {
                    Some(bytes) => write!(
                        f,
                        ", or the limit of locked memory, {} KiB, is too low (`ulimit -l`, 64 MiB \
                         are needed)",
                        bytes >> 10
                    ),
                    None => Ok(()),
                }
            }
            DeviceFault::Unknown { name } => write!(
                f,
                "its NPU is called `{name}`, which this version of npu-runtime ({}) does not know; \
                 a kernel for the wrong generation would hang it. If you know which one it is, set \
                 NPU_RUNTIME_{}_DEVICE to npu1 or npu2",
                env!("CARGO_PKG_VERSION"),
                self.runtime.name().to_uppercase()
            ),
            DeviceFault::Contradiction {
                variable,
                value,
                name,
            } => write!(
                f,
                "{variable} is `{value}`, and the NPU is called `{name}`: a kernel for the wrong \
                 generation would hang it; unset the variable"
            ),
            DeviceFault::Variable { variable, value } => {
                write!(f, "{variable} is `{value}`; it may be npu1 or npu2")
            }
            DeviceFault::Lacks { what } => write!(
                f,
                "its NPU has no {what}: the library is not one that this version of npu-runtime \
                 ({}) knows how to use",
                env!("CARGO_PKG_VERSION")
            ),
        }
    }
}

/// A call of a runtime's library failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallError {
    /// The runtime.
    pub runtime: Runtime,
    /// The function.
    pub call: &'static str,
    /// The library's status.
    pub status: u32,
    /// What the library says of it.
    pub text: String,
    /// What was being done.
    pub doing: String,
    /// What it may come from, and what to do about it.
    pub advice: String,
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.runtime)?;
        if !self.doing.is_empty() {
            write!(f, "{}: ", self.doing)?;
        }
        write!(
            f,
            "{} failed with {:#x}, {}",
            self.call, self.status, self.text
        )?;
        if !self.advice.is_empty() {
            write!(f, "; {}", self.advice)?;
        }
        Ok(())
    }
}

/// A device that failed, and takes no launches any more.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LostError {
    /// The runtime.
    pub runtime: Runtime,
    /// The kernel whose launch failed, by which the device was lost.
    pub kernel: String,
    /// The library's status, if it gave one.
    pub status: Option<u32>,
    /// What the library says of it.
    pub text: String,
}

impl fmt::Display for LostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            runtime,
            kernel,
            status,
            text,
        } = self;
        write!(
            f,
            "{runtime}: the device is lost since a launch of kernel `{kernel}` failed"
        )?;
        if let Some(status) = status {
            write!(f, " with {status:#x}")?;
        }
        write!(
            f,
            ": {text}. What that launch should have written is not there. The kernel log (`dmesg`) \
             may tell more; drop all that belongs to the device and open it again"
        )
    }
}

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
            Self::Empty => super::ArtifactFault::Empty.fmt(f),
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

fn quoted(names: &[String]) -> String {
    match names {
        [] => "none".into(),
        names => {
            let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            names.join(", ")
        }
    }
}
