//! Which programs compile a kernel: where they are, and what identifies them in a key.
//!
//! A tool's fingerprint is the content of everything that is executed: the file itself and the
//! shared libraries that it loads from outside the base system. It says nothing about where the
//! tool is or when it was installed, so that machines with the same tools agree on every key.
//! Nothing here reads the environment or starts a process: both come from the caller.

mod base;
mod closure;
mod elf;
mod examine;
mod lazy;
mod llvm;
mod loader;
mod memo;
mod places;
mod reason;
mod stamp;
mod stored_path;
mod version;

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use llvm::{Candidate, Configured, Llvm, Search};
pub use memo::Memo;
pub use reason::{NotFound, Reason, Rejected};

use crate::digest::Digest;

/// A tool's name. As an alias it is not borrowed from what is deserialised.
type Name = &'static str;

/// A program, where it is on this machine and what it is on every machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tool {
    /// What it is called in keys and messages.
    #[serde(deserialize_with = "llvm::tool_name")]
    pub name: Name,
    /// What is executed; absolute.
    #[serde(with = "stored_path")]
    pub path: PathBuf,
    /// What it is.
    pub identity: Identity,
    /// Where the files of its identity are, in the same order.
    pub files: Vec<ToolFile>,
}

/// Where a file of a tool is; absolute.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ToolFile(#[serde(with = "stored_path")] pub PathBuf);

/// What a tool is, wherever it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The fingerprint: SHA-256 over the names and digests of all `files`, in order.
    pub digest: Digest,
    /// The version that the tool tells, such as "22.1.8".
    pub version: String,
    /// The executed file, then what it loads from outside the base system, in the order of loading.
    pub files: Vec<FileIdentity>,
}

/// One file of a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileIdentity {
    /// The tool's name, or a library's name as the tool asks for it; no directories.
    pub name: String,
    /// SHA-256 of its content.
    pub digest: Digest,
}

/// How tools are asked about themselves. Closures will do.
pub trait Probe {
    /// Runs a program with a cleared environment and gives what it printed on standard output.
    ///
    /// # Errors
    /// If it can't be started, does not end well, or prints what is not UTF-8; the text of the
    /// error is shown to the user and should hold what the program printed on standard error.
    fn run(&self, program: &Path, arguments: &[&str]) -> io::Result<String>;

    /// Called before the content of a file, of this many bytes, is read: large tools take a moment.
    fn reading(&self, _file: &Path, _bytes: u64) {}
}

impl<F: Fn(&Path, &[&str]) -> io::Result<String>> Probe for F {
    fn run(&self, program: &Path, arguments: &[&str]) -> io::Result<String> {
        self(program, arguments)
    }
}
