//! The plans that a session has made, for the next build of the same kernel.
//!
//! A plan is a pure function of the request, the file's bytes, the other files and the toolchain. It
//! is used again only where all of them are equal: they are looked at on every build.

use std::sync::{Arc, Mutex, PoisonError};

use super::{BuildError, BuiltKernel, Prepared, Request, cpu, npu};
use crate::digest::Digest;
use crate::step::{Keyed, Step};
use crate::store::{Observer, StepResult};

/// The plan of a kernel with a larger source is not kept.
pub(super) const MAX_SOURCE: usize = 1 << 20;

/// All that is known of a build before the cache is looked at.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) request: Request,
    pub(super) source: Vec<u8>,
    pub(super) prepared: Prepared,
    pub(super) route: Route,
    pub(super) launcher: Planned,
}

/// The way to the artifact.
#[derive(Debug)]
pub(super) enum Route {
    Cpu(Box<cpu::Route>),
    Npu(Box<npu::Route>),
}

impl Plan {
    /// The step that comes after those that are done; `None` after the last. The launcher, which
    /// variants share, is not among them.
    pub(super) fn next(&self, done: &[StepResult]) -> Result<Option<Arc<Keyed>>, BuildError> {
        match &self.route {
            Route::Cpu(cpu) => Ok(cpu.next(done)),
            Route::Npu(npu) => npu.next(done),
        }
    }

    /// The kernels that its steps have made.
    pub(super) fn kernels(&self, done: &[StepResult], observe: Observer<'_>) -> Vec<BuiltKernel> {
        match &self.route {
            Route::Cpu(cpu) => cpu.kernels(&self.prepared, done),
            Route::Npu(npu) => npu.kernels(done, observe),
        }
    }
}

/// A step that depends on what earlier ones made: the one for the artifacts that were last there.
#[derive(Debug, Default)]
pub(super) struct Planned(Mutex<Option<(Vec<Digest>, Arc<Keyed>)>>);

impl Planned {
    /// The step for these artifacts: the known one, or what `plan` gives.
    pub(super) fn get_or_plan<E>(
        &self,
        artifacts: impl Iterator<Item = Digest> + Clone,
        plan: impl FnOnce() -> Result<Step, E>,
    ) -> Result<Arc<Keyed>, E> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, step)) = &*known
            && known.iter().copied().eq(artifacts.clone())
        {
            return Ok(Arc::clone(step));
        }
        let step = Arc::new(Keyed::from(plan()?));
        *known = Some((artifacts.collect(), Arc::clone(&step)));
        Ok(step)
    }
}
