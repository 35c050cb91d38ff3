//! Why the store can't do what it was asked for.

use std::io;
use std::path::PathBuf;

use super::super::fault::Fault;
use crate::digest::Digest;
use crate::step::execute::ExecuteError;

/// Why a directory can't be the cache.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// There is something, but no directory.
    #[error("the cache path {} is not a directory; remove it, or name another with --cache-dir or NPU_BUILD_CACHE_DIR", .0.display())]
    NotADirectory(PathBuf),
    /// A symbolic link that leads nowhere.
    #[error("the cache path {} is a symbolic link to {}, which does not exist; create that directory or remove the link", path.display(), target.display())]
    Dangling {
        /// The link.
        path: PathBuf,
        /// Where it points.
        target: PathBuf,
    },
    /// Its owner could exchange what we execute.
    #[error("the cache {} belongs to user {owner}, not to you (user {user}), and what is in it gets executed; name another with --cache-dir or NPU_BUILD_CACHE_DIR", path.display())]
    ForeignOwner {
        /// The directory.
        path: PathBuf,
        /// Its owner's number.
        owner: u32,
        /// Our effective user number.
        user: u32,
    },
    /// Others could exchange what we execute.
    #[error("the cache {} can be written by others (mode {mode:04o}), and what is in it gets executed; run `chmod go-w {0}`{hint}", path.display())]
    Writable {
        /// The directory.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
        /// What else might help.
        hint: &'static str,
    },
    /// It can't be read or made.
    #[error("can't open the cache {}: {source}", path.display())]
    Io {
        /// The directory.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
}

/// Why a step has no outputs.
#[derive(Debug, thiserror::Error)]
pub enum EnsureError {
    /// The step itself failed.
    #[error(transparent)]
    Execute(#[from] ExecuteError),
    /// Neither the cache nor the temporary directory could be written.
    #[error("can't write the cache, nor the temporary directory {}: {source}", path.display())]
    Temporary {
        /// The temporary directory.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
}

/// Why the cache was not verified, cleaned or cleared, or not wholly. What was deleted before is gone,
/// and no entry is half gone.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// A signal said to stop.
    #[error("interrupted")]
    Interrupted,
    /// A lock file can't be opened or locked.
    #[error("can't lock {}: {source}", path.display())]
    Lock {
        /// The lock file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Something can't be deleted.
    #[error("can't delete what is in {}: {source}", path.display())]
    Delete {
        /// The directory.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
}

/// Why an entry can't be shown.
#[derive(Debug, thiserror::Error)]
pub enum ShowError {
    /// It is no part of a key.
    #[error(
        "'{0}' is no key; give at least 4 of its hexadecimal digits, as `npu-build cache list` prints them"
    )]
    NoKey(String),
    /// There is no such entry.
    #[error("no entry's key begins with {0}; `npu-build cache list` has those that are there")]
    Absent(String),
    /// There are several.
    #[error("several keys begin with {digits}: {}; give more digits", keys.iter().map(Digest::short).collect::<Vec<_>>().join(", "))]
    Ambiguous {
        /// What was given.
        digits: String,
        /// Some of them.
        keys: Vec<Digest>,
    },
    /// Its manifest can't be used.
    #[error("the entry {0} {1}; `npu-build cache verify --repair` moves it to the quarantine")]
    Damaged(Digest, Fault),
}
