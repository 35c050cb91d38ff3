//! The log that every process appends to, and how one process at a time takes it away.
//!
//! Who appends holds the file's lock shared, and checks under it that the file is still the log.
//! Who folds renames the log first and takes its lock exclusively, so that nobody writes into what
//! has been read. On a file system without locks a line may be lost in that moment.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::super::Sharing;
use super::super::lock::{self, Lock, Mode, Tried};
use super::super::open::{self, UNTRICKED};

/// A log of this many bytes is folded.
pub(super) const LONG: u64 = 256 << 10;
/// The log's name.
const LOG: &str = "log";
/// How the names of logs begin that are being folded.
const FOLDING: &str = "folding-";
/// A writer holds the lock for microseconds; one that is stopped meanwhile is not waited for.
const PATIENCE: Duration = Duration::from_millis(200);

/// The log of one cache.
#[derive(Debug)]
pub(super) struct Log {
    directory: PathBuf,
    sharing: Sharing,
}

/// A log that has been taken away, and the right to read it.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) name: String,
    pub(super) file: File,
    path: PathBuf,
}

impl Log {
    pub(super) fn new(directory: PathBuf, sharing: Sharing) -> Self {
        Self { directory, sharing }
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(super) fn sharing(&self) -> Sharing {
        self.sharing
    }

    /// Appends `text` in one piece. Gives the log's length before it.
    pub(super) fn append(&self, text: &str) -> io::Result<u64> {
        const TRIES: u32 = 16;
        let path = self.directory.join(LOG);
        self.check_directory()?;
        for _ in 0..TRIES {
            let mut file = self.open(&path)?;
            // Contended, it is being folded: there is a new log, or will be.
            if lock::try_file(&file, Mode::Shared)? == Tried::Contended {
                continue;
            }
            let metadata = file.metadata()?;
            if !metadata.is_file() {
                return Err(ErrorKind::InvalidData.into());
            }
            match metadata.nlink() {
                // It was folded before the lock was ours.
                0 => {}
                1 => {
                    // In one piece: what a full disk cuts off is not written after it.
                    let _ = file.write(text.as_bytes())?;
                    return Ok(metadata.len());
                }
                // It has another name, perhaps outside the cache.
                _ => return Err(ErrorKind::InvalidData.into()),
            }
        }
        Err(ErrorKind::WouldBlock.into())
    }

    /// Makes the directory if there is none.
    fn check_directory(&self) -> io::Result<()> {
        match open::check_real(&self.directory) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                open::create(&self.directory, self.sharing)
            }
            checked => checked,
        }
    }

    fn open(&self, path: &Path) -> io::Result<File> {
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .custom_flags(UNTRICKED)
            .open(path)?;
        open::share_file(&file, self.sharing);
        Ok(file)
    }

    /// The right to fold; `None` if somebody else has it.
    pub(super) fn try_lock(&self) -> io::Result<Option<Lock>> {
        self.check_directory()?;
        let path = self.directory.join("lock");
        lock::try_acquire_mode(&path, Mode::Exclusive, self.sharing)
    }

    /// The same, waiting a moment for whoever has it.
    pub(super) fn lock(&self) -> io::Result<Lock> {
        let lock = patiently(|| self.try_lock().transpose());
        lock.unwrap_or_else(|| Err(ErrorKind::WouldBlock.into()))
    }

    /// Renames the log, so that everybody begins a new one. `name` is used by nobody else.
    pub(super) fn rotate(&self, name: &str) -> io::Result<()> {
        let to = self.directory.join(format!("{FOLDING}{name}"));
        match fs::rename(self.directory.join(LOG), to) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            renamed => renamed,
        }
    }

    /// The logs that were taken away, this time or by somebody who did not come to an end. One that
    /// somebody still writes into is left out.
    pub(super) fn taken(&self) -> Vec<Taken> {
        let entries = fs::read_dir(&self.directory)
            .into_iter()
            .flatten()
            .flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let mut names: Vec<_> = names.filter(|name| name.starts_with(FOLDING)).collect();
        names.sort_unstable();
        let taken = names.into_iter().filter_map(|name| {
            let path = self.directory.join(&name);
            let file = read_only(&path).ok()?;
            patiently(|| match lock::try_file(&file, Mode::Exclusive) {
                Ok(Tried::Contended) => None,
                tried => tried.ok(),
            })?;
            Some(Taken { name, file, path })
        });
        taken.collect()
    }

    /// All logs, for somebody who may only read them.
    pub(super) fn readable(&self) -> Vec<(String, File)> {
        let entries = fs::read_dir(&self.directory)
            .into_iter()
            .flatten()
            .flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let logs = names.filter(|name| name == LOG || name.starts_with(FOLDING));
        logs.filter_map(|name| Some((name.clone(), read_only(&self.directory.join(name)).ok()?)))
            .collect()
    }
}

impl Taken {
    /// Deletes it; whoever opened it before sees that.
    pub(super) fn delete(self) -> io::Result<()> {
        fs::remove_file(self.path)
    }
}

fn read_only(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(UNTRICKED)
        .open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(ErrorKind::InvalidData.into())
    }
}

fn patiently<T>(mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
    let started = Instant::now();
    loop {
        match attempt() {
            None if started.elapsed() < PATIENCE => std::thread::sleep(Duration::from_millis(1)),
            result => return result,
        }
    }
}
