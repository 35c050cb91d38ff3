//! Where everything in the cache directory is. No other file joins a path of it.
//!
//! `cache-layout.md` is the same in words; the schema's number is a directory level, so versions of
//! npu-build that disagree about the layout never see each other's files.

use std::path::{Path, PathBuf};

use crate::digest::Digest;

/// Raised whenever the meaning of any file below it changes.
pub const SCHEMA: u32 = 1;

/// The manifest's name in an entry.
pub const MANIFEST: &str = "manifest.toml";

/// How the name of a directory begins that was an entry and is being deleted.
pub(super) const DOOMED: &str = ".gone-";

/// The paths of one cache directory.
#[derive(Clone, Debug)]
pub struct Layout {
    root: PathBuf,
    version: PathBuf,
}

impl Layout {
    /// The layout below `root`.
    #[must_use]
    pub fn new(root: PathBuf) -> Self {
        let version = root.join(format!("v{SCHEMA}"));
        Self { root, version }
    }

    /// The cache directory itself.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// What tells backup programs to leave the directory out.
    #[must_use]
    pub fn tag(&self) -> PathBuf {
        self.root.join("CACHEDIR.TAG")
    }

    /// Everything of this schema version.
    #[must_use]
    pub fn version(&self) -> &Path {
        &self.version
    }

    /// Every directory of this schema version, the ones above others first.
    #[must_use]
    pub fn directories(&self) -> [PathBuf; 9] {
        [
            self.version.clone(),
            self.entries(),
            self.locks(),
            self.quarantine(),
            self.failures(),
            self.tools(),
            self.statistics(),
            self.kernels(),
            // Last: where it is, everything is.
            self.work(),
        ]
    }

    /// The lock that everything but a hit holds shared, and clearing holds exclusively.
    #[must_use]
    pub fn root_lock(&self) -> PathBuf {
        self.version.join("lock")
    }

    /// All entries, in 256 shards.
    #[must_use]
    pub fn entries(&self) -> PathBuf {
        self.version.join("entries")
    }

    /// The directory that holds the entries whose keys begin as `key` does.
    #[must_use]
    pub fn shard(&self, key: &Digest) -> PathBuf {
        let mut path = self.entries();
        path.push(&key.to_string()[..2]);
        path
    }

    /// One entry.
    #[must_use]
    pub fn entry(&self, key: &Digest) -> PathBuf {
        self.version.join(Self::way(key))
    }

    /// Where an entry is while it is deleted: beside its place, under a name that no entry has.
    #[must_use]
    pub fn doomed(&self, key: &Digest) -> PathBuf {
        let name = format!("{DOOMED}{}", &key.to_string()[2..]);
        self.entry(key).with_file_name(name)
    }

    /// The way to an entry from [`Layout::version`].
    #[must_use]
    pub fn way(key: &Digest) -> PathBuf {
        let hex = key.to_string();
        let mut path = PathBuf::with_capacity(80);
        path.push("entries");
        path.push(&hex[..2]);
        path.push(&hex[2..]);
        path
    }

    /// The directory of the per-key locks.
    #[must_use]
    pub fn locks(&self) -> PathBuf {
        self.version.join("locks")
    }

    /// The lock of one key, in a directory of 256.
    #[must_use]
    pub fn lock(&self, key: &Digest) -> PathBuf {
        let hex = key.to_string();
        let mut path = self.locks();
        path.push(&hex[..2]);
        path.push(&hex[2..]);
        path
    }

    /// Work directories of builds that are under way.
    #[must_use]
    pub fn work(&self) -> PathBuf {
        self.version.join("work")
    }

    /// Entries that did not verify, each with a file that says why.
    #[must_use]
    pub fn quarantine(&self) -> PathBuf {
        self.version.join("quarantine")
    }

    /// Full logs of failed steps.
    #[must_use]
    pub fn failures(&self) -> PathBuf {
        self.version.join("failures")
    }

    /// The full log of a step's last failure.
    #[must_use]
    pub fn failure(&self, key: &Digest) -> PathBuf {
        self.failures().join(format!("{}.log", key.short()))
    }

    /// Counts of hits and misses.
    #[must_use]
    pub fn statistics(&self) -> PathBuf {
        self.version.join("statistics")
    }

    /// Which entries each kernel has had.
    #[must_use]
    pub fn kernels(&self) -> PathBuf {
        self.version.join("kernels")
    }

    /// Which entries the kernel of that name and target has had.
    #[must_use]
    pub fn kernel(&self, subject: &str, target: &str) -> PathBuf {
        let name = Digest::of(format!("{target}\0{subject}")).short();
        let mut path = self.kernels();
        path.push(&name[..2]);
        path.push(&name[2..]);
        path
    }

    /// When the cache was last cleaned up, as the file's modification time; locked meanwhile.
    #[must_use]
    pub fn cleaned(&self) -> PathBuf {
        self.version.join("cleaned")
    }

    /// What tools were found and how they were fingerprinted.
    #[must_use]
    pub fn tools(&self) -> PathBuf {
        self.version.join("tools")
    }

    /// The same, unless a symbolic link in its place leads out of the cache.
    #[must_use]
    pub fn trusted_tools(&self) -> Option<PathBuf> {
        let tools = self.tools();
        (!super::open::is_link(&tools)).then_some(tools)
    }
}
