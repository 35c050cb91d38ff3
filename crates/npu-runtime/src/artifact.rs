//! Where a kernel's compiled form is: in the binary, in memory, or in a file whose content is
//! known by its digest.

use crate::Error;
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;

/// A file of a kernel's compiled form.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Artifact {
    /// Part of the host binary.
    Embedded(&'static [u8]),
    /// A file, read when the kernel is loaded.
    File {
        /// Where it is; relative to the working directory if it is not absolute.
        path: PathBuf,
        /// The SHA-256 that its content must have.
        sha256: [u8; 32],
    },
    /// In memory.
    Bytes(Arc<[u8]>),
}

/// Gives what it holds an address that is a multiple of 64, for whoever reads it in words.
///
/// `include_bytes!` alone promises no alignment, so launchers embed artifacts in it:
///
/// ```
/// use npu_runtime::{Aligned, Artifact};
///
/// static OBJECT: &Aligned<[u8]> = &Aligned(*b"of include_bytes! as a rule");
/// let artifact = Artifact::embedded(OBJECT);
/// assert_eq!(OBJECT.as_ptr() as usize % 64, 0);
/// ```
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Aligned<T: ?Sized>(pub T);

impl<T: ?Sized> Deref for Aligned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl Artifact {
    /// Bytes that are part of the host binary, as a rule in an [`Aligned`].
    #[must_use]
    pub const fn embedded(bytes: &'static [u8]) -> Self {
        Self::Embedded(bytes)
    }

    /// A file whose content is compared with `sha256` before any of it is used.
    #[must_use]
    pub fn file(path: impl Into<PathBuf>, sha256: [u8; 32]) -> Self {
        Self::File {
            path: path.into(),
            sha256,
        }
    }

    /// Bytes in memory.
    #[must_use]
    pub fn bytes(bytes: Vec<u8>) -> Self {
        Self::Bytes(bytes.into())
    }

    /// The digest of its content, as far as that is known without reading it.
    pub(crate) fn promised(&self) -> Option<&[u8; 32]> {
        match self {
            Self::File { sha256, .. } => Some(sha256),
            _ => None,
        }
    }

    /// Its content and that content's SHA-256, which is the promised one.
    pub(crate) fn read(&self) -> Result<(Cow<'_, [u8]>, [u8; 32]), Error> {
        let bytes = match self {
            Self::Embedded(bytes) => Cow::Borrowed(*bytes),
            Self::Bytes(bytes) => Cow::Borrowed(&**bytes),
            Self::File { path, .. } => match std::fs::read(path) {
                Ok(bytes) => Cow::Owned(bytes),
                Err(source) => {
                    let path = path.clone();
                    return Err(Error::ReadArtifact { path, source });
                }
            },
        };
        let digest: [u8; 32] = Sha256::digest(&bytes).into();
        match self {
            Self::File { path, sha256 } if digest != *sha256 => Err(Error::Digest {
                path: path.clone(),
                digests: Box::new([*sha256, digest]),
            }),
            _ => Ok((bytes, digest)),
        }
    }
}

/// Where it is and how large, as errors name it.
impl fmt::Display for Artifact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Embedded(bytes) => write!(f, "embedded artifact of {} bytes", bytes.len()),
            Self::File { path, .. } => write!(f, "{}", path.display()),
            Self::Bytes(bytes) => write!(f, "artifact of {} bytes in memory", bytes.len()),
        }
    }
}

impl fmt::Debug for Artifact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Artifact({self})")
    }
}
