//! Entries that this process has verified, byte for byte.
//!
//! A file whose bytes equal those that were digested needs no digest. Nothing else is taken on
//! trust: every file is still opened, read to its end and compared on every hit.

use super::directory::EntryDirectory;
use super::entry::{self, Found};
use super::manifest::ArtifactRecord;

/// Entries with more bytes are digested each time.
const MAX_BYTES: u64 = 256 << 10;

/// An entry's files as they were when their digests were right.
#[derive(Debug)]
pub struct Verified {
    pub(super) manifest: Vec<u8>,
    /// One for each artifact.
    pub(super) contents: Vec<Vec<u8>>,
    pub(super) found: Found,
}

impl Verified {
    /// Whether an entry with this manifest is small enough to be remembered.
    pub(super) fn takes(manifest: &[u8], artifacts: &[ArtifactRecord]) -> bool {
        let sizes = artifacts.iter().map(|record| record.size);
        let total = sizes.fold(manifest.len() as u64, u64::saturating_add);
        total <= MAX_BYTES
    }

    /// Whether the entry, whose manifest has just been read, is the same to the byte.
    pub(super) fn is_still(&self, directory: &EntryDirectory<'_>, manifest: &[u8]) -> bool {
        let artifacts = self.found.artifacts.iter();
        let mut files = artifacts.zip(&self.contents);
        self.manifest == manifest
            && files.all(|(artifact, content)| {
                let opened = directory.file(&artifact.name);
                let file = opened.and_then(|opened| entry::sized(opened, artifact.size));
                let bytes = file.and_then(|file| entry::read_sized(&file, artifact.size));
                bytes.is_ok_and(|bytes| bytes == *content)
            })
    }
}
