//! Statistics: what the cache has done, always counted and cheap enough for that.
//!
//! A process counts hits in memory and appends a line for each key to a log, at its end, once a
//! second, and with every miss. Nobody locks for that. Whoever finds the log long, and `gc`, folds it
//! into the totals. Nothing is built on the numbers, so they are not exact at all costs: a process
//! that is killed loses its last second, or counts twice the log that it was folding; and a line that
//! is appended in the very moment of a fold may be lost.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::files::{append, check_directory, create_directory, delete, now, read_regular, replace};
use super::lock::{self, Mode};
use super::manifest::milliseconds;
use super::types::{Cause, Collected, EnsureError, LockError, Missed, Sharing, StepResult};
use crate::digest::Digest;
use crate::interrupt::Interrupt;
use crate::step::Step;

/// How long hits may be counted in memory alone.
const UNWRITTEN: Duration = Duration::from_secs(1);
/// How many keys' hits may be counted in memory alone.
const KEYS: usize = 64;
/// A log of this many bytes is folded.
const LONG: u64 = 256 << 10;
/// A longer log is not one of ours.
const MAX_LOG: u64 = 64 << 20;
/// Nor are larger totals: millions of keys.
const MAX_TOTALS: u64 = 256 << 20;
/// How many of the last misses are kept.
const MISSES: usize = 64;
/// How many characters of a reason are kept.
const REASON_LIMIT: usize = 240;

/// Counts for one cache directory.
#[derive(Debug)]
pub(super) struct Statistics {
    directory: PathBuf,
    sharing: Sharing,
    pending: Mutex<Pending>,
}

#[derive(Debug)]
struct Pending {
    tallies: Vec<Tally>,
    since: Instant,
}

/// A line of the log: what became of one key, once or several times.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Tally {
    time: u64,
    outcome: Counted,
    step: String,
    key: u64,
    count: u64,
    bytes: u64,
    milliseconds: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    miss: Option<Missed>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Counted {
    Hit,
    Miss,
    Repair,
    Failure,
}

impl Tally {
    fn new(step: &Step, key: &Digest, outcome: Counted, bytes: u64, took: Duration) -> Self {
        Self {
            time: now(),
            outcome,
            step: step.kind.name().to_owned(),
            key: key.number(),
            count: 1,
            bytes,
            milliseconds: milliseconds(took),
            miss: None,
        }
    }

    fn of_result(step: &Step, result: &StepResult) -> Self {
        let outcome = match &result.miss {
            None => Counted::Hit,
            Some(miss) if miss.cause == Cause::Damaged => Counted::Repair,
            Some(_) => Counted::Miss,
        };
        let sizes = result.artifacts.iter().map(|artifact| artifact.size);
        let tally = Self::new(step, &result.key, outcome, sizes.sum(), result.took);
        let miss = result.miss.as_ref().map(|miss| Missed {
            time: tally.time,
            step: tally.step.clone(),
            kernel: step.subject.clone(),
            key: result.key.short(),
            cause: miss.cause,
            reason: miss.reason.chars().take(REASON_LIMIT).collect(),
        });
        Self { miss, ..tally }
    }
}

impl Statistics {
    /// Statistics in `directory`, which is made when there is something to write.
    pub(super) fn new(directory: PathBuf, sharing: Sharing) -> Self {
        let pending = Pending {
            tallies: Vec::new(),
            since: Instant::now(),
        };
        Self {
            directory,
            sharing,
            pending: Mutex::new(pending),
        }
    }

    /// Counts what became of a step.
    pub(super) fn count(
        &self,
        step: &Step,
        key: &Digest,
        elapsed: Duration,
        result: &Result<StepResult, EnsureError>,
    ) {
        let tally = match result {
            Ok(result) => Tally::of_result(step, result),
            Err(_) => Tally::new(step, key, Counted::Failure, 0, elapsed),
        };
        let is_hit = tally.outcome == Counted::Hit;
        let mut pending = self.pending();
        let mut known = pending.tallies.iter_mut();
        let is_same = |known: &&mut Tally| known.outcome == Counted::Hit && known.key == tally.key;
        match known.find(is_same).filter(|_| is_hit) {
            Some(known) => {
                known.count += 1;
                known.bytes += tally.bytes;
                known.milliseconds += tally.milliseconds;
            }
            None => pending.tallies.push(tally),
        }
        let is_due = pending.tallies.len() > KEYS || pending.since.elapsed() > UNWRITTEN;
        if !is_hit || is_due {
            self.write(&mut pending);
        }
    }

    /// Everything that was counted, by all processes.
    pub(super) fn collect(&self) -> Collected {
        self.write(&mut self.pending());
        let mut collected = self.totals();
        if check_directory(&self.directory).is_ok() {
            for log in [self.folding(), self.log()] {
                add_log(&mut collected, &log);
            }
        }
        collected
    }

    /// Begins to count anew. Gives what there was.
    pub(super) fn reset(&self) -> io::Result<Collected> {
        self.check_or_create_directory()?;
        let (path, interrupt) = (self.lock(), Interrupt::default());
        let lock = lock::acquire(&path, Mode::Exclusive, self.sharing, &interrupt, &|_| ());
        let _lock = lock.map_err(|error| match error {
            LockError::Io { source, .. } => source,
            LockError::Interrupted => ErrorKind::Interrupted.into(),
        })?;
        let collected = self.collect();
        delete(&self.folding());
        delete(&self.log());
        self.write_totals(&begun())?;
        Ok(collected)
    }

    /// Folds the log, and forgets the hits of keys that `is_kept` does not want; unless somebody is at
    /// it.
    pub(super) fn fold(&self, is_kept: impl Fn(u64) -> bool) -> io::Result<()> {
        self.write(&mut self.pending());
        self.fold_written(is_kept)
    }

    fn fold_written(&self, is_kept: impl Fn(u64) -> bool) -> io::Result<()> {
        self.check_or_create_directory()?;
        let Some(_lock) = lock::try_acquire(&self.lock(), Mode::Exclusive, self.sharing)? else {
            return Ok(());
        };
        let mut collected = self.totals();
        let log = self.folding();
        // What a fold that was killed left comes first, and the log with the next one.
        if fs::symlink_metadata(&log).is_err() {
            match fs::rename(self.log(), &log) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        add_log(&mut collected, &log);
        collected.hits.retain(|key, _| is_kept(*key));
        self.write_totals(&collected)?;
        delete(&log);
        Ok(())
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nobody's build depends on the outcome.
    fn write(&self, pending: &mut Pending) {
        pending.since = Instant::now();
        let mut text = Vec::new();
        for tally in pending.tallies.drain(..) {
            // So that a line which was cut short spoils nothing but itself.
            text.push(b'\n');
            if serde_json::to_writer(&mut text, &tally).is_err() {
                return;
            }
        }
        if text.is_empty() || self.check_or_create_directory().is_err() {
            return;
        }
        let length = append(&self.log(), self.sharing, &text);
        if length.is_ok_and(|length| length > LONG) {
            let _ = self.fold_written(|_| true);
        }
    }

    fn check_or_create_directory(&self) -> io::Result<()> {
        match check_directory(&self.directory) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                create_directory(&self.directory, self.sharing)
            }
            checked => checked,
        }
    }

    fn log(&self) -> PathBuf {
        self.directory.join("log")
    }

    /// The log while it is folded.
    fn folding(&self) -> PathBuf {
        self.directory.join("folding")
    }

    fn lock(&self) -> PathBuf {
        self.directory.join("lock")
    }

    /// The sum of all logs that were folded. Where that can't be read, counting begins anew.
    fn totals(&self) -> Collected {
        let bytes = check_directory(&self.directory)
            .and_then(|()| read_regular(&self.directory.join("totals"), MAX_TOTALS));
        let totals = bytes
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok());
        totals.unwrap_or_else(begun)
    }

    fn write_totals(&self, collected: &Collected) -> io::Result<()> {
        let path = self.directory.join("totals");
        replace(&path, self.sharing, &serde_json::to_vec(collected)?)
    }
}

impl Drop for Statistics {
    fn drop(&mut self) {
        self.write(&mut self.pending());
    }
}

fn begun() -> Collected {
    let mut collected = Collected::default();
    collected.totals.since = now();
    collected
}

fn add_log(collected: &mut Collected, path: &Path) {
    let bytes = read_regular(path, MAX_LOG).unwrap_or_default();
    let lines = bytes.split(|byte| *byte == b'\n');
    for tally in lines.filter_map(|line| serde_json::from_slice(line).ok()) {
        add(collected, tally);
    }
    let misses = &mut collected.totals.misses;
    misses.drain(..misses.len().saturating_sub(MISSES));
}

fn add(collected: &mut Collected, tally: Tally) {
    let totals = &mut collected.totals;
    totals.since = totals.since.min(tally.time);
    if let Some(miss) = tally.miss {
        let count = totals.causes.entry(miss.cause.name().to_owned());
        *count.or_default() += tally.count;
        totals.misses.push(miss);
    }
    let counts = totals.steps.entry(tally.step).or_default();
    let (bytes, milliseconds) = match tally.outcome {
        Counted::Hit => {
            counts.hits += tally.count;
            *collected.hits.entry(tally.key).or_default() += tally.count;
            (&mut counts.bytes_hit, &mut counts.milliseconds_saved)
        }
        other => {
            match other {
                Counted::Miss => counts.misses += tally.count,
                Counted::Repair => counts.repairs += tally.count,
                _ => counts.failures += tally.count,
            }
            (&mut counts.bytes_built, &mut counts.milliseconds_spent)
        }
    };
    *bytes = bytes.saturating_add(tally.bytes);
    *milliseconds = milliseconds.saturating_add(tally.milliseconds);
}

#[cfg(test)]
mod tests;
