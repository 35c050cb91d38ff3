//! What is remembered from one run to the next, so that unchanged tools are looked at and not read.
//!
//! Nothing in it is needed: a memo that is lost, damaged, of another version or not writable costs
//! time and nothing else. A record is used only while every file that it depends on has the same
//! stamp (device, inode, size, mtime, ctime) and every path that was absent still is.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::llvm::Llvm;
use super::stamp::{Stamp, Watched, all_hold};
use crate::digest::Digest;

/// The file's name in the directory that the caller gives.
const FILE: &str = "toolchain-memo";
/// How its first line begins; the SHA-256 of all that follows that line ends it.
const HEADER: &str = "npu-build toolchain memo 1 ";
/// A larger file is not a memo.
const MAX_BYTES: u64 = 1 << 20;
/// How many of each kind are kept, newest last.
const MAX_DISCOVERIES: usize = 16;
const MAX_DIGESTS: usize = 256;
const MAX_VERSIONS: usize = 128;

/// Fingerprints and discoveries, memoised by the stamps of the files that they depend on.
#[derive(Debug)]
pub struct Memo {
    directory: Option<PathBuf>,
    now: fn() -> SystemTime,
    records: Records,
    changed: bool,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Records {
    discoveries: Vec<Discovery>,
    digests: Vec<Digested>,
    versions: Vec<(Digest, String)>,
}

/// What a search, known by its digest, came to.
#[derive(Debug, Serialize, Deserialize)]
struct Discovery {
    search: Digest,
    watched: Vec<Watched>,
    found: Llvm,
}

/// The content of one file.
#[derive(Debug, Serialize, Deserialize)]
struct Digested(#[serde(with = "super::place")] PathBuf, Stamp, Digest);

impl Default for Memo {
    /// An empty memo that lives as long as the process.
    fn default() -> Self {
        Self {
            directory: None,
            now: SystemTime::now,
            records: Records::default(),
            changed: false,
        }
    }
}

impl Memo {
    /// The memo in `directory`, empty if there is none that can be used. With `None` nothing is
    /// kept beyond the process.
    #[must_use]
    pub fn load(directory: Option<&Path>) -> Self {
        let records = directory
            .and_then(|directory| read(&directory.join(FILE)))
            .unwrap_or_default();
        Self {
            directory: directory.map(Path::to_owned),
            records,
            ..Self::default()
        }
    }

    /// Takes the time from `now`. A file that changed less than two seconds before it was read is
    /// not remembered; tests, whose files are always that young, set the clock ahead.
    #[must_use]
    pub fn with_clock(mut self, now: fn() -> SystemTime) -> Self {
        self.now = now;
        self
    }

    /// Writes the memo if anything in it changed, by one rename. Does nothing where it can't.
    pub fn save(&mut self) {
        if !std::mem::take(&mut self.changed) {
            return;
        }
        let Some(directory) = &self.directory else {
            return;
        };
        self.records
            .discoveries
            .retain(|discovery| all_hold(&discovery.watched));
        self.records
            .digests
            .retain(|Digested(path, stamp, _)| Stamp::of(path).as_ref() == Some(stamp));
        keep_last(&mut self.records.discoveries, MAX_DISCOVERIES);
        keep_last(&mut self.records.digests, MAX_DIGESTS);
        keep_last(&mut self.records.versions, MAX_VERSIONS);
        // Nobody depends on the outcome: the next run finds the old memo or the new one.
        let _ = write(directory, &self.records);
    }

    pub(super) fn now(&self) -> SystemTime {
        (self.now)()
    }

    /// What an earlier search found, if a new one is sure to find the same.
    pub(super) fn discovery(&self, search: Digest) -> Option<&Llvm> {
        let discovery = self
            .records
            .discoveries
            .iter()
            .find(|known| known.search == search)?;
        all_hold(&discovery.watched).then_some(&discovery.found)
    }

    pub(super) fn remember_discovery(
        &mut self,
        search: Digest,
        watched: Vec<Watched>,
        found: Llvm,
    ) {
        self.changed = true;
        self.records
            .discoveries
            .retain(|known| known.search != search);
        self.records.discoveries.push(Discovery {
            search,
            watched,
            found,
        });
    }

    pub(super) fn digest(&self, path: &Path, stamp: &Stamp) -> Option<Digest> {
        let known = self
            .records
            .digests
            .iter()
            .find(|Digested(known, ..)| known == path)?;
        (known.1 == *stamp).then_some(known.2)
    }

    pub(super) fn remember_digests(
        &mut self,
        digests: impl IntoIterator<Item = (PathBuf, (Stamp, Digest))>,
    ) {
        let new: BTreeMap<_, _> = digests.into_iter().collect();
        self.changed |= !new.is_empty();
        self.records
            .digests
            .retain(|Digested(path, ..)| !new.contains_key(path));
        self.records.digests.extend(
            new.into_iter()
                .map(|(path, (stamp, digest))| Digested(path, stamp, digest)),
        );
    }

    /// What the tool with this fingerprint answered to `--version`: the same on every machine.
    pub(super) fn version(&self, fingerprint: Digest) -> Option<&str> {
        self.records
            .versions
            .iter()
            .find(|(known, _)| *known == fingerprint)
            .map(|(_, version)| version.as_str())
    }

    pub(super) fn remember_version(&mut self, fingerprint: Digest, version: &str) {
        if self.version(fingerprint).is_none() {
            self.changed = true;
            self.records
                .versions
                .push((fingerprint, version.to_owned()));
        }
    }
}

fn keep_last<T>(records: &mut Vec<T>, count: usize) {
    records.drain(..records.len().saturating_sub(count));
}

fn read(path: &Path) -> Option<Records> {
    // Neither a symlink nor a FIFO that somebody left there can lead or hold us anywhere.
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).ok()?;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)
        .ok()?;
    let metadata = file.metadata().ok()?;
    if !metadata.is_file() || metadata.len() > MAX_BYTES {
        return None;
    }
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).ok()?);
    file.take(MAX_BYTES).read_to_end(&mut bytes).ok()?;
    parse(&bytes)
}

fn parse(bytes: &[u8]) -> Option<Records> {
    let rest = bytes.strip_prefix(HEADER.as_bytes())?;
    let (digest, body) = rest.split_at_checked(64)?;
    let body = body.strip_prefix(b"\n")?;
    let digest: Digest = std::str::from_utf8(digest).ok()?.parse().ok()?;
    if digest != Digest::of(body) {
        return None;
    }
    serde_json::from_slice(body).ok()
}

fn write(directory: &Path, records: &Records) -> std::io::Result<()> {
    let body = serde_json::to_vec(records)?;
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    write!(file, "{HEADER}{}\n", Digest::of(&body))?;
    file.write_all(&body)?;
    file.persist(directory.join(FILE))
        .map_err(|error| error.error)?;
    Ok(())
}
