//! Which entries each kernel has had, so that a miss finds what to compare with at once, however
//! large the cache is. Hints and nothing more: what is lost costs a poorer explanation, and
//! [`rebuild`] makes it again from the manifests.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::super::layout::Layout;
use super::super::manifest::Summary;
use super::super::open::{self, UNTRICKED};
use super::super::{Sharing, entry};
use crate::digest::Digest;
use crate::step::{Kind, Step};

/// A longer file is cut to its last lines.
const LONG: u64 = 16 << 10;
/// How many lines are left then.
const KEPT: usize = 64;
/// A line that does not end so was cut short.
const MARK: &str = " .";

/// An entry that was once there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) key: Digest,
    /// In seconds since 1970.
    pub(super) created: u64,
}

/// Notes an entry of `step` that has just been made.
pub(in super::super) fn add(
    layout: &Layout,
    sharing: Sharing,
    step: &Step,
    key: &Digest,
    created: u64,
) -> io::Result<()> {
    let path = path(layout, step.kind.name(), &step.subject, step.target);
    let length = append(&path, sharing, &line(step.kind.name(), key, created))?;
    if length > LONG {
        shorten(&path, sharing)?;
    }
    Ok(())
}

/// The entries that a step of this kind has had for this kernel, oldest first.
pub(super) fn known(layout: &Layout, step: &Step) -> Vec<Known> {
    let path = path(layout, step.kind.name(), &step.subject, step.target);
    let shard = path.parent().unwrap_or(Path::new("."));
    if open::check_real(&layout.kernels())
        .and_then(|()| open::check_real(shard))
        .is_err()
    {
        return Vec::new();
    }
    let bytes = entry::read_regular(&path, 4 * LONG).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let known = text.lines().filter_map(|line| {
        let mut fields = line.strip_suffix(MARK)?.split(' ');
        let mut next = || fields.next();
        if next()? != step.kind.name() {
            return None;
        }
        Some(Known {
            key: next()?.parse().ok()?,
            created: next()?.parse().ok()?,
        })
    });
    known.collect()
}

/// Whether there is no index at all.
pub(in super::super) fn is_lost(layout: &Layout) -> bool {
    let shards = std::fs::read_dir(layout.kernels());
    shards.map_or(true, |mut shards| shards.next().is_none())
}

/// Makes the index from what the entries say of themselves.
pub(in super::super) fn rebuild(
    layout: &Layout,
    sharing: Sharing,
    entries: impl Iterator<Item = (Digest, Summary)>,
) -> io::Result<()> {
    let mut texts: HashMap<PathBuf, Vec<(u64, String)>> = HashMap::new();
    for (key, summary) in entries {
        let path = path(layout, &summary.step, &summary.kernel, &summary.target);
        let line = line(&summary.step, &key, summary.created);
        texts.entry(path).or_default().push((summary.created, line));
    }
    open::create(&layout.kernels(), sharing)?;
    for (path, mut lines) in texts {
        lines.sort_unstable();
        let surplus = lines.len().saturating_sub(KEPT);
        let lines = lines.into_iter().skip(surplus).map(|(_, line)| line);
        replace(&path, sharing, &lines.collect::<String>())?;
    }
    Ok(())
}

/// What is lowered is the same for every target, whichever was the first to ask for it.
fn path(layout: &Layout, kind: &str, subject: &str, target: &str) -> PathBuf {
    let is_shared = kind == Kind::Lower.name();
    layout.kernel(subject, if is_shared { "" } else { target })
}

fn line(kind: &str, key: &Digest, created: u64) -> String {
    format!("\n{kind} {key} {created}{MARK}")
}

fn append(path: &Path, sharing: Sharing, text: &str) -> io::Result<u64> {
    open::create(path.parent().unwrap_or(Path::new(".")), sharing)?;
    let mut file = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(UNTRICKED)
        .open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.nlink() != 1 {
        // It has another name, perhaps outside the cache.
        return Err(ErrorKind::InvalidData.into());
    }
    open::share_file(&file, sharing);
    file.write_all(text.as_bytes())?;
    Ok(metadata.len())
}

/// A line that somebody adds meanwhile is lost, which is no harm.
fn shorten(path: &Path, sharing: Sharing) -> io::Result<()> {
    let bytes = entry::read_regular(path, 4 * LONG).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<_> = text.lines().filter(|line| line.ends_with(MARK)).collect();
    let last = lines.iter().skip(lines.len().saturating_sub(KEPT));
    replace(
        path,
        sharing,
        &last.map(|line| format!("\n{line}")).collect::<String>(),
    )
}

fn replace(path: &Path, sharing: Sharing, text: &str) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("."));
    open::create(directory, sharing)?;
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    file.write_all(text.as_bytes())?;
    open::share_file(file.as_file(), sharing);
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}
