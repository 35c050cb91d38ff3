//! The store: the cache directory and [`Store::ensure`], the one way to have a step's outputs.
//!
//! An entry is a directory named by its key, published by one rename with its manifest inside, and
//! verified by content whenever it is used. Whatever does not verify is quarantined and built again.
//! Locks only keep two processes from doing the same work; nothing relies on them.

mod area;
mod clean;
mod clear;
mod directory;
pub mod entry;
mod evict;
pub mod explain;
pub mod layout;
mod list;
pub mod lock;
mod make;
pub mod manifest;
mod open;
pub mod stats;
mod survey;
mod sweep;
mod verified;
mod verify;

use std::fmt;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use clean::{Bounds, CleanError, Cleaned};
pub use clear::{ClearError, Cleared, Selection};
pub use entry::{Artifact, Fault};
use entry::{Lookup, Shelf, Temporary};
use layout::Layout;
pub use list::{Listed, ShowError, Shown};
use lock::Holder;
use make::{Job, Made};
pub use open::{OpenError, Sharing};
use stats::{Asked, Collected, Miss, Statistics};
pub use verify::{Checked, OnProblem, Problem};

use crate::digest::Digest;
use crate::step::execute::ExecuteError;
use crate::step::run::{Invocation, Runner};
use crate::step::{Keyed, Kind, Step};

/// A cache directory that has been checked, or the decision to do without one.
#[derive(Debug)]
pub struct Store {
    cache: Option<Cache>,
}

#[derive(Debug)]
struct Cache {
    own: Shelf,
    /// Where else entries are looked up, in this order; nothing is ever written there.
    layers: Vec<Shelf>,
    /// Why nothing can be written, if so.
    read_only: Option<String>,
    /// What deletes it in the end, if it is for this process alone.
    temporary: Option<Arc<Temporary>>,
    /// Not of a cache that can't be written, or is gone with this process.
    statistics: Option<Statistics>,
}

/// How an artifact was come by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was in the cache and verified.
    Hit,
    /// It was not in the cache.
    Built,
    /// What was in the cache did not verify.
    Repaired {
        /// What was wrong with it.
        reason: String,
    },
}

impl Outcome {
    /// `hit`, `built` or `repaired`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::Built => "built",
            Self::Repaired { .. } => "repaired",
        }
    }
}

/// A step's outputs.
#[derive(Clone, Debug)]
pub struct Ensured {
    /// The kind of step.
    pub kind: Kind,
    /// The target that it was made for.
    pub target: &'static str,
    /// Its key.
    pub key: Digest,
    /// How they were come by.
    pub outcome: Outcome,
    /// Why they had to be built, if they had.
    pub miss: Option<Miss>,
    /// One for each declared output, in order, verified.
    pub artifacts: Vec<Artifact>,
    /// How long it took, waiting included.
    pub elapsed: Duration,
}

/// What there is to tell while a step is made.
#[derive(Clone, Debug)]
pub enum Event<'a> {
    /// Another process is building the same thing.
    Waiting {
        /// The kernel.
        subject: &'a str,
        /// The kind of step.
        kind: Kind,
        /// Who builds it, if they said.
        holder: Option<Holder>,
    },
    /// Another process is emptying the cache.
    WaitingForCache {
        /// Who it is, if they said.
        holder: Option<Holder>,
    },
    /// A command starts.
    Running {
        /// The kernel.
        subject: &'a str,
        /// The kind of step.
        kind: Kind,
        /// The target that it is made for.
        target: &'static str,
        /// The command line.
        invocation: &'a Invocation,
    },
    /// An entry did not verify.
    Damaged(Damage<'a>),
    /// Something is not as it should be, but the build goes on.
    Warning(String),
}

/// An entry that can't be used, and what became of it.
#[derive(Clone, Debug)]
pub struct Damage<'a> {
    /// The kernel.
    pub subject: &'a str,
    /// The kind of step.
    pub kind: Kind,
    /// What is wrong with it.
    pub fault: &'a Fault,
    /// Where it is now.
    pub fate: Fate,
}

/// What became of an entry that can't be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It was moved to the quarantine.
    Quarantined,
    /// It was no directory of ours, or is gone already.
    Gone,
    /// It could not be moved.
    Stays,
}

impl fmt::Display for Damage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            subject,
            kind,
            fault,
            fate,
        } = self;
        let fate = match fate {
            Fate::Quarantined => "it was moved to the quarantine and is made again",
            Fate::Gone => "it is made again",
            Fate::Stays => "it stays where it is, and what is made now is not kept",
        };
        write!(f, "the cache's {kind} entry of {subject} {fault}; {fate}")
    }
}

/// Where events go.
pub type Observer<'a> = &'a (dyn Fn(Event<'_>) + Sync);

/// Why a step has no outputs.
#[derive(Debug, thiserror::Error)]
pub enum EnsureError {
    /// The step itself failed.
    #[error(transparent)]
    Execute(#[from] ExecuteError),
    /// Neither the cache nor the temporary directory could be written.
    #[error("can't write the cache, nor the temporary directory {}: {source}", path.display())]
    Temporary {
        /// The temporary directory.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
}

impl Store {
    /// Opens the cache directory `root`, and makes it if there is none. Where it can only be read,
    /// hits are served and builds are not kept.
    ///
    /// # Errors
    /// When there is something else in its place, or others than `sharing` allows can write it.
    pub fn open(root: &Path, sharing: Sharing, observe: Observer<'_>) -> Result<Self, OpenError> {
        let layout = Layout::new(root.to_owned());
        let read_only = open::open(&layout, sharing)?.map(|error| {
            observe(Event::Warning(format!(
                "can't write the cache {}: {error}; what is built now is not kept",
                root.display()
            )));
            error.to_string()
        });
        Ok(Self::in_directory(layout, sharing, read_only))
    }

    /// Opens the cache directory `root` if there is one; makes nothing.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open_existing(root: &Path, sharing: Sharing) -> Result<Option<Self>, OpenError> {
        let layout = Layout::new(root.to_owned());
        let is_there = open::open_existing(&layout, sharing)?;
        Ok(is_there.then(|| Self::in_directory(layout, sharing, None)))
    }

    fn in_directory(layout: Layout, sharing: Sharing, read_only: Option<String>) -> Self {
        let statistics = Statistics::new(layout.statistics(), sharing);
        let cache = Cache {
            statistics: read_only.is_none().then_some(statistics),
            own: Shelf::new(layout, sharing, true),
            layers: Vec::new(),
            read_only,
            temporary: None,
        };
        Self { cache: Some(cache) }
    }

    /// A new cache in the system's temporary directory; it lives as long as the store and the
    /// artifacts from it.
    ///
    /// # Errors
    /// When nothing can be written there.
    pub fn temporary() -> io::Result<Self> {
        let directory = tempfile::Builder::new().prefix("npu-build-").tempdir()?;
        let layout = Layout::new(directory.path().to_owned());
        open::populate(&layout, Sharing::Private)?;
        let cache = Cache {
            own: Shelf::new(layout, Sharing::Private, true),
            layers: Vec::new(),
            read_only: None,
            temporary: Some(Arc::new(directory.into())),
            statistics: None,
        };
        Ok(Self { cache: Some(cache) })
    }

    /// Looks up in the cache directories `layers` as well, in this order, what is not in its own. They
    /// are only read, whoever they belong to; one that is not there is left out, with a warning.
    ///
    /// # Errors
    /// When everybody can write one of them.
    pub fn with_layers(
        mut self,
        layers: &[PathBuf],
        observe: Observer<'_>,
    ) -> Result<Self, OpenError> {
        let Some(cache) = &mut self.cache else {
            return Ok(self);
        };
        for root in layers {
            let layout = Layout::new(root.clone());
            match open::check_layer(&layout)? {
                None => cache.layers.push(Shelf::new(layout, Sharing::Group, false)),
                Some(reason) => observe(Event::Warning(format!(
                    "nothing is looked up in the cache layer {}: {reason}",
                    root.display()
                ))),
            }
        }
        Ok(self)
    }

    /// A store that keeps nothing.
    #[must_use]
    pub const fn disabled() -> Self {
        Self { cache: None }
    }

    /// The paths of the cache directory, if there is one.
    #[must_use]
    pub fn layout(&self) -> Option<&Layout> {
        self.cache.as_ref().map(Cache::layout)
    }

    /// Everything that was counted in this cache, by all processes.
    #[must_use]
    pub fn statistics(&self) -> Collected {
        let Some(cache) = &self.cache else {
            return Collected::default();
        };
        match &cache.statistics {
            Some(statistics) => statistics.collect(),
            // They can be read all the same.
            None => Statistics::new(cache.layout().statistics(), cache.sharing()).collect(),
        }
    }

    /// Begins to count anew. Gives what was counted.
    ///
    /// # Errors
    /// When the cache can't be written.
    pub fn reset_statistics(&self) -> io::Result<Collected> {
        match self
            .cache
            .as_ref()
            .and_then(|cache| cache.statistics.as_ref())
        {
            Some(statistics) => statistics.reset(),
            None => Err(ErrorKind::ReadOnlyFilesystem.into()),
        }
    }

    /// The outputs of `step`: from the cache if they are there and verify, built otherwise. With
    /// `refresh` they are built in any case, and replace what is in the cache.
    ///
    /// # Errors
    /// See [`EnsureError`]. A cache that can't be used is no error but a warning.
    pub fn ensure(
        &self,
        step: &Keyed,
        refresh: bool,
        runner: &Runner,
        observe: Observer<'_>,
    ) -> Result<Ensured, EnsureError> {
        let started = Instant::now();
        let (step, key) = (step.step(), *step.key());
        let job = Job {
            step,
            key,
            refresh,
            runner,
            observe,
        };
        let made = match &self.cache {
            None => job.make_without()?,
            Some(cache) => {
                // What is to be replaced need not be read.
                let known = (!refresh).then(|| cache.lookup(&key, step));
                let made = match known {
                    Some(Lookup::Hit(found)) => Ok(Made::hit(found)),
                    _ => job.make_in(cache),
                };
                cache.count(step, &key, started.elapsed(), &made);
                let mut made = made?;
                made.found.artifacts = cache.lend(made.found.artifacts);
                made
            }
        };
        Ok(Ensured {
            kind: step.kind,
            target: step.target,
            key,
            outcome: made.outcome,
            miss: made.miss,
            artifacts: made.found.artifacts,
            elapsed: started.elapsed(),
        })
    }
}

impl Cache {
    /// Lets a temporary cache live as long as what is taken from it.
    fn lend(&self, mut artifacts: Vec<Artifact>) -> Vec<Artifact> {
        if let Some(temporary) = &self.temporary {
            for artifact in &mut artifacts {
                artifact
                    .temporary
                    .get_or_insert_with(|| Arc::clone(temporary));
            }
        }
        artifacts
    }

    fn layout(&self) -> &Layout {
        &self.own.layout
    }

    fn sharing(&self) -> Sharing {
        self.own.sharing
    }

    /// Looks in all layers. What is damaged in those below the own one is as good as absent.
    fn lookup(&self, key: &Digest, step: &Step) -> Lookup {
        let mut found = entry::lookup(&self.own, key, step);
        for layer in &self.layers {
            if !matches!(found, Lookup::Absent) {
                break;
            }
            if let hit @ Lookup::Hit(_) = entry::lookup(layer, key, step) {
                found = hit;
            }
        }
        found
    }

    /// Counts what became of a step.
    fn count(
        &self,
        step: &Step,
        key: &Digest,
        elapsed: Duration,
        made: &Result<Made, EnsureError>,
    ) {
        let Some(statistics) = &self.statistics else {
            return;
        };
        let mut asked = Asked {
            step,
            key,
            bytes: 0,
            took: elapsed,
        };
        let Ok(made) = made else {
            return statistics.failure(asked);
        };
        let artifacts = made.found.artifacts.iter();
        asked.bytes = artifacts.map(|artifact| artifact.size).sum();
        asked.took = made.found.took;
        match &made.miss {
            None => statistics.hit(asked),
            Some(miss) => statistics.miss(asked, miss),
        }
    }
}

/// Whether writing failed because of where we write, so that another place may do.
fn is_unwritable(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::PermissionDenied
            | ErrorKind::ReadOnlyFilesystem
            | ErrorKind::StorageFull
            | ErrorKind::QuotaExceeded
            | ErrorKind::NotFound
    )
}
