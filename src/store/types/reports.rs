//! What is asked of the cache as a whole, and what it answers.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::super::fault::Fault;
use super::super::manifest::{Head, Manifest};
use super::results::{Cause, Miss, StepResult};
use crate::digest::Digest;
use crate::step::Kind;

/// What the cache has for a step, and why not if it has nothing.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The kind of step.
    pub kind: Kind,
    /// The kernel.
    pub subject: String,
    /// The target that the step is made for.
    pub target: &'static str,
    /// The step's key.
    pub key: Digest,
    /// The step's outputs, if they are there.
    pub hit: Option<StepResult>,
    /// Why they are not there, if not.
    pub miss: Option<Miss>,
    /// The entry with the fewest differences, if there is one of the same kernel.
    pub nearest: Option<Nearest>,
}

/// An earlier entry of the same kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nearest {
    /// Its key.
    pub key: Digest,
    /// When it was made, in seconds since 1970.
    pub created: u64,
    /// In what the step differs from it, what explains most first.
    pub differences: Vec<Difference>,
}

/// A field of the key that is not what it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// What kind of reason it is.
    pub cause: Cause,
    /// The field's name in the key's material.
    pub field: String,
    /// What it was; `None` if there was none.
    pub before: Option<String>,
    /// What it is; `None` if there is none.
    pub now: Option<String>,
    /// The difference in words.
    pub text: String,
    /// In how many of its items a list differs, a replaced one counted once; 1 for anything else.
    pub(in super::super) items: usize,
}

/// How much the cache may hold. What is `None` has no bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes of all entries.
    pub size: Option<u64>,
    /// Since the last use.
    pub age: Option<Duration>,
    /// Entries.
    pub entries: Option<u64>,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            size: Some(5 << 30),
            age: Some(Duration::from_secs(90 * 24 * 60 * 60)),
            entries: None,
        }
    }
}

impl Bounds {
    /// What is left where these bounds were exceeded: four fifths, so that the next build does not
    /// exceed them again.
    pub(in super::super) fn low(self) -> Self {
        let low = |bound: Option<u64>| bound.map(|bound| bound / 5 * 4);
        Self {
            size: low(self.size),
            age: self.age,
            entries: low(self.entries),
        }
    }

    pub(in super::super) fn are_exceeded(self, bytes: u64, entries: u64) -> bool {
        self.size.is_some_and(|bound| bytes > bound)
            || self.entries.is_some_and(|bound| entries > bound)
    }
}

/// What garbage collection took away, or would.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// Entries.
    pub entries: u64,
    /// Bytes of their files.
    pub bytes: u64,
    /// Entries that are left.
    pub entries_left: u64,
    /// Bytes of their files.
    pub bytes_left: u64,
    /// Directories and files that dead processes, old versions and damage left behind.
    pub leftovers: u64,
}

/// Which entries are deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// All, and what failed builds left.
    Entries,
    /// Everything: entries, statistics, and what is known of kernels and tools.
    Everything,
    /// Those that match all that is given.
    Of {
        /// The kernel's name.
        kernel: Option<String>,
        /// The target.
        target: Option<String>,
    },
}

/// What was deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cleared {
    /// How many entries.
    pub entries: u64,
    /// How many selected entries stay, because they are being built.
    pub kept: u64,
    /// Bytes of all deleted files.
    pub bytes: u64,
}

/// Something that `verify` found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The entry, if it is one.
    pub key: Option<Digest>,
    /// Where it is.
    pub path: PathBuf,
    /// What is wrong.
    pub reason: String,
    /// Whether it was repaired.
    pub repaired: bool,
}

/// What `verify` looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Entries.
    pub entries: u64,
    /// Bytes of their files.
    pub bytes: u64,
    /// Problems, repaired or not.
    pub problems: u64,
    /// Problems that are still there.
    pub left: u64,
}

/// An entry as its manifest describes it; its artifacts are not verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// What its manifest says.
    pub head: Head,
    /// Bytes of all its files.
    pub bytes: u64,
    /// When it was last used, in seconds since 1970, to the hour.
    pub last_used: u64,
}

/// One entry with all that is known of it.
#[derive(Clone, Debug)]
pub struct Shown {
    /// Its directory.
    pub path: PathBuf,
    /// Its manifest.
    pub manifest: Manifest,
    /// Bytes of all its files.
    pub bytes: u64,
    /// When it was last used, in seconds since 1970, to the hour.
    pub last_used: u64,
    /// What is wrong with it.
    pub fault: Option<Fault>,
}

/// What was counted since the last reset.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// When counting began, in seconds since 1970.
    pub since: u64,
    /// By kind of step.
    pub steps: BTreeMap<String, Counts>,
    /// How many misses and repairs there were, by their cause.
    pub causes: BTreeMap<Cause, u64>,
    /// The last misses and repairs, newest last.
    pub misses: Vec<Missed>,
    /// By the first eight bytes of the key.
    pub(in super::super) hits: BTreeMap<u64, u64>,
}

impl Totals {
    /// How often the entry of `key` was hit.
    #[must_use]
    pub fn hits(&self, key: &Digest) -> u64 {
        self.hits.get(&key.number()).copied().unwrap_or(0)
    }
}

/// What became of the steps of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// How often the outputs were in the cache.
    pub hits: u64,
    /// How often they were not.
    pub misses: u64,
    /// How often they were, and did not verify.
    pub repairs: u64,
    /// How often the step failed.
    pub failures: u64,
    /// Bytes that hits delivered.
    pub bytes_hit: u64,
    /// How long it took to build what hits delivered.
    pub milliseconds_saved: u64,
}

/// A step that had to be carried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missed {
    /// When, in seconds since 1970.
    pub time: u64,
    /// The kind of step.
    pub step: String,
    /// The kernel.
    pub kernel: String,
    /// The first sixteen digits of the key.
    pub key: String,
    /// The kind of reason.
    pub cause: Cause,
    /// The reason in one line.
    pub reason: String,
}
