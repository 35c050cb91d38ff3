//! Reading an entry: nothing of it is believed before its content has been checked.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use rustix::fs::OFlags;
use tempfile::TempDir;

use super::layout::{Layout, MANIFEST};
use super::manifest::{ArtifactRecord, Head};
use super::verified::Verified;
use crate::digest::Digest;
use crate::recent::Recent;
use crate::step::{Name, Step};

/// Manifests are a few kilobytes; a larger file is not one of ours.
const MANIFEST_LIMIT: u64 = 4 << 20;
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
pub enum Lookup {
    /// All artifacts, each with the content that the manifest promises.
    Hit(Vec<Artifact>),
    /// Nothing.
    Absent,
    /// Something that can't be used, and why.
    Damaged(String),
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

    /// The content, checked against the digest as it is read.
    ///
    /// # Errors
    /// When it can't be read, or has changed since it was verified.
    pub fn read(&self) -> io::Result<Vec<u8>> {
        let bytes = read_whole(&self.path, self.size)?;
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

/// Looks `step` up and verifies what is there, with `known` from earlier lookups.
pub(super) fn lookup(
    layout: &Layout,
    key: &Digest,
    step: &Step,
    known: &Recent<Digest, Verified>,
) -> Lookup {
    let directory = layout.entry(key);
    let manifest = directory.join(MANIFEST);
    let (file, metadata) = match open_regular(&manifest) {
        Ok(opened) => opened,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return if fs::symlink_metadata(&directory).is_ok() {
                Lookup::Damaged(format!("{MANIFEST} is missing"))
            } else {
                Lookup::Absent
            };
        }
        Err(error) => return Lookup::Damaged(format!("{MANIFEST}: {error}")),
    };
    let bytes = read_limited(&file, &metadata).map_err(|error| error.to_string());
    let verified = bytes.and_then(|bytes| match known.get(key) {
        Some(verified) if verified.is_still(&bytes) => Ok(verified.artifacts.clone()),
        _ => verify(&directory, bytes, key, step, known),
    });
    match verified {
        Ok(artifacts) => {
            mark_used(&file, &metadata);
            Lookup::Hit(artifacts)
        }
        // Somebody took the entry away while we read it.
        Err(_) if fs::symlink_metadata(&directory).is_err() => Lookup::Absent,
        Err(reason) => Lookup::Damaged(reason),
    }
}

fn verify(
    directory: &Path,
    manifest: Vec<u8>,
    key: &Digest,
    step: &Step,
    known: &Recent<Digest, Verified>,
) -> Result<Vec<Artifact>, String> {
    let head = Head::parse(&manifest).map_err(|error| error.to_string())?;
    if head.key != *key {
        return Err(format!("the manifest belongs to key {}", head.key.short()));
    }
    let named: Vec<_> = head.artifact.iter().map(|record| &*record.name).collect();
    let declared: Vec<_> = step.outputs.iter().map(|output| &*output.name).collect();
    if named != declared {
        return Err(format!(
            "the manifest lists {named:?} instead of {declared:?}"
        ));
    }
    let is_small = Verified::takes(&manifest, &head.artifact);
    let mut contents = Vec::with_capacity(head.artifact.len());
    let outputs = step.outputs.iter().zip(&head.artifact);
    let artifacts = outputs.map(|(output, record)| {
        let path = directory.join(&*output.name);
        let content = check(&path, record, is_small);
        contents.extend(content.map_err(|reason| format!("{}: {reason}", output.name))?);
        Ok(Artifact {
            name: output.name.clone(),
            path,
            size: record.size,
            digest: record.sha256,
            temporary: None,
        })
    });
    let artifacts: Vec<_> = artifacts.collect::<Result<_, String>>()?;
    if is_small {
        let verified = Verified {
            manifest,
            contents,
            artifacts: artifacts.clone(),
        };
        known.put(*key, Arc::new(verified));
    }
    Ok(artifacts)
}

/// The bytes of the manifest at `path`.
pub(super) fn read_manifest(path: &Path) -> io::Result<Vec<u8>> {
    let (file, metadata) = open_regular(path)?;
    read_limited(&file, &metadata)
}

fn read_limited(manifest: &File, metadata: &Metadata) -> io::Result<Vec<u8>> {
    let length = metadata.len();
    if length > MANIFEST_LIMIT {
        return Err(io::Error::new(
            ErrorKind::InvalidData,
            format!("a manifest has not {length} bytes"),
        ));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
    manifest.take(length).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Compares size and content of the file at `path` with what is promised. Gives the content if it
/// is `wanted`.
fn check(path: &Path, record: &ArtifactRecord, wanted: bool) -> Result<Option<Vec<u8>>, String> {
    let explained = |error: io::Error| match error.kind() {
        ErrorKind::NotFound => "missing".into(),
        _ => error.to_string(),
    };
    let (digest, content) = if wanted {
        let content = read_whole(path, record.size).map_err(explained)?;
        (Digest::of(&content), Some(content))
    } else {
        let file = open(path, record.size).map_err(explained)?;
        let (digest, _) = Digest::of_reader(file.take(record.size)).map_err(explained)?;
        (digest, None)
    };
    if digest == record.sha256 {
        Ok(content)
    } else {
        Err("its content changed".into())
    }
}

/// Reads a regular file that has the promised size.
pub(super) fn read_whole(path: &Path, size: u64) -> io::Result<Vec<u8>> {
    let file = open(path, size)?;
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
    // As many bytes as there are: asking whether there are more is a system call.
    file.take(size).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Opens a regular file that has the promised size.
fn open(path: &Path, size: u64) -> io::Result<File> {
    let (file, metadata) = open_regular(path)?;
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
fn open_regular(path: &Path) -> io::Result<(File, Metadata)> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
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
