//! Advisory locks on files that are never unlinked while anybody may hold them.
//!
//! `flock` only saves work: it keeps two processes from building the same entry. Correctness rests
//! on publication by rename, so a file system without locks costs a warning and nothing else. This
//! is the only file that knows `fs2`.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;

use super::files::{OPEN_NOFOLLOW, invalid, now, share_file};
use super::types::{Holder, LockError, Sharing};
use crate::interrupt::Interrupt;

/// The right to do something, for as long as the value lives.
#[derive(Debug)]
pub struct Lock {
    /// Closing it gives the lock up; `None` where the file system has no locks.
    file: Option<File>,
}

impl Lock {
    /// Whether it keeps anybody out: not where the file system has no locks.
    pub(super) const fn is_real(&self) -> bool {
        self.file.is_some()
    }
}

/// How a lock is shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// With others that ask for the same.
    Shared,
    /// With nobody.
    Exclusive,
}

/// What happens while a lock is waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LockEvent {
    /// Somebody else holds it; `None` if they have not said who they are.
    Waiting(Option<Holder>),
    /// The file system has no locks: going on without.
    Unsupported(String),
}

/// The pause between two tries; a waiter notices within this time that the lock is free.
const POLL: Duration = Duration::from_millis(5);

/// Takes the lock at `path`, waiting as long as it takes. A file system without `flock` is no error:
/// the lock is then not real.
pub(super) fn acquire(
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
                return Ok(Lock { file: Some(file) });
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
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if is_unsupported(&error) => {
                observe(LockEvent::Unsupported(error.to_string()));
                return Ok(Lock { file: None });
            }
            Err(error) => return Err(failed(error)),
        }
    }
}

/// Takes the lock at `path` if that can be had at once. It is not real where there are no locks.
///
/// # Errors
/// When the file can't be opened or locked for another reason.
pub fn try_acquire(path: &Path, mode: Mode, sharing: Sharing) -> io::Result<Option<Lock>> {
    let file = open(path, sharing)?;
    match try_lock(&file, mode) {
        Ok(()) => Ok(Some(Lock { file: Some(file) })),
        Err(error) if is_contended(&error) => Ok(None),
        Err(error) if is_unsupported(&error) => Ok(Some(Lock { file: None })),
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
        .custom_flags(OPEN_NOFOLLOW)
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
    matches!(
        Errno::from_io_error(error),
        Some(Errno::NOSYS | Errno::NOTSUP | Errno::NOLCK | Errno::INVAL)
    )
}

fn sign(file: &mut File) -> io::Result<()> {
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.nlink() != 1 {
        return Err(invalid("it has another name, perhaps outside the cache"));
    }
    let text = serde_json::to_vec(&Holder {
        pid: std::process::id(),
        host: rustix::system::uname().nodename().to_string_lossy().into(),
        since: now(),
    })?;
    // What an earlier holder left behind it is not read, and the file keeps its block, which is
    // quicker than to begin with nothing.
    file.rewind()?;
    file.write_all(&text)?;
    file.set_len(text.len() as u64)
}

fn holder(file: &mut File) -> Option<Holder> {
    file.rewind().ok()?;
    let mut text = Vec::new();
    file.take(1024).read_to_end(&mut text).ok()?;
    let mut holders = serde_json::Deserializer::from_slice(&text).into_iter();
    holders.next()?.ok()
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pid, host, since } = self;
        let seconds = now().saturating_sub(*since);
        write!(f, "process {pid} on {host} (for {seconds} s)")
    }
}

#[cfg(test)]
mod tests;
