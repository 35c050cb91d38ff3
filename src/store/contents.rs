//! What is in the cache, and emptying it.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use walkdir::WalkDir;

use super::layout::{Layout, MANIFEST};
use super::lock::{self, LockError, LockEvent, Mode};
use super::manifest::Manifest;
use super::{Cache, Store, open};
use crate::digest::Digest;
use crate::interrupt::Interrupt;

/// An entry as its manifest describes it; its artifacts are not verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The key that names it.
    pub key: Digest,
    /// The kind of step.
    pub step: String,
    /// The kernel.
    pub kernel: String,
    /// The target.
    pub target: String,
    /// All its files together.
    pub bytes: u64,
    /// When it was made, in seconds since 1970.
    pub created: u64,
    /// When it was last used, in seconds since 1970, to the hour.
    pub last_used: u64,
}

/// What was deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cleared {
    /// How many entries.
    pub entries: u64,
    /// Bytes of all files, of entries and of what failed builds left.
    pub bytes: u64,
}

/// Why the cache was not emptied, or not wholly.
#[derive(Debug, thiserror::Error)]
pub enum ClearError {
    /// There was no waiting for builds that run.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// Something can't be deleted.
    #[error("can't delete what is in {}: {source}", path.display())]
    Delete {
        /// The directory.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
}

impl Store {
    /// The entries that can be read, in no particular order, one at a time.
    pub fn list(&self) -> impl Iterator<Item = Listed> {
        self.layout().into_iter().flat_map(|layout| {
            let entries = WalkDir::new(layout.entries()).min_depth(2).max_depth(2);
            let directories = entries.into_iter().filter_map(Result::ok);
            directories.filter_map(|entry| listed(entry.path()))
        })
    }

    /// Deletes everything but the locks, once nobody builds any more; `on_wait` is called if
    /// somebody still does.
    ///
    /// # Errors
    /// See [`ClearError`].
    pub fn clear(&self, interrupt: &Interrupt, on_wait: &dyn Fn()) -> Result<Cleared, ClearError> {
        match &self.cache {
            Some(cache) => {
                interrupt.arm();
                cache.clear(interrupt, on_wait)
            }
            None => Ok(Cleared::default()),
        }
    }
}

impl Cache {
    fn clear(&self, interrupt: &Interrupt, on_wait: &dyn Fn()) -> Result<Cleared, ClearError> {
        let root_lock = self.layout.root_lock();
        // Builds share the lock, so it does not say whose they are.
        let on_event = |event| {
            if matches!(event, LockEvent::Waiting(_)) {
                on_wait();
            }
        };
        let exclusive = Mode::Exclusive;
        let _lock = lock::acquire(&root_lock, exclusive, self.sharing, interrupt, &on_event)?;
        let mut cleared = Cleared::default();
        for directory in deletable(&self.layout) {
            // What a link leads to is not ours to delete.
            if open::is_link(&directory) {
                return Err(ClearError::Delete {
                    path: directory,
                    source: io::Error::other("it is a symbolic link"),
                });
            }
            let files = WalkDir::new(&directory).into_iter().filter_map(Result::ok);
            for file in files.filter(|file| file.file_type().is_file()) {
                cleared.bytes += file.metadata().map_or(0, |metadata| metadata.len());
                cleared.entries += u64::from(file.file_name() == MANIFEST && file.depth() == 3);
            }
            empty(&directory).map_err(|source| ClearError::Delete {
                path: directory,
                source,
            })?;
        }
        Ok(cleared)
    }
}

/// Directories whose contents may go while nobody builds. The locks stay: a lock file that is
/// deleted while somebody waits for it protects nothing.
fn deletable(layout: &Layout) -> [PathBuf; 5] {
    [
        layout.entries(),
        layout.work(),
        layout.quarantine(),
        layout.failures(),
        layout.tools(),
    ]
}

fn empty(directory: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(directory) {
        // It has been deleted by hand, which is as good.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn listed(directory: &Path) -> Option<Listed> {
    let path = directory.join(MANIFEST);
    let manifest = Manifest::parse(&super::entry::read_manifest(&path).ok()?).ok()?;
    let metadata = fs::metadata(&path).ok()?;
    let used = metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    let artifacts: u64 = manifest
        .head
        .artifact
        .iter()
        .map(|artifact| artifact.size)
        .sum();
    Some(Listed {
        key: manifest.head.key,
        step: manifest.record.step,
        kernel: manifest.record.kernel,
        target: manifest.record.target,
        bytes: artifacts + metadata.len(),
        created: manifest.record.created,
        last_used: used.as_secs(),
    })
}
