//! Why an entry can't be used.

use std::fmt;
use std::io::{self, ErrorKind};

/// What is wrong with an entry, or what the system did not let us read of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// In words.
    pub reason: String,
}

impl Fault {
    pub(super) fn new(reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self { reason }
    }

    /// What came of reading a part of the entry.
    pub(super) fn reading(part: &str, error: &io::Error) -> Self {
        match error.kind() {
            ErrorKind::NotFound => Self::new(format!("{part} is missing")),
            _ => Self::new(format!("{part}: {error}")),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "does not verify ({})", self.reason)
    }
}
