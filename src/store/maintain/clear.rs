//! Emptying the cache, wholly or of some entries.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use walkdir::WalkDir;

use super::super::cache::{Cache, Store};
use super::super::layout::{Layout, MANIFEST};
use super::super::lock::{self, LockEvent, Mode};
use super::super::manifest::Head;
use super::super::scan::{self, EntryScan};
use super::super::types::{CacheError, Cleared, Selection};
use super::super::{remove, trust};
use crate::interrupt::Interrupt;

impl Store {
    /// Deletes what is selected. Unless that are single entries it waits until nobody builds any
    /// more; `on_wait` is called if somebody still does.
    ///
    /// # Errors
    /// See [`CacheError`].
    pub fn clear(
        &self,
        selection: &Selection,
        interrupt: &Interrupt,
        on_wait: &dyn Fn(),
    ) -> Result<Cleared, CacheError> {
        let Some(cache) = self.cache.as_ref() else {
            return Ok(Cleared::default());
        };
        let layout = cache.layout();
        if !layout.version.exists() {
            return Ok(Cleared::default());
        }
        interrupt.arm();
        // Builds share the lock, so it does not say whose they are.
        let on_event = |event| {
            if matches!(event, LockEvent::Waiting) {
                on_wait();
            }
        };
        let mode = match selection {
            Selection::Of { .. } => Mode::Shared,
            Selection::Entries | Selection::Everything => Mode::Exclusive,
        };
        let root = layout.root_lock();
        let _lock = lock::acquire(&root, mode, cache.sharing(), interrupt, &on_event)?;
        match selection {
            Selection::Of { kernel, target } => {
                let is_or = |wanted: &Option<String>, found: &String| {
                    wanted.as_ref().is_none_or(|wanted| wanted == found)
                };
                let is_selected =
                    |head: &Head| is_or(kernel, &head.kernel) && is_or(target, &head.target);
                clear_some(cache, is_selected, interrupt)
            }
            Selection::Entries => clear(&built(layout)),
            Selection::Everything => {
                clear(&[&built(layout)[..], &[&layout.statistics, &layout.kernels]].concat())
            }
        }
    }
}

/// Directories whose contents may go while nobody builds. The locks stay: a lock file that is
/// deleted while somebody waits for it protects nothing.
fn built(layout: &Layout) -> [&Path; 5] {
    [
        &layout.entries,
        &layout.work,
        &layout.quarantine,
        &layout.failures,
        &layout.tools,
    ]
}

fn clear(directories: &[&Path]) -> Result<Cleared, CacheError> {
    let mut cleared = Cleared::default();
    for directory in directories {
        let failed = |source| CacheError::Delete {
            path: (*directory).to_owned(),
            source,
        };
        // What a link leads to is not ours to delete.
        if directory.is_symlink() {
            return Err(failed(io::Error::other("it is a symbolic link")));
        }
        let files = WalkDir::new(directory).into_iter().filter_map(Result::ok);
        for file in files.filter(|file| file.file_type().is_file()) {
            cleared.bytes += file.metadata().map_or(0, |metadata| metadata.len());
            cleared.entries += u64::from(file.file_name() == MANIFEST && file.depth() == 3);
        }
        empty(directory).map_err(failed)?;
    }
    Ok(cleared)
}

fn clear_some(
    cache: &Cache,
    is_selected: impl Fn(&Head) -> bool,
    interrupt: &Interrupt,
) -> Result<Cleared, CacheError> {
    let layout = cache.layout();
    let failed = |source| CacheError::Delete {
        path: layout.entries.clone(),
        source,
    };
    trust::populate(layout, cache.sharing()).map_err(failed)?;
    let mut cleared = Cleared::default();
    let (shards, _) = scan::shards(layout);
    for key in shards.iter().flat_map(|shard| EntryScan::of(shard).entries) {
        if interrupt.is_raised() {
            return Err(CacheError::Interrupted);
        }
        if !scan::head(layout, &key).is_some_and(|(head, _)| is_selected(&head)) {
            continue;
        }
        let (bytes, _) = scan::extent(layout, &key);
        if remove::evict(cache, &key, |_| true).map_err(failed)? {
            cleared.entries += 1;
            cleared.bytes += bytes;
        } else {
            cleared.kept += u64::from(layout.entry(&key).exists());
        }
    }
    Ok(cleared)
}

fn empty(directory: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(directory) {
        // It has been deleted by hand, which is as good.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => fs::remove_dir_all(entry.path())?,
            false => fs::remove_file(entry.path())?,
        }
    }
    Ok(())
}
