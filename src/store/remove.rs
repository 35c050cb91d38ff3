//! Taking entries away: to be deleted, or to be looked at. The manifest goes first, and a directory
//! without one is no entry, so nobody sees half of one; and all under the key's lock, so that no
//! builder loses what it has just made.

use std::fs;
use std::io::{self, ErrorKind};

use super::cache::Cache;
use super::files::{check_directory, delete, share_directory};
use super::lock::{self, Lock, Mode};
use super::scan;
use crate::digest::Digest;

/// Moves a damaged entry out of the way, beside a file that says what is wrong with it. Gives whether
/// there was one to be moved.
pub(super) fn quarantine(cache: &Cache, key: &Digest, reason: &str) -> io::Result<bool> {
    let layout = cache.layout();
    check_directory(&layout.quarantine)?;
    let place = tempfile::Builder::new()
        .prefix(&format!("{}-", key.short()))
        .tempdir_in(&layout.quarantine)?;
    let _ = share_directory(place.path(), cache.sharing());
    let text = format!("key {key}\n{reason}\n");
    fs::write(place.path().join("reason.txt"), text)?;
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

/// The key's lock, if nobody builds or deletes it now.
pub(super) fn lock_unused(cache: &Cache, key: &Digest) -> io::Result<Option<Lock>> {
    // What is behind a link is not ours.
    check_directory(&cache.layout().locks)?;
    lock::try_acquire(&cache.layout().lock(key), Mode::Exclusive, cache.sharing())
}

/// Deletes an entry, if nobody builds it now and its last use is as `expected` says. Gives whether it
/// is gone. The caller holds the root lock.
pub(super) fn evict(
    cache: &Cache,
    key: &Digest,
    expected: impl Fn(u64) -> bool,
) -> io::Result<bool> {
    let layout = cache.layout();
    let Ok(Some(_lock)) = lock_unused(cache, key) else {
        return Ok(false);
    };
    if !expected(scan::last_use(layout, key)) {
        return Ok(false);
    }
    delete(&layout.manifest(key));
    match fs::remove_dir_all(layout.entry(key)) {
        // Somebody deletes by hand, which is as good.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(true),
        removed => removed.map(|()| true),
    }
}
