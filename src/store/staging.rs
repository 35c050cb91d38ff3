//! Staging directories: where one build's tools work, and where its entry is put together.
//!
//! A staging directory lies in the cache, so that publication is one rename. It holds a lock while
//! its owner lives; one whose lock is free was left by a process that died, and a later build deletes
//! it.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;

use super::files::{age, children, create_directory, is_occupied, share_directory};
use super::layout::MANIFEST;
use super::lock::{self, Lock, Mode};
use super::manifest::Manifest;
use super::types::Sharing;
use crate::step::execute::ProducedFile;

/// The name of the lock in it.
const LOCK: &str = "lock";
/// One that is younger may belong to a process that has not locked it yet.
const GRACE: Duration = Duration::from_secs(60);
/// One that never got a lock is left alone for this long: no build takes a day.
const LONGEST_BUILD: Duration = Duration::from_secs(24 * 60 * 60);

/// The directories of one build; deleted with the value, the published entry excepted.
#[derive(Debug)]
pub(super) struct StagingDir {
    directory: TempDir,
    _lock: Option<Lock>,
}

impl StagingDir {
    /// Makes one below `parent`, whose entry is for those that `sharing` names.
    pub(super) fn new(parent: &Path, sharing: Sharing) -> io::Result<Self> {
        let mut builder = tempfile::Builder::new();
        let directory = builder.prefix("build-").tempdir_in(parent)?;
        let _ = share_directory(directory.path(), sharing);
        // One that can't be locked is swept after a day.
        let lock = lock::try_acquire(&directory.path().join(LOCK), Mode::Exclusive, sharing);
        let staging = Self {
            directory,
            _lock: lock.ok().flatten(),
        };
        fs::create_dir(staging.work())?;
        create_directory(&staging.entry(), sharing)?;
        Ok(staging)
    }

    /// The tools' current directory.
    pub(super) fn work(&self) -> PathBuf {
        self.directory.path().join("work")
    }

    /// What becomes the entry.
    pub(super) fn entry(&self) -> PathBuf {
        self.directory.path().join("entry")
    }

    /// Keeps the directory, work and all, until the result is dropped.
    pub(super) fn into_directory(self) -> TempDir {
        self.directory
    }

    /// Puts the entry together: outputs first, manifest last.
    pub(super) fn assemble(&self, outputs: &[ProducedFile], manifest: &Manifest) -> io::Result<()> {
        let (work, entry) = (self.work(), self.entry());
        let set_mode = |path: &Path, mode| {
            // Whoever may look into the entry may read it, whatever the umask.
            fs::set_permissions(path, fs::Permissions::from_mode(mode))
        };
        for file in outputs {
            let path = entry.join(&*file.name);
            fs::rename(work.join(&*file.name), &path)?;
            // Against an absent-minded edit.
            set_mode(&path, 0o444)?;
        }
        let path = entry.join(MANIFEST);
        fs::write(&path, manifest.to_text()?)?;
        set_mode(&path, 0o644)
    }

    /// Moves the finished entry into place by one rename. What is there already is to be replaced, or
    /// comes from a process that had no lock: it goes with this directory.
    pub(super) fn publish(&self, destination: &Path) -> io::Result<()> {
        const TRIES: u32 = 8;
        for attempt in 0..TRIES {
            match fs::rename(self.entry(), destination) {
                Err(error) if is_occupied(&error) => {
                    let replaced = self.directory.path().join(format!("replaced-{attempt}"));
                    match fs::rename(destination, replaced) {
                        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                        _ => {}
                    }
                }
                renamed => return renamed,
            }
        }
        Err(io::Error::other(format!(
            "{} comes back whenever it is moved away",
            destination.display()
        )))
    }
}

/// Staging directories that dead processes left below `parent`.
pub(super) fn abandoned(parent: &Path) -> Vec<PathBuf> {
    let mut directories = children(parent);
    directories.retain(|directory| {
        let lock = directory.join(LOCK);
        let Some(locked) = age(&lock) else {
            return age(directory).is_some_and(|age| age > LONGEST_BUILD);
        };
        match lock::try_acquire(&lock, Mode::Exclusive, Sharing::Private) {
            Ok(Some(lock)) if lock.is_real() => locked > GRACE,
            Ok(None) => false,
            _ => locked > LONGEST_BUILD,
        }
    });
    directories
}
