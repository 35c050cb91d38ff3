//! What is in the cache: a list that streams, and all that is known of one entry.

use super::super::cache::Store;
use super::super::fault::Fault;
use super::super::files::{read_regular, seconds};
use super::super::layout::{Layout, MANIFEST};
use super::super::manifest::{MANIFEST_LIMIT, Manifest};
use super::super::scan::{self, EntryScan};
use super::super::types::{Listed, ShowError, Shown};
use super::verify;
use crate::digest::Digest;
use crate::parallel;

/// As many shards are read before the first of their entries is given.
const SHARDS_AT_ONCE: usize = 16;

impl Store {
    /// The entries that can be read, in the order of their keys, a few shards at a time, which
    /// `jobs` threads read.
    pub fn list(&self, jobs: usize) -> impl Iterator<Item = Listed> {
        let layout = self.layout();
        let (shards, _) = layout.map(scan::shards).unwrap_or_default();
        let groups: Vec<_> = shards.chunks(SHARDS_AT_ONCE).map(<[_]>::to_vec).collect();
        groups.into_iter().flat_map(move |group| {
            let read = parallel::map(&group, jobs, |shard| {
                let keys = EntryScan::of(shard).entries.into_iter();
                let listed = keys.filter_map(|key| listed(layout?, key));
                listed.collect::<Vec<_>>()
            });
            read.into_iter().flatten()
        })
    }

    /// How many entries there are, and how many bytes all their files have.
    #[must_use]
    pub fn extent(&self, jobs: usize) -> (u64, u64) {
        let Some(layout) = self.layout() else {
            return (0, 0);
        };
        let (shards, _) = scan::shards(layout);
        let sums = parallel::map(&shards, jobs, |shard| {
            let keys = EntryScan::of(shard).entries;
            let bytes = keys.iter().map(|key| scan::extent(layout, key).0);
            (keys.len() as u64, bytes.sum::<u64>())
        });
        sums.into_iter()
            .fold((0, 0), |(a, b), (c, d)| (a + c, b + d))
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
        let mut keys = EntryScan::of(&layout.entries.join(&digits[..2])).entries;
        keys.retain(|key| key.to_string().starts_with(digits));
        keys.truncate(8);
        let key = match *keys {
            [] => return Err(absent()),
            [key] => key,
            _ => {
                let digits = digits.to_owned();
                return Err(ShowError::Ambiguous { digits, keys });
            }
        };
        let damaged = |fault| ShowError::Damaged(key, fault);
        let bytes = read_regular(&layout.manifest(&key), MANIFEST_LIMIT);
        let bytes = bytes.map_err(|error| damaged(Fault::reading(MANIFEST, &error)))?;
        let manifest = Manifest::parse(&bytes).map_err(damaged)?;
        let (bytes, last_used) = scan::extent(layout, &key);
        Ok(Shown {
            path: layout.entry(&key),
            manifest,
            bytes,
            last_used,
            fault: verify::check_entry(cache, &key).err(),
        })
    }
}

fn listed(layout: &Layout, key: Digest) -> Option<Listed> {
    let (head, metadata) = scan::head(layout, &key)?;
    Some(Listed {
        bytes: head.size().saturating_add(metadata.len()),
        last_used: seconds(&metadata),
        head,
    })
}
