//! One look at the tools: reads what the memo does not know, and collects what the answer depends on.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::closure::{self, Part};
use super::loader::Loader;
use super::memo::Memo;
use super::reason::Reason;
use super::stamp::{Stamp, Watch};
use super::version::version;
use super::{FileIdentity, Identity, Probe, Tool, ToolFile};
use crate::digest::{Digest, Hasher};

/// An examination of one moment; every file is looked at once.
pub(super) struct Examination<'a> {
    pub(super) memo: &'a mut Memo,
    pub(super) probe: &'a dyn Probe,
    pub(super) watch: Watch,
    loader: Loader,
    digests: BTreeMap<PathBuf, Digest>,
}

/// A tool that was found and not yet read.
pub(super) struct Parts {
    name: &'static str,
    path: PathBuf,
    files: Vec<Part>,
}

impl<'a> Examination<'a> {
    pub(super) fn new(memo: &'a mut Memo, probe: &'a dyn Probe) -> Self {
        let watch = Watch::new(memo.now());
        Self {
            memo,
            probe,
            watch,
            loader: Loader::host(),
            digests: BTreeMap::new(),
        }
    }

    /// Finds the files of a tool; [`Examination::read`] has to read them.
    pub(super) fn parts(&mut self, name: &'static str, path: PathBuf) -> Result<Parts, Reason> {
        let files = closure::parts(name, &path, &mut self.loader, &mut self.watch)?;
        Ok(Parts { name, path, files })
    }

    /// Identifies a tool whose files have been read, and asks for its version if it is a new one.
    pub(super) fn tool(&mut self, Parts { name, path, files }: Parts) -> Result<Tool, Reason> {
        let mut identities = Vec::with_capacity(files.len());
        let mut places = Vec::with_capacity(files.len());
        for Part { name, path } in files {
            let Some(digest) = self.digests.get(&path) else {
                return Err(Reason::Changed { file: path });
            };
            identities.push(FileIdentity {
                name,
                digest: *digest,
            });
            places.push(ToolFile(path));
        }
        let digest = fingerprint(&identities);
        let version = match self.memo.version(digest) {
            Some(version) => version.to_owned(),
            None => self.ask_version(&path)?,
        };
        self.memo.remember_version(digest, &version);
        Ok(Tool {
            name,
            path,
            identity: Identity {
                digest,
                version,
                files: identities,
            },
            files: places,
        })
    }

    /// Finds, reads and identifies a library that a tool links into what it makes.
    pub(super) fn library(&mut self, name: &'static str, path: &Path) -> Result<Tool, Reason> {
        let parts = Parts {
            name,
            path: path.to_owned(),
            files: vec![Part {
                name: name.to_owned(),
                path: path.to_owned(),
            }],
        };
        self.read(&[&parts])?;
        let digest = *(self.digests.get(path)).ok_or_else(|| Reason::Changed {
            file: path.to_owned(),
        })?;
        let files = vec![FileIdentity {
            name: name.to_owned(),
            digest,
        }];
        Ok(Tool {
            name,
            path: path.to_owned(),
            identity: Identity {
                digest: fingerprint(&files),
                version: String::new(),
                files,
            },
            files: vec![ToolFile(path.to_owned())],
        })
    }

    fn ask_version(&self, path: &Path) -> Result<String, Reason> {
        let output = self.ask(path, "--version")?;
        version(&output)
            .map(str::to_owned)
            .ok_or_else(|| Reason::NoVersion {
                program: path.to_owned(),
                output: output.chars().take(80).collect(),
            })
    }

    /// What a tool prints for one argument.
    pub(super) fn ask(&self, program: &Path, argument: &str) -> Result<String, Reason> {
        self.probe
            .run(program, &[argument])
            .map_err(|error| Reason::Failed {
                program: program.to_owned(),
                argument: argument.to_owned(),
                error: error.to_string(),
            })
    }

    /// Digests the files that are not yet known, several at once.
    pub(super) fn read(&mut self, tools: &[&Parts]) -> Result<(), Reason> {
        let mut unknown = Vec::new();
        for Part { path, .. } in tools.iter().flat_map(|tool| &tool.files) {
            let stamp = self
                .watch
                .see(path)
                .ok_or_else(|| Reason::Changed { file: path.clone() })?;
            if let Some(digest) = self.memo.digest(path, &stamp) {
                self.digests.insert(path.clone(), digest);
            } else if !self.digests.contains_key(path)
                && !unknown.iter().any(|(known, _)| *known == path)
            {
                unknown.push((path, stamp));
            }
        }
        // The largest first, so that no thread is left alone with one at the end.
        unknown.sort_by_key(|(_, stamp)| std::cmp::Reverse(stamp.size()));
        for (path, stamp) in &unknown {
            self.probe.reading(path, stamp.size());
        }
        let digested = in_parallel(&unknown, |(path, stamp)| digest_file(path, stamp));
        let mut remembered = Vec::new();
        for ((path, stamp), digest) in unknown.into_iter().zip(digested) {
            let digest = digest?;
            self.digests.insert(path.clone(), digest);
            if self.watch.may_remember(&stamp) {
                remembered.push((path.clone(), stamp, digest));
            }
        }
        self.memo.remember_digests(remembered);
        Ok(())
    }
}

/// The digest that stands for a tool in keys: of the names and contents of its files.
fn fingerprint(files: &[FileIdentity]) -> Digest {
    let mut hasher = Hasher::new();
    hasher.update("npu-build tool 1\0");
    for FileIdentity { name, digest } in files {
        hasher.update((name.len() as u64).to_le_bytes());
        hasher.update(name);
        hasher.update(digest.as_bytes());
    }
    hasher.finish()
}

/// The content of a file that has the given stamp before and after it is read.
fn digest_file(path: &Path, stamp: &Stamp) -> Result<Digest, Reason> {
    let unreadable = |error: std::io::Error| Reason::Unreadable {
        file: path.to_owned(),
        error: error.to_string(),
    };
    let mut file = File::open(path).map_err(unreadable)?;
    let (digest, _) = Digest::of_reader(&mut file).map_err(unreadable)?;
    let after = Stamp::from_metadata(&file.metadata().map_err(unreadable)?);
    if after == *stamp {
        Ok(digest)
    } else {
        Err(Reason::Changed {
            file: path.to_owned(),
        })
    }
}

/// Applies `work` to every item on as many threads as there are cores; results in the items' order.
fn in_parallel<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let threads = std::thread::available_parallelism()
        .map_or(1, usize::from)
        .min(items.len());
    if threads <= 1 {
        return items.iter().map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::with_capacity(items.len()));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(index) else { break };
                    let result = work(item);
                    results
                        .lock()
                        .unwrap_or_else(std::sync::PoisonError::into_inner)
                        .push((index, result));
                }
            });
        }
    });
    let mut results = results
        .into_inner()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}
