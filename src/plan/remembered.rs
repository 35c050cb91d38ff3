//! The plans that a session has made, for the next build of the same kernel.
//!
//! A plan is a pure function of the request, the file's bytes and the toolchain. It is used again
//! only where all three are equal: the file is read and the tools are looked at on every build.

use std::sync::{Arc, Mutex, PoisonError};

use super::{Prepared, Request};
use crate::digest::Digest;
use crate::step::Keyed;
use crate::store::Artifact;
use crate::toolchain::Llvm;

/// The plan of a kernel with a larger source is not kept.
pub(super) const MAX_SOURCE: usize = 1 << 20;

/// All that is known of a build before the cache is looked at.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) request: Request,
    pub(super) source: Vec<u8>,
    pub(super) tools: Arc<Llvm>,
    pub(super) prepared: Prepared,
    pub(super) compile: Keyed,
    pub(super) launcher: LauncherOf,
}

/// The launcher step of the artifacts that were last compiled by a plan.
#[derive(Debug, Default)]
pub(super) struct LauncherOf(Mutex<Option<(Vec<Digest>, Arc<Keyed>)>>);

impl LauncherOf {
    /// The step for these artifacts: the known one, or what `plan` gives.
    pub(super) fn get_or_plan<E>(
        &self,
        artifacts: &[Artifact],
        plan: impl FnOnce() -> Result<Keyed, E>,
    ) -> Result<Arc<Keyed>, E> {
        let digests = || artifacts.iter().map(|artifact| artifact.digest);
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, step)) = &*known
            && known.iter().copied().eq(digests())
        {
            return Ok(Arc::clone(step));
        }
        let step = Arc::new(plan()?);
        *known = Some((digests().collect(), Arc::clone(&step)));
        Ok(step)
    }
}
