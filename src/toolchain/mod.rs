//! Which programs compile a kernel.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;

/// A program that a step executes.
#[derive(Clone, Debug)]
pub struct Tool {
    /// What it is called in keys and messages.
    pub name: &'static str,
    /// The file that is executed.
    pub path: PathBuf,
    /// What it is, wherever it lies.
    pub identity: Identity,
}

/// What a tool is, wherever it lies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Over names and digests of all files.
    pub digest: Digest,
    /// As it prints it.
    pub version: String,
    /// The executed file and its libraries.
    pub files: Vec<FileIdentity>,
}

/// One file of a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileIdentity {
    /// File name or soname.
    pub name: String,
    /// Of its content.
    pub digest: Digest,
}
