//! Leftovers: what dead processes, damage and older versions leave in a cache, and nobody needs.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::super::cache::Cache;
use super::super::files::{children, delete, is_older};
use super::super::layout::SCHEMA;
use super::super::lock::{self, Mode};
use super::super::remove;
use super::super::staging::abandoned;
use crate::digest::Digest;
use crate::parallel;

/// As many things are deleted at once: that waits for a disk to discard blocks, or for a server, and
/// not for processors.
pub(super) const DELETING: usize = 16;
/// How long entries are kept that did not verify, for somebody to look at.
const QUARANTINE: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// How long the logs of failures are kept, and what is known of kernels that are not built any more.
const FORGOTTEN: Duration = Duration::from_secs(90 * 24 * 60 * 60);
/// Files that a dead process did not come to rename are not this old while it lives.
const UNFINISHED: Duration = Duration::from_secs(60 * 60);

/// What is no entry and of no use any more, of `orphans` among the entries and elsewhere.
pub(super) fn leftovers(cache: &Cache, orphans: &[PathBuf]) -> Vec<PathBuf> {
    let layout = cache.layout();
    let below = |directory: PathBuf| {
        let directories = children(&directory).into_iter();
        directories.flat_map(|directory| children(&directory))
    };
    let mut leftovers = abandoned(&layout.work());
    for (paths, age) in [
        (orphans.to_vec(), UNFINISHED),
        (children(&layout.quarantine()), QUARANTINE),
        (children(&layout.failures()), FORGOTTEN),
        (below(layout.kernels()).collect(), FORGOTTEN),
        (old_versions(layout.root()), FORGOTTEN),
    ] {
        leftovers.extend(paths.into_iter().filter(|path| is_older(path, age)));
    }
    let replacements = [layout.tools(), layout.statistics()].into_iter();
    let replacements = replacements.flat_map(|directory| children(&directory));
    let mut replacements: Vec<_> = replacements.chain(below(layout.kernels())).collect();
    replacements.retain(|path| is_unfinished(path) && is_older(path, UNFINISHED));
    leftovers.extend(replacements);
    // A replacement of a kernel's file may be old, too.
    leftovers.sort_unstable();
    leftovers.dedup();
    leftovers
}

/// Deletes the [`leftovers`], and what is left of entries by those who died while deleting them. What
/// can't be deleted stays.
pub(super) fn sweep(cache: &Cache, orphans: &[PathBuf], tombstones: &[Digest]) -> u64 {
    let leftovers = leftovers(cache, orphans).into_iter();
    let swept = leftovers.filter(|path| delete(path)).count();
    let half_gone = tombstones
        .iter()
        .filter_map(|key| remove::half_gone(cache, key));
    let gone = half_gone.filter(|(_lock, path)| delete(path)).count();
    (swept + gone) as u64
}

/// The locks of keys without an entry.
pub(super) fn unneeded_locks(cache: &Cache, kept: &HashSet<u64>) -> Vec<PathBuf> {
    let shards = children(&cache.layout().locks());
    let unneeded = shards.iter().flat_map(|shard| {
        let mut locks = children(shard);
        locks.retain(|path| {
            let mut hex = shard.file_name().unwrap_or_default().to_owned();
            hex.push(path.file_name().unwrap_or_default());
            let key = hex.to_str().and_then(|hex| hex.parse::<Digest>().ok());
            !key.is_some_and(|key| kept.contains(&key.number()))
        });
        locks
    });
    unneeded.collect()
}

/// Deletes the locks of keys without an entry, if nobody uses any lock now: who waits for one holds
/// the root lock.
pub(super) fn sweep_locks(cache: &Cache, kept: &HashSet<u64>) -> u64 {
    let path = cache.layout().root_lock();
    match lock::try_acquire(&path, Mode::Exclusive, cache.sharing()) {
        Ok(Some(root)) if root.is_real() => {
            let locks = unneeded_locks(cache, kept);
            let swept = parallel::map(&locks, DELETING, |path| delete(path));
            swept.into_iter().filter(|is_gone| *is_gone).count() as u64
        }
        _ => 0,
    }
}

/// Whether a file was to be renamed into another's place.
fn is_unfinished(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    name.as_encoded_bytes().starts_with(b".tmp")
}

/// The directories of older schema versions.
fn old_versions(root: &Path) -> Vec<PathBuf> {
    let mut versions = children(root);
    versions.retain(|path| {
        let name = path.file_name().and_then(|name| name.to_str());
        let number = name.and_then(|name| name.strip_prefix('v')?.parse::<u32>().ok());
        number.is_some_and(|number| number < SCHEMA)
    });
    versions
}
