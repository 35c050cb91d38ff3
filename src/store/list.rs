//! What is in the cache: a list that streams, and all that is known of one entry.

use std::path::PathBuf;

use super::layout::{Layout, MANIFEST};
use super::manifest::Manifest;
use super::{Fault, Store, entry, survey};
use crate::digest::Digest;
use crate::parallel;

/// As many shards are read before the first of their entries is given.
const SHARDS_AT_ONCE: usize = 16;

/// An entry as its manifest describes it; its artifacts are not verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The key that names it.
    pub key: Digest,
    /// The kind of step.
    pub step: String,
    /// The kernel.
    pub kernel: String,
    /// The target.
    pub target: String,
    /// All its files together.
    pub bytes: u64,
    /// How long it took to make, in milliseconds.
    pub milliseconds: u64,
    /// When it was made, in seconds since 1970.
    pub created: u64,
    /// When it was last used, in seconds since 1970, to the hour.
    pub last_used: u64,
}

/// One entry with all that is known of it.
#[derive(Clone, Debug)]
pub struct Shown {
    /// Its directory.
    pub path: PathBuf,
    /// What it says of itself.
    pub manifest: Manifest,
    /// All its files together.
    pub bytes: u64,
    /// When it was last used, in seconds since 1970, to the hour.
    pub last_used: u64,
    /// What is wrong with it.
    pub fault: Option<Fault>,
}

/// Why an entry can't be shown.
#[derive(Debug, thiserror::Error)]
pub enum ShowError {
    /// It is no part of a key.
    #[error(
        "'{0}' is no key; give at least 4 of its hexadecimal digits, as `npu-build cache list` prints them"
    )]
    NoKey(String),
    /// There is no such entry.
    #[error("no entry's key begins with {0}; `npu-build cache list` has those that are there")]
    Absent(String),
    /// There are several.
    #[error("several keys begin with {digits}: {}; give more digits", keys.iter().map(Digest::short).collect::<Vec<_>>().join(", "))]
    Ambiguous {
        /// What was given.
        digits: String,
        /// Some of them.
        keys: Vec<Digest>,
    },
    /// Its manifest can't be used.
    #[error("the entry {0} {1}; `npu-build cache verify --repair` moves it to the quarantine")]
    Damaged(Digest, Fault),
}

impl Store {
    /// The entries that can be read, in the order of their keys, a few shards at a time, which
    /// `jobs` threads read.
    pub fn list(&self, jobs: usize) -> impl Iterator<Item = Listed> {
        let layout = self.layout();
        let shards = layout.map(survey::shards).unwrap_or_default();
        let shards: Vec<_> = shards.into_iter().flatten().collect();
        let groups: Vec<_> = shards.chunks(SHARDS_AT_ONCE).map(<[_]>::to_vec).collect();
        groups.into_iter().flat_map(move |group| {
            let read = |shard: &PathBuf| layout.map(|layout| listed_in(layout, shard));
            let read = parallel::map(&group, jobs, read);
            read.into_iter().flatten().flatten()
        })
    }

    /// How many entries there are, and how many bytes all their files have.
    #[must_use]
    pub fn extent(&self, jobs: usize) -> (u64, u64) {
        let Some(layout) = self.layout() else {
            return (0, 0);
        };
        let shards: Vec<_> = survey::shards(layout).into_iter().flatten().collect();
        let sums = parallel::map(&shards, jobs, |shard| {
            let keys = survey::places(shard.clone()).filter_map(survey::Place::entry);
            keys.fold((0, 0), |(entries, bytes), key| {
                (entries + 1, bytes + survey::extent(layout, &key).bytes)
            })
        });
        let add = |(a, b), (c, d)| (a + c, b + d);
        sums.into_iter().fold((0, 0), add)
    }

    /// The entry whose key begins with these hexadecimal digits.
    ///
    /// # Errors
    /// See [`ShowError`].
    pub fn show(&self, digits: &str) -> Result<Shown, ShowError> {
        let is_hex = |c: char| matches!(c, '0'..='9' | 'a'..='f');
        if !(4..=64).contains(&digits.len()) || !digits.chars().all(is_hex) {
            return Err(ShowError::NoKey(digits.chars().take(80).collect()));
        }
        let absent = || ShowError::Absent(digits.to_owned());
        let cache = self.cache.as_ref().ok_or_else(absent)?;
        let layout = cache.layout();
        let shard = layout.entries().join(&digits[..2]);
        let mut keys: Vec<_> = survey::places(shard)
            .filter_map(survey::Place::entry)
            .filter(|key| key.to_string().starts_with(digits))
            .take(8)
            .collect();
        keys.sort_unstable();
        let key = match *keys {
            [] => return Err(absent()),
            [key] => key,
            _ => {
                let digits = digits.to_owned();
                return Err(ShowError::Ambiguous { digits, keys });
            }
        };
        let path = layout.entry(&key);
        let damaged = |fault| ShowError::Damaged(key, fault);
        let bytes = entry::read_manifest(&path.join(MANIFEST));
        let bytes = bytes.map_err(|error| damaged(Fault::reading(MANIFEST, &error)))?;
        let manifest =
            Manifest::parse(&bytes).map_err(|error| damaged(Fault::wrong(error.to_string())))?;
        let extent = survey::extent(layout, &key);
        Ok(Shown {
            path,
            manifest,
            bytes: extent.bytes,
            last_used: extent.used,
            fault: cache.check(&key).err(),
        })
    }
}

fn listed_in(layout: &Layout, shard: &std::path::Path) -> Vec<Listed> {
    let keys = survey::places(shard.to_owned()).filter_map(survey::Place::entry);
    let mut listed: Vec<_> = keys.filter_map(|key| listed(layout, &key)).collect();
    listed.sort_unstable_by_key(|listed| listed.key);
    listed
}

fn listed(layout: &Layout, key: &Digest) -> Option<Listed> {
    let (summary, metadata) = survey::summary(layout, key)?;
    let artifacts = summary.head.artifact.iter().map(|artifact| artifact.size);
    let artifacts = artifacts.fold(0, u64::saturating_add);
    Some(Listed {
        key: *key,
        step: summary.step,
        kernel: summary.kernel,
        target: summary.target,
        bytes: artifacts.saturating_add(metadata.len()),
        milliseconds: summary.head.took,
        created: summary.created,
        last_used: survey::seconds(&metadata),
    })
}
