//! Why a step's outputs are not in the cache: which entry of the same kernel comes nearest, and in
//! what it differs, field by field.
//!
//! Nothing here decides anything: a wrong explanation is a nuisance, never a wrong artifact.

mod difference;
mod index;
mod lines;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub use difference::Difference;
pub(super) use index::{add, is_lost, rebuild};
pub use lines::Lines;

use super::entry::{self, Artifact, Lookup};
use super::layout::{Layout, MANIFEST};
use super::manifest::Manifest;
use super::stats::{Cause, Miss};
use super::{Cache, Ensured, Outcome, Store};
use crate::digest::Digest;
use crate::step::{Keyed, Kind, Step};

/// With as many of the last entries a step is compared.
const CANDIDATES: usize = 8;
/// As many differences are told in one line.
const TOLD: usize = 3;

/// What the cache has for a step, and why not if it has nothing.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// The kind of step.
    pub kind: Kind,
    /// The kernel.
    pub subject: String,
    /// The target that the step is made for.
    pub target: &'static str,
    /// The step's key.
    pub key: Digest,
    /// What there is.
    pub artifacts: Vec<Artifact>,
    /// Why there is nothing; `None` is a hit.
    pub miss: Option<Miss>,
    /// The entry with the fewest differences, if there is one of the same kernel.
    pub nearest: Option<Nearest>,
}

/// An earlier entry of the same kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nearest {
    /// Its key.
    pub key: Digest,
    /// When it was made, in seconds since 1970.
    pub created: u64,
    /// In what the step differs from it, what explains most first.
    pub differences: Vec<Difference>,
}

impl Explanation {
    /// The step's outputs, if it is a hit.
    #[must_use]
    pub fn ensured(&self) -> Option<Ensured> {
        self.miss.is_none().then(|| Ensured {
            kind: self.kind,
            target: self.target,
            key: self.key,
            outcome: Outcome::Hit,
            miss: None,
            artifacts: self.artifacts.clone(),
            elapsed: Duration::ZERO,
        })
    }
}

impl Store {
    /// Says whether the outputs of `step` are in the cache, and if not, why. Builds nothing.
    #[must_use]
    pub fn explain(&self, step: &Keyed) -> Explanation {
        let (step, key) = (step.step(), *step.key());
        let mut explanation = Explanation {
            kind: step.kind,
            subject: step.subject.clone(),
            target: step.target,
            key,
            artifacts: Vec::new(),
            miss: None,
            nearest: None,
        };
        let Some(cache) = &self.cache else {
            explanation.miss = Some(Miss::new(Cause::Asked, "there is no cache"));
            return explanation;
        };
        match cache.lookup(&key, step) {
            Lookup::Hit(found) => explanation.artifacts = cache.lend(found.artifacts),
            Lookup::Damaged(fault) => {
                explanation.miss = Some(Miss::new(Cause::Damaged, fault.reason))
            }
            Lookup::Absent => {
                if index::is_lost(cache.layout()) {
                    // Who asks has the time, and a cache that can't be written stays as it is.
                    let _ = rebuild(cache.layout(), cache.sharing(), cache.summaries());
                }
                let (miss, nearest) = absent(cache, step, &key);
                explanation.miss = Some(miss);
                explanation.nearest = nearest;
            }
        }
        explanation
    }
}

/// Why there is no entry of `key`.
pub(super) fn absent(cache: &Cache, step: &Step, key: &Digest) -> (Miss, Option<Nearest>) {
    let known = index::known(cache.layout(), step);
    if let Some(same) = known.iter().rev().find(|known| known.key == *key) {
        let reason = format!(
            "it was made {} and has been deleted since",
            ago(same.created)
        );
        return (Miss::new(Cause::Deleted, reason), None);
    }
    let mut keys: Vec<_> = known.iter().rev().map(|known| known.key).collect();
    let mut seen = std::collections::HashSet::new();
    keys.retain(|key| seen.insert(*key));
    let mut nearest: Option<Nearest> = None;
    for key in keys.into_iter().take(CANDIDATES) {
        let Some(manifest) = manifest_of(cache.layout(), &key) else {
            continue;
        };
        let differences = difference::between(&manifest, step);
        let distance = |differences: &[Difference]| {
            let items: usize = differences.iter().map(|difference| difference.items).sum();
            (differences.len(), items)
        };
        let is_nearer = nearest
            .as_ref()
            .is_none_or(|nearest| distance(&differences) < distance(&nearest.differences));
        if is_nearer && !differences.is_empty() {
            nearest = Some(Nearest {
                key,
                created: manifest.record.created,
                differences,
            });
        }
    }
    let miss = match &nearest {
        Some(nearest) => summary(&nearest.differences),
        None if known.is_empty() => Miss::new(
            Cause::New,
            format!("this cache knows no earlier {} step of it", step.kind),
        ),
        None => Miss::new(Cause::New, "its earlier builds have been deleted"),
    };
    (miss, nearest)
}

fn summary(differences: &[Difference]) -> Miss {
    let cause = differences
        .first()
        .map_or(Cause::New, |difference| difference.cause);
    let mut told: Vec<_> = differences
        .iter()
        .take(TOLD)
        .map(|difference| difference.text.clone())
        .collect();
    if let Some(more @ 1..) = differences.len().checked_sub(TOLD) {
        told.push(format!("{more} more differences"));
    }
    Miss::new(cause, told.join("; "))
}

fn manifest_of(layout: &Layout, key: &Digest) -> Option<Manifest> {
    let path = layout.entry(key).join(MANIFEST);
    Manifest::parse(&entry::read_manifest(&path).ok()?).ok()
}

/// How long ago that was, in the largest unit that fits.
#[must_use]
pub fn ago(then: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let seconds = now.unwrap_or(Duration::ZERO).as_secs().saturating_sub(then);
    match seconds {
        0..60 => "just now".into(),
        60..7200 => format!("{} min ago", seconds / 60),
        7200..172_800 => format!("{} h ago", seconds / 3600),
        _ => format!("{} d ago", seconds / 86_400),
    }
}
