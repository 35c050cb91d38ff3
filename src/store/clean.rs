//! Garbage collection: keeps the cache within its bounds, and takes away what nobody will use again.
//!
//! Only whole entries go, those first that were not used for the longest time. Builds go on
//! meanwhile: cleaning shares the root lock with them, and leaves alone what is being built. Entries
//! are known by their times and sizes, 48 bytes for each.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::lock::{self, Lock, LockError, LockEvent, Mode};
use super::survey::{self, Place};
use super::sweep::is_older;
use super::{Cache, Event, Observer, Store, open};
use crate::digest::Digest;
use crate::interrupt::Interrupt;
use crate::parallel;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// As many things are deleted at once: that waits for a disk to discard blocks, or for a server, and
/// not for processors.
pub(super) const DELETING: usize = 16;

/// How much the cache may hold. What is `None` has no bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes of all entries.
    pub size: Option<u64>,
    /// Since the last use.
    pub age: Option<Duration>,
    /// Entries.
    pub entries: Option<u64>,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            size: Some(5 << 30),
            age: Some(90 * DAY),
            entries: None,
        }
    }
}

impl Bounds {
    /// What is left where these bounds were exceeded: four fifths, so that the next build does not
    /// exceed them again.
    #[must_use]
    pub fn low(self) -> Self {
        let low = |bound: Option<u64>| bound.map(|bound| bound / 5 * 4);
        Self {
            size: low(self.size),
            age: self.age,
            entries: low(self.entries),
        }
    }
}

/// What was taken away, or would be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// Entries.
    pub entries: u64,
    /// Bytes of their files.
    pub bytes: u64,
    /// Entries that are left.
    pub entries_left: u64,
    /// Bytes of their files.
    pub bytes_left: u64,
    /// Directories and files that dead processes, old versions and damage left behind.
    pub leftovers: u64,
}

/// Why the cache was not cleaned, or not wholly.
#[derive(Debug, thiserror::Error)]
pub enum CleanError {
    /// There was no waiting for somebody else who clears or cleans it.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The cache can't be written.
    #[error("can't clean the cache {}: {source}", path.display())]
    Write {
        /// The cache, or what is in it.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
}

impl Store {
    /// Takes away what exceeds `bounds`, and what is of no use to anybody. With `dry_run` it only
    /// counts.
    ///
    /// # Errors
    /// See [`CleanError`]. What was deleted before that is gone, and nothing is half gone.
    pub fn clean(
        &self,
        bounds: Bounds,
        dry_run: bool,
        interrupt: &Interrupt,
        observe: Observer<'_>,
    ) -> Result<Cleaned, CleanError> {
        let Some(cache) = &self.cache else {
            return Ok(Cleaned::default());
        };
        interrupt.arm();
        if dry_run {
            let survey = Survey::of(cache, &HashSet::new(), interrupt)?;
            return Ok(survey.preview(cache, bounds));
        }
        open::populate(cache.layout(), cache.sharing()).map_err(|source| cache.unclean(source))?;
        let on_event = |event| match event {
            LockEvent::Waiting(holder) => observe(Event::WaitingForCache { holder }),
            LockEvent::Unsupported(reason) => observe(Event::Warning(format!(
                "the cache's file system has no locks ({reason}); clean it while nothing builds"
            ))),
        };
        let (path, sharing) = (cache.layout().cleaned(), cache.sharing());
        let _sole = lock::acquire(&path, Mode::Exclusive, sharing, interrupt, &on_event)?;
        let root = cache.layout().root_lock();
        let root = lock::acquire(&root, Mode::Shared, sharing, interrupt, &on_event)?;
        cache.clean(bounds, bounds, &HashSet::new(), root, interrupt)
    }

    /// The same after a build, if a day has passed since the last time and nobody is at it. Down to
    /// [`Bounds::low`], but for the entries that are `in_use`.
    ///
    /// # Errors
    /// See [`CleanError`].
    pub fn clean_if_due(
        &self,
        bounds: Bounds,
        in_use: impl IntoIterator<Item = Digest>,
        interrupt: &Interrupt,
    ) -> Result<Option<Cleaned>, CleanError> {
        let Some(cache) = &self.cache else {
            return Ok(None);
        };
        if cache.read_only.is_some() || cache.temporary.is_some() || !cache.is_due() {
            return Ok(None);
        }
        let sharing = cache.sharing();
        let attempt =
            |path: &Path, mode| lock::try_acquire_mode(path, mode, sharing).ok().flatten();
        let Some(_sole) = attempt(&cache.layout().cleaned(), Mode::Exclusive) else {
            return Ok(None);
        };
        let Some(root) = attempt(&cache.layout().root_lock(), Mode::Shared) else {
            return Ok(None);
        };
        interrupt.arm();
        let in_use = in_use.into_iter().map(|key| key.number()).collect();
        let cleaned = cache.clean(bounds, bounds.low(), &in_use, root, interrupt)?;
        Ok(Some(cleaned))
    }
}

/// An entry, and when it was last used: in this order, the oldest use first.
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
    doomed: Vec<Digest>,
    strays: Vec<PathBuf>,
    bytes: u64,
}

impl Survey {
    fn of(cache: &Cache, in_use: &HashSet<u64>, interrupt: &Interrupt) -> Result<Self, LockError> {
        let layout = cache.layout();
        let mut survey = Self::default();
        let mut shards = Vec::new();
        for shard in survey::shards(layout) {
            match shard {
                Ok(shard) => shards.push(shard),
                Err(stray) => survey.strays.push(stray),
            }
        }
        let found = parallel::map(&shards, threads(), |shard| {
            let mut found = Self::default();
            if interrupt.is_raised() {
                return found;
            }
            for place in survey::places(shard.clone()) {
                match place {
                    Place::Entry(key) => {
                        let extent = survey::extent(layout, &key);
                        found.entries.push((extent.used, extent.bytes, key));
                        found.bytes += extent.bytes;
                    }
                    Place::Doomed(key) => found.doomed.push(key),
                    Place::Stray(path) => found.strays.push(path),
                }
            }
            found
        });
        if interrupt.is_raised() {
            return Err(LockError::Interrupted);
        }
        let count = found.iter().map(|found| found.entries.len()).sum();
        survey.entries.reserve_exact(count);
        for found in found {
            survey.entries.extend(found.entries);
            survey.doomed.extend(found.doomed);
            survey.strays.extend(found.strays);
            survey.bytes += found.bytes;
        }
        let is_in_use = |(.., key): &Aged| in_use.contains(&key.number());
        survey.in_use = survey.entries.iter().filter(|it| is_in_use(it)).count();
        (survey.entries).sort_unstable_by_key(|entry| (is_in_use(entry), *entry));
        Ok(survey)
    }

    /// How many of the entries, the oldest first, have to go when `high` is exceeded to get to `low`.
    fn surplus(&self, high: Bounds, low: Bounds) -> usize {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.unwrap_or_default().as_secs();
        // A use in the future comes from a clock that was set back: it is as good as now.
        let oldest = high.age.map_or(0, |age| now.saturating_sub(age.as_secs()));
        let deletable = &self.entries[..self.entries.len() - self.in_use];
        let aged = deletable.partition_point(|(used, ..)| *used < oldest);
        let count = self.entries.len() as u64;
        let exceeds = |bytes: u64, count: u64, bounds: Bounds| {
            bounds.size.is_some_and(|bound| bytes > bound)
                || bounds.entries.is_some_and(|bound| count > bound)
        };
        let gone: u64 = deletable[..aged].iter().map(|(_, bytes, _)| bytes).sum();
        let (mut bytes, mut left, mut surplus) = (self.bytes - gone, count - aged as u64, aged);
        if exceeds(bytes, left, high) {
            while exceeds(bytes, left, low) && surplus < deletable.len() {
                bytes -= deletable[surplus].1;
                left -= 1;
                surplus += 1;
            }
        }
        surplus
    }

    fn preview(&self, cache: &Cache, bounds: Bounds) -> Cleaned {
        let surplus = self.surplus(bounds, bounds);
        let (doomed, kept) = self.entries.split_at(surplus);
        let bytes: u64 = doomed.iter().map(|(_, bytes, _)| bytes).sum();
        let entries = doomed.len() as u64;
        let leftovers = self.doomed.len() + cache.leftovers(&self.strays).len();
        // An entry's lock goes with it.
        let locks = cache.count_unneeded_locks(&numbers(kept));
        Cleaned {
            entries,
            bytes,
            entries_left: kept.len() as u64,
            bytes_left: self.bytes - bytes,
            leftovers: leftovers as u64 + locks.saturating_sub(entries),
        }
    }
}

impl Cache {
    fn unclean(&self, source: io::Error) -> CleanError {
        CleanError::Write {
            path: self.layout().root().to_owned(),
            source,
        }
    }

    /// Whether the last time is a day ago. A new cache is clean.
    fn is_due(&self) -> bool {
        let path = self.layout().cleaned();
        match fs::symlink_metadata(&path) {
            Ok(metadata) => {
                // Of a clock that has been set back since.
                let future = SystemTime::now() + DAY;
                is_older(&path, DAY) || metadata.modified().is_ok_and(|time| time > future)
            }
            Err(_) => {
                if let Ok(file) = open::new_file(&path) {
                    open::share_file(&file, self.sharing());
                }
                false
            }
        }
    }

    fn clean(
        &self,
        high: Bounds,
        low: Bounds,
        in_use: &HashSet<u64>,
        root: Lock,
        interrupt: &Interrupt,
    ) -> Result<Cleaned, CleanError> {
        let failed = |source| self.unclean(source);
        let survey = Survey::of(self, in_use, interrupt)?;
        let (doomed, kept) = survey.entries.split_at(survey.surplus(high, low));
        let (entries, bytes) = (AtomicU64::new(0), AtomicU64::new(0));
        let results = parallel::map(doomed, DELETING, |(used, size, key)| {
            if interrupt.is_raised() {
                return Ok(());
            }
            let unused = |now: u64| now == *used;
            if self.evict(key, unused)? {
                entries.fetch_add(1, Ordering::Relaxed);
                bytes.fetch_add(*size, Ordering::Relaxed);
            }
            Ok(())
        });
        results
            .into_iter()
            .collect::<io::Result<()>>()
            .map_err(failed)?;
        if interrupt.is_raised() {
            return Err(LockError::Interrupted.into());
        }
        let mut leftovers = self.sweep(&survey.strays);
        leftovers += survey
            .doomed
            .iter()
            .map(|key| self.sweep_doomed(key))
            .sum::<u64>();
        let kept = numbers(kept);
        if let Some(statistics) = &self.statistics {
            // Counts of what is gone are no use; that they stay is no harm.
            let _ = statistics.prune(|key| kept.contains(&key));
        }
        drop(root);
        let (entries, bytes) = (entries.into_inner(), bytes.into_inner());
        // An entry's lock goes with it.
        leftovers += self.sweep_locks(&kept).saturating_sub(entries);
        let stamp = fs::File::options()
            .write(true)
            .open(self.layout().cleaned());
        let _ = stamp.and_then(|stamp| stamp.set_modified(SystemTime::now()));
        Ok(Cleaned {
            entries,
            bytes,
            entries_left: survey.entries.len() as u64 - entries,
            bytes_left: survey.bytes - bytes,
            leftovers,
        })
    }
}

fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}
