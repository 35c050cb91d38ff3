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

/// Checks the cache directory and makes what is missing in it, if that can be: where it can't, hits
/// are served, and a build warns.
pub(super) fn open(layout: &Layout, sharing: Sharing) -> Result<(), OpenError> {
    let root = &layout.root;
    // On a hit everything is there, and these two looks are all it costs.
    if check_root(root, sharing)? && check_version(layout, sharing)? {
        return Ok(());
    }
    match populate(layout, sharing) {
        Ok(()) => check_root(root, sharing).map(drop),
        Err(error) if error.kind() == ErrorKind::NotADirectory => {
            Err(OpenError::NotADirectory(root.to_owned()))
        }
        Err(error) if is_unwritable(&error) => Ok(()),
        Err(error) => Err(io_error(root, error)),
    }
}

/// Checks the cache directory as it is. The result says whether there is one.
pub(super) fn open_existing(layout: &Layout, sharing: Sharing) -> Result<bool, OpenError> {
    if !check_root(&layout.root, sharing)? {
        return Ok(false);
    }
    check_version(layout, sharing)?;
    // What can't be read is neither empty nor sound.
    for directory in [&layout.version, &layout.entries] {
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
    for directory in [&layout.root, &layout.version] {
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
        make_directory(&layout.root, sharing, true)?;
        let mut tag = File::create(layout.tag())?;
        tag.write_all(TAG.as_bytes())?;
        share_file(&tag, sharing);
    }
    let mut directories = layout.directories().into_iter();
    directories.try_for_each(|directory| create_directory(directory, sharing))
}

/// Whether writing failed because of where we write, so that another place may do.
fn is_unwritable(error: &io::Error) -> bool {
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
    let version = &layout.version;
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

fn io_error(path: &Path, source: io::Error) -> OpenError {
    OpenError::Io {
        path: path.to_owned(),
        source,
    }
}
