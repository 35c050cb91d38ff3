//! Why a place is no installation that can be used: facts in fields, text for the person who reads.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What is wrong with a candidate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// The path depends on the current directory.
    #[error("is not an absolute path")]
    Relative,
    /// Nothing is there, or no directory.
    #[error("is not a directory")]
    NoDirectory,
    /// A program is missing.
    #[error("has no {tool}")]
    NoTool {
        /// The program's name.
        tool: String,
    },
    /// A program is there, but nobody may execute it, or it is no file.
    #[error("its {tool} is not an executable file")]
    NotExecutable {
        /// The program's name.
        tool: String,
    },
    /// A directory that was named as a Python environment is none.
    #[error("has no lib/python3*/site-packages; name a Python environment's directory")]
    NoPackages,
    /// An LLVM that does not compile for AI Engines.
    #[error("is the host's LLVM and no Peano: {} --version lists no aie2", .llc.display())]
    NotPeano {
        /// Its llc.
        #[serde(with = "super::stored_path")]
        llc: PathBuf,
    },
    /// Its command line is none that is known.
    #[error("{} --help lists neither --get nor --aie-generate-xclbin, so this is no aiecc that is known: {output:?}", .program.display())]
    UnknownDialect {
        /// What was executed.
        #[serde(with = "super::stored_path")]
        program: PathBuf,
        /// The start of what it printed.
        output: String,
    },
    /// The tools are not of one release.
    #[error("mixes versions: {first} is {first_version}, {second} is {second_version}")]
    Versions {
        /// A tool.
        first: String,
        /// Its version.
        first_version: String,
        /// A tool that differs from it.
        second: String,
        /// That one's version.
        second_version: String,
    },
    /// A tool could not be asked for its version or its linker.
    #[error("{} {argument} failed: {error}", .program.display())]
    Failed {
        /// What was executed.
        #[serde(with = "super::stored_path")]
        program: PathBuf,
        /// With this argument.
        argument: String,
        /// What the attempt ended with.
        error: String,
    },
    /// A tool's answer holds no version.
    #[error("{} --version does not tell a version: {output:?}", .program.display())]
    NoVersion {
        /// What was executed.
        #[serde(with = "super::stored_path")]
        program: PathBuf,
        /// The start of what it printed.
        output: String,
    },
    /// A shared library is missing.
    #[error("{} needs {library}, which is in none of the places where the dynamic loader looks", .needed_by.display())]
    NoLibrary {
        /// The name that is looked for.
        library: String,
        /// The program or library that asks for it.
        #[serde(with = "super::stored_path")]
        needed_by: PathBuf,
    },
    /// A file that is to be executed or loaded is neither ELF nor a script, or is damaged.
    #[error("{} is neither an ELF file nor a script, or is damaged", .file.display())]
    NoProgram {
        /// The file.
        #[serde(with = "super::stored_path")]
        file: PathBuf,
    },
    /// A program loads more files than can be looked at.
    #[error("{} loads more than {limit} files", .program.display())]
    TooManyFiles {
        /// The program.
        #[serde(with = "super::stored_path")]
        program: PathBuf,
        /// How many are looked at.
        limit: usize,
    },
    /// A file of the tool could not be read.
    #[error("cannot read {}: {error}", .file.display())]
    Unreadable {
        /// The file.
        #[serde(with = "super::stored_path")]
        file: PathBuf,
        /// What the system says.
        error: String,
    },
    /// Somebody is installing.
    #[error("{} changed while it was being read; try again when the installation is done", .file.display())]
    Changed {
        /// The file.
        #[serde(with = "super::stored_path")]
        file: PathBuf,
    },
    /// The compiler has no linker.
    #[error("its clang finds no linker '{linker}'; install binutils or lld")]
    NoLinker {
        /// What clang calls it.
        linker: String,
    },
    /// The compiler has no support library.
    #[error("its clang finds no support library {}; install gcc (libgcc) or compiler-rt", .library.display())]
    NoSupport {
        /// What clang calls it.
        #[serde(with = "super::stored_path")]
        library: PathBuf,
    },
}

impl Reason {
    /// Whether asking again may give another answer although no file has changed.
    pub(super) fn is_passing(&self) -> bool {
        matches!(
            self,
            Self::Failed { .. } | Self::Unreadable { .. } | Self::Changed { .. }
        )
    }
}

/// A place that was looked at, and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejected {
    /// A directory of programs, or `PATH` if none of its directories has any.
    #[serde(with = "super::stored_path")]
    pub place: PathBuf,
    /// What is wrong with it.
    pub reason: Reason,
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place.display(), self.reason)
    }
}

/// No installation can be used; lists each candidate with its reason, and what to install.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotFound {
    /// Where the only directory to look in was configured, if it was.
    pub configured: Option<String>,
    /// Every place that was looked at, in order.
    pub rejected: Vec<Rejected>,
}

impl std::error::Error for NotFound {}

impl fmt::Display for NotFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.configured {
            Some(origin) => write!(
                f,
                "the LLVM installation that {origin} names cannot be used"
            )?,
            None => write!(
                f,
                "no LLVM installation found with mlir-opt, mlir-translate and clang of one version"
            )?,
        }
        for rejected in &self.rejected {
            write!(f, "\n  {rejected}")?;
        }
        write!(f, "\ntry: apt-get install mlir-22-tools llvm-22 clang-22")?;
        match &self.configured {
            Some(origin) => write!(
                f,
                "; or correct {origin}, or leave it out to search PATH and /usr/lib/llvm-*/bin"
            ),
            None => write!(
                f,
                "; or set MLIR_INSTALL_DIR to an installation's directory"
            ),
        }
    }
}
