//! The cache directory of this process: opening it, and what everything else asks of it.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::layer::{CacheLayer, Lookup};
use super::layout::Layout;
use super::stats::Statistics;
use super::trust;
use super::types::{Collected, Event, Observer, OpenError, Sharing};
use crate::digest::Digest;
use crate::step::Step;

/// A cache directory that has been checked, or the decision to do without one.
#[derive(Debug)]
pub struct Store {
    pub(super) cache: Option<Cache>,
}

#[derive(Debug)]
pub(super) struct Cache {
    pub(super) own: CacheLayer,
    /// Whether nothing can be written.
    pub(super) is_read_only: bool,
    /// Not of a cache that can't be written, or is gone with this process.
    pub(super) statistics: Option<Statistics>,
}

impl Store {
    /// Opens the cache directory `root`, and makes it if there is none. Where it can only be read,
    /// hits are served and builds are not kept.
    ///
    /// # Errors
    /// When there is something else in its place, or others than `sharing` allows can write it.
    pub fn open(root: &Path, sharing: Sharing, observe: Observer<'_>) -> Result<Self, OpenError> {
        let layout = Layout::new(root.to_owned());
        let obstacle = trust::open(&layout, sharing)?;
        if let Some(error) = &obstacle {
            observe(unwritable(&layout, error));
        }
        Ok(Self::of(layout, sharing, obstacle.is_some()))
    }

    /// Opens the cache directory `root` if there is one; makes nothing.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open_existing(root: &Path, sharing: Sharing) -> Result<Option<Self>, OpenError> {
        let layout = Layout::new(root.to_owned());
        let is_there = trust::open_existing(&layout, sharing)?;
        Ok(is_there.then(|| Self::of(layout, sharing, false)))
    }

    /// A new cache in the system's temporary directory; it lives as long as the store and the
    /// artifacts from it.
    ///
    /// # Errors
    /// When nothing can be written there.
    pub fn temporary() -> io::Result<Self> {
        let directory = tempfile::Builder::new().prefix("npu-build-").tempdir()?;
        let layout = Layout::new(directory.path().to_owned());
        trust::populate(&layout, Sharing::Private)?;
        let mut own = CacheLayer::new(layout, Sharing::Private);
        own.temporary = Some(Arc::new(directory.into()));
        let cache = Cache {
            own,
            is_read_only: false,
            statistics: None,
        };
        Ok(Self { cache: Some(cache) })
    }

    /// A store that keeps nothing.
    #[must_use]
    pub const fn disabled() -> Self {
        Self { cache: None }
    }

    fn of(layout: Layout, sharing: Sharing, is_read_only: bool) -> Self {
        let statistics = Statistics::new(layout.statistics(), sharing);
        let cache = Cache {
            statistics: (!is_read_only).then_some(statistics),
            own: CacheLayer::new(layout, sharing),
            is_read_only,
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
    pub fn statistics(&self) -> Collected {
        let Some(cache) = &self.cache else {
            return Collected::default();
        };
        match &cache.statistics {
            Some(statistics) => statistics.collect(),
            // They can be read all the same.
            None => Statistics::new(cache.layout().statistics(), cache.sharing()).collect(),
        }
    }

    /// Begins to count anew. Gives what was counted.
    ///
    /// # Errors
    /// When the cache can't be written.
    pub fn reset_statistics(&self) -> io::Result<Collected> {
        let cache = self.cache.as_ref();
        match cache.and_then(|cache| cache.statistics.as_ref()) {
            Some(statistics) => statistics.reset(),
            None => Err(ErrorKind::ReadOnlyFilesystem.into()),
        }
    }
}

impl Cache {
    pub(super) fn layout(&self) -> &Layout {
        &self.own.layout
    }

    pub(super) fn sharing(&self) -> Sharing {
        self.own.sharing
    }

    pub(super) fn lookup(&self, key: &Digest, step: &Step) -> Lookup {
        self.own.lookup(key, step)
    }
}

pub(super) fn unwritable(layout: &Layout, error: &io::Error) -> Event<'static> {
    Event::Warning(format!(
        "can't write the cache {}: {error}; what is built now is not kept",
        layout.root().display()
    ))
}
