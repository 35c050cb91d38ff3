//! A private area for one build: the tools' work directory, and the entry that is put together.
//!
//! The area lies in the cache, so that publication is one rename. It holds a lock while its owner
//! lives; an area whose lock is free was left by a process that died, and the next build sweeps it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;

use super::lock::{self, Lock, Mode};
use super::{Sharing, open};

/// The name of the lock in an area.
const LOCK: &str = "lock";

/// The directories of one build; deleted with the value, published entry excepted.
#[derive(Debug)]
pub struct Area {
    directory: TempDir,
    _lock: Option<Lock>,
}

impl Area {
    /// Makes an area below `parent`, whose entry is for those that `sharing` names.
    pub fn new(parent: &Path, sharing: Sharing) -> io::Result<Self> {
        let directory = tempfile::Builder::new()
            .prefix("build-")
            .tempdir_in(parent)?;
        // An area that can't be locked (no flock there) is never swept, which is safe.
        open::share_directory(directory.path(), sharing);
        let lock = directory.path().join(LOCK);
        let lock = lock::try_acquire_mode(&lock, Mode::Exclusive, sharing);
        let lock = lock.ok().flatten();
        let area = Self {
            directory,
            _lock: lock,
        };
        fs::create_dir(area.work())?;
        open::create(&area.entry(), sharing)?;
        Ok(area)
    }

    /// The tools' cwd.
    pub fn work(&self) -> PathBuf {
        self.directory.path().join("work")
    }

    /// What becomes the entry.
    pub fn entry(&self) -> PathBuf {
        self.directory.path().join("entry")
    }

    /// Where the entry goes that `entry` replaces.
    pub fn replaced(&self, attempt: u32) -> PathBuf {
        self.directory.path().join(format!("replaced-{attempt}"))
    }

    /// Where what stands in the place of a directory goes.
    pub fn misplaced(&self) -> PathBuf {
        self.directory.path().join("misplaced")
    }

    /// Keeps the directory, work and all, until the result is dropped.
    pub fn into_directory(self) -> TempDir {
        self.directory
    }
}

/// An area younger than this may be one whose owner has not locked it yet.
const GRACE: Duration = Duration::from_secs(60);

/// An area that never got a lock is left alone for this long: no build takes a day.
const LONGEST_BUILD: Duration = Duration::from_secs(24 * 60 * 60);

/// Deletes areas that dead processes left below `parent`, and says how many; what can't be deleted
/// stays.
pub fn sweep(parent: &Path) -> u64 {
    let abandoned = abandoned(parent).into_iter();
    let swept = abandoned.filter(|area| fs::remove_dir_all(area).is_ok());
    swept.count() as u64
}

/// Areas that dead processes left below `parent`.
pub fn abandoned(parent: &Path) -> Vec<PathBuf> {
    // What a link leads to is not ours to delete.
    if open::is_link(parent) {
        return Vec::new();
    }
    let areas = fs::read_dir(parent).into_iter().flatten().flatten();
    let mut areas: Vec<_> = areas.map(|entry| entry.path()).collect();
    areas.retain(|area| {
        let lock = area.join(LOCK);
        match age(&lock) {
            Some(age) => match lock::try_acquire(&lock) {
                Ok(Some(_)) => age > GRACE,
                Ok(None) => false,
                Err(_) => age > LONGEST_BUILD,
            },
            None => age(area).is_some_and(|age| age > LONGEST_BUILD),
        }
    });
    areas
}

/// How long ago the file was written; `None` if it is not there, or from the future.
fn age(path: &Path) -> Option<Duration> {
    let modified = fs::symlink_metadata(path).ok()?.modified().ok()?;
    modified.elapsed().ok()
}
