//! Why an entry can't be used.

use std::fmt;
use std::io::{self, ErrorKind};

use rustix::io::Errno;

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
