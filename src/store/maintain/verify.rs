//! Verifying everything: each entry's structure and digests, who may write what, and what else lies
//! around. Nothing is changed unless repair is asked for; then what is damaged is quarantined, so that
//! it is built again when it is needed.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use super::super::cache::{Cache, Store};
use super::super::entry_dir::EntryDir;
use super::super::fault::Fault;
use super::super::files::{children, create_directory, delete};
use super::super::layer::check_key;
use super::super::layout::MANIFEST;
use super::super::lock::{self, LockEvent, Mode};
use super::super::manifest::Manifest;
use super::super::remove;
use super::super::scan::{self, EntryScan};
use super::super::staging::abandoned;
use super::super::types::{CacheError, Checked, Event, Observer, Problem};
use crate::digest::Digest;
use crate::interrupt::Interrupt;
use crate::parallel;

impl Store {
    /// Verifies everything in the cache on `jobs` threads, and repairs it if told to. Builds may go
    /// on meanwhile. Each problem is reported as it is found.
    ///
    /// # Errors
    /// When there was no waiting for somebody who clears the cache, or an interrupt.
    pub fn verify(
        &self,
        repair: bool,
        jobs: usize,
        interrupt: &Interrupt,
        observe: Observer<'_>,
        on_problem: &(dyn Fn(&Problem) + Sync),
    ) -> Result<Checked, CacheError> {
        let Some(cache) = &self.cache else {
            return Ok(Checked::default());
        };
        interrupt.arm();
        let on_event = |event| {
            if let LockEvent::Waiting = event {
                observe(Event::WaitingForCache);
            }
        };
        let root = cache.layout().root_lock();
        // Who may not write may look all the same.
        let _lock = match lock::acquire(&root, Mode::Shared, cache.sharing(), interrupt, &on_event)
        {
            Err(CacheError::Interrupted) => return Err(CacheError::Interrupted),
            lock => lock.ok(),
        };
        let verification = Verification {
            cache,
            repair,
            interrupt,
            on_problem,
            checked: Mutex::default(),
        };
        verification.run(jobs);
        if interrupt.is_raised() {
            return Err(CacheError::Interrupted);
        }
        let checked = verification.checked.into_inner();
        Ok(checked.unwrap_or_else(PoisonError::into_inner))
    }
}

struct Verification<'a> {
    cache: &'a Cache,
    repair: bool,
    interrupt: &'a Interrupt,
    on_problem: &'a (dyn Fn(&Problem) + Sync),
    checked: Mutex<Checked>,
}

impl Verification<'_> {
    fn run(&self, jobs: usize) {
        let layout = self.cache.layout();
        for directory in layout.directories() {
            self.directory(directory);
        }
        self.lock(&layout.root_lock());
        self.lock(&layout.cleaned());
        for lock in children(&layout.locks) {
            self.lock(&lock);
        }
        let (shards, orphans) = scan::shards(layout);
        parallel::map(&shards, jobs, |shard| {
            self.directory(shard);
            let scan = EntryScan::of(shard);
            for key in &scan.entries {
                if self.interrupt.is_raised() {
                    return;
                }
                self.entry(key);
            }
            self.orphans(&scan.orphans);
        });
        self.orphans(&orphans);
        for path in abandoned(&layout.work) {
            self.report(None, &path, "a build that was killed left it", || {
                delete(&path)
            });
        }
    }

    /// Builds go on without the cache where something else is in the place of a directory.
    fn directory(&self, path: &Path) {
        if fs::symlink_metadata(path).is_ok_and(|metadata| !metadata.is_dir()) {
            self.report(None, path, "it is in the place of a directory", || {
                delete(path) && create_directory(path, self.cache.sharing()).is_ok()
            });
        }
    }

    /// The same with a lock.
    fn lock(&self, path: &Path) {
        if fs::symlink_metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
            self.report(None, path, "it is in the place of a lock", || delete(path));
        }
    }

    fn orphans(&self, orphans: &[std::path::PathBuf]) {
        for path in orphans {
            if fs::symlink_metadata(path).is_ok() {
                self.report(None, path, "it is no entry", || delete(path));
            }
        }
    }

    fn entry(&self, key: &Digest) {
        let path = self.cache.layout().entry(key);
        let checked = check_entry(self.cache, key);
        // It may be replaced or deleted just now: who has the key's lock sees what is.
        let lock = checked
            .is_err()
            .then(|| remove::lock_unused(self.cache, key));
        let is_fine = || !path.exists() || check_entry(self.cache, key).is_ok();
        match (checked, lock) {
            (Ok(bytes), _) => self.count(|checked| {
                checked.entries += 1;
                checked.bytes += bytes;
            }),
            (Err(_), Some(Ok(None))) => {}
            (Err(_), _) if is_fine() => {}
            (Err(fault), lock) => {
                self.count(|checked| checked.entries += 1);
                self.report(Some(*key), &path, &fault.reason, || {
                    matches!(lock, Some(Ok(_)))
                        && remove::quarantine(self.cache, key, &fault.reason).is_ok()
                });
            }
        }
    }

    fn count(&self, add: impl FnOnce(&mut Checked)) {
        add(&mut self.checked.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn report(&self, key: Option<Digest>, path: &Path, reason: &str, repair: impl Fn() -> bool) {
        let repaired = self.repair && repair();
        self.count(|checked| {
            checked.problems += 1;
            checked.left += u64::from(!repaired);
        });
        (self.on_problem)(&Problem {
            key,
            path: path.to_owned(),
            reason: reason.to_owned(),
            repaired,
        });
    }
}

/// Everything that can be said of an entry without its step. Gives the bytes of its files.
pub(super) fn check_entry(cache: &Cache, key: &Digest) -> Result<u64, Fault> {
    let layout = cache.layout();
    let directory = EntryDir::open(layout, cache.own.trust, key)
        .map_err(|error| Fault::reading("its directory", &error))?;
    let (.., bytes) = (directory.manifest()).map_err(|error| Fault::reading(MANIFEST, &error))?;
    let manifest = Manifest::parse(&bytes)?;
    let head = &manifest.head;
    check_key(head, key)?;
    if manifest.record.material.key() != *key {
        return Err(Fault::new("the manifest's key material gives another key"));
    }
    for record in &head.artifacts {
        let name = &record.name;
        let is_plain = Path::new(name).file_name() == Some(name.as_ref());
        if !is_plain || name == MANIFEST {
            return Err(Fault::new(format!("{name:?} is no artifact's name")));
        }
        directory.check_fully(record)?;
    }
    let is_ours = |name: &OsStr| {
        name == MANIFEST || head.artifacts.iter().any(|record| *record.name == *name)
    };
    let paths = children(&layout.entry(key));
    let mut names = paths.iter().filter_map(|path| path.file_name());
    match names.find(|name| !is_ours(name)) {
        Some(name) => Err(Fault::new(format!(
            "{} does not belong to it",
            name.display()
        ))),
        None => Ok(head.size().saturating_add(bytes.len() as u64)),
    }
}
