//! Verifying everything: each entry's structure and digests, who may write what, and what else lies
//! around. Nothing is changed unless repair is asked for; then what is damaged is quarantined, so that
//! it is built again when it is needed.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::directory::EntryDirectory;
use super::entry::Fault;
use super::layout::MANIFEST;
use super::lock::{self, LockError, LockEvent, Mode};
use super::manifest::Manifest;
use super::survey::{self, Place};
use super::sweep::{self, delete};
use super::{Cache, Event, Observer, Sharing, Store, area, entry, evict, explain, open};
use crate::digest::Digest;
use crate::interrupt::Interrupt;
use crate::parallel;

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The entry, if it is one.
    pub key: Option<Digest>,
    /// Where it is.
    pub path: PathBuf,
    /// What is wrong.
    pub reason: String,
    /// Whether it is out of the way now.
    pub repaired: bool,
}

/// What was looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Entries.
    pub entries: u64,
    /// Bytes of their files.
    pub bytes: u64,
    /// Problems, repaired or not.
    pub problems: u64,
    /// Problems that are still there.
    pub left: u64,
}

/// Who is told of each problem as it is found.
pub type OnProblem<'a> = &'a (dyn Fn(&Problem) + Sync);

impl Store {
    /// Verifies everything in the cache on `jobs` threads, and repairs it if told to. Builds may go
    /// on meanwhile.
    ///
    /// # Errors
    /// When there was no waiting for somebody who clears the cache, or an interrupt.
    pub fn verify(
        &self,
        repair: bool,
        jobs: usize,
        interrupt: &Interrupt,
        observe: Observer<'_>,
        on_problem: OnProblem<'_>,
    ) -> Result<Checked, LockError> {
        let Some(cache) = &self.cache else {
            return Ok(Checked::default());
        };
        interrupt.arm();
        let on_event = |event| {
            if let LockEvent::Waiting(holder) = event {
                observe(Event::WaitingForCache { holder });
            }
        };
        let root = cache.layout().root_lock();
        // Who may not write may look all the same.
        let _lock = match lock::acquire(&root, Mode::Shared, cache.sharing(), interrupt, &on_event)
        {
            Err(LockError::Interrupted) => return Err(LockError::Interrupted),
            lock => lock.ok(),
        };
        let verification = Verification {
            cache,
            repair: repair && cache.read_only.is_none(),
            interrupt,
            on_problem,
            entries: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            problems: AtomicU64::new(0),
            left: AtomicU64::new(0),
        };
        verification.run(jobs);
        if interrupt.is_raised() {
            return Err(LockError::Interrupted);
        }
        Ok(Checked {
            entries: verification.entries.into_inner(),
            bytes: verification.bytes.into_inner(),
            problems: verification.problems.into_inner(),
            left: verification.left.into_inner(),
        })
    }
}

struct Verification<'a> {
    cache: &'a Cache,
    repair: bool,
    interrupt: &'a Interrupt,
    on_problem: OnProblem<'a>,
    entries: AtomicU64,
    bytes: AtomicU64,
    problems: AtomicU64,
    left: AtomicU64,
}

impl Verification<'_> {
    fn run(&self, jobs: usize) {
        let layout = self.cache.layout();
        for directory in layout.directories() {
            self.directory(&directory);
        }
        self.lock(&layout.root_lock());
        self.lock(&layout.cleaned());
        for shard in sweep::children(&layout.locks()) {
            self.directory(&shard);
            for lock in sweep::children(&shard) {
                self.lock(&lock);
            }
        }
        let mut shards = Vec::new();
        for shard in survey::shards(layout) {
            match shard {
                Ok(shard) => shards.push(shard),
                Err(path) => self.stray(&path),
            }
        }
        parallel::map(&shards, jobs, |shard| {
            self.directory(shard);
            for place in survey::places(shard.clone()) {
                match place {
                    _ if self.interrupt.is_raised() => return,
                    Place::Entry(key) => self.entry(&key),
                    Place::Doomed(key) => self.doomed(&key),
                    Place::Stray(path) => self.stray(&path),
                }
            }
        });
        self.leftovers();
        if self.repair && explain::is_lost(layout) {
            let cache = self.cache;
            let _ = explain::rebuild(layout, cache.sharing(), cache.summaries());
        }
    }

    /// That a directory of ours is one, and who may write it.
    fn directory(&self, path: &Path) {
        let Ok(metadata) = fs::symlink_metadata(path) else {
            return;
        };
        let forbidden = self.cache.sharing().forbidden();
        let mode = metadata.mode() & 0o7777;
        if metadata.is_symlink() {
            self.tell(None, path, "a symbolic link leads out of the cache", || {
                false
            });
        } else if !metadata.is_dir() {
            self.tell(None, path, "it is in the place of a directory", || {
                delete(path) && open::create(path, self.cache.sharing()).is_ok()
            });
        } else if self.cache.sharing() == Sharing::Private && metadata.uid() != self.cache.own.user
        {
            let reason = format!("it belongs to user {}", metadata.uid());
            self.tell(None, path, &reason, || false);
        } else if mode & forbidden != 0 {
            let reason = format!("others can write it (mode {mode:04o})");
            self.tell(None, path, &reason, || {
                let mode = fs::Permissions::from_mode(mode & !forbidden);
                fs::set_permissions(path, mode).is_ok()
            });
        }
    }

    /// That a lock can be one: whoever finds something else in its place builds without the cache.
    fn lock(&self, path: &Path) {
        if fs::symlink_metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
            self.tell(None, path, "it is in the place of a lock", || delete(path));
        }
    }

    fn stray(&self, path: &Path) {
        if fs::symlink_metadata(path).is_ok() {
            self.tell(None, path, "it is no entry", || delete(path));
        }
    }

    fn doomed(&self, key: &Digest) {
        if self.cache.read_only.is_some() {
            return;
        }
        if let Some((_lock, path)) = evict::half_gone(self.cache, key) {
            self.tell(None, &path, "who deleted it was killed", || delete(&path));
        }
    }

    fn entry(&self, key: &Digest) {
        let layout = self.cache.layout();
        self.directory(&layout.entry(key));
        let fault = match self.cache.check(key) {
            Ok(bytes) => {
                self.entries.fetch_add(1, Ordering::Relaxed);
                self.bytes.fetch_add(bytes, Ordering::Relaxed);
                return;
            }
            Err(fault) => fault,
        };
        // It may be replaced or taken away just now: who has the key's lock sees what is.
        let lock = match self.cache.read_only {
            None => evict::unused(layout, key, self.cache.sharing()),
            Some(_) => None,
        };
        if !layout.entry(key).exists() || self.cache.check(key).is_ok() {
            return;
        }
        self.entries.fetch_add(1, Ordering::Relaxed);
        self.tell(Some(*key), &layout.entry(key), &fault.reason, || {
            lock.is_some() && evict::quarantine(self.cache, key, &fault.reason).is_ok()
        });
    }

    /// What dead processes left.
    fn leftovers(&self) {
        for path in area::abandoned(&self.cache.layout().work()) {
            self.tell(None, &path, "a build that was killed left it", || {
                delete(&path)
            });
        }
    }

    fn tell(&self, key: Option<Digest>, path: &Path, reason: &str, repair: impl Fn() -> bool) {
        let repaired = self.repair && repair();
        self.problems.fetch_add(1, Ordering::Relaxed);
        self.left.fetch_add(u64::from(!repaired), Ordering::Relaxed);
        (self.on_problem)(&Problem {
            key,
            path: path.to_owned(),
            reason: reason.to_owned(),
            repaired,
        });
    }
}

impl Cache {
    /// Everything that can be told of an entry without its step. Gives the bytes of its files.
    pub(super) fn check(&self, key: &Digest) -> Result<u64, Fault> {
        let layout = self.layout();
        let directory = EntryDirectory::open(&self.own, key)
            .map_err(|error| Fault::reading("its directory", &error))?;
        let bytes = directory
            .file(MANIFEST)
            .and_then(|(file, metadata)| {
                entry::read_limited(&file, &metadata, entry::MANIFEST_LIMIT)
            })
            .map_err(|error| Fault::reading(MANIFEST, &error))?;
        let manifest = Manifest::parse(&bytes).map_err(|error| Fault::wrong(error.to_string()))?;
        let head = &manifest.head;
        if head.key != *key {
            return Err(Fault::wrong(format!(
                "the manifest belongs to key {}",
                head.key.short()
            )));
        }
        if manifest.record.material.key() != *key {
            return Err(Fault::wrong(
                "the manifest's key material gives another key",
            ));
        }
        let mut total = bytes.len() as u64;
        for record in &head.artifact {
            let name = &record.name;
            let is_plain = Path::new(name).file_name() == Some(name.as_ref());
            if !is_plain || name == MANIFEST {
                return Err(Fault::wrong(format!("{name:?} is no artifact's name")));
            }
            entry::check_fully(&directory, record)?;
            total = total.saturating_add(record.size);
        }
        let is_ours = |name: &std::ffi::OsStr| {
            name == MANIFEST || head.artifact.iter().any(|artifact| *artifact.name == *name)
        };
        let entries = fs::read_dir(layout.entry(key))
            .into_iter()
            .flatten()
            .flatten();
        match entries
            .map(|entry| entry.file_name())
            .find(|name| !is_ours(name))
        {
            Some(name) => Err(Fault::wrong(format!(
                "{} does not belong to it",
                name.display()
            ))),
            None => Ok(total),
        }
    }
}
