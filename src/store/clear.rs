//! Emptying the cache, wholly or of some entries.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use walkdir::WalkDir;

use super::layout::{Layout, MANIFEST};
use super::lock::{self, LockError, LockEvent, Mode};
use super::manifest::Summary;
use super::{Cache, Store, open, survey};
use crate::interrupt::Interrupt;

/// Which entries are deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// All, and what failed builds left.
    Entries,
    /// Everything: entries, statistics, and what is known of kernels and tools.
    Everything,
    /// Those of which both are true that are given.
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
    /// How many of those that are meant stay, because their locks can't be had: they are being built.
    pub kept: u64,
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
    /// Deletes what `selection` says. Unless that are single entries it waits until nobody builds
    /// any more; `on_wait` is called if somebody still does.
    ///
    /// # Errors
    /// See [`ClearError`].
    pub fn clear(
        &self,
        selection: &Selection,
        interrupt: &Interrupt,
        on_wait: &dyn Fn(),
    ) -> Result<Cleared, ClearError> {
        let Some(cache) = &self.cache else {
            return Ok(Cleared::default());
        };
        if !cache.layout().version().exists() {
            return Ok(Cleared::default());
        }
        interrupt.arm();
        // Builds share the lock, so it does not say whose they are.
        let on_event = |event| {
            if matches!(event, LockEvent::Waiting(_)) {
                on_wait();
            }
        };
        let mode = match selection {
            Selection::Of { .. } => Mode::Shared,
            Selection::Entries | Selection::Everything => Mode::Exclusive,
        };
        let root = cache.layout().root_lock();
        let _lock = lock::acquire(&root, mode, cache.sharing(), interrupt, &on_event)?;
        match selection {
            Selection::Of { kernel, target } => cache.clear_some(
                |summary| {
                    kernel
                        .as_ref()
                        .is_none_or(|kernel| *kernel == summary.kernel)
                        && target
                            .as_ref()
                            .is_none_or(|target| *target == summary.target)
                },
                interrupt,
            ),
            Selection::Entries => cache.clear(&deletable(cache.layout())),
            Selection::Everything => {
                let mut directories = deletable(cache.layout()).to_vec();
                directories.extend([cache.layout().statistics(), cache.layout().kernels()]);
                cache.clear(&directories)
            }
        }
    }
}

impl Cache {
    fn clear(&self, directories: &[PathBuf]) -> Result<Cleared, ClearError> {
        let mut cleared = Cleared::default();
        for directory in directories {
            // What a link leads to is not ours to delete.
            if open::is_link(directory) {
                return Err(ClearError::Delete {
                    path: directory.clone(),
                    source: io::Error::other("it is a symbolic link"),
                });
            }
            let files = WalkDir::new(directory).into_iter().filter_map(Result::ok);
            for file in files.filter(|file| file.file_type().is_file()) {
                cleared.bytes += file.metadata().map_or(0, |metadata| metadata.len());
                cleared.entries += u64::from(file.file_name() == MANIFEST && file.depth() == 3);
            }
            empty(directory).map_err(|source| ClearError::Delete {
                path: directory.clone(),
                source,
            })?;
        }
        Ok(cleared)
    }

    fn clear_some(
        &self,
        is_meant: impl Fn(&Summary) -> bool,
        interrupt: &Interrupt,
    ) -> Result<Cleared, ClearError> {
        let entries = self.layout().entries();
        let failed = |source| ClearError::Delete {
            path: entries.clone(),
            source,
        };
        open::populate(self.layout(), self.sharing()).map_err(failed)?;
        let mut cleared = Cleared::default();
        for (key, summary) in self.summaries() {
            if interrupt.is_raised() {
                return Err(LockError::Interrupted.into());
            }
            if !is_meant(&summary) {
                continue;
            }
            let extent = survey::extent(self.layout(), &key);
            if self.evict(&key, |_| true).map_err(failed)? {
                cleared.entries += 1;
                cleared.bytes += extent.bytes;
            } else {
                cleared.kept += u64::from(self.layout().entry(&key).exists());
            }
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
