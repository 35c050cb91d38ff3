//! [`Store::ensure`]: looking a step up, and building what is not there: lock, look again, run,
//! check, publish.
//!
//! Whatever goes wrong with the cache on the way costs a warning; the step is then carried out in the
//! system's temporary directory.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::cache::{Cache, Store, unwritable};
use super::files::{create_directory, delete, new_file, now};
use super::layer::Lookup;
use super::lock::{self, Lock, LockEvent, Mode};
use super::manifest::Manifest;
use super::staging::{StagingDir, abandoned};
use super::types::{
    Artifact, Cause, Damage, EnsureError, Event, Fate, Fault, LockError, Miss, Observer, Outcome,
    Sharing, StepResult, Temporary,
};
use super::{explain, history, remove, trust};
use crate::digest::Digest;
use crate::step::execute::{self, ExecuteError, Produced};
use crate::step::run::{Invocation, Runner};
use crate::step::{Keyed, Step};

/// One step that is to be made, and who watches.
struct Job<'a> {
    step: &'a Step,
    key: Digest,
    /// Whether what is in the cache is to be replaced.
    refresh: bool,
    runner: &'a Runner,
    observe: Observer<'a>,
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

impl Store {
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
    ) -> Result<StepResult, EnsureError> {
        let started = Instant::now();
        let job = Job {
            step: step.step(),
            key: *step.key(),
            refresh,
            runner,
            observe,
        };
        let result = match &self.cache {
            None => job.build_uncached(Miss::new(Cause::Asked, "there is no cache")),
            Some(cache) => {
                // What is to be replaced need not be read.
                let found = (!refresh).then(|| cache.lookup(&job.key, job.step));
                let result = match found {
                    Some(Lookup::Hit(result)) => Ok(result),
                    _ => job.build(cache),
                };
                if let Some(statistics) = &cache.statistics {
                    statistics.count(job.step, &job.key, started.elapsed(), &result);
                }
                result
            }
        };
        Ok(StepResult {
            elapsed: started.elapsed(),
            ..result?
        })
    }
}

impl Job<'_> {
    /// Builds under the key's lock, unless somebody else has meanwhile.
    fn build(&self, cache: &Cache) -> Result<StepResult, EnsureError> {
        self.runner.interrupt.arm();
        if !cache.is_read_only
            && let Err(error) = trust::populate(cache.layout(), cache.sharing())
        {
            (self.observe)(unwritable(cache.layout(), &error));
            return self.build_uncached(Miss::new(Cause::Asked, "the cache can't be written"));
        }
        let _locks = match self.lock(cache) {
            Ok(locks) => Some(locks),
            Err(LockError::Interrupted) => return Err(ExecuteError::Interrupted.into()),
            Err(error) => {
                if !cache.is_read_only {
                    self.warn(format!("{error}; building without the lock"));
                }
                None
            }
        };
        let (miss, fault) = match cache.lookup(&self.key, self.step) {
            Lookup::Hit(result) if !self.refresh => return Ok(result),
            Lookup::Hit(_) => (Miss::new(Cause::Asked, "--refresh"), None),
            Lookup::Absent => (explain::absent(cache, self.step, &self.key).0, None),
            Lookup::Damaged(fault) => (Miss::new(Cause::Damaged, &*fault.reason), Some(fault)),
        };
        if cache.is_read_only {
            if let Some(fault) = &fault {
                self.report(fault, Fate::Stays);
            }
            return self.build_uncached(miss);
        }
        match self.build_in(cache, miss.clone(), fault.as_ref()) {
            Ok(result) => Ok(result),
            Err(Failure::Cache(error)) => {
                (self.observe)(unwritable(cache.layout(), &error));
                self.build_uncached(miss)
            }
            Err(Failure::Step(error)) => Err(self.with_log(cache, error).into()),
        }
    }

    /// Builds in the system's temporary directory; the result lives as long as its artifacts.
    fn build_uncached(&self, miss: Miss) -> Result<StepResult, EnsureError> {
        self.runner.interrupt.arm();
        let parent = std::env::temp_dir();
        let build = || -> Result<_, Failure> {
            let staging = StagingDir::new(&parent, Sharing::Private)?;
            let (produced, _) = self.produce(&staging)?;
            Ok(self.temporary(&produced, staging, miss))
        };
        build().map_err(|failure| match failure {
            Failure::Step(error) => error.into(),
            Failure::Cache(source) => EnsureError::Temporary {
                path: parent.clone(),
                source,
            },
        })
    }

    /// The root lock, shared, and the key's lock. The order is the same everywhere.
    fn lock(&self, cache: &Cache) -> Result<[Lock; 2], LockError> {
        let on_event = |event| match event {
            LockEvent::Waiting(holder) => (self.observe)(Event::Waiting {
                subject: &self.step.subject,
                kind: self.step.kind,
                holder,
            }),
            LockEvent::Unsupported(reason) => self.warn(format!(
                "the cache's file system has no locks ({reason}); processes may build the same \
                 thing twice"
            )),
        };
        let interrupt = &self.runner.interrupt;
        let acquire =
            |path: &Path, mode| lock::acquire(path, mode, cache.sharing(), interrupt, &on_event);
        let root = acquire(&cache.layout().root_lock(), Mode::Shared)?;
        let lock = cache.layout().lock(&self.key);
        if let Some(shard) = lock.parent() {
            create_directory(shard, cache.sharing()).map_err(|source| LockError::Io {
                path: shard.to_owned(),
                source,
            })?;
        }
        Ok([root, acquire(&lock, Mode::Exclusive)?])
    }

    fn build_in(
        &self,
        cache: &Cache,
        miss: Miss,
        fault: Option<&Fault>,
    ) -> Result<StepResult, Failure> {
        let staging = self.clear_place(cache, fault)?;
        let (layout, sharing) = (cache.layout(), cache.sharing());
        let destination = layout.entry(&self.key);
        let (produced, created) = self.produce(&staging)?;
        let published = create_directory(&layout.shard(&self.key), sharing)
            .and_then(|()| staging.publish(&destination));
        match published {
            Ok(()) => {
                // A hint for explanations.
                let _ = history::note(layout, sharing, self.step, self.key, created);
                let temporary = cache.own.temporary.as_ref();
                let built = self.built(&produced, &destination, temporary, miss);
                let outcome = match fault {
                    None => Outcome::Built,
                    Some(fault) => Outcome::Repaired {
                        reason: fault.reason.clone(),
                    },
                };
                Ok(StepResult { outcome, ..built })
            }
            // It is made, and only its place is missing: nothing has to run again.
            Err(error) => {
                (self.observe)(unwritable(layout, &error));
                let outside = StagingDir::new(&std::env::temp_dir(), Sharing::Private)?;
                for output in &self.step.outputs {
                    let name = &*output.name;
                    fs::copy(staging.entry().join(name), outside.entry().join(name))?;
                }
                Ok(self.temporary(&produced, outside, miss))
            }
        }
    }

    /// A directory to build in, with what is in the entry's place and can't be used out of the way.
    fn clear_place(&self, cache: &Cache, fault: Option<&Fault>) -> io::Result<StagingDir> {
        let layout = cache.layout();
        let clear = || -> io::Result<_> {
            for directory in abandoned(&layout.work()) {
                delete(&directory);
            }
            let staging = StagingDir::new(&layout.work(), cache.sharing())?;
            let shard = layout.shard(&self.key);
            if fs::symlink_metadata(&shard).is_ok_and(|metadata| !metadata.is_dir()) {
                staging.move_away(&shard)?;
            }
            let quarantine = |fault: &Fault| remove::quarantine(cache, &self.key, &fault.reason);
            Ok((staging, fault.map(quarantine).transpose()?))
        };
        let cleared = clear();
        if let Some(fault) = fault {
            let fate = match cleared {
                Ok((_, Some(true))) => Fate::Quarantined,
                Ok(_) => Fate::Gone,
                Err(_) => Fate::Stays,
            };
            self.report(fault, fate);
        }
        cleared.map(|(staging, _)| staging)
    }

    /// Carries the step out and puts the entry together. Gives the time of that as well.
    fn produce(&self, staging: &StagingDir) -> Result<(Produced, u64), Failure> {
        let on_start = |invocation: &Invocation| {
            (self.observe)(Event::Running {
                subject: &self.step.subject,
                kind: self.step.kind,
                target: self.step.target,
                invocation,
            });
        };
        let produced = execute::execute(self.step, &staging.work(), self.runner, &on_start);
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
        let created = now();
        let manifest = Manifest::new(self.key, self.step, &produced, created);
        staging.assemble(&produced.outputs, &manifest)?;
        Ok((produced, created))
    }

    /// The outputs where they were made, for as long as somebody wants them.
    fn temporary(&self, produced: &Produced, staging: StagingDir, miss: Miss) -> StepResult {
        let entry = staging.entry();
        let directory = Arc::new(Temporary::from(staging.into_directory()));
        self.built(produced, &entry, Some(&directory), miss)
    }

    fn built(
        &self,
        produced: &Produced,
        directory: &Path,
        temporary: Option<&Arc<Temporary>>,
        miss: Miss,
    ) -> StepResult {
        let files = self.step.outputs.iter().zip(&produced.outputs);
        let artifacts = files.map(|(output, file)| Artifact {
            name: output.name.clone(),
            path: directory.join(&*output.name),
            size: file.size,
            digest: file.digest,
            temporary: temporary.cloned(),
        });
        StepResult {
            kind: self.step.kind,
            target: self.step.target,
            key: self.key,
            outcome: Outcome::Built,
            miss: Some(miss),
            artifacts: artifacts.collect(),
            elapsed: Duration::ZERO,
            took: produced.took(),
        }
    }

    /// Saves a failed tool's whole log, and says where.
    fn with_log(&self, cache: &Cache, error: ExecuteError) -> ExecuteError {
        let ExecuteError::Tool(mut failure) = error else {
            return error;
        };
        let path = cache.layout().failure(&self.key);
        let written = new_file(&path, cache.sharing())
            .and_then(|mut file| file.write_all(failure.log.as_bytes()));
        if written.is_ok() && cache.own.temporary.is_none() {
            failure.log_path = Some(path);
        }
        ExecuteError::Tool(failure)
    }

    fn report(&self, fault: &Fault, fate: Fate) {
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
}
