//! Reads code objects as ROCR's AIE loader does, and refuses what it refuses. Written from the
//! descriptions of the formats, apart from npu-build's own readers.

mod bytes;
mod container;
mod full_elf;
mod section;

use crate::abi::Status;

pub use full_elf::{FullElf, Target};
pub use section::{Entry, Section};

/// A refusal: what the caller gets, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The status.
    pub status: Status,
    /// The reason, for those who debug a test.
    pub reason: String,
}

impl Refusal {
    /// A refusal with that status.
    pub fn new(status: Status, reason: impl Into<String>) -> Self {
        Self {
            status,
            reason: reason.into(),
        }
    }
}

impl From<Status> for Refusal {
    fn from(status: Status) -> Self {
        Self::new(status, "")
    }
}

/// An unloadable code object.
fn invalid(reason: impl Into<String>) -> Refusal {
    Refusal::new(Status::INVALID_CODE_OBJECT, reason)
}
