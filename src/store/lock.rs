//! Advisory locks on files that are never unlinked while anybody may hold them.
//!
//! `flock` only saves work: it keeps two processes from building the same entry. Correctness rests
//! on publication by rename, so a file system without locks costs a warning and nothing else. This
//! is the only file that knows `fs2`.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::io::Errno;

use super::Sharing;
use super::open::{UNTRICKED, share_file};
use crate::interrupt::Interrupt;

/// The right to do something, for as long as the value lives.
#[derive(Debug)]
pub struct Lock {
    /// Closing it gives the lock up.
    _file: Option<File>,
}

/// Who holds a lock that somebody else wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Process number on `host`.
    pub pid: u32,
    /// Host name.
    pub host: String,
    /// Since when, in seconds since 1970.
    pub since: u64,
}

/// How a lock is shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// With others that ask for the same.
    Shared,
    /// With nobody.
    Exclusive,
}

/// Why there is no lock.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// The lock file can't be opened or locked.
    #[error("can't lock {}: {source}", path.display())]
    Io {
        /// The lock file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A signal said to stop waiting.
    #[error("interrupted")]
    Interrupted,
}

/// What happens while a lock is waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LockEvent {
    /// Somebody else holds it; `None` if they have not said who they are.
    Waiting(Option<Holder>),
    /// The file system has no locks: going on without.
    Unsupported(String),
}

/// The pause between two tries; a waiter notices within this time that the lock is free.
const POLL: Duration = Duration::from_millis(5);

/// Takes the lock at `path`, waiting as long as it takes. A lock file that is made here can be
/// locked by those that `sharing` names.
///
/// # Errors
/// See [`LockError`]. A file system without `flock` is no error: the result then protects nothing.
pub fn acquire(
    path: &Path,
    mode: Mode,
    sharing: Sharing,
    interrupt: &Interrupt,
    observe: &dyn Fn(LockEvent),
) -> Result<Lock, LockError> {
    let failed = |source| LockError::Io {
        path: path.to_owned(),
        source,
    };
    let mut file = open(path, sharing).map_err(failed)?;
    let mut tries = 0_u64;
    loop {
        match try_lock(&file, mode) {
            Ok(()) => {
                if mode == Mode::Exclusive {
                    // Who can't sign still holds the lock; only the waiters' message is poorer.
                    let _ = sign(&mut file);
                }
                return Ok(Lock { _file: Some(file) });
            }
            Err(error) if is_contended(&error) => {
                tries += 1;
                // At the first try the holder may not have signed yet, or be about to go.
                if tries == 2 {
                    observe(LockEvent::Waiting(holder(&mut file)));
                }
                if interrupt.is_raised() {
                    return Err(LockError::Interrupted);
                }
                std::thread::sleep(POLL);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if is_unsupported(&error) => {
                observe(LockEvent::Unsupported(error.to_string()));
                return Ok(Lock { _file: None });
            }
            Err(error) => return Err(failed(error)),
        }
    }
}

/// Takes the lock at `path`, a private one, exclusively if nobody holds it.
///
/// # Errors
/// When the file can't be opened or locked for another reason than that.
pub fn try_acquire(path: &Path) -> io::Result<Option<Lock>> {
    let file = open(path, Sharing::Private)?;
    match try_lock(&file, Mode::Exclusive) {
        Ok(()) => Ok(Some(Lock { _file: Some(file) })),
        Err(error) if is_contended(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Takes a lock of the cache, if that can be had at once. Where there are no locks the result
/// protects nothing.
///
/// # Errors
/// When the file can't be opened or locked for another reason than that.
pub(super) fn try_acquire_mode(
    path: &Path,
    mode: Mode,
    sharing: Sharing,
) -> io::Result<Option<Lock>> {
    let file = open(path, sharing)?;
    Ok(match try_file(&file, mode)? {
        Tried::Locked => Some(Lock { _file: Some(file) }),
        Tried::Contended => None,
        Tried::Unsupported => Some(Lock { _file: None }),
    })
}

/// What came of a try to lock a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tried {
    /// It is ours until it is closed.
    Locked,
    /// It is somebody else's.
    Contended,
    /// There are no locks there.
    Unsupported,
}

/// Tries once to lock an open file.
pub(super) fn try_file(file: &File, mode: Mode) -> io::Result<Tried> {
    match try_lock(file, mode) {
        Ok(()) => Ok(Tried::Locked),
        Err(error) if is_contended(&error) => Ok(Tried::Contended),
        Err(error) if is_unsupported(&error) => Ok(Tried::Unsupported),
        Err(error) => Err(error),
    }
}

fn open(path: &Path, sharing: Sharing) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(UNTRICKED)
        .open(path)?;
    share_file(&file, sharing);
    Ok(file)
}

// The traits of std and fs2 have methods of the same names.
fn try_lock(file: &File, mode: Mode) -> io::Result<()> {
    match mode {
        Mode::Shared => fs2::FileExt::try_lock_shared(file),
        Mode::Exclusive => fs2::FileExt::try_lock_exclusive(file),
    }
}

fn is_contended(error: &io::Error) -> bool {
    error.raw_os_error() == fs2::lock_contended_error().raw_os_error()
}

fn is_unsupported(error: &io::Error) -> bool {
    let unsupported = [Errno::NOSYS, Errno::NOTSUP, Errno::NOLCK, Errno::INVAL];
    unsupported
        .iter()
        .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

fn sign(file: &mut File) -> io::Result<()> {
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.nlink() != 1 {
        // It has another name, perhaps outside the cache.
        return Err(io::ErrorKind::InvalidData.into());
    }
    let host = rustix::system::uname();
    let text = format!(
        "pid {}\nhost {}\nsince {}\n",
        std::process::id(),
        host.nodename().to_string_lossy(),
        now()
    );
    // Its lines are read up to their ends, so what an earlier one left behind it does not matter; and
    // the file keeps its block, which is quicker.
    file.rewind()?;
    file.write_all(text.as_bytes())?;
    file.set_len(text.len() as u64)
}

fn holder(file: &mut File) -> Option<Holder> {
    let mut text = String::new();
    file.rewind().ok()?;
    (&mut *file).take(1024).read_to_string(&mut text).ok()?;
    let mut lines = text.lines();
    let mut field = |name: &str| lines.next()?.strip_prefix(name);
    Some(Holder {
        pid: field("pid ")?.parse().ok()?,
        host: field("host ")?.to_owned(),
        since: field("since ")?.parse().ok()?,
    })
}

fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "process {} on {} (for {} s)",
            self.pid,
            self.host,
            now().saturating_sub(self.since)
        )
    }
}

#[cfg(test)]
mod tests;
