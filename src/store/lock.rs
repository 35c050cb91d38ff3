//! Advisory locks on files that are never unlinked while anybody may hold them.
//!
//! `flock` only saves work: it keeps two processes from building the same entry. Correctness rests
//! on publication by rename, so a file system without locks costs a warning and nothing else. This
//! is the only file that knows `fs2`.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use rustix::io::Errno;

use super::files::{OPEN_NOFOLLOW, share_file};
use super::types::{CacheError, Sharing};
use crate::interrupt::Interrupt;

/// The right to do something, for as long as the value lives.
#[derive(Debug)]
pub struct Lock {
    /// Closing it gives the lock up; `None` where the file system has no locks.
    file: Option<File>,
}

impl Lock {
    /// Whether it keeps anybody out: not where the file system has no locks.
    #[must_use]
    pub const fn is_real(&self) -> bool {
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
    /// Somebody else holds it.
    Waiting,
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
) -> Result<Lock, CacheError> {
    let failed = |source| CacheError::Lock {
        path: path.to_owned(),
        source,
    };
    let file = open(path, sharing).map_err(failed)?;
    let mut is_waiting = false;
    loop {
        match try_lock(&file, mode) {
            Ok(()) => return Ok(Lock { file: Some(file) }),
            Err(error) if is_contended(&error) => {
                if !is_waiting {
                    is_waiting = true;
                    observe(LockEvent::Waiting);
                }
                if interrupt.is_raised() {
                    return Err(CacheError::Interrupted);
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::path::PathBuf;

    use super::*;

    fn place() -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        (directory, path)
    }

    fn take(path: &Path, mode: Mode, sharing: Sharing) -> Result<Lock, CacheError> {
        acquire(path, mode, sharing, &Interrupt::default(), &|_| ())
    }

    fn is_free(path: &Path) -> bool {
        let lock = try_acquire(path, Mode::Exclusive, Sharing::Private).unwrap();
        lock.is_some_and(|lock| lock.is_real())
    }

    #[test]
    fn one_holder_at_a_time_or_many_that_share() {
        let (_directory, path) = place();
        let take = |mode| take(&path, mode, Sharing::Private).unwrap();
        let held = take(Mode::Exclusive);
        assert!(!is_free(&path));
        drop(held);
        let [one, other] = [take(Mode::Shared), take(Mode::Shared)];
        assert!(!is_free(&path));
        drop(one);
        assert!(!is_free(&path));
        drop(other);
        assert!(is_free(&path));
    }

    #[test]
    fn the_file_stays_and_is_its_owners_or_the_groups() {
        for (sharing, mode) in [(Sharing::Private, 0o600), (Sharing::Group, 0o660)] {
            let (_directory, path) = place();
            drop(take(&path, Mode::Exclusive, sharing).unwrap());
            let metadata = fs::metadata(&path).unwrap();
            assert_eq!(metadata.permissions().mode() & 0o777, mode);
        }
    }

    #[test]
    fn who_waits_says_so_once_until_an_interrupt_or_the_lock() {
        let (_directory, path) = place();
        for is_interrupted in [false, true] {
            let held = std::cell::Cell::new(Some(take(&path, Mode::Exclusive, Sharing::Private)));
            let interrupt = Interrupt::default();
            let events = std::cell::Cell::new(0);
            let observe = |event| {
                assert_eq!(event, LockEvent::Waiting);
                events.set(events.get() + 1);
                match is_interrupted {
                    true => interrupt.raise(),
                    false => drop(held.take()),
                }
            };
            let lock = acquire(&path, Mode::Shared, Sharing::Private, &interrupt, &observe);
            match is_interrupted {
                true => assert!(matches!(lock, Err(CacheError::Interrupted)), "{lock:?}"),
                false => assert!(lock.unwrap().is_real()),
            }
            assert_eq!(events.get(), 1);
        }
    }

    #[test]
    fn what_is_no_lock_file_is_refused_by_name() {
        let (directory, path) = place();
        symlink("elsewhere", &path).unwrap();
        let below = directory.path().join("missing/lock");
        for path in [&path, &below, &directory.path().to_owned()] {
            let refused = take(path, Mode::Exclusive, Sharing::Private);
            let text = refused.unwrap_err().to_string();
            let expected = format!("can't lock {}: ", path.display());
            assert!(text.starts_with(&expected), "{text}");
        }
        assert!(!directory.path().join("elsewhere").exists());
    }
}
