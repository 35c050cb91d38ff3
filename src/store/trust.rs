//! Opening the cache directory: may we trust it, and may we write it?
//!
//! What lies in the cache is executed. A directory that somebody else could have written is refused;
//! one that can't be written still serves hits, and builds go on without it.

use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::files::{create_directory, make_directory, share_file};
use super::layout::Layout;
use super::types::{OpenError, Sharing};

/// Backup programs that follow the Cache Directory Tagging Specification look for this first line.
const TAG: &str = "Signature: 8a477f597d28d172789f06886806bc55
# This file marks a cache directory of npu-build; it may be deleted as a whole at any time.
# See https://bford.info/cachedir/
";

/// Checks the cache directory and makes what is missing in it. The result says why the cache can
/// only be read, if so.
pub(super) fn open(layout: &Layout, sharing: Sharing) -> Result<Option<io::Error>, OpenError> {
    let root = layout.root();
    if !check_root(root, sharing)? {
        if let Err(error) = make_directory(root, sharing, true) {
            return unwritable(root, error);
        }
        if !check_root(root, sharing)? {
            return Err(io_error(root, ErrorKind::NotFound.into()));
        }
    }
    // On a hit everything is there, and this one look is all it costs.
    if check_version(layout, sharing)? {
        return Ok(None);
    }
    populate(layout, sharing).map_or_else(|error| unwritable(root, error), |()| Ok(None))
}

/// Checks the cache directory as it is. The result says whether there is one.
pub(super) fn open_existing(layout: &Layout, sharing: Sharing) -> Result<bool, OpenError> {
    if !check_root(layout.root(), sharing)? {
        return Ok(false);
    }
    check_version(layout, sharing)?;
    // What can't be read is neither empty nor sound.
    for directory in [layout.version(), &layout.entries()] {
        match fs::read_dir(directory) {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                return Err(io_error(directory, error));
            }
            _ => {}
        }
    }
    Ok(true)
}

/// Checks a cache directory that somebody else keeps. The result says why there is nothing to read
/// in it, if so.
pub(super) fn check_layer(layout: &Layout) -> Result<Option<String>, OpenError> {
    for directory in [layout.root(), layout.version()] {
        match fs::metadata(directory) {
            Ok(metadata) => check_trust(directory, &metadata, Sharing::Group)?,
            Err(error) => return Ok(Some(format!("{}: {error}", directory.display()))),
        }
    }
    Ok(None)
}

/// Makes whatever is missing in the cache directory.
pub(super) fn populate(layout: &Layout, sharing: Sharing) -> io::Result<()> {
    if fs::symlink_metadata(layout.tag()).is_err() {
        make_directory(layout.root(), sharing, true)?;
        let mut tag = File::create(layout.tag())?;
        tag.write_all(TAG.as_bytes())?;
        share_file(&tag, sharing);
    }
    let mut directories = layout.directories().into_iter();
    directories.try_for_each(|directory| create_directory(&directory, sharing))
}

/// Whether writing failed because of where we write, so that another place may do.
pub(super) fn is_unwritable(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::PermissionDenied
            | ErrorKind::ReadOnlyFilesystem
            | ErrorKind::StorageFull
            | ErrorKind::QuotaExceeded
            | ErrorKind::NotFound
    )
}

/// Whether there is a cache directory, which then can be trusted.
fn check_root(root: &Path, sharing: Sharing) -> Result<bool, OpenError> {
    match fs::metadata(root) {
        Ok(metadata) if metadata.is_dir() => check_trust(root, &metadata, sharing).map(|()| true),
        Ok(_) => Err(OpenError::NotADirectory(root.to_owned())),
        Err(error) if error.kind() == ErrorKind::NotADirectory => {
            Err(OpenError::NotADirectory(root.to_owned()))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => match fs::read_link(root) {
            Ok(target) => Err(OpenError::Dangling {
                path: root.to_owned(),
                target,
            }),
            Err(_) => Ok(false),
        },
        Err(source) => Err(io_error(root, source)),
    }
}

/// Whether there is a directory of this schema version in it, which then can be trusted.
fn check_version(layout: &Layout, sharing: Sharing) -> Result<bool, OpenError> {
    let version = layout.version();
    match fs::symlink_metadata(version) {
        Ok(metadata) if metadata.is_dir() => {
            check_trust(version, &metadata, sharing).map(|()| true)
        }
        Ok(_) => Err(OpenError::NotADirectory(version.to_owned())),
        Err(_) => Ok(false),
    }
}

fn check_trust(path: &Path, metadata: &Metadata, sharing: Sharing) -> Result<(), OpenError> {
    let user = rustix::process::geteuid().as_raw();
    let owner = metadata.uid();
    if owner != user && sharing == Sharing::Private {
        return Err(OpenError::ForeignOwner {
            path: path.to_owned(),
            owner,
            user,
        });
    }
    let mode = metadata.mode() & 0o7777;
    if mode & sharing.forbidden() == 0 {
        return Ok(());
    }
    let hint = match sharing {
        Sharing::Private if mode & 0o002 == 0 => {
            ", or pass --shared-cache if its group is meant to write it"
        }
        _ => "",
    };
    Err(OpenError::Writable {
        path: path.to_owned(),
        mode,
        hint,
    })
}

/// Tells an obstacle to writing from one to everything.
fn unwritable(root: &Path, error: io::Error) -> Result<Option<io::Error>, OpenError> {
    match error.kind() {
        ErrorKind::NotADirectory => Err(OpenError::NotADirectory(root.to_owned())),
        _ if is_unwritable(&error) => Ok(Some(error)),
        _ => Err(io_error(root, error)),
    }
}

fn io_error(path: &Path, source: io::Error) -> OpenError {
    OpenError::Io {
        path: path.to_owned(),
        source,
    }
}
