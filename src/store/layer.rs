//! Looking entries up: nothing of one is believed before its content has been checked.
//!
//! A layer is a cache directory that wraps the layer below it: what is not in the one is looked up in
//! the other. Only the uppermost, our own, is ever written; what is damaged in a lower one is treated
//! as missing.

use std::fs::{self, File, Metadata};
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::entry_dir::{EntryDir, Trust};
use super::fault::Fault;
use super::layout::{Layout, MANIFEST};
use super::manifest::Head;
use super::types::{Artifact, Outcome, Sharing, StepResult};
use crate::digest::Digest;
use crate::recent::Recent;
use crate::step::Step;

/// How old the time stamp of an entry's last use may get.
const USE_RESOLUTION: Duration = Duration::from_secs(3600);
/// Entries with more bytes are digested each time.
const MAX_REMEMBERED: u64 = 256 << 10;

#[derive(Debug)]
pub(super) struct CacheLayer {
    pub(super) layout: Layout,
    pub(super) sharing: Sharing,
    pub(super) trust: Trust,
    /// Whether uses are noted in it.
    is_own: bool,
    verified: Recent<Digest, Verified>,
    below: Option<Box<Self>>,
}

/// What was found under a key.
#[derive(Debug)]
pub(super) enum Lookup {
    /// All artifacts, each with the content that the manifest promises.
    Hit(StepResult),
    Absent,
    /// Something that can't be used.
    Damaged(Fault),
}

/// A small entry's files as they were when their digests were right. A file whose bytes equal those
/// needs no digest, but is still opened, read to its end and compared on every hit.
#[derive(Debug)]
struct Verified {
    manifest: Vec<u8>,
    /// One for each artifact.
    contents: Vec<Vec<u8>>,
    result: StepResult,
}

impl CacheLayer {
    pub(super) fn new(layout: Layout, sharing: Sharing) -> Self {
        Self {
            layout,
            sharing,
            trust: Trust::new(sharing),
            is_own: true,
            verified: Recent::default(),
            below: None,
        }
    }

    /// Puts a cache directory of somebody else below all layers.
    pub(super) fn put_below(&mut self, layout: Layout) {
        match &mut self.below {
            Some(below) => below.put_below(layout),
            None => {
                let mut layer = Self::new(layout, Sharing::Group);
                layer.is_own = false;
                self.below = Some(Box::new(layer));
            }
        }
    }

    /// Looks `step` up and verifies what is there.
    pub(super) fn lookup(&self, key: &Digest, step: &Step) -> Lookup {
        match (self.lookup_here(key, step), &self.below) {
            (Lookup::Absent, Some(below)) => match below.lookup(key, step) {
                Lookup::Damaged(_) => Lookup::Absent,
                found => found,
            },
            (found, _) => found,
        }
    }

    fn lookup_here(&self, key: &Digest, step: &Step) -> Lookup {
        let directory = match EntryDir::open(&self.layout, self.trust, key) {
            Ok(directory) => directory,
            Err(error) if error.kind() == ErrorKind::NotFound => return Lookup::Absent,
            Err(error) => return Lookup::Damaged(Fault::reading("its directory", &error)),
        };
        let read = directory.manifest();
        let read = read.map_err(|error| Fault::reading(MANIFEST, &error));
        let verified = read.and_then(|(file, metadata, bytes)| {
            let result = match self.verified.get(key) {
                Some(known) if known.is_still(&directory, &bytes) => known.result.clone(),
                _ => self.verify(&directory, bytes, key, step)?,
            };
            if self.is_own {
                mark_used(&file, &metadata);
            }
            // Another step may have the same key for another target.
            Ok(StepResult {
                target: step.target,
                ..result
            })
        });
        match verified {
            Ok(result) => Lookup::Hit(result),
            // A directory without a manifest is no entry: that goes first when one is deleted.
            Err(_) if fs::symlink_metadata(self.layout.manifest(key)).is_err() => Lookup::Absent,
            Err(fault) => Lookup::Damaged(fault),
        }
    }

    fn verify(
        &self,
        directory: &EntryDir,
        manifest: Vec<u8>,
        key: &Digest,
        step: &Step,
    ) -> Result<StepResult, Fault> {
        let head = Head::parse(&manifest)?;
        check_key(&head, key)?;
        let named: Vec<_> = head.artifacts.iter().map(|record| &*record.name).collect();
        let declared: Vec<_> = step.outputs.iter().map(|output| &*output.name).collect();
        if named != declared {
            return Err(Fault::new(format!(
                "the manifest lists {named:?} instead of {declared:?}"
            )));
        }
        let place = self.layout.entry(key);
        let is_small = head.size().saturating_add(manifest.len() as u64) <= MAX_REMEMBERED;
        let mut contents = Vec::with_capacity(head.artifacts.len());
        let mut artifacts = Vec::with_capacity(head.artifacts.len());
        for (output, record) in step.outputs.iter().zip(&head.artifacts) {
            contents.extend(directory.check(record, is_small)?);
            artifacts.push(Artifact {
                name: output.name.clone(),
                path: place.join(&*output.name),
                size: record.size,
                digest: record.sha256,
                temporary: None,
            });
        }
        let result = StepResult {
            kind: step.kind,
            target: step.target,
            key: *key,
            outcome: Outcome::Hit,
            miss: None,
            artifacts,
            elapsed: Duration::ZERO,
            took: Duration::from_millis(head.took),
        };
        if is_small {
            let verified = Verified {
                manifest,
                contents,
                result: result.clone(),
            };
            self.verified.put(*key, Arc::new(verified));
        }
        Ok(result)
    }
}

impl Verified {
    /// Whether the entry, whose manifest has just been read, is the same to the byte.
    fn is_still(&self, directory: &EntryDir, manifest: &[u8]) -> bool {
        let mut files = self.result.artifacts.iter().zip(&self.contents);
        self.manifest == manifest
            && files.all(|(artifact, content)| {
                let bytes = directory.content(&artifact.name, artifact.size);
                bytes.is_ok_and(|bytes| bytes == *content)
            })
    }
}

pub(super) fn check_key(head: &Head, key: &Digest) -> Result<(), Fault> {
    match head.key == *key {
        true => Ok(()),
        false => Err(Fault::new(format!(
            "the manifest belongs to key {}",
            head.key.short()
        ))),
    }
}

/// Notes the use in the manifest's modification time, at most once an hour. Time stamps in the
/// future (a clock that was set back) are mended. Whoever may not write does not.
fn mark_used(manifest: &File, metadata: &Metadata) {
    let now = SystemTime::now();
    let Ok(used) = metadata.modified() else {
        return;
    };
    let age = now.duration_since(used);
    if !age.is_ok_and(|age| age < USE_RESOLUTION) {
        let _ = manifest.set_modified(now);
    }
}
