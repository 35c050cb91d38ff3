//! Reading an hsaco without copying it, and replacing one so that nobody sees half of it.
//!
//! The lock is on the directory, not on a file: replacing a file by rename leaves a lock on it
//! behind with the old one, and a lock file beside it would be litter in the user's directory.

use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Read as _, Write as _};
use std::ops::Deref;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use memmap2::Mmap;

use super::container::Container;

/// Why a file can't be read or replaced.
#[derive(Debug, thiserror::Error)]
pub enum FileFault {
    /// It can't be read.
    #[error("can't read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// It is a directory, a pipe, a device.
    #[error("{} is no regular file", path.display())]
    NotRegular {
        /// What is there.
        path: PathBuf,
    },
    /// It can't be written, or its directory can't be locked.
    #[error("can't write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
}

/// A pipe or a device that gives more than this is no artifact.
const STREAM_LIMIT: u64 = 1 << 30;

/// The bytes of a file, mapped if it is a regular one.
#[derive(Debug)]
pub struct Bytes(Source);

#[derive(Debug)]
enum Source {
    Mapped(Mmap),
    Read(Vec<u8>),
}

impl Bytes {
    /// Opens a file. Nobody may truncate it while it is mapped: the process would then end with
    /// SIGBUS. This program itself replaces files and never truncates them.
    ///
    /// # Errors
    /// When it can't be opened or read.
    pub fn open(path: &Path) -> Result<Self, FileFault> {
        Self::read(path).map_err(|source| FileFault::Read {
            path: path.to_owned(),
            source,
        })
    }

    fn read(path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        if file.metadata()?.is_file() {
            // SAFETY: nothing in this process writes the mapping, and files of this kind are
            // replaced by rename; one that is written in place meanwhile is the caller's not to
            // open, as documented.
            return Ok(Self(Source::Mapped(unsafe { Mmap::map(&file) }?)));
        }
        let mut bytes = Vec::new();
        let read = (&mut file).take(STREAM_LIMIT + 1).read_to_end(&mut bytes)?;
        if read as u64 > STREAM_LIMIT {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(Self(Source::Read(bytes)))
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Source::Mapped(bytes) => bytes,
            Source::Read(bytes) => bytes,
        }
    }
}

/// The right to replace a file, and what it holds now.
#[derive(Debug)]
pub struct Replacement {
    path: PathBuf,
    directory: PathBuf,
    existing: Option<Bytes>,
    /// Mode of the new file.
    mode: u32,
    /// Closing it gives the lock up; `None` where directories can't be locked.
    _lock: Option<File>,
}

impl Replacement {
    /// Locks the directory of `path`, waiting for other writers, and reads the file if it exists.
    /// A symbolic link is followed, so that it stays one.
    ///
    /// # Errors
    /// When there is no such directory, or what is there is no file.
    pub fn begin(path: &Path) -> Result<Self, FileFault> {
        let write = |source| FileFault::Write {
            path: path.to_owned(),
            source,
        };
        let target = match fs::symlink_metadata(path) {
            Ok(metadata) if metadata.is_symlink() => fs::canonicalize(path).map_err(write)?,
            _ => path.to_owned(),
        };
        let directory = match target.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        let lock = lock(&directory).map_err(write)?;
        let read = |source| FileFault::Read {
            path: path.to_owned(),
            source,
        };
        let (existing, mode) = match fs::metadata(&target) {
            Ok(metadata) if metadata.is_file() => {
                let bytes = Bytes::read(&target).map_err(read)?;
                (Some(bytes), metadata.permissions().mode())
            }
            Ok(_) => {
                return Err(FileFault::NotRegular {
                    path: path.to_owned(),
                });
            }
            // The process's umask takes away what the user does not want to give.
            Err(error) if error.kind() == ErrorKind::NotFound => (None, 0o666),
            Err(error) => return Err(read(error)),
        };
        Ok(Self {
            path: target,
            directory,
            existing,
            mode,
            _lock: lock,
        })
    }

    /// What the file holds now; `None` if there is none.
    #[must_use]
    pub fn existing(&self) -> Option<&[u8]> {
        self.existing.as_deref()
    }

    /// Writes the new contents beside the file and moves them over it.
    ///
    /// # Errors
    /// When that fails; the file is then as it was, and nothing is left beside it.
    pub fn commit(&self, container: &Container<'_>) -> Result<(), FileFault> {
        self.write(container).map_err(|source| FileFault::Write {
            path: self.path.clone(),
            source,
        })
    }

    fn write(&self, container: &Container<'_>) -> io::Result<()> {
        let mut new = tempfile::Builder::new()
            .prefix(".npu-build-")
            .suffix(".hsaco")
            .permissions(fs::Permissions::from_mode(self.mode & 0o777))
            .tempfile_in(&self.directory)?;
        {
            let mut out = BufWriter::new(new.as_file_mut());
            container.write_to(&mut out)?;
            out.flush()?;
        }
        if self.existing.is_some() {
            // What the umask took away from the new file, the old one had all the same.
            new.as_file()
                .set_permissions(fs::Permissions::from_mode(self.mode & 0o777))?;
        }
        new.persist(&self.path)?;
        Ok(())
    }
}

/// Locks a directory against other writers; correctness of a single writer does not depend on it.
fn lock(directory: &Path) -> io::Result<Option<File>> {
    let file = File::open(directory)?;
    loop {
        match file.lock() {
            Ok(()) => return Ok(Some(file)),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // Network file systems lock files that are open for writing only, or nothing at all.
            Err(error)
                if error.kind() == ErrorKind::Unsupported
                    || matches!(
                        rustix::io::Errno::from_io_error(&error),
                        Some(
                            rustix::io::Errno::BADF
                                | rustix::io::Errno::NOLCK
                                | rustix::io::Errno::INVAL
                        )
                    ) =>
            {
                return Ok(None);
            }
            Err(error) => return Err(error),
        }
    }
}
