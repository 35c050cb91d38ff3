//! Statistics: what the cache has done, always counted and cheap enough for that.
//!
//! A process counts hits in memory and appends a line for each key to a log, at its end and with every
//! miss. Nobody locks for that. Whoever finds the log long, and `gc`, folds it into the totals. Nothing
//! is built on the numbers, so they are not exact at all costs: a process that is killed loses the hits
//! that it has not written, or counts twice the log that it was folding; and what is appended during
//! a fold is lost.

use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use super::files::{append, check_directory, delete, now, read_regular, replace};
use super::lock::{self, Mode};
use super::manifest::milliseconds;
use super::types::{Cause, EnsureError, Missed, Sharing, StepResult, Totals};
use crate::digest::Digest;
use crate::interrupt::Interrupt;
use crate::step::Step;

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
    /// What is not written yet.
    pending: Mutex<Vec<Tally>>,
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
    fn new(step: &Step, key: &Digest, result: Option<&StepResult>) -> Self {
        let miss = result.and_then(|result| result.miss.as_ref());
        let artifacts = result.iter().flat_map(|result| &result.artifacts);
        let (time, kind) = (now(), step.kind.name().to_owned());
        Self {
            time,
            outcome: match (result, miss) {
                (None, _) => Counted::Failure,
                (_, None) => Counted::Hit,
                (_, Some(miss)) if miss.cause == Cause::Damaged => Counted::Repair,
                _ => Counted::Miss,
            },
            miss: miss.map(|miss| Missed {
                time,
                step: kind.clone(),
                kernel: step.subject.clone(),
                key: key.short(),
                cause: miss.cause,
                reason: miss.reason.chars().take(REASON_LIMIT).collect(),
            }),
            step: kind,
            key: key.number(),
            count: 1,
            bytes: artifacts.map(|artifact| artifact.size).sum(),
            milliseconds: result.map_or(0, |result| milliseconds(result.took)),
        }
    }
}

impl Statistics {
    pub(super) fn new(directory: PathBuf, sharing: Sharing) -> Self {
        Self {
            directory,
            sharing,
            pending: Mutex::default(),
        }
    }

    /// Counts what became of a step.
    pub(super) fn count(
        &self,
        step: &Step,
        key: &Digest,
        result: &Result<StepResult, EnsureError>,
    ) {
        let tally = Tally::new(step, key, result.as_ref().ok());
        let is_hit = tally.outcome == Counted::Hit;
        let mut pending = self.pending();
        let mut known = pending.iter_mut();
        let is_same = |known: &&mut Tally| known.outcome == Counted::Hit && known.key == tally.key;
        match known.find(is_same).filter(|_| is_hit) {
            Some(known) => {
                known.count += 1;
                known.bytes += tally.bytes;
                known.milliseconds += tally.milliseconds;
            }
            None => pending.push(tally),
        }
        if !is_hit || pending.len() > KEYS {
            self.write(&mut pending);
        }
    }

    /// Everything that was counted, by all processes.
    pub(super) fn collect(&self) -> Totals {
        self.write(&mut self.pending());
        self.sum()
    }

    /// Begins to count anew. Gives what there was.
    pub(super) fn reset(&self) -> io::Result<Totals> {
        self.write(&mut self.pending());
        check_directory(&self.directory)?;
        let interrupt = Interrupt::default();
        let lock = lock::acquire(
            &self.lock(),
            Mode::Exclusive,
            self.sharing,
            &interrupt,
            &|_| (),
        );
        let _lock = lock.map_err(io::Error::other)?;
        let totals = self.sum();
        self.replace_totals(&begun())?;
        Ok(totals)
    }

    /// Forgets the hits of keys that `is_kept` does not want.
    pub(super) fn prune(&self, is_kept: impl Fn(u64) -> bool) -> io::Result<()> {
        self.write(&mut self.pending());
        self.fold(|totals| totals.hits.retain(|key, _| is_kept(*key)))
    }

    /// Adds the log to the totals and changes them, unless somebody is at it.
    fn fold(&self, change: impl FnOnce(&mut Totals)) -> io::Result<()> {
        check_directory(&self.directory)?;
        if let Some(_lock) = lock::try_acquire(&self.lock(), Mode::Exclusive, self.sharing)? {
            let mut totals = self.sum();
            change(&mut totals);
            self.replace_totals(&totals)?;
        }
        Ok(())
    }

    /// Makes these the totals, with the log in them.
    fn replace_totals(&self, totals: &Totals) -> io::Result<()> {
        let text = serde_json::to_vec(totals)?;
        replace(&self.directory.join("totals"), self.sharing, &text)?;
        delete(&self.log());
        Ok(())
    }

    fn pending(&self) -> MutexGuard<'_, Vec<Tally>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nobody's build depends on the outcome.
    fn write(&self, pending: &mut Vec<Tally>) {
        let mut text = Vec::new();
        for tally in pending.drain(..) {
            // So that a line which was cut short spoils nothing but itself.
            text.push(b'\n');
            if serde_json::to_writer(&mut text, &tally).is_err() {
                return;
            }
        }
        if text.is_empty() || check_directory(&self.directory).is_err() {
            return;
        }
        let length = append(&self.log(), self.sharing, &text);
        if length.is_ok_and(|length| length > LONG) {
            let _ = self.fold(|_| ());
        }
    }

    fn log(&self) -> PathBuf {
        self.directory.join("log")
    }

    fn lock(&self) -> PathBuf {
        self.directory.join("lock")
    }

    /// The totals and the log. Where the totals can't be read, counting begins anew.
    fn sum(&self) -> Totals {
        if check_directory(&self.directory).is_err() {
            return begun();
        }
        let bytes = read_regular(&self.directory.join("totals"), MAX_TOTALS).ok();
        let totals = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let mut totals = totals.unwrap_or_else(begun);
        let log = read_regular(&self.log(), MAX_LOG).unwrap_or_default();
        let lines = log.split(|byte| *byte == b'\n');
        for tally in lines.filter_map(|line| serde_json::from_slice(line).ok()) {
            add(&mut totals, tally);
        }
        let surplus = totals.misses.len().saturating_sub(MISSES);
        totals.misses.drain(..surplus);
        totals
    }
}

impl Drop for Statistics {
    fn drop(&mut self) {
        self.write(&mut self.pending());
    }
}

fn begun() -> Totals {
    Totals {
        since: now(),
        ..Totals::default()
    }
}

fn add(totals: &mut Totals, tally: Tally) {
    totals.since = totals.since.min(tally.time);
    if let Some(miss) = tally.miss {
        *totals.causes.entry(miss.cause).or_default() += tally.count;
        totals.misses.push(miss);
    }
    let counts = totals.steps.entry(tally.step).or_default();
    match tally.outcome {
        Counted::Miss => counts.misses += tally.count,
        Counted::Repair => counts.repairs += tally.count,
        Counted::Failure => counts.failures += tally.count,
        Counted::Hit => {
            counts.hits += tally.count;
            counts.bytes_hit = counts.bytes_hit.saturating_add(tally.bytes);
            let saved = &mut counts.milliseconds_saved;
            *saved = saved.saturating_add(tally.milliseconds);
            *totals.hits.entry(tally.key).or_default() += tally.count;
        }
    }
}

#[cfg(test)]
mod tests;
