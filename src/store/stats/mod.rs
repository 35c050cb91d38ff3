//! Statistics: what the cache has done, always counted and cheap enough for that.
//!
//! A process counts in memory and appends a line for each key to a log, at its end or once a second,
//! and at once for a miss. Whoever makes the log long folds it into totals. Every line is counted
//! exactly once, whoever is killed when; what is lost with a killed process is its last second.

mod log;
mod record;
mod totals;

use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use record::Tally;
pub use record::{Cause, Miss};
pub use totals::{Collected, Counts, Missed, Totals};

use super::Sharing;
use crate::digest::Digest;
use crate::step::Step;

/// How long hits may be counted in memory alone.
const UNWRITTEN: Duration = Duration::from_secs(1);
/// How many keys' hits may be counted in memory alone.
const KEYS: usize = 64;

/// Counts for one cache directory.
#[derive(Debug)]
pub struct Statistics {
    log: log::Log,
    pending: Mutex<Pending>,
}

#[derive(Debug)]
struct Pending {
    tallies: Vec<Tally>,
    since: Instant,
}

/// One step that was asked for, as far as it is counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<'a> {
    pub(super) step: &'a Step,
    pub(super) key: &'a Digest,
    /// Of all artifacts.
    pub(super) bytes: u64,
    /// How long the step took when it was carried out.
    pub(super) took: Duration,
}

impl Statistics {
    /// Statistics in `directory`, which is made when there is something to write.
    pub(super) fn new(directory: PathBuf, sharing: Sharing) -> Self {
        Self {
            log: log::Log::new(directory, sharing),
            pending: Mutex::new(Pending {
                tallies: Vec::new(),
                since: Instant::now(),
            }),
        }
    }

    /// Counts a hit.
    pub(super) fn hit(&self, asked: Asked<'_>) {
        let mut pending = self.pending();
        let short = asked.key.number();
        let known = pending.tallies.iter_mut();
        match known.into_iter().find(|tally| tally.is_hit_of(short)) {
            Some(tally) => tally.again(asked),
            None => pending.tallies.push(Tally::new("hit", asked)),
        }
        if pending.tallies.len() > KEYS || pending.since.elapsed() > UNWRITTEN {
            self.write(&mut pending);
        }
    }

    /// Counts a step that was carried out, and says why.
    pub(super) fn miss(&self, asked: Asked<'_>, miss: &Miss) {
        let outcome = match miss.cause {
            Cause::Damaged => "repair",
            _ => "miss",
        };
        let mut pending = self.pending();
        pending.tallies.push(Tally::miss(outcome, asked, miss));
        self.write(&mut pending);
    }

    /// Counts a step that failed.
    pub(super) fn failure(&self, asked: Asked<'_>) {
        let mut pending = self.pending();
        pending.tallies.push(Tally::new("failure", asked));
        self.write(&mut pending);
    }

    /// Everything that was ever counted, by all processes; folded if the directory can be written.
    pub(super) fn collect(&self) -> Collected {
        self.flush();
        totals::collect(&self.log)
    }

    /// Begins to count anew. Gives what there was.
    pub(super) fn reset(&self) -> io::Result<Collected> {
        self.flush();
        totals::reset(&self.log)
    }

    /// Forgets the hits of keys that `is_kept` does not want.
    pub(super) fn prune(&self, is_kept: impl Fn(u64) -> bool) -> io::Result<()> {
        self.flush();
        totals::prune(&self.log, is_kept)
    }

    fn flush(&self) {
        self.write(&mut self.pending());
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nobody's build depends on the outcome.
    fn write(&self, pending: &mut Pending) {
        pending.since = Instant::now();
        if pending.tallies.is_empty() {
            return;
        }
        let text: String = pending
            .tallies
            .drain(..)
            .map(|tally| tally.line())
            .collect();
        if self
            .log
            .append(&text)
            .is_ok_and(|length| length > log::LONG)
        {
            totals::fold_if_idle(&self.log);
        }
    }
}

impl Drop for Statistics {
    fn drop(&mut self) {
        self.flush();
    }
}

#[cfg(test)]
mod tests;
