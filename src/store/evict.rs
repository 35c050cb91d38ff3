//! Taking entries away: to be deleted, or to be looked at. An entry goes by one rename, so that
//! nobody ever sees half of one, and under its key's lock, so that no builder loses what it has just
//! made.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use super::area::Area;
use super::layout::Layout;
use super::lock::{self, Lock, Mode};
use super::survey::{self, Extent};
use super::{Cache, Sharing, open};
use crate::digest::Digest;

/// Moves a damaged entry out of the way, beside a file that says what is wrong with it.
pub(super) fn quarantine(cache: &Cache, key: &Digest, reason: &str) -> io::Result<()> {
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
            Ok(())
        }
        // Somebody else was faster, or a file stands in the place of the shard.
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(())
        }
        Err(error) => Err(error),
    }
}

/// The key's lock, if nobody builds it now. Where there are no locks nobody can tell.
pub(super) fn unused(layout: &Layout, key: &Digest, sharing: Sharing) -> Option<Lock> {
    open::check_real(&layout.locks()).ok()?;
    let lock = layout.lock(key);
    let shard = lock.parent().unwrap_or(Path::new("."));
    open::create(shard, sharing).ok()?;
    lock::try_acquire_mode(&lock, Mode::Exclusive, sharing).ok()?
}

impl Cache {
    /// Deletes an entry by way of `area`, if nobody builds it now and it is as `expected` says. Gives
    /// whether it is gone. The caller holds the root lock.
    pub(super) fn evict(
        &self,
        area: &Area,
        key: &Digest,
        expected: impl Fn(&Extent) -> bool,
    ) -> io::Result<bool> {
        let Some(_lock) = unused(self.layout(), key, self.sharing()) else {
            return Ok(false);
        };
        if !expected(&survey::extent(self.layout(), key)) {
            return Ok(false);
        }
        let doomed = area.work().join(key.to_string());
        match fs::rename(self.layout().entry(key), &doomed) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            renamed => renamed?,
        }
        fs::remove_dir_all(doomed)?;
        Ok(true)
    }
}
