//! The store: the cache directory and [`Store::ensure`], the one way to have a step's outputs.
//!
//! An entry is a directory named by its key, published by one rename with its manifest inside, and
//! verified by content whenever it is used. Whatever does not verify is put aside and built again.
//! Locks only keep two processes from doing the same work; nothing relies on them.

mod area;
mod contents;
pub mod entry;
pub mod layout;
pub mod lock;
pub mod manifest;
mod open;
mod verified;

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use area::Area;
pub use contents::{ClearError, Cleared, Listed};
pub use entry::Artifact;
use entry::{Lookup, Temporary};
use layout::{Layout, MANIFEST};
use lock::{Holder, LockError, LockEvent, Mode};
use manifest::Manifest;
pub use open::{OpenError, Sharing};
use verified::Verified;

use crate::digest::Digest;
use crate::recent::Recent;
use crate::step::execute::{self, ExecuteError, Produced};
use crate::step::run::{Invocation, Runner};
use crate::step::{Keyed, Kind, Step};

/// A cache directory that has been checked, or the decision to do without one.
#[derive(Debug)]
pub struct Store {
    cache: Option<Cache>,
}

#[derive(Debug)]
struct Cache {
    layout: Layout,
    sharing: Sharing,
    /// Why nothing can be written, if so.
    read_only: Option<String>,
    /// What deletes it in the end, if it is for this process alone.
    temporary: Option<Arc<Temporary>>,
    verified: Recent<Digest, Verified>,
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
    /// Its key.
    pub key: Digest,
    /// How they were come by.
    pub outcome: Outcome,
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
    /// A command starts.
    Running {
        /// The kernel.
        subject: &'a str,
        /// The kind of step.
        kind: Kind,
        /// The command line.
        invocation: &'a Invocation,
    },
    /// An entry did not verify and was put aside.
    Damaged {
        /// The kernel.
        subject: &'a str,
        /// The kind of step.
        kind: Kind,
        /// What is wrong with it.
        reason: &'a str,
    },
    /// Something is not as it should be, but the build goes on.
    Warning(String),
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
        let cache = Cache {
            layout,
            sharing,
            read_only,
            temporary: None,
            verified: Recent::default(),
        };
        Ok(Self { cache: Some(cache) })
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
            layout,
            sharing: Sharing::Private,
            read_only: None,
            temporary: Some(Arc::new(directory.into())),
            verified: Recent::default(),
        };
        Ok(Self { cache: Some(cache) })
    }

    /// A store that keeps nothing.
    #[must_use]
    pub const fn disabled() -> Self {
        Self { cache: None }
    }

    /// The paths of the cache directory, if there is one.
    #[must_use]
    pub fn layout(&self) -> Option<&Layout> {
        self.cache.as_ref().map(|cache| &cache.layout)
    }

    /// Whether what is built can be kept.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.cache
            .as_ref()
            .is_some_and(|cache| cache.read_only.is_none())
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
        let done = |outcome, artifacts| Ensured {
            kind: step.kind,
            key,
            outcome,
            artifacts,
            elapsed: started.elapsed(),
        };
        let Some(cache) = &self.cache else {
            runner.interrupt.arm();
            let artifacts = build_outside(step, &key, runner, observe)?;
            return Ok(done(Outcome::Built, artifacts));
        };
        if !refresh && let Lookup::Hit(artifacts) = cache.lookup(&key, step) {
            return Ok(done(Outcome::Hit, cache.lend(artifacts)));
        }
        runner.interrupt.arm();
        let (outcome, artifacts) = cache.make(step, &key, refresh, runner, observe)?;
        Ok(done(outcome, cache.lend(artifacts)))
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

    fn lookup(&self, key: &Digest, step: &Step) -> Lookup {
        entry::lookup(&self.layout, key, step, &self.verified)
    }

    /// Builds under the key's lock, unless somebody else has meanwhile.
    fn make(
        &self,
        step: &Step,
        key: &Digest,
        refresh: bool,
        runner: &Runner,
        observe: Observer<'_>,
    ) -> Result<(Outcome, Vec<Artifact>), EnsureError> {
        if self.read_only.is_none()
            && let Err(error) = open::populate(&self.layout, self.sharing)
        {
            observe(Event::Warning(format!(
                "can't write the cache {}: {error}; what is built now is not kept",
                self.layout.root().display()
            )));
            return Ok((Outcome::Built, build_outside(step, key, runner, observe)?));
        }
        let _locks = match self.lock(step, key, runner, observe) {
            Ok(locks) => locks,
            Err(LockError::Interrupted) => return Err(ExecuteError::Interrupted.into()),
            Err(error @ LockError::Io { .. }) => {
                if self.read_only.is_none() {
                    observe(Event::Warning(format!(
                        "{error}; building without the lock"
                    )));
                }
                Vec::new()
            }
        };
        let outcome = match self.lookup(key, step) {
            Lookup::Hit(artifacts) if !refresh => return Ok((Outcome::Hit, artifacts)),
            Lookup::Hit(_) | Lookup::Absent => Outcome::Built,
            Lookup::Damaged(reason) => {
                observe(Event::Damaged {
                    subject: &step.subject,
                    kind: step.kind,
                    reason: &reason,
                });
                Outcome::Repaired { reason }
            }
        };
        if self.read_only.is_some() {
            return Ok((outcome, build_outside(step, key, runner, observe)?));
        }
        match self.build(step, key, &outcome, runner, observe) {
            Err(CacheFailure::Cache(source)) => {
                observe(Event::Warning(format!(
                    "can't write the cache {}: {source}; what is built now is not kept",
                    self.layout.root().display()
                )));
                Ok((outcome, build_outside(step, key, runner, observe)?))
            }
            Err(CacheFailure::Step(error)) => Err(self.with_log(key, error).into()),
            Ok(artifacts) => Ok((outcome, artifacts)),
        }
    }

    /// The root lock, shared, and the key's lock. The order is the same everywhere.
    fn lock(
        &self,
        step: &Step,
        key: &Digest,
        runner: &Runner,
        observe: Observer<'_>,
    ) -> Result<Vec<lock::Lock>, LockError> {
        let on_event = |event| match event {
            LockEvent::Waiting(holder) => observe(Event::Waiting {
                subject: &step.subject,
                kind: step.kind,
                holder,
            }),
            LockEvent::Unsupported(reason) => observe(Event::Warning(format!(
                "the cache's file system has no locks ({reason}); processes may build the same thing twice"
            ))),
        };
        let root = self.layout.root_lock();
        let acquire = |path: &Path, mode| {
            lock::acquire(path, mode, self.sharing, &runner.interrupt, &on_event)
        };
        let root = acquire(&root, Mode::Shared)?;
        let own = self.layout.lock(key);
        let own = acquire(&own, Mode::Exclusive)?;
        Ok(vec![root, own])
    }

    fn build(
        &self,
        step: &Step,
        key: &Digest,
        outcome: &Outcome,
        runner: &Runner,
        observe: Observer<'_>,
    ) -> Result<Vec<Artifact>, CacheFailure> {
        if let Outcome::Repaired { reason } = outcome {
            self.quarantine(key, reason).map_err(CacheFailure::Cache)?;
        }
        area::sweep(&self.layout.work());
        let area = Area::new(&self.layout.work(), self.sharing).map_err(CacheFailure::Cache)?;
        let produced = run(step, &area, runner, observe)?;
        assemble(step, key, &produced, &area).map_err(CacheFailure::Cache)?;
        open::create(&self.layout.shard(key), self.sharing, false).map_err(CacheFailure::Cache)?;
        let destination = self.layout.entry(key);
        publish(&area, &destination).map_err(CacheFailure::Cache)?;
        Ok(artifacts(step, &produced, &destination, None))
    }

    /// Moves a damaged entry out of the way, beside a file that says what is wrong with it.
    fn quarantine(&self, key: &Digest, reason: &str) -> io::Result<()> {
        let place = tempfile::Builder::new()
            .prefix(&format!("{}-", key.short()))
            .tempdir_in(self.layout.quarantine())?;
        fs::write(
            place.path().join("reason.txt"),
            format!("key {key}\n{reason}\n"),
        )?;
        match fs::rename(self.layout.entry(key), place.path().join("entry")) {
            Ok(()) => {
                let _ = place.keep();
                Ok(())
            }
            // Somebody else was faster.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Saves a failed tool's whole log, and says where.
    fn with_log(&self, key: &Digest, error: ExecuteError) -> ExecuteError {
        let ExecuteError::Tool(mut failure) = error else {
            return error;
        };
        let path = self.layout.failure(key);
        if fs::write(&path, &failure.log).is_ok() {
            failure.log_path = Some(path);
        }
        ExecuteError::Tool(failure)
    }
}

/// Moves the finished entry of `area` into place by one rename. What is there already is to be
/// replaced, or comes from a process that had no lock: it goes with the area.
fn publish(area: &Area, destination: &Path) -> io::Result<()> {
    const TRIES: u32 = 8;
    let entry = area.entry();
    for attempt in 0..TRIES {
        match fs::rename(&entry, destination) {
            Ok(()) => return Ok(()),
            Err(error) => match error.kind() {
                ErrorKind::DirectoryNotEmpty
                | ErrorKind::AlreadyExists
                | ErrorKind::NotADirectory => {
                    let replaced = area.replaced(attempt);
                    if let Err(error) = fs::rename(destination, replaced)
                        && error.kind() != ErrorKind::NotFound
                    {
                        return Err(error);
                    }
                }
                _ => return Err(error),
            },
        }
    }
    Err(io::Error::other(format!(
        "{} comes back whenever it is moved away",
        destination.display()
    )))
}

/// Tells what the step did wrong from what the cache did.
enum CacheFailure {
    Step(ExecuteError),
    Cache(io::Error),
}

fn run(
    step: &Step,
    area: &Area,
    runner: &Runner,
    observe: Observer<'_>,
) -> Result<Produced, CacheFailure> {
    let on_start = |invocation: &Invocation| {
        observe(Event::Running {
            subject: &step.subject,
            kind: step.kind,
            invocation,
        });
    };
    execute::execute(step, &area.work(), runner, &on_start).map_err(|error| match error {
        ExecuteError::WorkDirectory { source, .. } => CacheFailure::Cache(source),
        error => CacheFailure::Step(error),
    })
}

/// Puts the entry together: outputs first, manifest last.
fn assemble(step: &Step, key: &Digest, produced: &Produced, area: &Area) -> io::Result<()> {
    let (work, entry) = (area.work(), area.entry());
    for file in &produced.outputs {
        let path = entry.join(file.name);
        fs::rename(work.join(file.name), &path)?;
        // Against an absent-minded edit; whoever owns the directory can still delete it.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o444))?;
    }
    let manifest = Manifest::new(*key, step, produced, since_epoch());
    let text = manifest.to_text().map_err(io::Error::other)?;
    let path = entry.join(MANIFEST);
    fs::write(&path, text)?;
    // Whoever may look into the entry may read it, whatever the umask.
    fs::set_permissions(path, fs::Permissions::from_mode(0o644))
}

/// Builds in the system's temporary directory; the result lives as long as its artifacts.
fn build_outside(
    step: &Step,
    key: &Digest,
    runner: &Runner,
    observe: Observer<'_>,
) -> Result<Vec<Artifact>, EnsureError> {
    let temporary = std::env::temp_dir();
    let failed = |source| EnsureError::Temporary {
        path: temporary.clone(),
        source,
    };
    let area = Area::new(&temporary, Sharing::Private).map_err(failed)?;
    let produced = match run(step, &area, runner, observe) {
        Ok(produced) => produced,
        Err(CacheFailure::Cache(source)) => return Err(failed(source)),
        Err(CacheFailure::Step(error)) => return Err(error.into()),
    };
    assemble(step, key, &produced, &area).map_err(failed)?;
    let entry = area.entry();
    let directory = Arc::new(Temporary::from(area.into_directory()));
    Ok(artifacts(step, &produced, &entry, Some(&directory)))
}

fn artifacts(
    step: &Step,
    produced: &Produced,
    directory: &Path,
    temporary: Option<&Arc<Temporary>>,
) -> Vec<Artifact> {
    let files = step.outputs.iter().zip(&produced.outputs);
    files
        .map(|(output, file)| Artifact {
            name: output.name,
            path: directory.join(output.name),
            size: file.size,
            digest: file.digest,
            temporary: temporary.cloned(),
        })
        .collect()
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

fn since_epoch() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}
