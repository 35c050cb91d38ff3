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
    pub(super) root: PathBuf,
    /// Everything of this schema version.
    pub(super) version: PathBuf,
    pub(super) entries: PathBuf,
    pub(super) locks: PathBuf,
    /// Entries that did not verify, each with a file that says why.
    pub(super) quarantine: PathBuf,
    /// The logs of failed steps.
    pub(super) failures: PathBuf,
    pub(super) tools: PathBuf,
    pub(super) statistics: PathBuf,
    /// Which entries each kernel has had.
    pub(super) kernels: PathBuf,
    /// Staging directories of builds that are under way.
    pub(super) work: PathBuf,
}

impl Layout {
    /// The layout below `root`.
    #[must_use]
    pub fn new(root: PathBuf) -> Self {
        let version = root.join(format!("v{SCHEMA}"));
        Self {
            entries: version.join("entries"),
            locks: version.join("locks"),
            quarantine: version.join("quarantine"),
            failures: version.join("failures"),
            tools: version.join("tools"),
            statistics: version.join("statistics"),
            kernels: version.join("kernels"),
            work: version.join("work"),
            version,
            root,
        }
    }

    /// The directory of all entries, in 256 shards.
    #[must_use]
    pub fn entries(&self) -> PathBuf {
        self.entries.clone()
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
        self.entries.join(&key.to_string()[..2])
    }

    /// Tells backup programs to leave the directory out.
    pub(super) fn tag(&self) -> PathBuf {
        self.root.join("CACHEDIR.TAG")
    }

    /// Every directory of this schema version, the ones above others first.
    pub(super) fn directories(&self) -> [&Path; 9] {
        [
            &self.version,
            &self.entries,
            &self.locks,
            &self.quarantine,
            &self.failures,
            &self.tools,
            &self.statistics,
            &self.kernels,
            // Last: where it is, everything is.
            &self.work,
        ]
    }

    /// The lock that everything but a hit holds shared, and clearing holds exclusively.
    pub(super) fn root_lock(&self) -> PathBuf {
        self.version.join("lock")
    }

    /// The lock of a key and of those few that begin as it does: lock files can't be deleted while
    /// anybody builds, so there is a bounded number of them.
    pub(super) fn lock(&self, key: &Digest) -> PathBuf {
        self.locks.join(&key.to_string()[..3])
    }

    /// The full log of a step's last failure.
    pub(super) fn failure(&self, key: &Digest) -> PathBuf {
        self.failures.join(format!("{}.log", key.short()))
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

    /// The directory of the toolchain memo, unless a symbolic link leads out of the cache.
    #[must_use]
    pub fn trusted_tools(&self) -> Option<PathBuf> {
        (!self.tools.is_symlink()).then(|| self.tools.clone())
    }
}

/// `name` in a directory of 256.
fn sharded(directory: &str, name: &str) -> PathBuf {
    // An entry's path goes into a system call on every hit: room for all of it.
    let mut path = PathBuf::with_capacity(80);
    path.extend([directory, &name[..2], &name[2..]]);
    path
}
