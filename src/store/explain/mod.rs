//! Why a step's outputs are not in the cache: which entry of the same kernel comes nearest, and in
//! what it differs, field by field.
//!
//! Nothing here decides anything: a wrong explanation is a nuisance, never a wrong artifact.

mod difference;

use std::collections::HashSet;

use super::cache::{Cache, Store};
use super::files::{now, read_regular};
use super::history;
use super::layer::Lookup;
use super::manifest::{MANIFEST_LIMIT, Manifest};
use super::types::{Cause, Difference, Explanation, Miss, Nearest};
use crate::digest::Digest;
use crate::step::{Keyed, Step};

/// With as many of the last entries a step is compared.
const CANDIDATES: usize = 8;
/// As many differences are named in one line.
const NAMED: usize = 3;

impl Store {
    /// Says whether the outputs of `step` are in the cache, and if not, why. Builds nothing.
    #[must_use]
    pub fn explain(&self, step: &Keyed) -> Explanation {
        let (step, key) = (step.step(), *step.key());
        let (mut hit, mut miss, mut nearest) = (None, None, None);
        match self
            .cache
            .as_ref()
            .map(|cache| (cache, cache.own.lookup(&key, step)))
        {
            None => miss = Some(Miss::new(Cause::Asked, "there is no cache")),
            Some((_, Lookup::Hit(result))) => hit = Some(result),
            Some((_, Lookup::Damaged(fault))) => {
                miss = Some(Miss::new(Cause::Damaged, fault.reason));
            }
            Some((cache, Lookup::Absent)) => {
                let (reason, entry) = absent(cache, step, &key);
                (miss, nearest) = (Some(reason), entry);
            }
        }
        Explanation {
            kind: step.kind,
            subject: step.subject.clone(),
            target: step.target,
            key,
            hit,
            miss,
            nearest,
        }
    }
}

/// Why there is no entry of `key`.
pub(super) fn absent(cache: &Cache, step: &Step, key: &Digest) -> (Miss, Option<Nearest>) {
    let known = history::of(cache.layout(), step);
    if let Some(same) = known.iter().rev().find(|known| known.key == *key) {
        let made = ago(same.created);
        let reason = format!("it was made {made} and has been deleted since");
        return (Miss::new(Cause::Deleted, reason), None);
    }
    let mut seen = HashSet::new();
    let keys = known.iter().rev().map(|known| known.key);
    let candidates = keys.filter(|key| seen.insert(*key)).take(CANDIDATES);
    let compared = candidates.filter_map(|key| compared(cache, step, key));
    // Of equals the newest counts.
    let nearest = compared.min_by_key(|nearest| {
        let items = nearest
            .differences
            .iter()
            .map(|difference| difference.items);
        (nearest.differences.len(), items.sum::<usize>())
    });
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

/// In what `step` differs from the entry of `key`, if that can be read and it does.
fn compared(cache: &Cache, step: &Step, key: Digest) -> Option<Nearest> {
    let bytes = read_regular(&cache.layout().manifest(&key), MANIFEST_LIMIT).ok()?;
    let manifest = Manifest::parse(&bytes).ok()?;
    let differences = difference::between(&manifest.record, step);
    (!differences.is_empty()).then_some(Nearest {
        key,
        created: manifest.head.created,
        differences,
    })
}

fn summary(differences: &[Difference]) -> Miss {
    let cause = differences.first().map_or(Cause::New, |first| first.cause);
    let named = differences.iter().take(NAMED);
    let mut named: Vec<_> = named.map(|difference| difference.text.clone()).collect();
    if let Some(more @ 1..) = differences.len().checked_sub(NAMED) {
        named.push(format!("{more} more differences"));
    }
    Miss::new(cause, named.join("; "))
}

/// How long ago that was, in the largest unit that fits.
#[must_use]
pub fn ago(then: u64) -> String {
    match now().saturating_sub(then) {
        0..60 => "just now".into(),
        seconds @ 60..7200 => format!("{} min ago", seconds / 60),
        seconds @ 7200..172_800 => format!("{} h ago", seconds / 3600),
        seconds => format!("{} d ago", seconds / 86_400),
    }
}
