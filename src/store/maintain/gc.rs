//! Garbage collection: keeps the cache within its bounds, and takes away what nobody will use again.
//!
//! Only whole entries go, those first that were not used for the longest time. Builds go on
//! meanwhile: cleaning shares the root lock with them, and leaves alone what is being built. Entries
//! are known by their times and sizes, 48 bytes for each.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::super::cache::{Cache, Store};
use super::super::files::{delete, is_older, new_file, now};
use super::super::layout::Layout;
use super::super::lock::{self, Lock, LockEvent, Mode};
use super::super::scan::{self, EntryScan};
use super::super::types::{Bounds, CacheError, Cleaned, Event, Observer};
use super::super::{remove, trust};
use super::sweep::leftovers;
use crate::digest::Digest;
use crate::interrupt::Interrupt;
use crate::parallel;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// As many things are deleted at once: that waits for a disk to discard blocks, or for a server, and
/// not for processors.
const DELETING: usize = 16;
/// Seconds, more than the time stamp of a last use may be late.
const RECENT: u64 = 2 * 60 * 60;

impl Store {
    /// Takes away what exceeds `bounds`, and what is of no use to anybody. With `dry_run` it only
    /// counts.
    ///
    /// # Errors
    /// See [`CacheError`].
    pub fn gc(
        &self,
        bounds: Bounds,
        dry_run: bool,
        interrupt: &Interrupt,
        observe: Observer<'_>,
    ) -> Result<Cleaned, CacheError> {
        let Some(cache) = &self.cache else {
            return Ok(Cleaned::default());
        };
        interrupt.arm();
        if dry_run {
            return collect(cache, [bounds, bounds], u64::MAX, None, interrupt);
        }
        let (layout, sharing) = (cache.layout(), cache.sharing());
        trust::populate(layout, sharing).map_err(|source| CacheError::Delete {
            path: layout.root.to_owned(),
            source,
        })?;
        let on_event = |event| match event {
            LockEvent::Waiting => observe(Event::WaitingForCache),
            LockEvent::Unsupported(reason) => observe(Event::Warning(format!(
                "the cache's file system has no locks ({reason}); clean it while nothing builds"
            ))),
        };
        let acquire = |path: &Path, mode| lock::acquire(path, mode, sharing, interrupt, &on_event);
        let _sole = acquire(&layout.cleaned(), Mode::Exclusive)?;
        let root = acquire(&layout.root_lock(), Mode::Shared)?;
        collect(cache, [bounds, bounds], u64::MAX, Some(root), interrupt)
    }

    /// The same after a build, if a day has passed since the last time and nobody is at it. Down to
    /// four fifths of the bounds, but for what was used in the last two hours: somebody is about to
    /// read it.
    ///
    /// # Errors
    /// See [`CacheError`].
    pub fn gc_if_due(
        &self,
        bounds: Bounds,
        interrupt: &Interrupt,
    ) -> Result<Option<Cleaned>, CacheError> {
        let Some(cache) = &self.cache else {
            return Ok(None);
        };
        if !is_due(cache) {
            return Ok(None);
        }
        let attempt = |path: &Path, mode| {
            lock::try_acquire(path, mode, cache.sharing())
                .ok()
                .flatten()
        };
        let Some(_sole) = attempt(&cache.layout().cleaned(), Mode::Exclusive) else {
            return Ok(None);
        };
        let Some(root) = attempt(&cache.layout().root_lock(), Mode::Shared) else {
            return Ok(None);
        };
        interrupt.arm();
        let unused = now().saturating_sub(RECENT);
        collect(cache, [bounds, bounds.low()], unused, Some(root), interrupt).map(Some)
    }
}

/// Whether the last time is a day ago. A new cache is clean.
fn is_due(cache: &Cache) -> bool {
    let path = cache.layout().cleaned();
    match fs::symlink_metadata(&path) {
        Ok(metadata) => {
            // Of a clock that has been set back since.
            let future = SystemTime::now() + DAY;
            is_older(&path, DAY) || metadata.modified().is_ok_and(|time| time > future)
        }
        Err(_) => {
            let _ = new_file(&path, cache.sharing());
            false
        }
    }
}

/// An entry as it is weighed: in this order, the oldest use comes first.
type Aged = (u64, u64, Digest);

fn bytes_of(entries: &[Aged]) -> u64 {
    entries.iter().map(|(_, bytes, _)| bytes).sum()
}

/// All entries, the oldest use first, and what does not belong among them.
fn scan_all(
    layout: &Layout,
    interrupt: &Interrupt,
) -> Result<(Vec<Aged>, Vec<PathBuf>), CacheError> {
    let (shards, mut orphans) = scan::shards(layout);
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let found = parallel::map(&shards, threads, |shard| {
        if interrupt.is_raised() {
            return (Vec::new(), Vec::new());
        }
        let scan = EntryScan::of(shard);
        let entries = scan.entries.into_iter().map(|key| {
            let (bytes, used) = scan::extent(layout, &key);
            (used, bytes, key)
        });
        (entries.collect::<Vec<Aged>>(), scan.orphans)
    });
    if interrupt.is_raised() {
        return Err(CacheError::Interrupted);
    }
    let count = found.iter().map(|(entries, _)| entries.len()).sum();
    let mut all = Vec::with_capacity(count);
    for (entries, strangers) in found {
        all.extend(entries);
        orphans.extend(strangers);
    }
    all.sort_unstable();
    Ok((all, orphans))
}

/// How many of the entries have to go when the first bounds are exceeded to get to the second.
fn surplus(entries: &[Aged], [high, low]: [Bounds; 2], unused_since: u64) -> usize {
    let deletable = entries.partition_point(|(used, ..)| *used < unused_since);
    // A use in the future comes from a clock that was set back: it counts as now.
    let oldest = high
        .age
        .map_or(0, |age| now().saturating_sub(age.as_secs()));
    let mut surplus = entries.partition_point(|(used, ..)| *used < oldest.min(unused_since));
    let mut bytes = bytes_of(&entries[surplus..]);
    let left = |surplus: usize| (entries.len() - surplus) as u64;
    if high.are_exceeded(bytes, left(surplus)) {
        while low.are_exceeded(bytes, left(surplus)) && surplus < deletable {
            bytes -= entries[surplus].1;
            surplus += 1;
        }
    }
    surplus
}

/// Without the root lock it only counts.
fn collect(
    cache: &Cache,
    bounds: [Bounds; 2],
    unused_since: u64,
    root: Option<Lock>,
    interrupt: &Interrupt,
) -> Result<Cleaned, CacheError> {
    let layout = cache.layout();
    let (entries, orphans) = scan_all(layout, interrupt)?;
    let leftovers = leftovers(layout, &orphans);
    let (surplus, kept) = entries.split_at(surplus(&entries, bounds, unused_since));
    let mut cleaned = Cleaned {
        entries: surplus.len() as u64,
        bytes: bytes_of(surplus),
        leftovers: leftovers.len() as u64,
        ..Cleaned::default()
    };
    if root.is_some() {
        let deleted = evict(cache, surplus, interrupt)?;
        cleaned.entries = deleted.len() as u64;
        cleaned.bytes = deleted.iter().sum();
        cleaned.leftovers = leftovers.iter().filter(|path| delete(path)).count() as u64;
        let kept: HashSet<u64> = kept.iter().map(|(.., key)| key.number()).collect();
        // Counts of what is gone are no use; that they stay is no harm.
        let _ = cache.statistics.prune(|key| kept.contains(&key));
        let stamp = fs::File::options().write(true).open(layout.cleaned());
        let _ = stamp.and_then(|stamp| stamp.set_modified(SystemTime::now()));
    }
    cleaned.entries_left = entries.len() as u64 - cleaned.entries;
    cleaned.bytes_left = bytes_of(&entries) - cleaned.bytes;
    Ok(cleaned)
}

/// Deletes entries that nobody has used meanwhile. Gives the sizes of those that are gone.
fn evict(cache: &Cache, entries: &[Aged], interrupt: &Interrupt) -> Result<Vec<u64>, CacheError> {
    // Keys that share a lock are in the same shard.
    let mut shards = BTreeMap::<u8, Vec<&Aged>>::new();
    for entry in entries {
        shards.entry(entry.2.as_bytes()[0]).or_default().push(entry);
    }
    let shards: Vec<_> = shards.into_values().collect();
    let results = parallel::map(&shards, DELETING, |entries| {
        let evicted = entries.iter().map(|(used, bytes, key)| {
            let is_gone = !interrupt.is_raised() && remove::evict(cache, key, |now| now == *used)?;
            Ok(is_gone.then_some(*bytes))
        });
        evicted.collect::<io::Result<Vec<_>>>()
    });
    let results: io::Result<Vec<_>> = results.into_iter().collect();
    let deleted = results.map_err(|source| CacheError::Delete {
        path: cache.layout().entries.clone(),
        source,
    })?;
    match interrupt.is_raised() {
        true => Err(CacheError::Interrupted),
        false => Ok(deleted.into_iter().flatten().flatten().collect()),
    }
}
