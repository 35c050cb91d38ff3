//! Leftovers: what dead processes and damage leave in a cache, and nobody needs.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::super::files::{children, is_older};
use super::super::layout::Layout;
use super::super::staging::abandoned;

const HOUR: Duration = Duration::from_secs(60 * 60);
/// How long entries are kept that did not verify, for somebody to look at.
const QUARANTINE: Duration = HOUR.saturating_mul(7 * 24);
/// How long the logs of failures are kept, and what is known of kernels that are not built any more.
const FORGOTTEN: Duration = HOUR.saturating_mul(90 * 24);
/// Files that a dead process did not come to rename are not this old while it lives.
const UNFINISHED: Duration = HOUR;

/// What is no entry and of no use any more, of `orphans` among the entries and elsewhere.
pub(super) fn leftovers(layout: &Layout, orphans: &[PathBuf]) -> Vec<PathBuf> {
    let kernels = children(&layout.kernels).into_iter();
    let kernels = kernels.flat_map(|shard| children(&shard)).collect();
    let mut leftovers = abandoned(&layout.work);
    for (paths, age) in [
        (orphans.to_vec(), UNFINISHED),
        (children(&layout.quarantine), QUARANTINE),
        (children(&layout.failures), FORGOTTEN),
        (kernels, FORGOTTEN),
        (children(&layout.tools), Duration::MAX),
        (children(&layout.statistics), Duration::MAX),
    ] {
        leftovers.extend(
            paths
                .into_iter()
                .filter(|path| is_older(path, if is_unfinished(path) { UNFINISHED } else { age })),
        );
    }
    leftovers
}

/// Whether a file was to be renamed into another's place.
fn is_unfinished(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    name.as_encoded_bytes().starts_with(b".tmp")
}
