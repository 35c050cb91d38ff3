//! An entry's directory, opened once, so that all files are those of one entry even while it is
//! replaced; and so that no symbolic link on the way leads out of the cache.

use std::fs::{File, Metadata};
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::Sharing;
use super::entry::Shelf;
use super::layout::Layout;
use crate::digest::Digest;

/// A directory to look things up from.
const PLACE: OFlags = OFlags::PATH
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// An entry that is there.
#[derive(Debug)]
pub(super) struct EntryDirectory<'a> {
    fd: OwnedFd,
    shelf: &'a Shelf,
}

impl<'a> EntryDirectory<'a> {
    /// Opens the entry of `key` on a shelf.
    pub(super) fn open(shelf: &'a Shelf, key: &Digest) -> io::Result<Self> {
        let version = rustix::fs::open(shelf.layout.version(), PLACE, Mode::empty())?;
        let way = Layout::way(key);
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let fd = match rustix::fs::openat2(&version, &*way, PLACE, Mode::empty(), resolve) {
            // An old kernel, or a sandbox that does not know the call.
            Err(Errno::NOSYS | Errno::PERM | Errno::AGAIN) => step_by_step(version, &way)?,
            opened => opened?,
        };
        Ok(Self { fd, shelf })
    }

    /// Opens a file that must be a regular one, and that nobody else may have written.
    pub(super) fn file(&self, name: &str) -> io::Result<(File, Metadata)> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file: File = rustix::fs::openat(&self.fd, name, flags, Mode::empty())?.into();
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(invalid("it is not a regular file"));
        }
        let (owner, mode) = (metadata.uid(), metadata.mode() & 0o7777);
        if self.shelf.sharing == Sharing::Private && owner != self.shelf.user {
            return Err(invalid(format!("it belongs to user {owner}")));
        }
        if mode & self.shelf.sharing.forbidden() != 0 {
            return Err(invalid(format!("others can write it (mode {mode:04o})")));
        }
        Ok((file, metadata))
    }
}

fn step_by_step(from: OwnedFd, way: &Path) -> io::Result<OwnedFd> {
    let mut components = way.components();
    let last = components.try_fold(from, |fd, component| {
        rustix::fs::openat(&fd, component.as_os_str(), PLACE, Mode::empty())
    });
    Ok(last?)
}

fn invalid(reason: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, reason)
}
