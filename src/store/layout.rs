//! Where everything in the cache directory is. No other file joins a path of it.
//!
//! `cache-layout.md` is the same in words; the schema's number is a directory level, so versions of
//! npu-build that disagree about the layout never see each other's files.

use std::path::{Path, PathBuf};

use crate::digest::Digest;

/// Raised whenever the meaning of any file below it changes.
pub const SCHEMA: u32 = 1;

/// The manifest's name in an entry.
pub const MANIFEST: &str = "manifest.json";

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

    /// The directory of all entries, in 256 shards.
    #[must_use]
    pub fn entries(&self) -> PathBuf {
        self.version.join("entries")
    }

    /// The directory of one entry.
    #[must_use]
    pub fn entry(&self, key: &Digest) -> PathBuf {
        self.version.join(Self::entry_rel_path(key))
    }

    /// An entry's path, relative to [`Layout::version`].
    pub(super) fn entry_rel_path(key: &Digest) -> PathBuf {
        sharded("entries", &key.to_string())
    }

    pub(super) fn manifest(&self, key: &Digest) -> PathBuf {
        self.entry(key).join(MANIFEST)
    }

    pub(super) fn shard(&self, key: &Digest) -> PathBuf {
        self.entries().join(&key.to_string()[..2])
    }

    /// Where an entry is while it is deleted.
    pub(super) fn tombstone(&self, key: &Digest) -> PathBuf {
        self.work().join(format!("gone-{key}"))
    }

    /// Tells backup programs to leave the directory out.
    pub(super) fn tag(&self) -> PathBuf {
        self.root.join("CACHEDIR.TAG")
    }

    /// Everything of this schema version.
    pub(super) fn version(&self) -> &Path {
        &self.version
    }

    /// Every directory of this schema version, the ones above others first.
    pub(super) fn directories(&self) -> [PathBuf; 9] {
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
    pub(super) fn root_lock(&self) -> PathBuf {
        self.version.join("lock")
    }

    pub(super) fn locks(&self) -> PathBuf {
        self.version.join("locks")
    }

    /// The lock of a key and of those few that begin as it does: lock files can't be deleted while
    /// anybody builds, so there is a bounded number of them.
    pub(super) fn lock(&self, key: &Digest) -> PathBuf {
        self.locks().join(&key.to_string()[..3])
    }

    /// Staging directories of builds that are under way.
    pub(super) fn work(&self) -> PathBuf {
        self.version.join("work")
    }

    /// Entries that did not verify, each with a file that says why.
    pub(super) fn quarantine(&self) -> PathBuf {
        self.version.join("quarantine")
    }

    pub(super) fn failures(&self) -> PathBuf {
        self.version.join("failures")
    }

    /// The full log of a step's last failure.
    pub(super) fn failure(&self, key: &Digest) -> PathBuf {
        self.failures().join(format!("{}.log", key.short()))
    }

    pub(super) fn statistics(&self) -> PathBuf {
        self.version.join("statistics")
    }

    pub(super) fn kernels(&self) -> PathBuf {
        self.version.join("kernels")
    }

    /// Which entries the kernel of that name and target has had.
    pub(super) fn kernel(&self, subject: &str, target: &str) -> PathBuf {
        let name = Digest::of(format!("{target}\0{subject}")).short();
        self.version.join(sharded("kernels", &name))
    }

    /// When garbage was last collected, as the file's modification time; locked meanwhile.
    pub(super) fn cleaned(&self) -> PathBuf {
        self.version.join("cleaned")
    }

    pub(super) fn tools(&self) -> PathBuf {
        self.version.join("tools")
    }

    /// The directory of the toolchain memo, unless a symbolic link leads out of the cache.
    #[must_use]
    pub fn trusted_tools(&self) -> Option<PathBuf> {
        let tools = self.tools();
        (!tools.is_symlink()).then_some(tools)
    }
}

/// `name` in a directory of 256.
fn sharded(directory: &str, name: &str) -> PathBuf {
    // An entry's path goes into a system call on every hit: room for all of it.
    let mut path = PathBuf::with_capacity(80);
    path.extend([directory, &name[..2], &name[2..]]);
    path
}
