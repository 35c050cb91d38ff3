//! What is remembered from one run to the next, so that unchanged tools are looked at and not read.
//!
//! Nothing in it is needed: a memo that is lost, damaged, of another version or not writable costs
//! time and nothing else. A record is used only while every file that it depends on has the same
//! stamp (device, inode, size, mtime, ctime) and every path that was absent still is.

use std::collections::BTreeSet;
use std::fs::{OpenOptions, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::aie::AieTools;
use super::lazy::Lazy;
use super::llvm::Llvm;
use super::stamp::{Grounds, Stamp};
use crate::digest::Digest;

/// The file's name in the directory that the caller gives.
const FILE: &str = "toolchain-memo";
/// How its first line begins; the SHA-256 of all that follows that line ends it. Then follows
/// [`Stored`], as postcard writes it: a hit reads some 5 KB, and JSON takes four times as long.
const HEADER: &str = concat!(
    "npu-build ",
    env!("CARGO_PKG_VERSION"),
    " toolchain memo 8 "
);
/// A larger file is not a memo.
const MAX_BYTES: u64 = 1 << 20;
/// How many of each kind are kept, newest last.
const MAX_DISCOVERIES: usize = 16;
const MAX_DIGESTS: usize = 256;
const MAX_ANSWERS: usize = 256;

/// Fingerprints and discoveries, memoised by the stamps of the files that they depend on.
#[derive(Debug)]
pub struct Memo {
    directory: Option<PathBuf>,
    now: fn() -> SystemTime,
    files: Lazy<Files>,
    discoveries: Vec<(Digest, Lazy<Discovery>)>,
    changed: bool,
}

/// What is in the file: [`Files`], and each [`Discovery`] with its search.
#[derive(Serialize, Deserialize)]
struct Stored<'a> {
    #[serde(borrow)]
    files: &'a [u8],
    #[serde(borrow)]
    discoveries: Vec<(Digest, &'a [u8])>,
}

/// What is known of files and tools, whichever search found them.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Files {
    digests: Vec<Digested>,
    answers: Vec<(Digest, String, String)>,
}

/// The content of one file.
#[derive(Debug, Serialize, Deserialize)]
struct Digested(#[serde(with = "super::stored_path")] PathBuf, Stamp, Digest);

/// What a search came to.
#[derive(Debug, Serialize, Deserialize)]
struct Discovery {
    grounds: Grounds,
    found: Found,
}

/// What the two kinds of searches come to.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Found {
    Llvm(Arc<Llvm>),
    Aie(Arc<AieTools>),
}

impl Default for Memo {
    /// An empty memo that lives as long as the process.
    fn default() -> Self {
        let files = Lazy::from_value(Files::default());
        Self {
            directory: None,
            now: SystemTime::now,
            files,
            discoveries: Vec::new(),
            changed: false,
        }
    }
}

impl Memo {
    /// The memo in `directory`, empty if there is none that can be used. With `None` nothing is
    /// kept beyond the process. Only the user may be able to write there: tools are executed from
    /// where the memo says they are.
    #[must_use]
    pub fn load(directory: Option<&Path>) -> Self {
        let stored = directory.and_then(|directory| read(&directory.join(FILE)));
        Self {
            directory: directory.map(Path::to_owned),
            ..stored.unwrap_or_default()
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
        self.discoveries.retain_mut(|(_, discovery)| {
            discovery
                .get()
                .is_some_and(|discovery| discovery.grounds.hold())
        });
        keep_last(&mut self.discoveries, MAX_DISCOVERIES);
        let files = self.files.get_or_default();
        files
            .digests
            .retain(|Digested(path, stamp, _)| Stamp::of(path).as_ref() == Some(stamp));
        keep_last(&mut files.digests, MAX_DIGESTS);
        keep_last(&mut files.answers, MAX_ANSWERS);
        if let Ok(body) = self.to_bytes() {
            // Nobody depends on the outcome: the next run finds the old memo or the new one.
            let _ = write(directory, &body);
        }
    }

    fn to_bytes(&self) -> postcard::Result<Vec<u8>> {
        let written =
            |(search, discovery): &(Digest, Lazy<Discovery>)| Ok((*search, discovery.to_bytes()?));
        let discoveries: postcard::Result<Vec<_>> = self.discoveries.iter().map(written).collect();
        let discoveries = discoveries?;
        postcard::to_allocvec(&Stored {
            files: &self.files.to_bytes()?,
            discoveries: (discoveries.iter())
                .map(|(search, bytes)| (*search, bytes.as_slice()))
                .collect(),
        })
    }

    pub(super) fn now(&self) -> SystemTime {
        (self.now)()
    }

    /// What an earlier search found, if a new one is sure to find the same.
    pub(super) fn discovery(&mut self, search: Digest) -> Option<&Found> {
        let (_, discovery) = self
            .discoveries
            .iter_mut()
            .find(|(known, _)| *known == search)?;
        let discovery = discovery.get()?;
        discovery.grounds.hold().then_some(&discovery.found)
    }

    pub(super) fn remember_discovery(&mut self, search: Digest, grounds: Grounds, found: Found) {
        self.changed = true;
        self.discoveries.retain(|(known, _)| *known != search);
        self.discoveries
            .push((search, Lazy::from_value(Discovery { grounds, found })));
    }

    /// The content of a file, if it still has this stamp.
    pub(super) fn digest(&mut self, path: &Path, stamp: &Stamp) -> Option<Digest> {
        let known = self
            .files
            .get()?
            .digests
            .iter()
            .find(|Digested(known, ..)| known == path)?;
        (known.1 == *stamp).then_some(known.2)
    }

    pub(super) fn remember_digests(&mut self, digests: Vec<(PathBuf, Stamp, Digest)>) {
        let new: BTreeSet<&Path> = digests.iter().map(|(path, ..)| path.as_path()).collect();
        self.changed |= !new.is_empty();
        let known = &mut self.files.get_or_default().digests;
        known.retain(|Digested(path, ..)| !new.contains(path.as_path()));
        known.extend(
            digests
                .into_iter()
                .map(|(path, stamp, digest)| Digested(path, stamp, digest)),
        );
    }

    /// What was learnt from the tool with this fingerprint by asking it `question`: the same on
    /// every machine.
    pub(super) fn answer(&mut self, fingerprint: Digest, question: &str) -> Option<&str> {
        let answers = &self.files.get()?.answers;
        answers
            .iter()
            .find(|(known, asked, _)| *known == fingerprint && asked == question)
            .map(|(.., answer)| answer.as_str())
    }

    pub(super) fn remember_answer(&mut self, fingerprint: Digest, question: &str, answer: &str) {
        if self.answer(fingerprint, question).is_none() {
            self.changed = true;
            self.files.get_or_default().answers.push((
                fingerprint,
                question.to_owned(),
                answer.to_owned(),
            ));
        }
    }
}

fn keep_last<T>(records: &mut Vec<T>, count: usize) {
    records.drain(..records.len().saturating_sub(count));
}

fn write(directory: &Path, body: &[u8]) -> std::io::Result<()> {
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    writeln!(file, "{HEADER}{}", Digest::of(body))?;
    file.write_all(body)?;
    // Whoever may use the cache may read it: in a group's cache everybody has the same tools.
    let readable = Permissions::from_mode(0o644);
    file.as_file().set_permissions(readable)?;
    file.persist(directory.join(FILE))
        .map_err(|error| error.error)?;
    Ok(())
}

fn read(path: &Path) -> Option<Memo> {
    // Neither a symlink nor a FIFO that somebody left there can lead or hold us anywhere.
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).ok()?;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)
        .ok()?;
    let metadata = file.metadata().ok()?;
    let others_write = metadata.permissions().mode() & 0o022 != 0;
    if !metadata.is_file() || others_write || metadata.len() > MAX_BYTES {
        return None;
    }
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).ok()?);
    file.take(MAX_BYTES).read_to_end(&mut bytes).ok()?;
    parse(&bytes)
}

/// Checks the whole and leaves the parts to be read when they are asked for.
fn parse(bytes: &[u8]) -> Option<Memo> {
    let rest = bytes.strip_prefix(HEADER.as_bytes())?;
    let (digest, body) = rest.split_at_checked(64)?;
    let body = body.strip_prefix(b"\n")?;
    let digest: Digest = std::str::from_utf8(digest).ok()?.parse().ok()?;
    if digest != Digest::of(body) {
        return None;
    }
    let stored: Stored<'_> = postcard::from_bytes(body).ok()?;
    let discoveries = stored.discoveries.into_iter();
    Some(Memo {
        files: Lazy::from_bytes(stored.files),
        discoveries: discoveries
            .map(|(search, bytes)| (search, Lazy::from_bytes(bytes)))
            .collect(),
        ..Memo::default()
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

    use proptest::prelude::*;

    use super::*;

    fn sealed(body: &[u8]) -> Vec<u8> {
        let header = format!("{HEADER}{}\n", Digest::of(body));
        [header.as_bytes(), body].concat()
    }

    proptest! {
        /// Somebody may write a memo with a right digest and anything in it.
        #[test]
        fn a_hostile_memo_with_a_right_digest_is_harmless(body: Vec<u8>, part: Vec<u8>) {
            let search = Digest::of("");
            let stored = Stored { files: &part, discoveries: vec![(search, &part)] };
            for body in [body, postcard::to_allocvec(&stored).unwrap()] {
                if let Some(mut memo) = parse(&sealed(&body)) {
                    prop_assert!(memo.discovery(search).is_none());
                    prop_assert!(memo.answer(search, "--version").is_none());
                }
            }
        }
    }

    #[test]
    fn more_records_than_bytes_are_refused() {
        let most = postcard::to_allocvec(&u64::MAX).unwrap();
        let many = Stored {
            files: &most,
            discoveries: vec![],
        };
        for body in [most.clone(), postcard::to_allocvec(&many).unwrap()] {
            let memo = parse(&sealed(&body));
            assert!(memo.is_none_or(|mut memo| memo.answer(Digest::of(""), "--version").is_none()));
        }
    }

    #[test]
    fn a_path_that_is_no_text_is_kept() {
        let path = std::ffi::OsStr::from_bytes(b"/opt/\xff");
        let files = Files {
            digests: vec![Digested(path.into(), Stamp::default(), Digest::of(""))],
            answers: vec![],
        };
        let bytes = Lazy::from_value(files).to_bytes().unwrap();
        let mut back = Lazy::<Files>::from_bytes(&bytes);
        assert_eq!(back.get().unwrap().digests[0].0, path);
    }
}
