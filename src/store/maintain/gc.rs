//! Garbage collection: keeps the cache within its bounds, and takes away what nobody will use again.
//!
//! Only whole entries go, those first that were not used for the longest time. Builds go on
//! meanwhile: cleaning shares the root lock with them, and leaves alone what is being built. Entries
//! are known by their times and sizes, 48 bytes for each.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use super::super::cache::{Cache, Store};
use super::super::files::{is_older, new_file, now};
use super::super::lock::{self, Lock, LockEvent, Mode};
use super::super::scan::{self, EntryScan};
use super::super::types::{Bounds, Cleaned, Event, LockError, MaintainError, Observer};
use super::super::{remove, trust};
use super::sweep::{self, DELETING};
use crate::digest::Digest;
use crate::interrupt::Interrupt;
use crate::parallel;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

impl Store {
    /// Takes away what exceeds `bounds`, and what is of no use to anybody. With `dry_run` it only
    /// counts.
    ///
    /// # Errors
    /// See [`MaintainError`].
    pub fn gc(
        &self,
        bounds: Bounds,
        dry_run: bool,
        interrupt: &Interrupt,
        observe: Observer<'_>,
    ) -> Result<Cleaned, MaintainError> {
        let Some(cache) = &self.cache else {
            return Ok(Cleaned::default());
        };
        interrupt.arm();
        if dry_run {
            let garbage = Survey::of(cache, &HashSet::new(), interrupt)?;
            return Ok(garbage.preview(cache, bounds));
        }
        let (layout, sharing) = (cache.layout(), cache.sharing());
        trust::populate(layout, sharing).map_err(|source| MaintainError::Delete {
            path: layout.root().to_owned(),
            source,
        })?;
        let on_event = |event| match event {
            LockEvent::Waiting(holder) => observe(Event::WaitingForCache { holder }),
            LockEvent::Unsupported(reason) => observe(Event::Warning(format!(
                "the cache's file system has no locks ({reason}); clean it while nothing builds"
            ))),
        };
        let acquire = |path: &Path, mode| lock::acquire(path, mode, sharing, interrupt, &on_event);
        let _sole = acquire(&layout.cleaned(), Mode::Exclusive)?;
        let root = acquire(&layout.root_lock(), Mode::Shared)?;
        collect(cache, [bounds, bounds], &HashSet::new(), root, interrupt)
    }

    /// The same after a build, if a day has passed since the last time and nobody is at it. Down to
    /// four fifths of the bounds, but for the entries that are `in_use`.
    ///
    /// # Errors
    /// See [`MaintainError`].
    pub fn gc_if_due(
        &self,
        bounds: Bounds,
        in_use: impl IntoIterator<Item = Digest>,
        interrupt: &Interrupt,
    ) -> Result<Option<Cleaned>, MaintainError> {
        let Some(cache) = &self.cache else {
            return Ok(None);
        };
        if cache.is_read_only || cache.own.temporary.is_some() || !is_due(cache) {
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
        let in_use = in_use.into_iter().map(|key| key.number()).collect();
        collect(cache, [bounds, bounds.low()], &in_use, root, interrupt).map(Some)
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

/// The keys of entries, short.
fn numbers(entries: &[Aged]) -> HashSet<u64> {
    entries.iter().map(|(.., key)| key.number()).collect()
}

/// All entries, and what else is beside them.
#[derive(Default)]
struct Survey {
    /// The oldest use first, and last those that are in use.
    entries: Vec<Aged>,
    in_use: usize,
    tombstones: Vec<Digest>,
    orphans: Vec<PathBuf>,
    bytes: u64,
}

impl Survey {
    fn of(cache: &Cache, in_use: &HashSet<u64>, interrupt: &Interrupt) -> Result<Self, LockError> {
        let layout = cache.layout();
        let (shards, orphans) = scan::shards(layout);
        let mut survey = Self {
            orphans,
            ..Self::default()
        };
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let found = parallel::map(&shards, threads, |shard| {
            if interrupt.is_raised() {
                return (EntryScan::default(), Vec::new());
            }
            let mut scan = EntryScan::of(shard);
            let entries = std::mem::take(&mut scan.entries).into_iter().map(|key| {
                let (bytes, used) = scan::extent(layout, &key);
                (used, bytes, key)
            });
            let entries = entries.collect::<Vec<Aged>>();
            (scan, entries)
        });
        if interrupt.is_raised() {
            return Err(LockError::Interrupted);
        }
        let count = found.iter().map(|(_, entries)| entries.len()).sum();
        survey.entries.reserve_exact(count);
        for (scan, entries) in found {
            survey.entries.extend(entries);
            survey.tombstones.extend(scan.tombstones);
            survey.orphans.extend(scan.orphans);
        }
        survey.bytes = survey.entries.iter().map(|(_, bytes, _)| bytes).sum();
        let is_in_use = |(.., key): &Aged| in_use.contains(&key.number());
        survey.in_use = survey.entries.iter().filter(|it| is_in_use(it)).count();
        (survey.entries).sort_unstable_by_key(|entry| (is_in_use(entry), *entry));
        Ok(survey)
    }

    /// The entries that have to go when `high` is exceeded to get to `low`, and those that stay.
    fn split(&self, [high, low]: [Bounds; 2]) -> (&[Aged], &[Aged]) {
        // A use in the future comes from a clock that was set back: it counts as now.
        let oldest = high
            .age
            .map_or(0, |age| now().saturating_sub(age.as_secs()));
        let deletable = &self.entries[..self.entries.len() - self.in_use];
        let aged = deletable.partition_point(|(used, ..)| *used < oldest);
        let gone: u64 = deletable[..aged].iter().map(|(_, bytes, _)| bytes).sum();
        let (mut bytes, mut surplus) = (self.bytes - gone, aged);
        let left = |surplus: usize| (self.entries.len() - surplus) as u64;
        if high.are_exceeded(bytes, left(surplus)) {
            while low.are_exceeded(bytes, left(surplus)) && surplus < deletable.len() {
                bytes -= deletable[surplus].1;
                surplus += 1;
            }
        }
        self.entries.split_at(surplus)
    }

    fn preview(&self, cache: &Cache, bounds: Bounds) -> Cleaned {
        let (surplus, kept) = self.split([bounds, bounds]);
        let bytes: u64 = surplus.iter().map(|(_, bytes, _)| bytes).sum();
        let entries = surplus.len() as u64;
        let leftovers = self.tombstones.len() + sweep::leftovers(cache, &self.orphans).len();
        // An entry's lock goes with it.
        let locks = sweep::unneeded_locks(cache, &numbers(kept)).len() as u64;
        Cleaned {
            entries,
            bytes,
            entries_left: kept.len() as u64,
            bytes_left: self.bytes - bytes,
            leftovers: leftovers as u64 + locks.saturating_sub(entries),
        }
    }
}

fn collect(
    cache: &Cache,
    bounds: [Bounds; 2],
    in_use: &HashSet<u64>,
    root: Lock,
    interrupt: &Interrupt,
) -> Result<Cleaned, MaintainError> {
    let survey = Survey::of(cache, in_use, interrupt)?;
    let (surplus, kept) = survey.split(bounds);
    let (entries, bytes) = (AtomicU64::new(0), AtomicU64::new(0));
    let results = parallel::map(surplus, DELETING, |(used, size, key)| {
        if !interrupt.is_raised() && remove::evict(cache, key, |now| now == *used)? {
            entries.fetch_add(1, Ordering::Relaxed);
            bytes.fetch_add(*size, Ordering::Relaxed);
        }
        Ok(())
    });
    let results: std::io::Result<()> = results.into_iter().collect();
    results.map_err(|source| MaintainError::Delete {
        path: cache.layout().entries(),
        source,
    })?;
    if interrupt.is_raised() {
        return Err(LockError::Interrupted.into());
    }
    let mut leftovers = sweep::sweep(cache, &survey.orphans, &survey.tombstones);
    let kept = numbers(kept);
    if let Some(statistics) = &cache.statistics {
        // Counts of what is gone are no use; that they stay is no harm.
        let _ = statistics.fold(|key| kept.contains(&key));
    }
    drop(root);
    let (entries, bytes) = (entries.into_inner(), bytes.into_inner());
    // An entry's lock goes with it.
    leftovers += sweep::sweep_locks(cache, &kept).saturating_sub(entries);
    let stamp = fs::File::options()
        .write(true)
        .open(cache.layout().cleaned());
    let _ = stamp.and_then(|stamp| stamp.set_modified(SystemTime::now()));
    Ok(Cleaned {
        entries,
        bytes,
        entries_left: survey.entries.len() as u64 - entries,
        bytes_left: survey.bytes - bytes,
        leftovers,
    })
}
