//! The sum of all logs that were folded, in one file that is replaced by rename.
//!
//! The file says which logs are in it, and how much of them, so that a fold that was killed before
//! it deleted them counts nothing twice. A damaged file is begun anew: nothing is built on it.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, Write as _};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::super::open;
use super::log::Log;
use super::record::{Cause, Tally};
use crate::digest::Digest;

/// The file's name.
const TOTALS: &str = "totals";
/// How its first line begins; the SHA-256 of all that follows that line ends it.
const HEADER: &str = "npu-build statistics 1 ";
/// How many of the last misses are kept.
const MISSES: usize = 64;
/// A line of a log is never longer.
const LINE_LIMIT: u64 = 4096;
/// A larger file is not one of ours: millions of keys.
const MAX_BYTES: u64 = 256 << 20;
/// Nor is a longer log: it is folded when it has a 256th of that.
const MAX_LOG: u64 = 64 << 20;

/// What has been counted since the last reset.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// When counting began, in seconds since 1970.
    pub since: u64,
    /// By kind of step.
    pub steps: BTreeMap<String, Counts>,
    /// How many misses and repairs there were, by the name of their cause.
    pub causes: BTreeMap<String, u64>,
    /// The last misses and repairs, newest last.
    pub misses: Vec<Missed>,
    /// The logs that are in it and may be there still, and how many bytes of each.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    folded: BTreeMap<String, u64>,
}

/// What became of the steps of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// How often the outputs were in the cache.
    pub hits: u64,
    /// How often they were not.
    pub misses: u64,
    /// How often they were, and did not verify.
    pub repairs: u64,
    /// How often the step failed.
    pub failures: u64,
    /// Bytes that hits delivered.
    pub bytes_hit: u64,
    /// Bytes that were built.
    pub bytes_built: u64,
    /// How long it took to build what hits delivered.
    pub milliseconds_saved: u64,
    /// How long it took to build the rest.
    pub milliseconds_spent: u64,
}

/// A step that had to be carried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missed {
    /// When, in seconds since 1970.
    pub time: u64,
    /// The kind of step.
    pub step: String,
    /// The kernel.
    pub kernel: String,
    /// The first sixteen digits of the key.
    pub key: String,
    /// The kind of reason.
    pub cause: Cause,
    /// The reason in one line.
    pub reason: String,
}

/// Totals, and the hits of every key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// The sums.
    pub totals: Totals,
    /// By the first eight bytes of the key.
    pub(crate) hits: HashMap<u64, u64>,
}

impl Collected {
    /// How often the entry of `key` was hit.
    #[must_use]
    pub fn hits(&self, key: &Digest) -> u64 {
        self.hits.get(&key.number()).copied().unwrap_or(0)
    }

    fn since_now() -> Self {
        let mut collected = Self::default();
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        collected.totals.since = now.map_or(0, |now| now.as_secs());
        collected
    }

    /// Nothing yet, counted since the oldest of the logs was begun.
    fn begun(log: &Log) -> Self {
        let mut collected = Self::since_now();
        let born = |(_, file): (String, File)| {
            let born = file.metadata().ok()?.created().ok()?;
            Some(born.duration_since(UNIX_EPOCH).ok()?.as_secs())
        };
        let oldest = log.readable().into_iter().filter_map(born).min();
        let since = &mut collected.totals.since;
        *since = oldest.map_or(*since, |oldest| oldest.min(*since));
        collected
    }

    fn add(&mut self, tally: Tally) {
        let totals = &mut self.totals;
        if let Some(cause) = tally.cause {
            *totals.causes.entry(cause.name().to_owned()).or_default() += tally.count;
            totals.misses.push(Missed {
                time: tally.time,
                step: tally.step.clone(),
                kernel: tally.kernel,
                key: format!("{:016x}", tally.key),
                cause,
                reason: tally.reason,
            });
            if totals.misses.len() > 2 * MISSES {
                totals.misses.drain(..MISSES);
            }
        }
        let counts = totals.steps.entry(tally.step).or_default();
        match &*tally.outcome {
            "hit" => {
                counts.hits += tally.count;
                counts.bytes_hit = counts.bytes_hit.saturating_add(tally.bytes);
                counts.milliseconds_saved =
                    counts.milliseconds_saved.saturating_add(tally.milliseconds);
                *self.hits.entry(tally.key).or_default() += tally.count;
                return;
            }
            "miss" => counts.misses += tally.count,
            "repair" => counts.repairs += tally.count,
            _ => counts.failures += tally.count,
        }
        counts.bytes_built = counts.bytes_built.saturating_add(tally.bytes);
        counts.milliseconds_spent = counts.milliseconds_spent.saturating_add(tally.milliseconds);
    }

    /// Adds the lines of `file` beyond its first `skipped` bytes, if it is a log. Gives its length.
    fn add_log(&mut self, file: &mut File, skipped: u64) -> io::Result<u64> {
        let length = file.metadata()?.len();
        if length > MAX_LOG {
            return Ok(length);
        }
        file.seek(io::SeekFrom::Start(skipped))?;
        let mut reader = BufReader::with_capacity(64 << 10, file);
        let (mut line, mut length) = (Vec::new(), skipped);
        loop {
            line.clear();
            let read = (&mut reader)
                .take(LINE_LIMIT)
                .read_until(b'\n', &mut line)?;
            if read == 0 {
                return Ok(length);
            }
            length += read as u64;
            let text = std::str::from_utf8(&line).unwrap_or_default();
            if let Some(tally) = Tally::parse(text.trim_end_matches('\n')) {
                self.add(tally);
            }
        }
    }
}

/// Everything that was counted. Folds where that is possible.
pub(super) fn collect(log: &Log) -> Collected {
    if open::check_real(log.directory()).is_err() {
        return Collected::since_now();
    }
    let folded = log.lock().and_then(|_lock| fold(log)).ok();
    folded.unwrap_or_else(|| {
        let mut collected = read(log.directory()).unwrap_or_else(|| Collected::begun(log));
        for (name, mut file) in log.readable() {
            let skipped = collected.totals.folded.get(&name).copied().unwrap_or(0);
            let _ = collected.add_log(&mut file, skipped);
        }
        collected
    })
}

/// Folds, unless somebody is at it.
pub(super) fn fold_if_idle(log: &Log) {
    if let Ok(Some(_lock)) = log.try_lock() {
        // What can't be folded is still in the logs.
        let _ = fold(log);
    }
}

/// Forgets everything. Gives what there was.
pub(super) fn reset(log: &Log) -> io::Result<Collected> {
    let _lock = log.lock()?;
    let collected = fold(log)?;
    write(log, &Collected::since_now())?;
    Ok(collected)
}

/// Forgets the hits of keys that `is_kept` does not want.
pub(super) fn prune(log: &Log, is_kept: impl Fn(u64) -> bool) -> io::Result<()> {
    let _lock = log.lock()?;
    let mut collected = fold(log)?;
    let before = collected.hits.len();
    collected.hits.retain(|key, _| is_kept(*key));
    if collected.hits.len() == before {
        return Ok(());
    }
    write(log, &collected)
}

/// Adds all logs to the totals. The caller holds the lock.
fn fold(log: &Log) -> io::Result<Collected> {
    let mut collected = read(log.directory()).unwrap_or_else(|| Collected::begun(log));
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |now| now.as_nanos());
    log.rotate(&format!("{now:x}-{}", std::process::id()))?;
    let mut taken = log.taken();
    if taken.is_empty() {
        return Ok(collected);
    }
    let mut folded = BTreeMap::new();
    for taken in &mut taken {
        let known = &collected.totals.folded;
        let skipped = known.get(&taken.name).copied().unwrap_or(0);
        let length = collected.add_log(&mut taken.file, skipped)?;
        folded.insert(taken.name.clone(), length);
    }
    // Of those that somebody still writes into, what is known remains.
    let left: Vec<_> = log.readable().into_iter().map(|(name, _)| name).collect();
    for (name, length) in std::mem::take(&mut collected.totals.folded) {
        if left.contains(&name) {
            folded.entry(name).or_insert(length);
        }
    }
    collected.totals.folded = folded;
    write(log, &collected)?;
    for taken in taken {
        taken.delete()?;
    }
    Ok(collected)
}

/// The totals in `directory`; `None` if there are none, or they are damaged.
fn read(directory: &Path) -> Option<Collected> {
    let bytes = super::super::entry::read_regular(&directory.join(TOTALS), MAX_BYTES).ok()?;
    let rest = bytes.strip_prefix(HEADER.as_bytes())?;
    let (digest, body) = rest.split_at_checked(64)?;
    let body = body.strip_prefix(b"\n")?;
    let digest: Digest = std::str::from_utf8(digest).ok()?.parse().ok()?;
    if digest != Digest::of(body) {
        return None;
    }
    let mut lines = std::str::from_utf8(body).ok()?.lines();
    let totals = serde_json::from_str(lines.next()?).ok()?;
    let hits = lines.map(|line| {
        let (key, hits) = line.split_once(' ')?;
        Some((u64::from_str_radix(key, 16).ok()?, hits.parse().ok()?))
    });
    let hits = hits.collect::<Option<_>>()?;
    Some(Collected { totals, hits })
}

/// Replaces the totals.
fn write(log: &Log, collected: &Collected) -> io::Result<()> {
    let mut totals = collected.totals.clone();
    let surplus = totals.misses.len().saturating_sub(MISSES);
    totals.misses.drain(..surplus);
    let mut body = serde_json::to_vec(&totals)?;
    let mut hits: Vec<_> = collected.hits.iter().collect();
    hits.sort_unstable();
    for (key, hits) in hits {
        write!(body, "\n{key:016x} {hits}")?;
    }
    let mut file = tempfile::NamedTempFile::new_in(log.directory())?;
    writeln!(file, "{HEADER}{}", Digest::of(&body))?;
    file.write_all(&body)?;
    open::share_file(file.as_file(), log.sharing());
    file.persist(log.directory().join(TOTALS))
        .map_err(|error| error.error)?;
    Ok(())
}
