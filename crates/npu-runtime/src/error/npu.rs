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
