//! Loaded kernels. What every runtime has in common, the check of the arguments, is done here;
//! the rest is behind [`Backend`].

use crate::device;
use crate::plan::Plan;
use crate::{Arg, Artifact, Device, Error, Grid, Signature, cpu};
use std::fmt;
use std::sync::Arc;

/// A kernel that is loaded and can be launched: a cheap handle that may be cloned, shared between
/// threads, and launched from several of them at once.
///
/// What was loaded stays loaded until the process ends, and the same content is loaded once,
/// however many kernels are made of it.
#[derive(Clone)]
pub struct Kernel {
    shared: Arc<Shared>,
}

struct Shared {
    device: Device,
    plan: Plan,
    backend: Backend,
}

/// The runtimes' own kernels.
enum Backend {
    Cpu(cpu::Kernel),
}

impl Kernel {
    /// Loads a kernel from its artifact.
    ///
    /// # Errors
    /// If the artifact can't be read, does not have the promised digest, is not for this machine,
    /// is refused by the system's loader, or does not belong to `signature`.
    pub fn load(device: &Device, artifact: &Artifact, signature: Signature) -> Result<Self, Error> {
        let plan = Plan::new(signature);
        let backend = match &device.backend {
            device::Backend::Cpu(cpu) => Backend::Cpu(cpu::Kernel::load(cpu, artifact, &plan)?),
        };
        let shared = Shared {
            device: device.clone(),
            plan,
            backend,
        };
        Ok(Self {
            shared: Arc::new(shared),
        })
    }

    /// Runs the kernel over `grid` and returns when all of it is done. Kernels without a grid
    /// take [`Grid::ONE`]; a grid with a zero in it runs nothing.
    ///
    /// # Errors
    /// [`Error::ArgumentCount`], [`Error::Argument`] or [`Error::Grid`] if the launch does not
    /// fit the signature: nothing has run then. [`Error::KernelMemory`] if memory ran out.
    pub fn launch(&self, grid: Grid, args: &mut [Arg<'_>]) -> Result<(), Error> {
        let shared = &*self.shared;
        let programs = shared.plan.programs(grid)?;
        shared.plan.check(args)?;
        if programs == 0 {
            return Ok(());
        }
        match &shared.backend {
            Backend::Cpu(kernel) => kernel.launch(&shared.plan, grid, programs, args),
        }
    }

    /// What the kernel takes.
    #[must_use]
    pub fn signature(&self) -> &Signature {
        self.shared.plan.signature()
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kernel")
            .field("name", &self.signature().name)
            .field("device", &self.shared.device)
            .finish_non_exhaustive()
    }
}
