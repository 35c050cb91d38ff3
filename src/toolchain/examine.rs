//! One look at the tools: reads what the memo does not know, and collects what the answer depends on.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use super::closure::{self, Part};
use super::loader::Loader;
use super::memo::Memo;
use super::reason::Reason;
use super::stamp::{Stamp, Watch};
use super::version::version;
use super::wheel;
use super::{FileIdentity, Identity, Probe, Tool};
use crate::digest::{Digest, Hasher};
use crate::parallel;

/// An examination of one moment; every file is looked at once.
pub(super) struct Examination<'a> {
    pub(super) memo: &'a mut Memo,
    pub(super) probe: &'a dyn Probe,
    pub(super) watch: Watch,
    pub(super) loader: Loader,
    digests: BTreeMap<PathBuf, Digest>,
}

/// A tool that was found and not yet read.
pub(super) struct Parts {
    pub(super) name: &'static str,
    pub(super) path: PathBuf,
    pub(super) files: Vec<Part>,
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

    /// Finds, reads and identifies a tool, and asks for its version if it is a new one.
    pub(super) fn tool(&mut self, parts: Parts) -> Result<Tool, Reason> {
        let mut tool = self.identify(parts)?;
        tool.identity.version = self.learn(&tool, "--version", |output| {
            version(output)
                .map(str::to_owned)
                .ok_or_else(|| Reason::NoVersion {
                    program: tool.path.clone(),
                    output: start_of(output),
                })
        })?;
        Ok(tool)
    }

    /// What can be learnt from a tool's answer to one argument. Each tool is asked once, wherever
    /// it is: what was learnt is remembered by its fingerprint.
    pub(super) fn learn(
        &mut self,
        tool: &Tool,
        argument: &str,
        learn: impl FnOnce(&str) -> Result<String, Reason>,
    ) -> Result<String, Reason> {
        let fingerprint = tool.identity.digest;
        if let Some(known) = self.memo.answer(fingerprint, argument) {
            return Ok(known.to_owned());
        }
        let learnt = learn(&self.ask(&tool.path, argument)?)?;
        self.memo.remember_answer(fingerprint, argument, &learnt);
        Ok(learnt)
    }

    /// Identifies a tool whose files have been read; its version is left open.
    pub(super) fn identify(&mut self, Parts { name, path, files }: Parts) -> Result<Tool, Reason> {
        let mut watched = Vec::with_capacity(files.len());
        let mut identities = Vec::with_capacity(files.len());
        for Part { name, path } in files {
            let digest = *self
                .digests
                .get(&path)
                .ok_or_else(|| Reason::Changed { file: path.clone() })?;
            identities.push(FileIdentity { name, digest });
            watched.push(self.watch.watched(path));
        }
        Ok(Tool {
            name,
            path,
            files: watched,
            identity: Identity {
                digest: fingerprint(&identities),
                version: String::new(),
                files: identities,
            },
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
        self.identify(parts)
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
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let digested = parallel::map(&unknown, cores, |(path, stamp)| digest_file(path, stamp));
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

/// As much of what a tool printed as fits into a message.
pub(super) fn start_of(output: &str) -> String {
    output.chars().take(80).collect()
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
    let digest = if wheel::is_record(path) {
        wheel::record_digest(&mut file).map_err(unreadable)?
    } else {
        Digest::of_reader(&mut file).map_err(unreadable)?.0
    };
    let after = Stamp::from_metadata(&file.metadata().map_err(unreadable)?);
    if after == *stamp {
        Ok(digest)
    } else {
        Err(Reason::Changed {
            file: path.to_owned(),
        })
    }
}
