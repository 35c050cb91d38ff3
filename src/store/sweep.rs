//! Leftovers: what dead processes, damage and older versions leave in a cache, and nobody needs.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::clean::DELETING;
use super::layout::SCHEMA;
use super::{Cache, area, evict, lock, open};
use crate::digest::Digest;
use crate::parallel;

/// How long entries are kept that did not verify, for somebody to look at.
const QUARANTINE: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// How long the logs of failures are kept, and what is known of kernels that are not built any more.
const FORGOTTEN: Duration = Duration::from_secs(90 * 24 * 60 * 60);
/// Files that a dead process did not come to rename are not this old while it lives.
const UNFINISHED: Duration = Duration::from_secs(60 * 60);

impl Cache {
    /// What is no entry and of no use any more, of `strays` in the directory of entries and elsewhere.
    pub(super) fn leftovers(&self, strays: &[PathBuf]) -> Vec<PathBuf> {
        let layout = self.layout();
        let mut leftovers = area::abandoned(&layout.work());
        let mut add = |paths: Vec<PathBuf>, age| {
            let old = paths.into_iter().filter(|path| is_older(path, age));
            leftovers.extend(old);
        };
        add(strays.to_vec(), UNFINISHED);
        add(children(&layout.quarantine()), QUARANTINE);
        add(children(&layout.failures()), FORGOTTEN);
        for shard in children(&layout.kernels()) {
            let (unfinished, kernels) = children(&shard)
                .into_iter()
                .partition(|path| is_unfinished(path));
            add(unfinished, UNFINISHED);
            add(kernels, FORGOTTEN);
        }
        for directory in [layout.tools(), layout.statistics()] {
            let mut replacements = children(&directory);
            replacements.retain(|path| is_unfinished(path));
            add(replacements, UNFINISHED);
        }
        leftovers.extend(old_versions(self));
        leftovers
    }

    /// Deletes the [`leftovers`](Self::leftovers). What can't be deleted stays.
    pub(super) fn sweep(&self, strays: &[PathBuf]) -> u64 {
        let leftovers = self.leftovers(strays).into_iter();
        leftovers.filter(|path| delete(path)).count() as u64
    }

    /// Deletes what somebody left of this entry who died while deleting it.
    pub(super) fn sweep_doomed(&self, key: &Digest) -> u64 {
        let left = evict::half_gone(self, key);
        u64::from(left.is_some_and(|(_lock, path)| delete(&path)))
    }

    /// How many locks there are of keys without an entry.
    pub(super) fn count_unneeded_locks(&self, kept: &HashSet<u64>) -> u64 {
        let shards = children(&self.layout().locks());
        let locks = shards
            .iter()
            .map(|shard| unneeded_locks(shard, kept).len() as u64);
        locks.sum()
    }

    /// Deletes the locks of keys without an entry, if nobody uses any lock now: who waits for one
    /// holds the root lock.
    pub(super) fn sweep_locks(&self, kept: &HashSet<u64>) -> u64 {
        let Ok(Some(_root)) = lock::try_acquire(&self.layout().root_lock()) else {
            return 0;
        };
        let shards = children(&self.layout().locks());
        let swept = parallel::map(&shards, DELETING, |shard| {
            let mut locks = unneeded_locks(shard, kept);
            locks.retain(|path| delete(path));
            locks.len() as u64
        });
        swept.iter().sum()
    }
}

/// The locks of keys without an entry.
fn unneeded_locks(shard: &Path, kept: &HashSet<u64>) -> Vec<PathBuf> {
    let unneeded = |path: &PathBuf| {
        let mut hex = shard.file_name().unwrap_or_default().to_owned();
        hex.push(path.file_name().unwrap_or_default());
        let key = hex.to_str().and_then(|hex| hex.parse::<Digest>().ok());
        !key.is_some_and(|key| kept.contains(&key.number()))
    };
    let mut locks = children(shard);
    locks.retain(unneeded);
    locks
}

/// Whether a file was to be renamed into another's place.
fn is_unfinished(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    name.as_encoded_bytes().starts_with(b".tmp")
}

/// Directories of older schema versions that nobody uses any more.
fn old_versions(cache: &Cache) -> Vec<PathBuf> {
    let is_old = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        let number = name.and_then(|name| name.strip_prefix('v')?.parse::<u32>().ok());
        number.is_some_and(|number| number < SCHEMA) && is_older(path, FORGOTTEN)
    };
    let mut versions = children(cache.layout().root());
    versions.retain(is_old);
    versions
}

/// What is in a directory, unless it is a link. The order is that of the names.
pub(super) fn children(directory: &Path) -> Vec<PathBuf> {
    if open::is_link(directory) {
        return Vec::new();
    }
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
    paths.sort_unstable();
    paths
}

/// Whether it was last changed as long ago as that.
pub(super) fn is_older(path: &Path, age: Duration) -> bool {
    let modified = fs::symlink_metadata(path).and_then(|metadata| metadata.modified());
    let found = modified.ok().and_then(|modified| modified.elapsed().ok());
    found.is_some_and(|found| found > age)
}

/// Deletes a file or a whole directory; of a link, the link.
pub(super) fn delete(path: &Path) -> bool {
    let is_directory = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir());
    match is_directory {
        true => fs::remove_dir_all(path).is_ok(),
        false => fs::remove_file(path).is_ok(),
    }
}
