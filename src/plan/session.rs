//! What builds share: the cache, the toolchain, the runner of tools.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::BuildError;
use super::remembered::Plan;
use crate::config::{CachePlace, Settings};
use crate::interrupt::Interrupt;
use crate::recent::Recent;
use crate::step::execute::ExecuteError;
use crate::step::run::Runner;
use crate::step::{self, Keyed};
use crate::store::layout::Layout;
use crate::store::{EnsureError, Event, Observer, OpenError, StepResult, Store};
use crate::toolchain::{AieTools, Candidate, Llvm, Memo, Probe, XrtSdk};

/// What several builds share.
#[derive(Debug)]
pub struct Session {
    pub(super) store: Store,
    pub(super) settings: Settings,
    pub(super) runner: Runner,
    memo: Mutex<Memo>,
    pub(super) plans: Recent<PathBuf, Plan>,
}

impl Session {
    /// Opens the cache that `settings` names. `interrupt` ends the tools early.
    ///
    /// # Errors
    /// When the cache directory can't be trusted, or something else is in its place.
    pub fn new(
        settings: Settings,
        interrupt: Interrupt,
        observe: Observer<'_>,
    ) -> Result<Self, BuildError> {
        let store = match &settings.cache {
            CachePlace::Disabled => Store::disabled(),
            CachePlace::Directory(root) => match Store::open(root, settings.sharing) {
                // Nobody chose the place: a home that is closed to us is as good as none.
                Err(error @ OpenError::Io { .. }) if settings.cache_is_default => {
                    not_kept(&error.to_string(), observe)
                }
                opened => opened?,
            },
            CachePlace::Unknown => not_kept(
                "neither NPU_BUILD_CACHE_DIR, XDG_CACHE_HOME nor HOME is set",
                observe,
            ),
        };
        let store = store.with_layers(&settings.cache_layers, observe)?;
        let tools = store.layout().and_then(Layout::trusted_tools);
        let memo = Memo::load(tools.as_deref());
        Ok(Self {
            runner: Runner {
                timeout: settings.timeout,
                interrupt,
            },
            memo: Mutex::new(memo),
            plans: Recent::default(),
            store,
            settings,
        })
    }

    /// The settings that the session was opened with.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// What ends the session's work early.
    #[must_use]
    pub fn interrupt(&self) -> &Interrupt {
        &self.runner.interrupt
    }

    /// The cache.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The MLIR/LLVM installation that the settings lead to.
    ///
    /// # Errors
    /// Every candidate with the reason why it won't do.
    pub fn llvm(&self) -> Result<Arc<Llvm>, BuildError> {
        let mut memo = self.memo.lock().unwrap_or_else(PoisonError::into_inner);
        let found = Llvm::discover(&self.settings.llvm, &mut memo, &self.probe());
        memo.save();
        Ok(self.unless_interrupted(found)??)
    }

    /// The AIE toolchain that the settings lead to, as far as it is there.
    ///
    /// # Errors
    /// When the session was interrupted meanwhile.
    pub fn aie_tools(&self) -> Result<Arc<AieTools>, BuildError> {
        let mut memo = self.memo.lock().unwrap_or_else(PoisonError::into_inner);
        let found = AieTools::discover(&self.settings.aie, &mut memo, &self.probe());
        memo.save();
        self.unless_interrupted(found)
    }

    /// The library through which launchers drive XRT, for the XRT that the settings lead to.
    ///
    /// # Errors
    /// When there is no XRT with development files, no compiler, or it fails.
    pub fn shim(&self, refresh: bool, observe: Observer<'_>) -> Result<StepResult, BuildError> {
        let sdk = {
            let mut memo = self.memo.lock().unwrap_or_else(PoisonError::into_inner);
            let found = XrtSdk::discover(&self.settings.xrt, &mut memo, &self.probe());
            memo.save();
            self.unless_interrupted(found)??
        };
        let step = Keyed::from(step::shim::shim(&sdk));
        Ok((self.store).ensure(&step, refresh, &self.runner, observe)?)
    }

    fn unless_interrupted<T>(&self, found: T) -> Result<T, BuildError> {
        if self.interrupt().is_raised() {
            return Err(EnsureError::from(ExecuteError::Interrupted).into());
        }
        Ok(found)
    }

    /// Every place where an MLIR/LLVM installation was looked for, and what is there.
    pub fn llvm_candidates(&self) -> Vec<Candidate> {
        let mut memo = self.memo.lock().unwrap_or_else(PoisonError::into_inner);
        let candidates = Llvm::candidates(&self.settings.llvm, &mut memo, &self.probe());
        memo.save();
        candidates
    }

    /// How tools are asked about themselves.
    fn probe(&self) -> impl Probe {
        |program: &Path, arguments: &[&str]| self.runner.probe(program, arguments)
    }
}

/// No cache, and why.
fn not_kept(reason: &str, observe: Observer<'_>) -> Store {
    observe(Event::Warning(format!(
        "{reason}: what is built now is not kept for the next run"
    )));
    Store::disabled()
}
