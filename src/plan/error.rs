//! Why a build failed, in the user's terms, and which exit code that is.

use std::fmt::{self, Write as _};
use std::io;
use std::path::{Path, PathBuf};

use npu_runtime::Runtime;

use super::FileError;
use crate::config::ConfigError;
use crate::kernel::{ArgumentError, Level, ScanError, SelectError, Target, TargetError, triton};
use crate::launcher;
use crate::message;
use crate::step::cpu::UnsupportedArgument;
use crate::step::execute::ExecuteError;
use crate::step::npu::{self, Refusal};
use crate::store::{EnsureError, OpenError};
use crate::toolchain::{MissingTools, NoXrtSdk, NotFound};

/// Why a kernel was not built. Its `Debug` form is the full report, since that is what Rust shows of
/// an error that `main` returns.
#[derive(thiserror::Error)]
pub enum BuildError {
    /// A file can't be read.
    #[error("can't read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The kernel can't be built as it is, or as it was asked for.
    #[error("{}: {source}", path.display())]
    Kernel {
        /// The MLIR file.
        path: PathBuf,
        /// What is wrong.
        source: Box<KernelError>,
    },
    /// A setting can't be understood.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// There is no compiler.
    #[error(transparent)]
    Toolchain(#[from] NotFound),
    /// There is not all of the AIE toolchain that the kernel needs.
    #[error(transparent)]
    AieToolchain(#[from] MissingTools),
    /// There is nothing to compile the XRT shim with, or for.
    #[error(transparent)]
    XrtSdk(#[from] NoXrtSdk),
    /// The cache directory can't be trusted or used.
    #[error(transparent)]
    Cache(#[from] OpenError),
    /// A step failed.
    #[error(transparent)]
    Ensure(#[from] EnsureError),
    /// An output file can't be written.
    #[error("can't write {}: {source}", path.display())]
    Write {
        /// The file or directory.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Two kernels would be written to the same file.
    #[error("{} and {} would both be written to {}; give them different file names or output directories", first.display(), second.display(), output.display())]
    SameOutput {
        /// The file.
        output: PathBuf,
        /// One kernel.
        first: PathBuf,
        /// The other.
        second: PathBuf,
    },
}

/// What is wrong with a kernel, or with what was asked of it.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// It is no file.
    #[error("this is {0}, not an MLIR file")]
    NotAFile(&'static str),
    /// Its text is no kernel.
    #[error(transparent)]
    Scan(#[from] ScanError),
    /// There is no telling which function is meant.
    #[error(transparent)]
    Select(#[from] SelectError),
    /// An `--arg` or the `--signature` does not fit its arguments.
    #[error(transparent)]
    Argument(#[from] ArgumentError),
    /// The `--signature` can't be read.
    #[error("--signature: {0}")]
    Signature(#[from] triton::ParseError),
    /// Nobody said what to build for.
    #[error(
        "the MLIR does not say which target it is for; choose with --target cpu, npu1 or npu2, or `target` in npu-build.toml"
    )]
    NoTarget,
    /// It was written for something else.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// A runtime that does not drive the target.
    #[error(
        "--runtime {runtime} can't load what is built for {target}: {target} is loaded by {}",
        if *.target == Target::Cpu { "cpu" } else { "xrt or hsa" }
    )]
    OtherRuntime {
        /// The target.
        target: Target,
        /// The runtime.
        runtime: Runtime,
    },
    /// A PDI for ROCR.
    #[error(
        "--format pdi can't be used with --runtime hsa: an hsaco is packed from a full ELF or an \
         xclbin, whose columns it needs; use --format auto"
    )]
    PdiForHsa,
    /// A PDI beside something that a launcher can load.
    #[error(
        "--format pdi is for one target and runtime at a time: a PDI alone can't be launched, so \
         that no launcher has it"
    )]
    PdiAmongOthers,
    /// Variants that don't fit into one launcher.
    #[error("its targets give it different signatures, so that no launcher has them all")]
    OtherSignature,
    /// There is nothing to build.
    #[error("there is no kernel to build")]
    NoKernel,
    /// A flag that says nothing to the cpu target.
    #[error("{0} is for npu1 and npu2; the cpu target has no use for it")]
    OnlyForNpus(&'static str),
    /// The grid has to be compiled in.
    #[error(
        "an NPU's instructions are compiled for one launch grid: give it with --grid X,Y,Z, or \
         `grid` in npu-build.toml"
    )]
    NoGrid,
    /// A grid for a kernel that does not take one.
    #[error(
        "the function does not take the six trailing i32 of a grid, so --grid has no meaning for it"
    )]
    NoGridArguments,
    /// A grid for a kernel that has its own.
    #[error("--grid is for linalg-level kernels; at the {0} level it is part of the text")]
    GridInText(Level),
    /// A choice that can't be understood.
    #[error("{0}")]
    Choice(String),
    /// A file that the tools are to read.
    #[error(transparent)]
    File(#[from] FileError),
    /// The AIE toolchain would refuse it.
    #[error(transparent)]
    Npu(#[from] Refusal),
    /// There is not all of the AIE toolchain that it needs.
    #[error(transparent)]
    AieToolchain(#[from] MissingTools),
    /// The target can't take an argument.
    #[error(transparent)]
    Unsupported(#[from] UnsupportedArgument),
    /// Its assembly reads files that the key would not know.
    #[error(
        "its inline assembly includes a file ({0}), whose content no key would know; put the data into the MLIR"
    )]
    Includes(&'static str),
    /// Its launcher can't be expressed in Rust.
    #[error(transparent)]
    Launcher(#[from] launcher::Error),
}

impl KernelError {
    /// The error of the kernel at `path`.
    pub(crate) fn at(self, path: &Path) -> BuildError {
        match self {
            // That is not the kernel's fault.
            Self::AieToolchain(missing) => BuildError::AieToolchain(missing),
            error => BuildError::Kernel {
                path: path.to_owned(),
                source: Box::new(error),
            },
        }
    }
}

impl From<npu::CompileError> for KernelError {
    fn from(error: npu::CompileError) -> Self {
        match error {
            npu::CompileError::Refusal(refusal) => Self::Npu(refusal),
            npu::CompileError::Missing(missing) => Self::AieToolchain(missing),
        }
    }
}

impl fmt::Debug for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.report())
    }
}

impl BuildError {
    /// The exit code that stands for this kind of failure: 1 a tool refused the kernel, 2 bad
    /// input, 3 a tool is missing or unusable, 4 nothing could be written, 130 interrupted.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Ensure(EnsureError::Execute(error)) => match error {
                ExecuteError::Tool(failure) if failure.unusable => 3,
                ExecuteError::Tool(_) | ExecuteError::Native { .. } => 1,
                ExecuteError::ToolChanged { .. } => 3,
                ExecuteError::WorkDirectory { .. } | ExecuteError::Input { .. } => 4,
                ExecuteError::Interrupted => 130,
            },
            Self::Ensure(EnsureError::Temporary { .. }) | Self::Cache(_) | Self::Write { .. } => 4,
            Self::Toolchain(_) | Self::AieToolchain(_) | Self::XrtSdk(_) => 3,
            _ => 2,
        }
    }

    /// The whole story on several lines: what a tool printed, its command line, the full log.
    #[must_use]
    pub fn report(&self) -> String {
        let mut report = match self {
            // A line for each place that was looked at.
            Self::Toolchain(_) | Self::AieToolchain(_) | Self::XrtSdk(_) => {
                message::lines(&self.to_string())
            }
            _ => message::one_line(&self.to_string()).into_owned(),
        };
        if let Self::Ensure(EnsureError::Execute(ExecuteError::Tool(failure))) = self {
            for line in &failure.tail {
                let _ = write!(report, "\n  {}", message::one_line(line));
            }
            let _ = write!(report, "\n  command: {}", failure.command);
            if let Some(path) = &failure.log_path {
                let path = path.display().to_string();
                let _ = write!(report, "\n  full log: {}", message::one_line(&path));
            }
        }
        report
    }
}
