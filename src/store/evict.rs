//! Taking entries away: to be deleted, or to be looked at. An entry goes by one rename, so that
//! nobody ever sees half of one, and under its key's lock, so that no builder loses what it has just
//! made.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::layout::Layout;
use super::lock::{self, Lock, Mode};
use super::survey;
use super::sweep::delete;
use super::{Cache, Sharing, open};
use crate::digest::Digest;

/// Moves a damaged entry out of the way, beside a file that says what is wrong with it. Gives whether
/// there was one to be moved.
pub(super) fn quarantine(cache: &Cache, key: &Digest, reason: &str) -> io::Result<bool> {
    let layout = cache.layout();
    open::check_real(&layout.quarantine())?;
    let place = tempfile::Builder::new()
        .prefix(&format!("{}-", key.short()))
        .tempdir_in(layout.quarantine())?;
    open::share_directory(place.path(), cache.sharing());
    fs::write(
        place.path().join("reason.txt"),
        format!("key {key}\n{reason}\n"),
    )?;
    match fs::rename(layout.entry(key), place.path().join("entry")) {
        Ok(()) => {
            let _ = place.keep();
            Ok(true)
        }
        // Somebody else was faster, or a file stands in the place of the shard.
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// The key's lock, if nobody builds it now. Where there are no locks nobody can tell.
pub(super) fn unused(layout: &Layout, key: &Digest, sharing: Sharing) -> Option<Lock> {
    let path = layout.lock(key);
    let shard = path.parent().unwrap_or(Path::new("."));
    let lock = || lock::try_acquire_mode(&path, Mode::Exclusive, sharing);
    // What is behind a link is not ours.
    if open::is_link(&layout.locks()) || open::is_link(shard) {
        return None;
    }
    match lock() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            open::create(shard, sharing).ok()?;
            lock().ok()?
        }
        lock => lock.ok()?,
    }
}

/// Whether somebody died while deleting this entry, and what is left of it; the lock is for whoever
/// deletes that.
pub(super) fn half_gone(cache: &Cache, key: &Digest) -> Option<(Lock, PathBuf)> {
    let doomed = cache.layout().doomed(key);
    let lock = unused(cache.layout(), key, cache.sharing())?;
    doomed.exists().then_some((lock, doomed))
}

impl Cache {
    /// Deletes an entry, if nobody builds it now and its last use is as `expected` says. Gives whether
    /// it is gone. The caller holds the root lock.
    pub(super) fn evict(&self, key: &Digest, expected: impl Fn(u64) -> bool) -> io::Result<bool> {
        let Some(_lock) = unused(self.layout(), key, self.sharing()) else {
            return Ok(false);
        };
        if !expected(survey::last_use(self.layout(), key)) {
            return Ok(false);
        }
        // Within its directory: only one rename from one to another is under way in a file system at
        // a time.
        let doomed = self.layout().doomed(key);
        let rename = || fs::rename(self.layout().entry(key), &doomed);
        let renamed = match rename() {
            // Somebody died while deleting its predecessor, or put something there.
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::DirectoryNotEmpty
                        | ErrorKind::NotADirectory
                        | ErrorKind::AlreadyExists
                ) =>
            {
                delete(&doomed);
                rename()
            }
            renamed => renamed,
        };
        match renamed {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            renamed => renamed?,
        }
        match fs::remove_dir_all(doomed) {
            // Somebody deletes by hand, which is as good.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(true),
            removed => removed.map(|()| true),
        }
    }
}
