//! What a path looked like when it was last examined: the stats that stand for "nothing changed".
//!
//! Invariant: a [`Watch`] that is settled and still holds proves that re-examining its paths would
//! give what it gave before. Anything that might change unseen makes it unsettled.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::loader;

/// How old a change must be before an unchanged stamp proves unchanged content. Time stamps are as
/// coarse as 2 s (FAT), so a file may be written twice within one; Git calls such files racy.
const SETTLING: Duration = Duration::from_secs(2);

/// More paths than this are not remembered; a real installation has about thirty.
const MAX_WATCHED: usize = 1024;

/// The identity and the times of a file; times in nanoseconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Fields", into = "Fields")]
pub(super) struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: i64,
    changed: i64,
}

/// A [`Stamp`] as it is stored: device, inode, size, mtime, ctime.
type Fields = (u64, u64, u64, i64, i64);

impl From<Fields> for Stamp {
    fn from((device, inode, size, modified, changed): Fields) -> Self {
        Self {
            device,
            inode,
            size,
            modified,
            changed,
        }
    }
}

impl From<Stamp> for Fields {
    fn from(stamp: Stamp) -> Self {
        (
            stamp.device,
            stamp.inode,
            stamp.size,
            stamp.modified,
            stamp.changed,
        )
    }
}

impl Stamp {
    /// The stamp of what `path` leads to; `None` if it leads nowhere.
    pub(super) fn of(path: &Path) -> Option<Self> {
        std::fs::metadata(path)
            .ok()
            .map(|metadata| Self::from_metadata(&metadata))
    }

    pub(super) fn from_metadata(metadata: &std::fs::Metadata) -> Self {
        let time =
            |seconds: i64, nanos: i64| seconds.saturating_mul(1_000_000_000).saturating_add(nanos);
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: time(metadata.mtime(), metadata.mtime_nsec()),
            changed: time(metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// Device and inode: the same for every name of a file.
    pub(super) fn file(&self) -> (u64, u64) {
        (self.device, self.inode)
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Whether a write after `now` is sure to give another stamp. Only ctime can tell: programs
    /// set mtime as they like, while every write and every `touch` moves ctime to the present.
    fn is_settled(&self, now: SystemTime) -> bool {
        let last = now
            .checked_sub(SETTLING)
            .and_then(|last| last.duration_since(UNIX_EPOCH).ok());
        last.and_then(|last| i64::try_from(last.as_nanos()).ok())
            .is_some_and(|last| self.changed <= last)
    }
}

/// A path and what was there; `None` where nothing was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watched(#[serde(with = "super::stored_path")] PathBuf, Option<Stamp>);

impl Watched {
    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    fn holds(&self) -> bool {
        Stamp::of(&self.0) == self.1
    }
}

/// Whether every path still is as it was.
pub(super) fn all_hold(watched: &[Watched]) -> bool {
    watched.iter().all(Watched::holds)
}

/// What a settled [`Watch`] has collected: as long as it holds, the answer stands.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Grounds {
    watched: Vec<Watched>,
    /// The processor's level, if there was a library to choose by it. A home directory may be shared
    /// by machines whose processors load other libraries; to ask a processor in a virtual machine
    /// takes as long as a dozen stats, and hardly a toolchain has such libraries.
    level: Option<u8>,
}

impl Grounds {
    pub(super) fn hold(&self) -> bool {
        self.level.is_none_or(|level| level == loader::level()) && all_hold(&self.watched)
    }
}

/// Collects the paths that one answer depends on, present and absent alike.
pub(super) struct Watch {
    began: SystemTime,
    seen: BTreeMap<PathBuf, Option<Stamp>>,
    by_level: bool,
}

impl Watch {
    /// A watch over nothing yet, for an examination that begins `now`.
    pub(super) fn new(now: SystemTime) -> Self {
        Self {
            began: now,
            seen: BTreeMap::new(),
            by_level: false,
        }
    }

    /// Remembers that the processor's level decides as well.
    pub(super) fn see_level(&mut self) {
        self.by_level = true;
    }

    /// What is at `path`. The same path gets the same answer for the whole examination, and is
    /// looked at before it is read, so that a change in between is noticed next time.
    pub(super) fn see(&mut self, path: &Path) -> Option<Stamp> {
        if let Some(stamp) = self.seen.get(path) {
            return *stamp;
        }
        let stamp = Stamp::of(path);
        self.seen.insert(path.to_owned(), stamp);
        stamp
    }

    /// The path with its stamp.
    pub(super) fn watched(&mut self, path: PathBuf) -> Watched {
        let stamp = self.see(&path);
        Watched(path, stamp)
    }

    /// Whether what was read from a file with this stamp may be remembered.
    pub(super) fn may_remember(&self, stamp: &Stamp) -> bool {
        stamp.is_settled(self.began)
    }

    /// What to look at next time, or `None` if looking at it would prove nothing.
    pub(super) fn into_settled(self) -> Option<Grounds> {
        let settled = self
            .seen
            .values()
            .flatten()
            .all(|stamp| self.may_remember(stamp));
        let watched = self.seen.into_iter();
        (settled && watched.len() <= MAX_WATCHED).then(|| Grounds {
            watched: watched.map(|(path, stamp)| Watched(path, stamp)).collect(),
            level: self.by_level.then(loader::level),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed_at(seconds: i64) -> Stamp {
        Stamp::from((1, 2, 3, 0, seconds * 1_000_000_000))
    }

    #[test]
    fn a_change_within_two_seconds_or_in_the_future_is_not_settled() {
        let now = UNIX_EPOCH + Duration::from_secs(1000);
        assert!(changed_at(998).is_settled(now));
        assert!(!changed_at(999).is_settled(now));
        assert!(!changed_at(1001).is_settled(now));
        assert!(!changed_at(0).is_settled(UNIX_EPOCH));
    }

    #[test]
    fn an_old_mtime_does_not_settle_a_fresh_change() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let file = std::fs::File::create(&path).unwrap();
        file.set_modified(UNIX_EPOCH + Duration::from_secs(5))
            .unwrap();
        let mut watch = Watch::new(SystemTime::now());
        let stamp = watch.see(&path).unwrap();
        assert!(!watch.may_remember(&stamp));
        assert!(watch.into_settled().is_none());
    }

    #[test]
    fn what_appears_and_what_changes_breaks_the_watch() {
        let directory = tempfile::tempdir().unwrap();
        let (absent, present) = (
            directory.path().join("absent"),
            directory.path().join("present"),
        );
        std::fs::write(&present, "one").unwrap();
        let watch = || {
            let mut watch = Watch::new(SystemTime::now() + Duration::from_secs(60));
            watch.see(&absent);
            watch.see(&present);
            watch.into_settled().unwrap()
        };
        let before = watch();
        assert!(before.hold());
        std::fs::write(&absent, "").unwrap();
        assert!(!before.hold());
        let before = watch();
        std::fs::write(&present, "other").unwrap();
        assert!(!before.hold());
    }

    #[test]
    fn another_processor_breaks_the_watch_if_there_was_a_choice() {
        let watch = |by_level| {
            let mut watch = Watch::new(SystemTime::now());
            if by_level {
                watch.see_level();
            }
            watch.into_settled().unwrap()
        };
        assert_eq!(watch(false).level, None);
        assert!(watch(false).hold());
        let mut grounds = watch(true);
        assert!(grounds.hold());
        grounds.level = grounds.level.map(|level| level + 1);
        assert!(!grounds.hold());
    }
}
