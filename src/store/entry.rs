//! Reading an entry: nothing of it is believed before its content has been checked.

use std::fmt;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use rustix::io::Errno;
use tempfile::TempDir;

use super::Sharing;
use super::directory::EntryDirectory;
use super::layout::{Layout, MANIFEST};
use super::manifest::{ArtifactRecord, Head};
use super::open::UNTRICKED;
use super::verified::Verified;
use crate::digest::{Checksum, Digest, Hasher};
use crate::recent::Recent;
use crate::step::{Name, Step};

/// Manifests are a few kilobytes; a larger file is not one of ours.
pub(super) const MANIFEST_LIMIT: u64 = 4 << 20;
/// How old the time stamp of an entry's last use may get.
const USE_RESOLUTION: Duration = Duration::from_secs(3600);

/// A verified file of an entry.
#[derive(Clone, Debug)]
pub struct Artifact {
    /// Its name in the entry.
    pub name: Name,
    /// Where it is.
    pub path: PathBuf,
    /// Bytes.
    pub size: u64,
    /// Of the content.
    pub digest: Digest,
    /// Where it could not go into the cache: what deletes it in the end.
    pub(super) temporary: Option<Arc<Temporary>>,
}

/// A directory that is deleted with the last artifact in it, unless it is kept.
#[derive(Debug)]
pub(super) struct Temporary(Mutex<Option<TempDir>>);

impl From<TempDir> for Temporary {
    fn from(directory: TempDir) -> Self {
        Self(Mutex::new(Some(directory)))
    }
}

/// What was found under a key.
#[derive(Debug)]
pub(super) enum Lookup {
    /// All artifacts, each with the content that the manifest promises.
    Hit(Found),
    /// Nothing.
    Absent,
    /// Something that can't be used.
    Damaged(Fault),
}

/// Why an entry can't be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What is wrong with it.
    pub reason: String,
    /// Whether the system did not let us read it, which says nothing of its content.
    pub is_unreadable: bool,
}

impl Fault {
    /// Something that was read and is wrong.
    pub(super) fn wrong(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            is_unreadable: false,
        }
    }

    /// What came of reading a part of the entry.
    pub(super) fn reading(part: &str, error: &io::Error) -> Self {
        let reason = match error.kind() {
            ErrorKind::NotFound => format!("{part} is missing"),
            _ => format!("{part}: {error}"),
        };
        // Nothing, or something else, in the place of a file is damage; so is what we found ourselves.
        let is_damage = matches!(
            Errno::from_io_error(error),
            None | Some(Errno::NOENT | Errno::NOTDIR | Errno::ISDIR | Errno::LOOP | Errno::NXIO)
        );
        Self {
            reason,
            is_unreadable: !is_damage,
        }
    }

    /// `damaged`, or `unreadable`.
    #[must_use]
    pub const fn state(&self) -> &'static str {
        if self.is_unreadable {
            "unreadable"
        } else {
            "damaged"
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.is_unreadable {
            "can't be read"
        } else {
            "is damaged"
        };
        write!(f, "{state} ({})", self.reason)
    }
}

impl Artifact {
    /// Lets the file outlive the process where it would be deleted with this value. Gives the
    /// directory that somebody else has to delete now, once for all artifacts in it.
    #[must_use]
    pub fn keep(&self) -> Option<PathBuf> {
        let Temporary(directory) = self.temporary.as_deref()?;
        let mut directory = directory.lock().unwrap_or_else(PoisonError::into_inner);
        directory.take().map(TempDir::keep)
    }

    /// Whether the file is deleted with this value.
    #[must_use]
    pub const fn is_temporary(&self) -> bool {
        self.temporary.is_some()
    }

    /// The content, checked against the digest as it is read.
    ///
    /// # Errors
    /// When it can't be read, or has changed since it was verified.
    pub fn read(&self) -> io::Result<Vec<u8>> {
        let bytes = read_sized(&sized(open_regular(&self.path)?, self.size)?, self.size)?;
        if Digest::of(&bytes) == self.digest {
            Ok(bytes)
        } else {
            Err(io::Error::new(
                ErrorKind::InvalidData,
                format!("{} changed after it was verified", self.path.display()),
            ))
        }
    }
}

/// Artifacts that have the content which the manifest promises.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) artifacts: Vec<Artifact>,
    /// How long the step took when it was carried out.
    pub(super) took: Duration,
}

/// Where entries are looked up.
#[derive(Debug)]
pub(super) struct Shelf {
    pub(super) layout: Layout,
    /// Who may have written it.
    pub(super) sharing: Sharing,
    /// Whose files are believed, unless it is shared.
    pub(super) user: u32,
    /// Whether uses are noted in it.
    pub(super) is_noted: bool,
    /// What was found in it before.
    pub(super) known: Recent<Digest, Verified>,
}

impl Shelf {
    pub(super) fn new(layout: Layout, sharing: Sharing, is_noted: bool) -> Self {
        Self {
            layout,
            sharing,
            user: rustix::process::geteuid().as_raw(),
            is_noted,
            known: Recent::default(),
        }
    }
}

/// Looks `step` up on `shelf` and verifies what is there.
pub(super) fn lookup(shelf: &Shelf, key: &Digest, step: &Step) -> Lookup {
    let (layout, known) = (&shelf.layout, &shelf.known);
    let directory = match EntryDirectory::open(shelf, key) {
        Ok(directory) => directory,
        Err(error) if error.kind() == ErrorKind::NotFound => return Lookup::Absent,
        Err(error) => return Lookup::Damaged(Fault::reading("its directory", &error)),
    };
    let is_gone = || fs::symlink_metadata(layout.entry(key)).is_err();
    let (file, metadata) = match directory.file(MANIFEST) {
        Ok(opened) => opened,
        Err(error) if error.kind() == ErrorKind::NotFound && is_gone() => return Lookup::Absent,
        Err(error) => return Lookup::Damaged(Fault::reading(MANIFEST, &error)),
    };
    let bytes = read_limited(&file, &metadata, MANIFEST_LIMIT)
        .map_err(|error| Fault::reading(MANIFEST, &error));
    let verified = bytes.and_then(|bytes| match known.get(key) {
        Some(verified) if verified.is_still(&directory, &bytes) => Ok(verified.found.clone()),
        _ => verify(&directory, layout, bytes, key, step, known),
    });
    match verified {
        Ok(found) => {
            if shelf.is_noted {
                mark_used(&file, &metadata);
            }
            Lookup::Hit(found)
        }
        // Somebody took the entry away while we read it.
        Err(_) if is_gone() => Lookup::Absent,
        Err(fault) => Lookup::Damaged(fault),
    }
}

fn verify(
    directory: &EntryDirectory<'_>,
    layout: &Layout,
    manifest: Vec<u8>,
    key: &Digest,
    step: &Step,
    known: &Recent<Digest, Verified>,
) -> Result<Found, Fault> {
    let head = Head::parse(&manifest).map_err(|error| Fault::wrong(error.to_string()))?;
    if head.key != *key {
        return Err(Fault::wrong(format!(
            "the manifest belongs to key {}",
            head.key.short()
        )));
    }
    let named: Vec<_> = head.artifact.iter().map(|record| &*record.name).collect();
    let declared: Vec<_> = step.outputs.iter().map(|output| &*output.name).collect();
    if named != declared {
        return Err(Fault::wrong(format!(
            "the manifest lists {named:?} instead of {declared:?}"
        )));
    }
    let place = layout.entry(key);
    let is_small = Verified::takes(&manifest, &head.artifact);
    let mut contents = Vec::with_capacity(head.artifact.len());
    let outputs = step.outputs.iter().zip(&head.artifact);
    let artifacts = outputs.map(|(output, record)| {
        let content = check(directory, record, is_small);
        contents.extend(content?);
        Ok(Artifact {
            name: output.name.clone(),
            path: place.join(&*output.name),
            size: record.size,
            digest: record.sha256,
            temporary: None,
        })
    });
    let found = Found {
        artifacts: artifacts.collect::<Result<_, Fault>>()?,
        took: Duration::from_millis(head.took),
    };
    if is_small {
        let verified = Verified {
            manifest,
            contents,
            found: found.clone(),
        };
        known.put(*key, Arc::new(verified));
    }
    Ok(found)
}

/// The bytes of the manifest at `path`.
pub(super) fn read_manifest(path: &Path) -> io::Result<Vec<u8>> {
    read_regular(path, MANIFEST_LIMIT)
}

/// The bytes of a regular file that has no more than `limit` of them.
pub(super) fn read_regular(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let (file, metadata) = open_regular(path)?;
    read_limited(&file, &metadata, limit)
}

pub(super) fn read_limited(file: &File, metadata: &Metadata, limit: u64) -> io::Result<Vec<u8>> {
    let length = metadata.len();
    if length > limit {
        return Err(io::Error::new(
            ErrorKind::InvalidData,
            format!("it has {length} bytes, more than any of its kind"),
        ));
    }
    read_sized(file, length)
}

/// Compares size and content of a file with what is promised. Gives the content if it is `wanted`.
fn check(
    directory: &EntryDirectory<'_>,
    record: &ArtifactRecord,
    wanted: bool,
) -> Result<Option<Vec<u8>>, Fault> {
    let read = || -> io::Result<_> {
        let file = promised(directory, record)?;
        if wanted {
            let content = read_sized(&file, record.size)?;
            return Ok((Checksum::of(&content, &record.sha256), Some(content)));
        }
        let checksum = Checksum::of_reader(file.take(record.size), &record.sha256, |_| ())?;
        Ok((checksum, None))
    };
    let (checksum, content) = read().map_err(|error| Fault::reading(&record.name, &error))?;
    if checksum == record.blake3 {
        Ok(content)
    } else {
        Err(changed(record))
    }
}

/// Compares a file with everything that is promised of it, by both digests.
pub(super) fn check_fully(
    directory: &EntryDirectory<'_>,
    record: &ArtifactRecord,
) -> Result<(), Fault> {
    let mut hasher = Hasher::new();
    let checksum = promised(directory, record).and_then(|file| {
        let look = |piece: &[u8]| hasher.update(piece);
        Checksum::of_reader(file.take(record.size), &record.sha256, look)
    });
    let checksum = checksum.map_err(|error| Fault::reading(&record.name, &error))?;
    if checksum == record.blake3 && hasher.finish() == record.sha256 {
        Ok(())
    } else {
        Err(changed(record))
    }
}

fn changed(record: &ArtifactRecord) -> Fault {
    Fault::wrong(format!("{}: its content changed", record.name))
}

fn promised(directory: &EntryDirectory<'_>, record: &ArtifactRecord) -> io::Result<File> {
    let opened = directory.file(&record.name);
    opened.and_then(|opened| sized(opened, record.size))
}

/// The content of a file of that size, in as few calls as there can be.
pub(super) fn read_sized(file: &File, size: u64) -> io::Result<Vec<u8>> {
    let size = usize::try_from(size).map_err(|_| ErrorKind::FileTooLarge)?;
    let mut bytes = Vec::with_capacity(size);
    // As many bytes as there are: asking whether there are more is a system call.
    while bytes.len() < size {
        match rustix::io::read(file, rustix::buffer::spare_capacity(&mut bytes)) {
            Ok(0) => break,
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(bytes)
}

/// The file, if it has the promised size.
pub(super) fn sized((file, metadata): (File, Metadata), size: u64) -> io::Result<File> {
    let found = metadata.size();
    if found == size {
        Ok(file)
    } else {
        Err(io::Error::new(
            ErrorKind::InvalidData,
            format!("its size is {found} bytes instead of {size}"),
        ))
    }
}

/// Opens what must be a regular file: no symbolic link is followed and no FIFO waited for.
pub(super) fn open_regular(path: &Path) -> io::Result<(File, Metadata)> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(UNTRICKED)
        .open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_file() {
        Ok((file, metadata))
    } else {
        Err(io::Error::new(
            ErrorKind::InvalidData,
            "it is not a regular file",
        ))
    }
}

/// Notes the use in the manifest's modification time, at most once an hour. Time stamps in the
/// future (a clock that was set back) are mended. Whoever may not write does not.
fn mark_used(manifest: &File, metadata: &Metadata) {
    let now = SystemTime::now();
    let Ok(used) = metadata.modified() else {
        return;
    };
    let recent = now
        .duration_since(used)
        .is_ok_and(|age| age < USE_RESOLUTION);
    if !recent {
        let _ = manifest.set_modified(now);
    }
}
