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

use super::cache::{Cache, Store};
use super::fault::Fault;
use super::files::{create_directory, delete, new_file, now};
use super::layer::Lookup;
use super::lock::{self, Lock, LockEvent, Mode};
use super::manifest::Manifest;
use super::staging::{StagingDir, abandoned};
use super::types::{
    Artifact, CacheError, Cause, EnsureError, Event, Miss, Observer, Outcome, Sharing, StepResult,
    Temporary,
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
                let found = (!refresh).then(|| cache.own.lookup(&job.key, job.step));
                let result = match found {
                    Some(Lookup::Hit(result)) => Ok(result),
                    _ => job.build(cache),
                };
                cache.statistics.count(job.step, &job.key, &result);
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
        if let Err(error) = trust::populate(cache.layout(), cache.sharing()) {
            self.warn_unwritable(cache, &error);
            return self.build_uncached(Miss::new(Cause::Asked, "the cache can't be written"));
        }
        let _locks = match self.lock(cache) {
            Ok(locks) => Some(locks),
            Err(CacheError::Interrupted) => return Err(ExecuteError::Interrupted.into()),
            Err(error) => {
                self.warn(format!("{error}; building without the lock"));
                None
            }
        };
        let (miss, fault) = match cache.own.lookup(&self.key, self.step) {
            Lookup::Hit(result) if !self.refresh => return Ok(result),
            Lookup::Hit(_) => (Miss::new(Cause::Asked, "--refresh"), None),
            Lookup::Absent => (explain::absent(cache, self.step, &self.key).0, None),
            Lookup::Damaged(fault) => (Miss::new(Cause::Damaged, &*fault.reason), Some(fault)),
        };
        match self.build_in(cache, miss.clone(), fault.as_ref()) {
            Ok(result) => Ok(result),
            Err(Failure::Cache(error)) => {
                self.warn_unwritable(cache, &error);
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
            let entry = staging.entry();
            let directory = Arc::new(Temporary::from(staging.into_directory()));
            Ok(self.built(&produced, &entry, Some(&directory), miss))
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
    fn lock(&self, cache: &Cache) -> Result<[Lock; 2], CacheError> {
        let on_event = |event| match event {
            LockEvent::Waiting => (self.observe)(Event::Waiting {
                subject: &self.step.subject,
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
        Ok([
            root,
            acquire(&cache.layout().lock(&self.key), Mode::Exclusive)?,
        ])
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
        create_directory(&layout.shard(&self.key), sharing)?;
        staging.publish(&destination)?;
        // A hint for explanations.
        let _ = history::note(layout, sharing, self.step, self.key, created);
        let built = self.built(&produced, &destination, None, miss);
        let outcome = match fault {
            None => Outcome::Built,
            Some(_) => Outcome::Repaired,
        };
        Ok(StepResult { outcome, ..built })
    }

    /// A directory to build in, with what is in the entry's place and can't be used out of the way.
    fn clear_place(&self, cache: &Cache, fault: Option<&Fault>) -> io::Result<StagingDir> {
        let layout = cache.layout();
        let clear = || -> io::Result<_> {
            for directory in abandoned(&layout.work) {
                delete(&directory);
            }
            let staging = StagingDir::new(&layout.work, cache.sharing())?;
            let shard = layout.shard(&self.key);
            if fs::symlink_metadata(&shard).is_ok_and(|metadata| !metadata.is_dir()) {
                delete(&shard);
            }
            let quarantine = |fault: &Fault| remove::quarantine(cache, &self.key, &fault.reason);
            Ok((staging, fault.map(quarantine).transpose()?))
        };
        let cleared = clear();
        if let Some(fault) = fault {
            let fate = match cleared {
                Ok((_, Some(true))) => "it was moved to the quarantine and is made again",
                Ok(_) => "it is made again",
                Err(_) => "it stays where it is, and what is made now is not kept",
            };
            let (kind, subject) = (self.step.kind, &self.step.subject);
            self.warn(format!(
                "the cache's {kind} entry of {subject} {fault}; {fate}"
            ));
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
        if written.is_ok() {
            failure.log_path = Some(path);
        }
        ExecuteError::Tool(failure)
    }

    fn warn(&self, warning: String) {
        (self.observe)(Event::Warning(warning));
    }

    fn warn_unwritable(&self, cache: &Cache, error: &io::Error) {
        self.warn(format!(
            "can't write the cache {}: {error}; what is built now is not kept",
            cache.layout().root.display()
        ));
    }
}
