//! Which entries each kernel has had, so that a miss finds what to compare with at once, however
//! large the cache is. Hints and nothing more: what is lost costs a poorer explanation.

use std::io;

use serde::{Deserialize, Serialize};

use super::files::{check_directory, create_directory, read_regular, replace};
use super::layout::Layout;
use super::types::Sharing;
use crate::digest::Digest;
use crate::step::{Kind, Step};

/// How many entries of a kernel are known.
const KEPT: usize = 64;
/// A larger file is not one of ours.
const MAX_BYTES: u64 = 64 << 10;

/// An entry that was once there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Known {
    step: String,
    pub(super) key: Digest,
    /// In seconds since 1970.
    pub(super) created: u64,
}

/// Notes an entry of `step` that has just been made. What somebody else notes meanwhile may be lost.
pub(super) fn note(
    layout: &Layout,
    sharing: Sharing,
    step: &Step,
    key: Digest,
    created: u64,
) -> io::Result<()> {
    let path = path(layout, step);
    create_directory(path.parent().unwrap_or(&layout.root), sharing)?;
    let mut known = read(layout, step);
    known.push(Known {
        step: step.kind.name().to_owned(),
        key,
        created,
    });
    known.drain(..known.len().saturating_sub(KEPT));
    replace(&path, sharing, &serde_json::to_vec(&known)?)
}

/// The entries that a step of this kind has had for this kernel, oldest first.
pub(super) fn of(layout: &Layout, step: &Step) -> Vec<Known> {
    let mut known = read(layout, step);
    known.retain(|known| known.step == step.kind.name());
    known
}

fn read(layout: &Layout, step: &Step) -> Vec<Known> {
    let path = path(layout, step);
    let bytes = check_directory(&layout.kernels)
        .and_then(|()| check_directory(path.parent().unwrap_or(&layout.root)))
        .and_then(|()| read_regular(&path, MAX_BYTES));
    let known = bytes
        .ok()
        .and_then(|bytes| serde_json::from_slice(&bytes).ok());
    known.unwrap_or_default()
}

/// What is lowered is the same for every target, whichever was the first to ask for it.
fn path(layout: &Layout, step: &Step) -> std::path::PathBuf {
    let is_shared = step.kind == Kind::Lower;
    layout.kernel(&step.subject, if is_shared { "" } else { step.target })
}
