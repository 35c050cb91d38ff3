//! Which programs compile a kernel: where they are, and what identifies them in a key.
//!
//! A tool's fingerprint is the content of everything that is executed: the file itself and the
//! shared libraries that it loads from outside the base system. It says nothing about where the
//! tool is or when it was installed, so that machines with the same tools agree on every key.
//! Nothing here reads the environment or starts a process: both come from the caller.

mod aie;
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
mod script;
mod stamp;
mod stored_path;
mod version;
mod wheel;
mod xrt;

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize};

pub use aie::{
    AIECC_OPTIONS, AieSearch, AieTools, Aiecc, Aircc, Companions, Dialect, Format, HsacoPacker,
    MissingTool, MissingTools, Packer, Peano, Searched, ToolName,
};
pub use llvm::{Candidate, Configured, Llvm, Search};
pub use memo::Memo;
pub use reason::{NotFound, Reason, Rejected};
pub use xrt::{NoXrtSdk, XrtSdk, XrtSearch};

use stamp::Watched;

use crate::digest::Digest;

/// A tool's name. As an alias it is not borrowed from what is deserialised.
type Name = &'static str;

/// A program, where it is on this machine and what it is on every machine.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Tool {
    /// What it is called in keys and messages.
    #[serde(deserialize_with = "tool_name")]
    pub name: Name,
    /// What is executed; absolute.
    #[serde(with = "stored_path")]
    pub path: PathBuf,
    /// What it is.
    pub identity: Identity,
    /// Its files as they were when it was identified, in the order of `identity.files`.
    files: Vec<Watched>,
}

/// The same program in the same place, whenever it was looked at.
impl PartialEq for Tool {
    fn eq(&self, other: &Self) -> bool {
        (self.name, &self.path, &self.identity) == (other.name, &other.path, &other.identity)
    }
}

impl Eq for Tool {}

impl Tool {
    /// Every file that it consists of, the executed one first; absolute.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(Watched::path)
    }

    /// Whether all its files still look as they did when it was identified.
    #[must_use]
    pub fn is_unchanged(&self) -> bool {
        stamp::all_hold(&self.files)
    }
}

/// What a tool is, wherever it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The fingerprint: SHA-256 over the names and digests of all `files`, in order.
    pub digest: Digest,
    /// The version that the tool tells, such as "22.1.8".
    pub version: String,
    /// The executed file, then what it loads from outside the base system, in the order of loading,
    /// then the `RECORD` of the wheel that it came with.
    pub files: Vec<FileIdentity>,
}

/// One file of a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileIdentity {
    /// The tool's name, a library's name as the tool asks for it, or the wheel's record as
    /// `NAME-VERSION.dist-info/RECORD`; no other directories.
    pub name: String,
    /// SHA-256 of its content; of a wheel's record, of the lines that are the same on every machine.
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

/// Reads a tool's name back from the memo: one of those that are used here.
fn tool_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<&'static str, D::Error> {
    let name = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
    let unknown = || serde::de::Error::custom(format_args!("no tool is called '{name}'"));
    let mut known = llvm::NAMES.into_iter().chain(aie::names()).chain(xrt::CXX);
    known.find(|known| *known == name).ok_or_else(unknown)
}
