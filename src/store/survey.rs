//! Going through all entries, one at a time, a shard after the other: memory stays small however
//! many there are. Nothing that is found is believed: names are checked, links are not followed.

use std::fs;
use std::path::PathBuf;
use std::time::UNIX_EPOCH;

use super::Cache;
use super::entry;
use super::layout::{DOOMED, Layout, MANIFEST};
use super::manifest::Summary;
use crate::digest::Digest;

/// What is found in the directory of entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A directory that is named as an entry is.
    Entry(Digest),
    /// What was an entry, and is being deleted or was left by somebody who died meanwhile.
    Doomed(Digest),
    /// Something that does not belong there.
    Stray(PathBuf),
}

impl Place {
    /// The key, if it is an entry.
    pub(super) fn entry(self) -> Option<Digest> {
        match self {
            Self::Entry(key) => Some(key),
            Self::Doomed(_) | Self::Stray(_) => None,
        }
    }
}

/// An entry as the file system sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    /// Of all its files.
    pub(super) bytes: u64,
    /// When it was last used, in seconds since 1970.
    pub(super) used: u64,
}

/// The directories of entries, and what else is beside them.
pub(super) fn shards(layout: &Layout) -> Vec<Result<PathBuf, PathBuf>> {
    let is_shard = |entry: &fs::DirEntry| {
        let name = entry.file_name();
        let is_hex = |c: &u8| matches!(c, b'0'..=b'9' | b'a'..=b'f');
        let bytes = name.as_encoded_bytes();
        bytes.len() == 2 && bytes.iter().all(is_hex) && is_directory(entry)
    };
    let entries = layout.entries();
    if super::open::is_link(&entries) {
        return vec![Err(entries)];
    }
    let entries = fs::read_dir(entries).into_iter().flatten().flatten();
    let shards = entries.map(|entry| match is_shard(&entry) {
        true => Ok(entry.path()),
        false => Err(entry.path()),
    });
    let mut shards: Vec<_> = shards.collect();
    shards.sort_unstable();
    shards
}

/// What is in one of the [`shards`].
pub(super) fn places(shard: PathBuf) -> impl Iterator<Item = Place> {
    let prefix = shard.file_name().unwrap_or_default().to_owned();
    let entries = fs::read_dir(&shard).into_iter().flatten().flatten();
    entries.map(move |entry| {
        let name = entry.file_name();
        let name = name.to_str().filter(|_| is_directory(&entry));
        let (rest, is_doomed) = name.map_or(("", false), |name| {
            let doomed = name.strip_prefix(DOOMED);
            (doomed.unwrap_or(name), doomed.is_some())
        });
        match format!("{}{rest}", prefix.display()).parse() {
            Ok(key) if is_doomed => Place::Doomed(key),
            Ok(key) => Place::Entry(key),
            Err(_) => Place::Stray(entry.path()),
        }
    })
}

fn is_directory(entry: &fs::DirEntry) -> bool {
    entry.file_type().is_ok_and(|kind| kind.is_dir())
}

/// The keys of all entries.
pub(super) fn keys(layout: &Layout) -> impl Iterator<Item = Digest> {
    let shards = shards(layout).into_iter().flatten();
    shards.flat_map(|shard| places(shard).filter_map(Place::entry))
}

/// How large the entry is, and when it was used. One without a manifest was never used.
pub(super) fn extent(layout: &Layout, key: &Digest) -> Extent {
    let mut extent = Extent { bytes: 0, used: 0 };
    let entries = fs::read_dir(layout.entry(key)).into_iter().flatten();
    for entry in entries.flatten() {
        // Of a link it is the link's own.
        let Ok(metadata) = entry.metadata() else {
            continue;
        };
        extent.bytes += metadata.len();
        if entry.file_name() == MANIFEST {
            extent.used = seconds(&metadata);
        }
    }
    extent
}

/// When the entry was last used, in seconds since 1970; 0 if it has no manifest.
pub(super) fn last_use(layout: &Layout, key: &Digest) -> u64 {
    let metadata = fs::symlink_metadata(layout.entry(key).join(MANIFEST));
    metadata.map_or(0, |metadata| seconds(&metadata))
}

/// When the file was modified, in seconds since 1970.
pub(super) fn seconds(metadata: &fs::Metadata) -> u64 {
    let modified = metadata.modified().ok();
    let since = modified.and_then(|modified| modified.duration_since(UNIX_EPOCH).ok());
    since.map_or(0, |since| since.as_secs())
}

/// What the entry's manifest says, if it is one, and the file's own times and size.
pub(super) fn summary(layout: &Layout, key: &Digest) -> Option<(Summary, fs::Metadata)> {
    let path = layout.entry(key).join(MANIFEST);
    let (file, metadata) = entry::open_regular(&path).ok()?;
    let bytes = entry::read_limited(&file, &metadata, entry::MANIFEST_LIMIT).ok()?;
    Some((Summary::parse(&bytes).ok()?, metadata))
}

impl Cache {
    /// What all entries say of themselves.
    pub(super) fn summaries(&self) -> impl Iterator<Item = (Digest, Summary)> + '_ {
        keys(self.layout()).filter_map(|key| Some((key, summary(self.layout(), &key)?.0)))
    }
}
