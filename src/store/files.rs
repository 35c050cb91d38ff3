//! Files and directories in a place where anything may have been planted: no symbolic link is
//! followed, no FIFO waited for, and nothing is written that has another name elsewhere.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::types::{Artifact, Sharing};
use crate::digest::Digest;

/// Flags for opening what should be a regular file.
pub(super) const OPEN_NOFOLLOW: i32 =
    (OFlags::NOFOLLOW.bits() | OFlags::NONBLOCK.bits()).cast_signed();

pub(super) fn invalid(reason: impl Into<String>) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, reason.into())
}

pub(super) fn open_regular(path: &Path) -> io::Result<(File, Metadata)> {
    let mut options = OpenOptions::new();
    let file = options.read(true).custom_flags(OPEN_NOFOLLOW).open(path)?;
    let metadata = file.metadata()?;
    if metadata.is_file() {
        Ok((file, metadata))
    } else {
        Err(invalid("it is not a regular file"))
    }
}

/// The bytes of a regular file that has no more than `limit` of them.
pub(super) fn read_regular(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let (file, metadata) = open_regular(path)?;
    read_limited(&file, &metadata, limit)
}

pub(super) fn read_limited(file: &File, metadata: &Metadata, limit: u64) -> io::Result<Vec<u8>> {
    match metadata.len() {
        length if length > limit => Err(invalid(format!(
            "it has {length} bytes, more than any of its kind"
        ))),
        length => read_exactly(file, length),
    }
}

/// The first `size` bytes of a file, or all of a shorter one, in as few calls as there can be.
pub(super) fn read_exactly(file: &File, size: u64) -> io::Result<Vec<u8>> {
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
pub(super) fn of_size((file, metadata): (File, Metadata), size: u64) -> io::Result<File> {
    match metadata.len() {
        found if found == size => Ok(file),
        found => Err(invalid(format!(
            "its size is {found} bytes instead of {size}"
        ))),
    }
}

impl Artifact {
    /// The content, checked against the digest as it is read.
    ///
    /// # Errors
    /// When it can't be read, or has changed since it was verified.
    pub fn read(&self) -> io::Result<Vec<u8>> {
        let bytes = read_exactly(&of_size(open_regular(&self.path)?, self.size)?, self.size)?;
        if Digest::of(&bytes) == self.digest {
            Ok(bytes)
        } else {
            let path = self.path.display();
            Err(invalid(format!("{path} changed after it was verified")))
        }
    }
}

/// Makes a directory for those who share the cache, unless it is there.
pub(super) fn create_directory(directory: &Path, sharing: Sharing) -> io::Result<()> {
    make_directory(directory, sharing, false)?;
    check_directory(directory)
}

/// The same with all directories above, and wherever a link leads.
pub(super) fn make_directory(directory: &Path, sharing: Sharing, above: bool) -> io::Result<()> {
    let mode = match sharing {
        Sharing::Private => 0o700,
        Sharing::Group => 0o2770,
    };
    let mut builder = DirBuilder::new();
    match builder.recursive(above).mode(mode).create(directory) {
        // mkdir obeys the umask, and a group's cache needs all of these bits.
        Ok(()) => share_directory(directory, sharing),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// Whether it is a directory, and no symbolic link to one.
pub(super) fn check_directory(directory: &Path) -> io::Result<()> {
    if fs::symlink_metadata(directory)?.is_dir() {
        return Ok(());
    }
    let reason = format!("{} is not a directory", directory.display());
    Err(io::Error::new(ErrorKind::NotADirectory, reason))
}

pub(super) fn share_directory(path: &Path, sharing: Sharing) -> io::Result<()> {
    match sharing {
        Sharing::Private => Ok(()),
        Sharing::Group => fs::set_permissions(path, Permissions::from_mode(0o2770)),
    }
}

/// Lets those who share the cache write a file that was just opened. Only its owner can, and only
/// the first time it matters.
pub(super) fn share_file(file: &File, sharing: Sharing) {
    if sharing == Sharing::Group {
        let _ = file.set_permissions(Permissions::from_mode(0o660));
    }
}

/// A new file in the place of what is there.
pub(super) fn new_file(path: &Path, sharing: Sharing) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = File::create_new(path)?;
    share_file(&file, sharing);
    Ok(file)
}

/// Replaces a file's content by rename.
pub(super) fn replace(path: &Path, sharing: Sharing, bytes: &[u8]) -> io::Result<()> {
    let mut file = tempfile::NamedTempFile::new_in(path.parent().unwrap_or(Path::new(".")))?;
    file.write_all(bytes)?;
    share_file(file.as_file(), sharing);
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// Appends `text` in one piece. Gives the file's length before it.
pub(super) fn append(path: &Path, sharing: Sharing, text: &[u8]) -> io::Result<u64> {
    let mut file = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(OPEN_NOFOLLOW)
        .open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.nlink() != 1 {
        return Err(invalid("it is not a regular file of the cache alone"));
    }
    share_file(&file, sharing);
    // What a full disk cuts off is not written after it.
    let _ = file.write(text)?;
    Ok(metadata.len())
}

/// The paths of what is in a directory, sorted; nothing if it is a link.
pub(super) fn children(directory: &Path) -> Vec<PathBuf> {
    if directory.is_symlink() {
        return Vec::new();
    }
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
    paths.sort_unstable();
    paths
}

/// Deletes a file or a whole directory; of a link, the link.
pub(super) fn delete(path: &Path) -> bool {
    let is_directory = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir());
    match is_directory {
        true => fs::remove_dir_all(path).is_ok(),
        false => fs::remove_file(path).is_ok(),
    }
}

/// Whether a directory could not be renamed since there is something else.
pub(super) fn is_occupied(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::DirectoryNotEmpty | ErrorKind::AlreadyExists | ErrorKind::NotADirectory
    )
}

/// How long ago it was last changed; `None` if it is not there, or from the future.
pub(super) fn age(path: &Path) -> Option<Duration> {
    let modified = fs::symlink_metadata(path).ok()?.modified().ok()?;
    modified.elapsed().ok()
}

pub(super) fn is_older(path: &Path, than: Duration) -> bool {
    age(path).is_some_and(|age| age > than)
}

/// When the file was modified, in seconds since 1970.
pub(super) fn seconds(metadata: &Metadata) -> u64 {
    u64::try_from(metadata.mtime()).unwrap_or(0)
}

/// Seconds since 1970.
pub(super) fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs())
}
