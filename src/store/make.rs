//! Making what is not in the cache: lock, look again, run, check, publish.
//!
//! Whatever goes wrong with the cache on the way costs a warning; the step is then carried out in the
//! system's temporary directory.

use std::fs;
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::area::{self, Area};
use super::entry::{Artifact, Fault, Found, Lookup, Temporary};
use super::layout::MANIFEST;
use super::lock::{self, Lock, LockError, LockEvent, Mode};
use super::manifest::Manifest;
use super::stats::{Cause, Miss};
use super::{
    Cache, Damage, EnsureError, Event, Fate, Observer, Outcome, Sharing, evict, explain, open,
};
use crate::digest::Digest;
use crate::step::Step;
use crate::step::execute::{self, ExecuteError, Produced};
use crate::step::run::{Invocation, Runner};

/// One step that is to be made, and who watches.
pub(super) struct Job<'a> {
    pub(super) step: &'a Step,
    pub(super) key: Digest,
    /// Whether what is in the cache is to be replaced.
    pub(super) refresh: bool,
    pub(super) runner: &'a Runner,
    pub(super) observe: Observer<'a>,
}

/// Tells what the step did wrong from what the cache did.
enum Failure {
    Step(ExecuteError),
    Cache(io::Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Cache(error)
    }
}

/// A step's outputs, and how they were come by.
pub(super) struct Made {
    pub(super) found: Found,
    pub(super) outcome: Outcome,
    pub(super) miss: Option<Miss>,
}

impl Made {
    pub(super) const fn hit(found: Found) -> Self {
        Self {
            found,
            outcome: Outcome::Hit,
            miss: None,
        }
    }

    const fn built(found: Found, miss: Miss) -> Self {
        Self {
            found,
            outcome: Outcome::Built,
            miss: Some(miss),
        }
    }
}

impl Job<'_> {
    /// Builds where there is no cache.
    pub(super) fn make_without(&self) -> Result<Made, EnsureError> {
        let miss = Miss::new(Cause::Asked, "there is no cache");
        Ok(Made::built(self.build_outside()?, miss))
    }

    /// Builds under the key's lock, unless somebody else has meanwhile.
    pub(super) fn make_in(&self, cache: &Cache) -> Result<Made, EnsureError> {
        self.runner.interrupt.arm();
        if cache.read_only.is_none()
            && let Err(error) = open::populate(cache.layout(), cache.sharing())
        {
            self.warn_unwritable(cache, &error);
            let miss = Miss::new(Cause::Asked, "the cache can't be written");
            return Ok(Made::built(self.build_outside()?, miss));
        }
        let _locks = match self.lock(cache) {
            Ok(locks) => locks,
            Err(LockError::Interrupted) => return Err(ExecuteError::Interrupted.into()),
            Err(error @ LockError::Io { .. }) => {
                if cache.read_only.is_none() {
                    self.warn(format!("{error}; building without the lock"));
                }
                Vec::new()
            }
        };
        let mut fault = None;
        let miss = match cache.lookup(&self.key, self.step) {
            Lookup::Hit(found) if !self.refresh => return Ok(Made::hit(found)),
            Lookup::Hit(_) => Miss::new(Cause::Asked, "--refresh"),
            Lookup::Absent => explain::absent(cache, self.step, &self.key).0,
            Lookup::Damaged(found) => {
                let miss = Miss::new(Cause::Damaged, &*found.reason);
                fault = Some(found);
                miss
            }
        };
        if cache.read_only.is_some() {
            if let Some(fault) = &fault {
                self.tell(fault, Fate::Stays);
            }
            return Ok(Made::built(self.build_outside()?, miss));
        }
        match self.build_in(cache, fault.as_ref()) {
            Err(Failure::Cache(error)) => {
                self.warn_unwritable(cache, &error);
                Ok(Made::built(self.build_outside()?, miss))
            }
            Err(Failure::Step(error)) => Err(self.with_log(cache, error).into()),
            Ok(found) if fault.is_none() => Ok(Made::built(found, miss)),
            Ok(found) => Ok(Made {
                found,
                outcome: Outcome::Repaired {
                    reason: miss.reason.clone(),
                },
                miss: Some(miss),
            }),
        }
    }

    /// Builds in the system's temporary directory; the result lives as long as its artifacts.
    fn build_outside(&self) -> Result<Found, EnsureError> {
        self.runner.interrupt.arm();
        let parent = std::env::temp_dir();
        let in_temporary = |failure| match failure {
            Failure::Step(error) => EnsureError::from(error),
            Failure::Cache(source) => EnsureError::Temporary {
                path: parent.clone(),
                source,
            },
        };
        let area =
            Area::new(&parent, Sharing::Private).map_err(|error| in_temporary(error.into()))?;
        let (produced, _) = self.produce(&area).map_err(in_temporary)?;
        Ok(self.temporary(&produced, area))
    }

    /// The root lock, shared, and the key's lock. The order is the same everywhere.
    fn lock(&self, cache: &Cache) -> Result<Vec<Lock>, LockError> {
        let on_event = |event| {
            match event {
            LockEvent::Waiting(holder) => (self.observe)(Event::Waiting {
                subject: &self.step.subject,
                kind: self.step.kind,
                holder,
            }),
            LockEvent::Unsupported(reason) => self.warn(format!(
                "the cache's file system has no locks ({reason}); processes may build the same thing twice"
            )),
        }
        };
        let interrupt = &self.runner.interrupt;
        let acquire =
            |path: &Path, mode| lock::acquire(path, mode, cache.sharing(), interrupt, &on_event);
        let root = acquire(&cache.layout().root_lock(), Mode::Shared)?;
        let lock = cache.layout().lock(&self.key);
        if let Some(shard) = lock.parent() {
            open::create(shard, cache.sharing()).map_err(|source| LockError::Io {
                path: shard.to_owned(),
                source,
            })?;
        }
        let own = acquire(&lock, Mode::Exclusive)?;
        Ok(vec![root, own])
    }

    fn build_in(&self, cache: &Cache, fault: Option<&Fault>) -> Result<Found, Failure> {
        let area = self.clear_place(cache, fault)?;
        let destination = cache.layout().entry(&self.key);
        let shard = cache.layout().shard(&self.key);
        let (produced, created) = self.produce(&area)?;
        let published =
            open::create(&shard, cache.sharing()).and_then(|()| publish(&area, &destination));
        match published {
            Ok(()) => {
                // A hint for explanations.
                let _ = explain::add(
                    cache.layout(),
                    cache.sharing(),
                    self.step,
                    &self.key,
                    created.as_secs(),
                );
                Ok(self.found(&produced, &destination, None))
            }
            // It is made, and only its place is missing: nothing has to run again.
            Err(error) => {
                self.warn_unwritable(cache, &error);
                let outside = Area::new(&std::env::temp_dir(), Sharing::Private)?;
                for output in &self.step.outputs {
                    fs::copy(
                        area.entry().join(&*output.name),
                        outside.entry().join(&*output.name),
                    )?;
                }
                Ok(self.temporary(&produced, outside))
            }
        }
    }

    /// An area to build in, with what is in the entry's place and can't be used out of the way.
    fn clear_place(&self, cache: &Cache, fault: Option<&Fault>) -> io::Result<Area> {
        let clear = || {
            area::sweep(&cache.layout().work());
            let area = Area::new(&cache.layout().work(), cache.sharing())?;
            let shard = cache.layout().shard(&self.key);
            if fs::symlink_metadata(&shard).is_ok_and(|metadata| !metadata.is_dir()) {
                fs::rename(&shard, area.misplaced())?;
            }
            let quarantine = |fault: &Fault| evict::quarantine(cache, &self.key, &fault.reason);
            let moved = fault.map(quarantine).transpose()?;
            Ok((area, moved))
        };
        let cleared = clear();
        if let Some(fault) = fault {
            let fate = match cleared {
                Ok((_, Some(true))) => Fate::Quarantined,
                Ok(_) => Fate::Gone,
                Err(_) => Fate::Stays,
            };
            self.tell(fault, fate);
        }
        cleared.map(|(area, _)| area)
    }

    /// The outputs where they were made, for as long as somebody wants them.
    fn temporary(&self, produced: &Produced, area: Area) -> Found {
        let entry = area.entry();
        let directory = Arc::new(Temporary::from(area.into_directory()));
        self.found(produced, &entry, Some(&directory))
    }

    /// Carries the step out and puts the entry together. Gives the time of that as well.
    fn produce(&self, area: &Area) -> Result<(Produced, Duration), Failure> {
        let on_start = |invocation: &Invocation| {
            (self.observe)(Event::Running {
                subject: &self.step.subject,
                kind: self.step.kind,
                target: self.step.target,
                invocation,
            });
        };
        let produced = execute::execute(self.step, &area.work(), self.runner, &on_start);
        let produced = produced.map_err(|error| match error {
            ExecuteError::WorkDirectory { source, .. } => Failure::Cache(source),
            error => Failure::Step(error),
        })?;
        // The key speaks of the tools as they were found, so that is what must have run.
        if let Some(tool) = self.step.tools().iter().find(|tool| !tool.is_unchanged()) {
            return Err(Failure::Step(ExecuteError::ToolChanged {
                subject: self.step.about(),
                tool: tool.path.clone(),
            }));
        }
        let created = since_epoch();
        self.assemble(&produced, created, area)?;
        Ok((produced, created))
    }

    /// Outputs first, manifest last.
    fn assemble(&self, produced: &Produced, created: Duration, area: &Area) -> io::Result<()> {
        let (work, entry) = (area.work(), area.entry());
        for file in &produced.outputs {
            let path = entry.join(&*file.name);
            fs::rename(work.join(&*file.name), &path)?;
            // Against an absent-minded edit; whoever owns the directory can still delete it.
            fs::set_permissions(&path, fs::Permissions::from_mode(0o444))?;
        }
        let manifest = Manifest::new(self.key, self.step, produced, created);
        let text = manifest.to_text().map_err(io::Error::other)?;
        let path = entry.join(MANIFEST);
        fs::write(&path, text)?;
        // Whoever may look into the entry may read it, whatever the umask.
        fs::set_permissions(path, fs::Permissions::from_mode(0o644))
    }

    fn found(
        &self,
        produced: &Produced,
        directory: &Path,
        temporary: Option<&Arc<Temporary>>,
    ) -> Found {
        let files = self.step.outputs.iter().zip(&produced.outputs);
        let artifacts = files.map(|(output, file)| Artifact {
            name: output.name.clone(),
            path: directory.join(&*output.name),
            size: file.size,
            digest: file.digest,
            temporary: temporary.cloned(),
        });
        Found {
            artifacts: artifacts.collect(),
            took: produced.took(),
        }
    }

    /// Saves a failed tool's whole log, and says where.
    fn with_log(&self, cache: &Cache, error: ExecuteError) -> ExecuteError {
        let ExecuteError::Tool(mut failure) = error else {
            return error;
        };
        let path = cache.layout().failure(&self.key);
        let written = open::new_file(&path).and_then(|mut file| {
            open::share_file(&file, cache.sharing());
            file.write_all(failure.log.as_bytes())
        });
        if written.is_ok() && cache.temporary.is_none() {
            failure.log_path = Some(path);
        }
        ExecuteError::Tool(failure)
    }

    fn tell(&self, fault: &Fault, fate: Fate) {
        (self.observe)(Event::Damaged(Damage {
            subject: &self.step.subject,
            kind: self.step.kind,
            fault,
            fate,
        }));
    }

    fn warn(&self, warning: String) {
        (self.observe)(Event::Warning(warning));
    }

    fn warn_unwritable(&self, cache: &Cache, error: &io::Error) {
        self.warn(format!(
            "can't write the cache {}: {error}; what is built now is not kept",
            cache.layout().root().display()
        ));
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

fn since_epoch() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}
