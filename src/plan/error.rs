//! Why a build failed, in the user's terms, and which exit code that is.

use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;

use crate::config::ConfigError;
use crate::kernel::{ArgumentError, ScanError, SelectError, Target, TargetError, triton};
use crate::step::cpu::UnsupportedArgument;
use crate::step::execute::ExecuteError;
use crate::store::{EnsureError, OpenError};
use crate::toolchain::NotFound;

/// Why a kernel was not built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The kernel's file can't be read.
    #[error("can't read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The kernel's file is something else.
    #[error("{} is {what}, not an MLIR file", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
        /// What it is instead.
        what: &'static str,
    },
    /// The text is no kernel.
    #[error("{}: {source}", path.display())]
    Scan {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: ScanError,
    },
    /// There is no telling which function is meant.
    #[error("{}: {source}", path.display())]
    Select {
        /// The file.
        path: PathBuf,
        /// What there is.
        source: SelectError,
    },
    /// An `--arg` does not fit.
    #[error("{}: {source}", path.display())]
    Argument {
        /// The file.
        path: PathBuf,
        /// What does not fit.
        source: ArgumentError,
    },
    /// A `--signature` that can't be read.
    #[error("--signature: {0}")]
    Signature(#[from] triton::ParseError),
    /// A `--signature` that contradicts the MLIR.
    #[error("{}: --signature contradicts the MLIR: {source}", path.display())]
    Contradiction {
        /// The file.
        path: PathBuf,
        /// Where.
        source: ArgumentError,
    },
    /// Nobody said what to build for.
    #[error("{}: the MLIR does not say which target it is for; choose with --target cpu, npu1 or npu2, or `target` in npu-build.toml", path.display())]
    NoTarget {
        /// The file.
        path: PathBuf,
    },
    /// The kernel was written for something else.
    #[error("{}: {source}", path.display())]
    Target {
        /// The file.
        path: PathBuf,
        /// What it was written for.
        source: TargetError,
    },
    /// This version can't build for the target.
    #[error("{}: building for {target} needs the AIE toolchain, which this version of npu-build does not drive yet; --target cpu works", path.display())]
    UnsupportedTarget {
        /// The file.
        path: PathBuf,
        /// The target.
        target: Target,
    },
    /// An argument that the target can't take.
    #[error("{}: {source}", path.display())]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// Which, and why.
        source: UnsupportedArgument,
    },
    /// The launcher can't be named.
    #[error("{}: {reason}", path.display())]
    Launcher {
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// A setting can't be understood.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// There is no compiler.
    #[error(transparent)]
    Toolchain(#[from] NotFound),
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

impl BuildError {
    /// The exit code that stands for this kind of failure: 1 a tool refused the kernel, 2 bad
    /// input, 3 a tool is missing or unusable, 4 nothing could be written, 130 interrupted.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Ensure(EnsureError::Execute(error)) => match error {
                ExecuteError::Tool(failure) if failure.unusable => 3,
                ExecuteError::Tool(_) | ExecuteError::Native { .. } => 1,
                ExecuteError::WorkDirectory { .. } => 4,
                ExecuteError::Interrupted => 130,
            },
            Self::Ensure(EnsureError::Temporary { .. }) | Self::Cache(_) | Self::Write { .. } => 4,
            Self::Toolchain(_) => 3,
            _ => 2,
        }
    }

    /// The whole story on several lines: what a tool printed, its command line, the full log.
    #[must_use]
    pub fn report(&self) -> String {
        let mut report = self.to_string();
        if let Self::Ensure(EnsureError::Execute(ExecuteError::Tool(failure))) = self {
            for line in &failure.tail {
                let _ = write!(report, "\n  {line}");
            }
            let _ = write!(report, "\ncommand: {}", failure.command);
            if let Some(path) = &failure.log_path {
                let _ = write!(report, "\nfull log: {}", path.display());
            }
        }
        report
    }
}
