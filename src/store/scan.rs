//! Going through all entries, one shard after the other: memory stays small however many there are.
//! Nothing that is found is believed: names are checked, links are not followed.

use std::fs;
use std::path::{Path, PathBuf};

use super::files::{children, open_regular, read_limited, seconds};
use super::layout::{Layout, MANIFEST};
use super::manifest::{Head, MANIFEST_LIMIT};
use crate::digest::Digest;

/// What is in one shard of the entries.
#[derive(Clone, Debug, Default)]
pub(super) struct EntryScan {
    /// Directories that are named as entries are, in the order of their keys.
    pub(super) entries: Vec<Digest>,
    /// What does not belong there.
    pub(super) orphans: Vec<PathBuf>,
}

/// The directories of entries, and what does not belong beside them.
pub(super) fn shards(layout: &Layout) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let entries = &layout.entries;
    if entries.is_symlink() {
        return (Vec::new(), vec![entries.clone()]);
    }
    let is_shard = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        let is_hex = |c: &u8| matches!(c, b'0'..=b'9' | b'a'..=b'f');
        name.len() == 2 && name.iter().all(is_hex) && path.is_dir() && !path.is_symlink()
    };
    children(entries).into_iter().partition(is_shard)
}

impl EntryScan {
    pub(super) fn of(shard: &Path) -> Self {
        let prefix = shard.file_name().unwrap_or_default().display();
        let mut scan = Self::default();
        for entry in fs::read_dir(shard).into_iter().flatten().flatten() {
            let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let name = entry.file_name();
            let name = name.to_str().filter(|_| is_directory).unwrap_or_default();
            match format!("{prefix}{name}").parse() {
                Ok(key) => scan.entries.push(key),
                Err(_) => scan.orphans.push(entry.path()),
            }
        }
        scan.entries.sort_unstable();
        scan
    }
}

/// The bytes of an entry's files, and when it was last used, in seconds since 1970. One without a
/// manifest was never used.
pub(super) fn extent(layout: &Layout, key: &Digest) -> (u64, u64) {
    let (mut bytes, mut used) = (0, 0);
    let entries = fs::read_dir(layout.entry(key)).into_iter().flatten();
    for entry in entries.flatten() {
        // Of a link it is the link's own.
        let Ok(metadata) = entry.metadata() else {
            continue;
        };
        bytes += metadata.len();
        if entry.file_name() == MANIFEST {
            used = seconds(&metadata);
        }
    }
    (bytes, used)
}

/// When the entry was last used, in seconds since 1970; 0 if it has no manifest.
pub(super) fn last_use(layout: &Layout, key: &Digest) -> u64 {
    let metadata = fs::symlink_metadata(layout.manifest(key));
    metadata.map_or(0, |metadata| seconds(&metadata))
}

/// What the entry's manifest says, if it can be read, and the file's own times and size.
pub(super) fn head(layout: &Layout, key: &Digest) -> Option<(Head, fs::Metadata)> {
    let (file, metadata) = open_regular(&layout.manifest(key)).ok()?;
    let bytes = read_limited(&file, &metadata, MANIFEST_LIMIT).ok()?;
    Some((Head::parse(&bytes).ok()?, metadata))
}
