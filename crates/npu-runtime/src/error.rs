//! What can go wrong, with the facts in fields and a text for the person who reads it.

mod argument;
mod artifact;
mod hsaco;
mod npu;
mod variable;
mod xrt;

pub use argument::{ArgumentError, ArgumentFault, Lengths};
pub use artifact::{ArtifactFault, GridFault};
pub use hsaco::HsacoFault;
pub use npu::{CallError, Candidate, DeviceError, DeviceFault, LibraryError, LostError};
pub use variable::{VariableError, VariableFault};
pub use xrt::{XrtError, XrtFault};

use crate::{Grid, NoImage, Runtime};
use std::fmt;
use std::path::PathBuf;

type Source = Box<dyn std::error::Error + Send + Sync>;

/// Why a device, a kernel, a buffer or a launch was refused. Nothing has run if one is returned,
/// except for [`Error::KernelMemory`], [`Error::Assertion`], [`Error::Lost`], [`Error::Xrt`],
/// [`Error::Chain`] and [`Error::InputWritten`].
#[non_exhaustive]
pub enum Error {
    /// No runtime has this name.
    UnknownRuntime {
        /// What was asked for.
        name: Box<str>,
    },
    /// No runtime was named, and none is chosen without that.
    NoRuntime,
    /// No NPU has this name.
    UnknownNpu {
        /// What was asked for.
        name: Box<str>,
    },
    /// There is no backend for the runtime: not on this system, or not in this version.
    NotSupported {
        /// The runtime.
        runtime: Runtime,
    },
    /// No usable library of the runtime was found. Each place is told with the reason.
    Library(Box<LibraryError>),
    /// The runtime's library works, and its device can't be used.
    Device(Box<DeviceError>),
    /// A call of the runtime's library failed.
    Call(Box<CallError>),
    /// XRT refused something, or a run on it did not complete. The device is there for others.
    Xrt(Box<XrtError>),
    /// The device failed, in this launch or an earlier one.
    Lost(Box<LostError>),
    /// The process is a child of the one that opened the device, by `fork`.
    Forked {
        /// The runtime.
        runtime: Runtime,
    },
    /// None of a kernel's images runs on the device.
    NoImage(Box<NoImage>),
    /// An artifact's file could not be read.
    ReadArtifact {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A file is not the artifact that was promised. It was not loaded.
    Digest {
        /// The file.
        path: PathBuf,
        /// The promised and the found SHA-256.
        digests: Box<[[u8; 32]; 2]>,
    },
    /// An artifact is no kernel for this machine. It was not loaded.
    Artifact {
        /// The artifact.
        artifact: Box<str>,
        /// What is wrong with it.
        fault: ArtifactFault,
    },
    /// The system's loader refused an artifact.
    Load {
        /// The artifact.
        artifact: Box<str>,
        /// The loader's reason.
        source: Source,
    },
    /// A signature and an artifact that do not belong together.
    Slots {
        /// The kernel.
        kernel: Box<str>,
        /// Argument slots by the signature.
        expected: usize,
        /// Argument slots by the artifact.
        found: usize,
    },
    /// A signature and a kernel of an NPU that do not belong together.
    Operands {
        /// The kernel.
        kernel: Box<str>,
        /// Memory arguments by the signature.
        expected: usize,
        /// Memory arguments by the kernel.
        found: usize,
    },
    /// An external variable can't be used as it was asked for.
    Variable(Box<VariableError>),
    /// In verify mode: the kernel wrote what the signature calls an input. What it wrote there is
    /// not copied back.
    InputWritten {
        /// The kernel.
        kernel: Box<str>,
        /// The argument's position, counted from 0, and its name.
        argument: Box<(usize, String)>,
        /// The first byte that was changed.
        offset: usize,
    },
    /// A safe launch of a kernel that nothing keeps within its arguments but its caller.
    Unchecked {
        /// The kernel.
        kernel: Box<str>,
    },
    /// A launch with too few or too many arguments.
    ArgumentCount {
        /// The kernel.
        kernel: Box<str>,
        /// How many it takes.
        expected: usize,
        /// How many were given.
        found: usize,
    },
    /// A launch with an argument that does not fit its parameter.
    Argument(Box<ArgumentError>),
    /// A launch with a grid that can't be run.
    Grid {
        /// The kernel.
        kernel: Box<str>,
        /// The grid.
        grid: Grid,
        /// What is wrong with it.
        fault: GridFault,
    },
    /// A buffer that there is no memory for.
    Allocation {
        /// How many elements were asked for.
        elements: usize,
        /// Bytes of one of them.
        element_size: usize,
    },
    /// A chain with a launch on another runtime's device.
    ChainRuntime {
        /// The launch's kernel.
        kernel: Box<str>,
        /// The chain's runtime.
        chain: Runtime,
        /// The launch's.
        found: Runtime,
    },
    /// A launch of a chain failed. Those before it were completed, those after it did not run.
    Chain {
        /// How many launches were completed.
        completed: usize,
        /// How many the chain has.
        launches: usize,
        /// What ended it.
        source: Box<Error>,
    },
    /// The kernel ran out of memory for its own temporaries. Some of its programs may have run.
    KernelMemory {
        /// The kernel.
        kernel: Box<str>,
    },
    /// An assertion in the kernel failed, on the cpu. Some of its programs may have run.
    Assertion {
        /// The kernel.
        kernel: Box<str>,
        /// What the assertion says.
        text: Box<str>,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownRuntime { name } => {
                write!(
                    f,
                    "there is no runtime `{name}`; known runtimes: cpu, hsa, xrt"
                )
            }
            Self::NoRuntime => f.write_str(
                "no runtime was named, and there is no XRT to take: set NPU_RUNTIME to cpu, hsa or \
                 xrt, or name one in the program",
            ),
            Self::UnknownNpu { name } => {
                write!(f, "there is no NPU `{name}`; known ones: npu1, npu2")
            }
            Self::NotSupported {
                runtime: Runtime::Hsa,
            } => f.write_str("hsa needs ROCR, which there is for Linux only"),
            Self::NotSupported { runtime } => write!(
                f,
                "this version of npu-runtime ({}) has no backend for {runtime}",
                env!("CARGO_PKG_VERSION")
            ),
            Self::Library(error) => error.fmt(f),
            Self::Device(error) => error.fmt(f),
            Self::Call(error) => error.fmt(f),
            Self::Xrt(error) => error.fmt(f),
            Self::Lost(error) => error.fmt(f),
            Self::Forked { runtime } => write!(
                f,
                "{runtime} was opened before this process was forked, and can't be used in the \
                 child; open it after `fork`, or start the child with `exec`"
            ),
            Self::NoImage(error) => error.fmt(f),
            Self::ReadArtifact { path, source } => write!(
                f,
                "can't read the kernel's artifact {}: {source}; rebuild the kernel, or correct the \
                 path",
                path.display()
            ),
            Self::Digest { path, digests } => {
                let [expected, found] = &**digests;
                write!(
                    f,
                    "{} is not the artifact that this launcher was generated for: its SHA-256 \
                     should be {} and is {}; rebuild the kernel",
                    path.display(),
                    Hex(expected),
                    Hex(found)
                )
            }
            Self::Artifact { artifact, fault } => write!(f, "{artifact}: {fault}"),
            Self::Load { artifact, source } => {
                write!(f, "{artifact}: the system's loader refused it: ")?;
                write_chain(f, &**source)?;
                if cfg!(target_feature = "crt-static") {
                    f.write_str("; a statically linked host program can't load kernels")?;
                }
                Ok(())
            }
            Self::Slots {
                kernel,
                expected,
                found,
            } => write!(
                f,
                "kernel `{kernel}`: its signature has {expected} argument slots and its artifact \
                 {found}: they are of different builds; rebuild the kernel"
            ),
            Self::Operands {
                kernel,
                expected,
                found,
            } => write!(
                f,
                "kernel `{kernel}`: its signature has {expected} memory arguments and its compiled \
                 form {found}: they are of different builds; rebuild the kernel"
            ),
            Self::Variable(error) => error.fmt(f),
            Self::InputWritten {
                kernel,
                argument,
                offset,
            } => {
                let (index, name) = &**argument;
                write!(
                    f,
                    "kernel `{kernel}` wrote to argument {index} `{name}`, which its signature \
                     calls an input (first at byte {offset}): what it wrote is lost. Build it with \
                     `--arg {name}=inout`"
                )
            }
            Self::Unchecked { kernel } => write!(
                f,
                "nothing that a launch checks keeps kernel `{kernel}` within its arguments: build \
                 it with a contract, such as `--extent x=n` for an argument x of n elements, or \
                 launch it with `unsafe` and `launch_unchecked`"
            ),
            Self::ArgumentCount {
                kernel,
                expected,
                found,
            } => write!(
                f,
                "kernel `{kernel}` takes {expected} arguments, {found} were given"
            ),
            Self::Argument(error) => error.fmt(f),
            Self::Grid {
                kernel,
                grid,
                fault,
            } => write!(
                f,
                "kernel `{kernel}` can't be launched over a grid of {grid}: {fault}"
            ),
            Self::Allocation {
                elements,
                element_size,
            } => write!(
                f,
                "there is no memory for a buffer of {elements} elements of {element_size} bytes"
            ),
            Self::ChainRuntime {
                kernel,
                chain,
                found,
            } => write!(
                f,
                "a chain on {chain} can't have a launch of kernel `{kernel}`, which is loaded on \
                 {found}"
            ),
            Self::Chain {
                completed,
                launches,
                source,
            } => write!(
                f,
                "launch {} of a chain of {launches} failed, those before it were completed: \
                 {source}",
                completed + 1
            ),
            Self::KernelMemory { kernel } => write!(
                f,
                "kernel `{kernel}` ran out of memory for its temporaries; its outputs are not \
                 complete"
            ),
            Self::Assertion { kernel, text } => write!(
                f,
                "kernel `{kernel}` stopped at a false assertion: {text}; its outputs are not \
                 complete"
            ),
        }
    }
}

impl std::error::Error for Error {
    // A source is not printed again by its parent's text alone: `Display` shows the chain, since
    // the loader's own first line says nothing.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::ReadArtifact { source, .. } => Some(source),
            Self::Load { source, .. } => Some(&**source),
            Self::Argument(error) => Some(&**error),
            Self::Chain { source, .. } => Some(&**source),
            _ => None,
        }
    }
}

/// The same text as `Display`, since that is what Rust shows of an error that `main` returns.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

fn write_chain(f: &mut fmt::Formatter<'_>, error: &dyn std::error::Error) -> fmt::Result {
    write!(f, "{error}")?;
    let mut next = error.source();
    while let Some(error) = next {
        write!(f, ": {error}")?;
        next = error.source();
    }
    Ok(())
}

/// Names in backticks, or that there are none.
fn quoted(names: &[String]) -> String {
    match names {
        [] => "none".into(),
        names => {
            let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            names.join(", ")
        }
    }
}
