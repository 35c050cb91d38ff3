//! An entry's directory, opened once, so that all files are those of one entry even while it is
//! replaced, and so that no symbolic link on the way leads out of the cache.

use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::fault::Fault;
use super::files::{invalid, of_size, read_exactly, read_limited};
use super::layout::{Layout, MANIFEST};
use super::manifest::{ArtifactRecord, MANIFEST_LIMIT};
use super::types::Sharing;
use crate::digest::{Checksum, Digest, Hasher};

/// A directory to look things up from.
const DIRECTORY: OFlags = OFlags::PATH
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// Whose files are believed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trust {
    sharing: Sharing,
    user: u32,
}

impl Trust {
    pub(super) fn new(sharing: Sharing) -> Self {
        let user = rustix::process::geteuid().as_raw();
        Self { sharing, user }
    }

    /// Why a file or directory is not believed, if so.
    pub(super) fn objection(self, metadata: &Metadata) -> Option<String> {
        let (owner, mode) = (metadata.uid(), metadata.mode() & 0o7777);
        if self.sharing == Sharing::Private && owner != self.user {
            Some(format!("it belongs to user {owner}"))
        } else if mode & self.sharing.forbidden() != 0 {
            Some(format!("others can write it (mode {mode:04o})"))
        } else {
            None
        }
    }
}

/// An entry that is there.
#[derive(Debug)]
pub(super) struct EntryDir {
    fd: OwnedFd,
    trust: Trust,
}

impl EntryDir {
    pub(super) fn open(layout: &Layout, trust: Trust, key: &Digest) -> io::Result<Self> {
        let version = rustix::fs::open(&layout.version, DIRECTORY, Mode::empty())?;
        let path = Layout::entry_rel_path(key);
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let fd = match rustix::fs::openat2(&version, &*path, DIRECTORY, Mode::empty(), resolve) {
            // An old kernel, or a sandbox that does not know the call.
            Err(Errno::NOSYS | Errno::PERM | Errno::AGAIN) => step_by_step(version, &path)?,
            opened => opened?,
        };
        Ok(Self { fd, trust })
    }

    /// Opens a file that must be a regular one, and that nobody else may have written.
    pub(super) fn file(&self, name: &str) -> io::Result<(File, Metadata)> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file: File = rustix::fs::openat(&self.fd, name, flags, Mode::empty())?.into();
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(invalid("it is not a regular file"));
        }
        match self.trust.objection(&metadata) {
            None => Ok((file, metadata)),
            Some(objection) => Err(invalid(objection)),
        }
    }

    /// The manifest's bytes, which may be anything.
    pub(super) fn manifest(&self) -> io::Result<(File, Metadata, Vec<u8>)> {
        let (file, metadata) = self.file(MANIFEST)?;
        let bytes = read_limited(&file, &metadata, MANIFEST_LIMIT)?;
        Ok((file, metadata, bytes))
    }

    /// The content of an artifact, of the promised size.
    pub(super) fn content(&self, name: &str, size: u64) -> io::Result<Vec<u8>> {
        read_exactly(&of_size(self.file(name)?, size)?, size)
    }

    /// Compares size and content of an artifact with what is promised. Gives the content if it is
    /// `wanted`.
    pub(super) fn check(
        &self,
        record: &ArtifactRecord,
        wanted: bool,
    ) -> Result<Option<Vec<u8>>, Fault> {
        let read = || -> io::Result<_> {
            let file = of_size(self.file(&record.name)?, record.size)?;
            if wanted {
                let content = read_exactly(&file, record.size)?;
                return Ok((Checksum::of(&content, &record.sha256), Some(content)));
            }
            let file = file.take(record.size);
            Ok((Checksum::of_reader(file, &record.sha256, |_| ())?, None))
        };
        let (checksum, content) = read().map_err(|error| Fault::reading(&record.name, &error))?;
        match checksum == record.blake3 {
            true => Ok(content),
            false => Err(changed(record)),
        }
    }

    /// Compares an artifact with everything that is promised of it, by both digests.
    pub(super) fn check_fully(&self, record: &ArtifactRecord) -> Result<(), Fault> {
        let mut hasher = Hasher::new();
        let mut read = || -> io::Result<_> {
            let file = of_size(self.file(&record.name)?, record.size)?.take(record.size);
            Checksum::of_reader(file, &record.sha256, |piece| hasher.update(piece))
        };
        let checksum = read().map_err(|error| Fault::reading(&record.name, &error))?;
        match checksum == record.blake3 && hasher.finish() == record.sha256 {
            true => Ok(()),
            false => Err(changed(record)),
        }
    }
}

fn changed(record: &ArtifactRecord) -> Fault {
    Fault::new(format!("{}: its content changed", record.name))
}

fn step_by_step(from: OwnedFd, path: &Path) -> io::Result<OwnedFd> {
    let last = path.components().try_fold(from, |fd, component| {
        rustix::fs::openat(&fd, component.as_os_str(), DIRECTORY, Mode::empty())
    });
    Ok(last?)
}
