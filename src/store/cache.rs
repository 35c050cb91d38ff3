//! The cache directory of this process: opening it, and what everything else asks of it.

use std::io;
use std::path::{Path, PathBuf};

use super::layer::CacheLayer;
use super::layout::Layout;
use super::stats::Statistics;
use super::trust;
use super::types::{Event, Observer, OpenError, Sharing, Totals};

/// A cache directory that has been checked, or the decision to do without one.
#[derive(Debug)]
pub struct Store {
    pub(super) cache: Option<Cache>,
}

#[derive(Debug)]
pub(super) struct Cache {
    pub(super) own: CacheLayer,
    pub(super) statistics: Statistics,
}

impl Store {
    /// Opens the cache directory `root`, and makes it if there is none. Where it can only be read,
    /// hits are served and builds are not kept.
    ///
    /// # Errors
    /// When there is something else in its place, or others than `sharing` allows can write it.
    pub fn open(root: &Path, sharing: Sharing) -> Result<Self, OpenError> {
        let layout = Layout::new(root.to_owned());
        trust::open(&layout, sharing)?;
        Ok(Self::of(layout, sharing))
    }

    /// Opens the cache directory `root` if there is one; makes nothing.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open_existing(root: &Path, sharing: Sharing) -> Result<Option<Self>, OpenError> {
        let layout = Layout::new(root.to_owned());
        let is_there = trust::open_existing(&layout, sharing)?;
        Ok(is_there.then(|| Self::of(layout, sharing)))
    }

    /// A store that keeps nothing.
    #[must_use]
    pub const fn disabled() -> Self {
        Self { cache: None }
    }

    fn of(layout: Layout, sharing: Sharing) -> Self {
        let cache = Cache {
            statistics: Statistics::new(layout.statistics.clone(), sharing),
            own: CacheLayer::new(layout, sharing),
        };
        Self { cache: Some(cache) }
    }

    /// Looks up in the cache directories `layers` as well, in this order, what is not in its own. They
    /// are only read, whoever they belong to; one that is not there is left out, with a warning.
    ///
    /// # Errors
    /// When everybody can write one of them.
    pub fn with_layers(
        mut self,
        layers: &[PathBuf],
        observe: Observer<'_>,
    ) -> Result<Self, OpenError> {
        let Some(cache) = &mut self.cache else {
            return Ok(self);
        };
        for root in layers {
            let layout = Layout::new(root.clone());
            match trust::check_layer(&layout)? {
                None => cache.own.put_below(layout),
                Some(reason) => observe(Event::Warning(format!(
                    "nothing is looked up in the cache layer {}: {reason}",
                    root.display()
                ))),
            }
        }
        Ok(self)
    }

    /// The paths of the cache directory, if there is one.
    #[must_use]
    pub fn layout(&self) -> Option<&Layout> {
        self.cache.as_ref().map(Cache::layout)
    }

    /// Everything that was counted in this cache, by all processes.
    #[must_use]
    pub fn statistics(&self) -> Totals {
        let cache = self.cache.as_ref();
        cache.map_or_else(Totals::default, |cache| cache.statistics.collect())
    }

    /// Begins to count anew. Gives what was counted.
    ///
    /// # Errors
    /// When the cache can't be written.
    pub fn reset_statistics(&self) -> io::Result<Totals> {
        let cache = self.cache.as_ref();
        cache.map_or_else(|| Ok(Totals::default()), |cache| cache.statistics.reset())
    }
}

impl Cache {
    pub(super) fn layout(&self) -> &Layout {
        &self.own.layout
    }

    pub(super) fn sharing(&self) -> Sharing {
        self.own.sharing
    }
}
