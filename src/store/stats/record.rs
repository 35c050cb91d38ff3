//! One line of the log. A line begins with its newline and ends with a mark, so that one which was
//! cut short by a full disk or a kill spoils nothing but itself.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::Asked;

/// How many characters of a reason are kept.
const REASON_LIMIT: usize = 240;
/// The last field of a line that is whole.
const MARK: &str = ".";

/// Why a step's outputs were not in the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Miss {
    /// What kind of reason it is.
    pub cause: Cause,
    /// One line for people.
    pub reason: String,
}

/// Kinds of reasons for a miss, from what explains most to what explains least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cause {
    /// There is no cache, or the caller wanted to build.
    Asked,
    /// An entry was there, and did not verify.
    Damaged,
    /// This very entry was there once.
    Deleted,
    /// No earlier build of the kernel is known.
    New,
    /// npu-build makes something else of the same material now.
    Version,
    /// A program, or one of its libraries.
    Tool,
    /// A command's arguments.
    Option,
    /// A variable that the commands get.
    Environment,
    /// Something about the machine, or another fact.
    Fact,
    /// Which outputs are wanted.
    Outputs,
    /// The kernel's text.
    Source,
    /// Another input: a transform script, a linked file, what an earlier step made.
    Input,
}

impl Cause {
    const ALL: [Self; 12] = [
        Self::Asked,
        Self::Damaged,
        Self::Deleted,
        Self::New,
        Self::Version,
        Self::Tool,
        Self::Option,
        Self::Environment,
        Self::Fact,
        Self::Outputs,
        Self::Source,
        Self::Input,
    ];

    /// The name in statistics and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Asked => "asked",
            Self::Damaged => "damaged",
            Self::Deleted => "deleted",
            Self::New => "new",
            Self::Version => "version",
            Self::Tool => "tool",
            Self::Option => "option",
            Self::Environment => "environment",
            Self::Fact => "fact",
            Self::Outputs => "outputs",
            Self::Source => "source",
            Self::Input => "input",
        }
    }
}

impl FromStr for Cause {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut all = Self::ALL.into_iter();
        all.find(|cause| cause.name() == text).ok_or(())
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Miss {
    /// A miss of that kind.
    #[must_use]
    pub fn new(cause: Cause, reason: impl Into<String>) -> Self {
        Self {
            cause,
            reason: reason.into(),
        }
    }
}

/// What happened to one key, once or several times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tally {
    /// `hit`, `miss`, `repair` or `failure`.
    pub(super) outcome: String,
    pub(super) step: String,
    /// The first eight bytes of the key.
    pub(super) key: u64,
    pub(super) count: u64,
    pub(super) bytes: u64,
    pub(super) milliseconds: u64,
    /// When it happened, in seconds since 1970; of a miss.
    pub(super) time: u64,
    pub(super) cause: Option<Cause>,
    pub(super) kernel: String,
    pub(super) reason: String,
}

impl Tally {
    pub(super) fn new(outcome: &str, asked: Asked<'_>) -> Self {
        Self {
            outcome: outcome.to_owned(),
            step: asked.step.kind.name().to_owned(),
            key: asked.key.number(),
            count: 1,
            bytes: asked.bytes,
            milliseconds: milliseconds(asked.took),
            time: 0,
            cause: None,
            kernel: String::new(),
            reason: String::new(),
        }
    }

    pub(super) fn miss(outcome: &str, asked: Asked<'_>, miss: &Miss) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            time: now.map_or(0, |now| now.as_secs()),
            cause: Some(miss.cause),
            kernel: plain(&asked.step.subject),
            reason: plain(&miss.reason),
            ..Self::new(outcome, asked)
        }
    }

    pub(super) fn is_hit_of(&self, key: u64) -> bool {
        self.key == key && self.outcome == "hit"
    }

    /// The same once more.
    pub(super) fn again(&mut self, asked: Asked<'_>) {
        self.count += 1;
        self.bytes += asked.bytes;
        self.milliseconds += milliseconds(asked.took);
    }

    /// The line, newline first.
    pub(super) fn line(&self) -> String {
        let cause = self.cause.map_or("", Cause::name);
        format!(
            "\n{}\t{}\t{:016x}\t{}\t{}\t{}\t{}\t{cause}\t{}\t{}\t{MARK}",
            self.outcome,
            self.step,
            self.key,
            self.count,
            self.bytes,
            self.milliseconds,
            self.time,
            self.kernel,
            self.reason
        )
    }

    /// Reads a line without its newline; `None` if it is not whole.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let mut fields = line.split('\t');
        let mut next = || fields.next();
        let tally = Self {
            outcome: next()?.to_owned(),
            step: next()?.to_owned(),
            key: u64::from_str_radix(next()?, 16).ok()?,
            count: next()?.parse().ok()?,
            bytes: next()?.parse().ok()?,
            milliseconds: next()?.parse().ok()?,
            time: next()?.parse().ok()?,
            cause: match next()? {
                "" => None,
                cause => Some(cause.parse().ok()?),
            },
            kernel: next()?.to_owned(),
            reason: next()?.to_owned(),
        };
        let is_known = matches!(&*tally.outcome, "hit" | "miss" | "repair" | "failure");
        (is_known && next() == Some(MARK) && next().is_none()).then_some(tally)
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// What can stand in a field.
fn plain(text: &str) -> String {
    let text = text.chars().take(REASON_LIMIT);
    text.map(|c| if c.is_control() { ' ' } else { c }).collect()
}
