//! What a step gave, why it had to run, and what is reported meanwhile.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use crate::digest::Digest;
use crate::step::run::Invocation;
use crate::step::{Kind, Name};

/// Who may write the cache besides us.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// Nobody.
    #[default]
    Private,
    /// The directory's group, deliberately.
    Group,
}

impl Sharing {
    /// Permission bits that no file and no directory of the cache may have.
    pub(in super::super) const fn forbidden(self) -> u32 {
        match self {
            Self::Private => 0o022,
            Self::Group => 0o002,
        }
    }
}

/// A verified file of an entry.
#[derive(Clone, Debug)]
pub struct Artifact {
    /// Its name in the entry.
    pub name: Name,
    /// Where it is.
    pub path: PathBuf,
    /// Bytes.
    pub size: u64,
    /// SHA-256 of the content.
    pub digest: Digest,
    /// The directory that goes with the last artifact in it, where it is not in a lasting cache.
    pub(in super::super) temporary: Option<Arc<Temporary>>,
}

/// A directory that is deleted with the last artifact in it, unless it is kept.
#[derive(Debug)]
pub(in super::super) struct Temporary(Mutex<Option<TempDir>>);

impl From<TempDir> for Temporary {
    fn from(directory: TempDir) -> Self {
        Self(Mutex::new(Some(directory)))
    }
}

impl Artifact {
    /// Lets the file outlive the process where it would be deleted with this value. Gives the
    /// directory that the caller has to delete, once for all artifacts in it.
    #[must_use]
    pub fn keep(&self) -> Option<PathBuf> {
        let Temporary(directory) = self.temporary.as_deref()?;
        let mut directory = directory.lock().unwrap_or_else(PoisonError::into_inner);
        directory.take().map(TempDir::keep)
    }

    /// Whether the file is deleted with this value.
    #[must_use]
    pub const fn is_temporary(&self) -> bool {
        self.temporary.is_some()
    }
}

/// A step's outputs.
#[derive(Clone, Debug)]
pub struct StepResult {
    /// The kind of step.
    pub kind: Kind,
    /// The target that it was made for.
    pub target: &'static str,
    /// Its key.
    pub key: Digest,
    /// Whether it was carried out.
    pub outcome: Outcome,
    /// Why it was carried out, if it was.
    pub miss: Option<Miss>,
    /// One for each declared output, in order, verified.
    pub artifacts: Vec<Artifact>,
    /// How long it took, waiting included.
    pub elapsed: Duration,
    /// How long its commands took when it was carried out.
    pub(in super::super) took: Duration,
}

/// Where a step's outputs came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The cache had them, and they verified.
    Hit,
    /// The cache did not have them.
    Built,
    /// The cache's entry did not verify.
    Repaired,
}

impl Outcome {
    /// `hit`, `built` or `repaired`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::Built => "built",
            Self::Repaired => "repaired",
        }
    }
}

/// Why a step's outputs were not in the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Miss {
    /// What kind of reason it is.
    pub cause: Cause,
    /// The reason in one line.
    pub reason: String,
}

impl Miss {
    pub(in super::super) fn new(cause: Cause, reason: impl Into<String>) -> Self {
        Self {
            cause,
            reason: reason.into(),
        }
    }
}

/// Kinds of reasons for a miss, from what explains most to what explains least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cause {
    /// There is no cache, or the caller wanted to build.
    Asked,
    /// The entry did not verify.
    Damaged,
    /// This very entry was there once.
    Deleted,
    /// No earlier build of the kernel is known.
    New,
    /// npu-build makes something else of the same material now.
    Version,
    /// A program, or one of its libraries.
    Tool,
    /// A command's arguments.
    Option,
    /// A variable that the commands get.
    Environment,
    /// Something about the machine, or another fact.
    Fact,
    /// Which outputs are wanted.
    Outputs,
    /// The kernel's text.
    Source,
    /// Another input: a transform script, a linked file, what an earlier step made.
    Input,
}

/// What is reported while a step is made.
#[derive(Clone, Debug)]
pub enum Event<'a> {
    /// Another process is building the same thing.
    Waiting {
        /// The kernel.
        subject: &'a str,
    },
    /// Another process is emptying the cache.
    WaitingForCache,
    /// A command starts.
    Running {
        /// The kernel.
        subject: &'a str,
        /// The kind of step.
        kind: Kind,
        /// The target that it is made for.
        target: &'static str,
        /// The command line.
        invocation: &'a Invocation,
    },
    /// Something is wrong, but the build goes on.
    Warning(String),
}

/// Where events go.
pub type Observer<'a> = &'a (dyn Fn(Event<'_>) + Sync);
