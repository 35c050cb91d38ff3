//! Opening the cache directory: may we trust it, and may we write it?
//!
//! What lies in the cache is executed. A directory that somebody else could have written is refused;
//! one that can't be written still serves hits, and builds go on without it.

use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::layout::Layout;

/// Backup programs that follow the Cache Directory Tagging Specification look for this first line.
const TAG: &str = "Signature: 8a477f597d28d172789f06886806bc55
# This file marks a cache directory of npu-build; it may be deleted as a whole at any time.
# See https://bford.info/cachedir/
";

/// Why a directory can't be the cache.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// There is something, but no directory.
    #[error("the cache path {} is not a directory; remove it, or name another with --cache-dir or NPU_BUILD_CACHE_DIR", .0.display())]
    NotADirectory(PathBuf),
    /// A symbolic link that leads nowhere.
    #[error("the cache path {} is a symbolic link to {}, which does not exist; create that directory or remove the link", path.display(), target.display())]
    Dangling {
        /// The link.
        path: PathBuf,
        /// Where it points.
        target: PathBuf,
    },
    /// Its owner could exchange what we execute.
    #[error("the cache {} belongs to user {owner}, not to you (user {user}), and what is in it gets executed; name another with --cache-dir or NPU_BUILD_CACHE_DIR", path.display())]
    ForeignOwner {
        /// The directory.
        path: PathBuf,
        /// Its owner's number.
        owner: u32,
        /// Our effective user number.
        user: u32,
    },
    /// Others could exchange what we execute.
    #[error("the cache {} can be written by others (mode {mode:04o}), and what is in it gets executed; run `chmod go-w {0}`{hint}", path.display())]
    Writable {
        /// The directory.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
        /// What else might help.
        hint: &'static str,
    },
    /// The system refuses to tell anything about it.
    #[error("can't open the cache {}: {source}", path.display())]
    Io {
        /// The directory.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
}

/// Who may write the cache besides us.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// Nobody.
    #[default]
    Private,
    /// The directory's group, deliberately.
    Group,
}

impl Sharing {
    /// Permission bits that no file and no directory of the cache may have.
    pub(super) const fn forbidden(self) -> u32 {
        match self {
            Self::Private => 0o022,
            Self::Group => 0o002,
        }
    }
}

/// Checks `layout`'s directory and makes what is missing in it. The result says why the cache can
/// only be read, if so.
pub fn open(layout: &Layout, sharing: Sharing) -> Result<Option<io::Error>, OpenError> {
    let root = layout.root();
    if !is_there(layout, sharing)? {
        if let Err(error) = make(root, sharing, true) {
            return unwritable(root, error);
        }
        if !is_there(layout, sharing)? {
            return Err(io_error(root, ErrorKind::NotFound.into()));
        }
    }
    // On a hit everything is there, and this one look is all it costs.
    match check_version(layout, sharing)? {
        true => Ok(None),
        false => {
            populate(layout, sharing).map_or_else(|error| unwritable(root, error), |()| Ok(None))
        }
    }
}

/// Checks `layout`'s directory as it is. The result says whether there is one.
pub fn open_existing(layout: &Layout, sharing: Sharing) -> Result<bool, OpenError> {
    let is_there = is_there(layout, sharing)?;
    if is_there {
        check_version(layout, sharing)?;
        // What can't be read is neither empty nor sound.
        for directory in [layout.version().to_owned(), layout.entries()] {
            match fs::read_dir(&directory) {
                Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                    return Err(io_error(&directory, error));
                }
                _ => {}
            }
        }
    }
    Ok(is_there)
}

/// Whether there is a cache directory, which then can be trusted.
fn is_there(layout: &Layout, sharing: Sharing) -> Result<bool, OpenError> {
    let root = layout.root();
    match fs::metadata(root) {
        Ok(metadata) if metadata.is_dir() => {
            check_trust(root, &metadata, sharing)?;
            Ok(true)
        }
        Ok(_) => Err(OpenError::NotADirectory(root.to_owned())),
        Err(error) if error.kind() == ErrorKind::NotFound => match fs::read_link(root) {
            Ok(target) => Err(OpenError::Dangling {
                path: root.to_owned(),
                target,
            }),
            Err(_) => Ok(false),
        },
        Err(error) if error.kind() == ErrorKind::NotADirectory => {
            Err(OpenError::NotADirectory(root.to_owned()))
        }
        Err(source) => Err(io_error(root, source)),
    }
}

/// Whether there is a directory of this schema version in it, which then can be trusted.
fn check_version(layout: &Layout, sharing: Sharing) -> Result<bool, OpenError> {
    let version = layout.version();
    let Ok(metadata) = fs::symlink_metadata(version) else {
        return Ok(false);
    };
    if !metadata.is_dir() {
        return Err(OpenError::NotADirectory(version.to_owned()));
    }
    check_trust(version, &metadata, sharing)?;
    Ok(true)
}

/// Whether a cache directory may be read that somebody else keeps. The result says why there is
/// nothing to read, if so.
pub fn check_layer(layout: &Layout) -> Result<Option<String>, OpenError> {
    for directory in [layout.root(), layout.version()] {
        match fs::metadata(directory) {
            Ok(metadata) => check_trust(directory, &metadata, Sharing::Group)?,
            Err(error) => return Ok(Some(format!("{}: {error}", directory.display()))),
        }
    }
    Ok(None)
}

/// Makes whatever is missing in the cache directory.
pub fn populate(layout: &Layout, sharing: Sharing) -> io::Result<()> {
    if fs::symlink_metadata(layout.tag()).is_err() {
        make(layout.root(), sharing, true)?;
        let mut tag = File::create(layout.tag())?;
        tag.write_all(TAG.as_bytes())?;
        share_file(&tag, sharing);
    }
    for directory in &layout.directories() {
        create(directory, sharing)?;
    }
    Ok(())
}

/// Makes a directory in the cache that only those who share it can use, unless it is there.
pub fn create(directory: &Path, sharing: Sharing) -> io::Result<()> {
    make(directory, sharing, false)?;
    // What is outside the cache is not ours to write.
    check_real(directory)
}

fn make(directory: &Path, sharing: Sharing, recursive: bool) -> io::Result<()> {
    let mode = match sharing {
        Sharing::Private => 0o700,
        Sharing::Group => 0o2770,
    };
    let made = DirBuilder::new()
        .recursive(recursive)
        .mode(mode)
        .create(directory);
    match made {
        Ok(()) if sharing == Sharing::Group => {
            // The umask has its say in mkdir, and a group cache needs these bits.
            fs::set_permissions(directory, fs::Permissions::from_mode(mode))
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

/// Whether a directory of ours is one, and no symbolic link to another.
pub fn check_real(directory: &Path) -> io::Result<()> {
    if fs::symlink_metadata(directory)?.is_dir() {
        return Ok(());
    }
    let reason = format!("{} is not a directory", directory.display());
    Err(io::Error::new(ErrorKind::NotADirectory, reason))
}

/// Flags for opening what should be a regular file: no link is followed and no FIFO waited for.
pub const UNTRICKED: i32 = (OFlags::NOFOLLOW.bits() | OFlags::NONBLOCK.bits()).cast_signed();

/// Lets those who share the cache write a file that was just opened. Only its owner can, and only
/// the first time it matters.
pub fn share_file(file: &File, sharing: Sharing) {
    if sharing == Sharing::Group {
        let _ = file.set_permissions(fs::Permissions::from_mode(0o660));
    }
}

/// A new file in the place of what is there: neither behind a link, nor one that has another name
/// elsewhere.
pub fn new_file(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    File::create_new(path)
}

/// Lets those who share the cache look into a directory that was just made, and delete it.
pub fn share_directory(path: &Path, sharing: Sharing) {
    if sharing == Sharing::Group {
        let _ = fs::set_permissions(path, fs::Permissions::from_mode(0o2770));
    }
}

/// Whether there is a symbolic link in the place of a directory of ours.
pub fn is_link(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink())
}

fn check_trust(path: &Path, metadata: &fs::Metadata, sharing: Sharing) -> Result<(), OpenError> {
    let user = rustix::process::geteuid().as_raw();
    let owner = metadata.uid();
    if owner != user && sharing == Sharing::Private {
        return Err(OpenError::ForeignOwner {
            path: path.to_owned(),
            owner,
            user,
        });
    }
    let hint = match sharing {
        Sharing::Private => ", or pass --shared-cache if its group is meant to write it",
        Sharing::Group => "",
    };
    let mode = metadata.mode() & 0o7777;
    if mode & sharing.forbidden() != 0 {
        return Err(OpenError::Writable {
            path: path.to_owned(),
            mode,
            hint: if mode & 0o002 == 0 { hint } else { "" },
        });
    }
    Ok(())
}

/// Sorts what stands in the way of writing from what stands in the way of everything.
fn unwritable(root: &Path, error: io::Error) -> Result<Option<io::Error>, OpenError> {
    match error.kind() {
        ErrorKind::NotADirectory => Err(OpenError::NotADirectory(root.to_owned())),
        _ if super::is_unwritable(&error) => Ok(Some(error)),
        _ => Err(io_error(root, error)),
    }
}

fn io_error(path: &Path, source: io::Error) -> OpenError {
    OpenError::Io {
        path: path.to_owned(),
        source,
    }
}
