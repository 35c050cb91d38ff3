//! Loaded kernels. What every runtime has in common, the check of the arguments, is done here;
//! the rest is behind [`Backend`].

use crate::chain::Launch;
use crate::device;
use crate::plan::Plan;
use crate::{Arg, Device, Element, Error, Grid, Image, Signature, Variable, Variables};
use crate::{cpu, hsa, xrt};
use std::fmt;
use std::sync::Arc;

/// A kernel that is loaded and can be launched: a cheap handle that may be cloned, shared between
/// threads, and launched from several of them at once.
///
/// The same content is loaded once, however many kernels are made of it.
#[derive(Clone)]
pub struct Kernel {
    shared: Arc<Shared>,
}

struct Shared {
    plan: Plan,
    /// Goes before `device`.
    backend: Backend,
    device: Device,
}

/// The runtimes' own kernels.
pub(crate) enum Backend {
    Cpu(cpu::Kernel),
    Hsa(hsa::Kernel),
    Xrt(xrt::Kernel),
}

impl Kernel {
    /// Loads a kernel from the first of its `images` that runs on `device`.
    ///
    /// # Errors
    /// [`Error::NoImage`] if none does. Otherwise if an artifact can't be read, does not have the
    /// promised digest, is not for this machine, is refused by the system's or the runtime's
    /// loader, or does not belong to `signature`.
    pub fn load(device: &Device, images: &[Image], signature: Signature) -> Result<Self, Error> {
        Self::load_with(device, images, signature, &Variables::new())
    }

    /// As [`Kernel::load`], with variables for the kernel to use instead of its own.
    ///
    /// # Errors
    /// Those of [`Kernel::load`], and [`Error::Variable`] if the kernel has no variable of such a
    /// name or wants it larger.
    pub fn load_with(
        device: &Device,
        images: &[Image],
        signature: Signature,
        variables: &Variables,
    ) -> Result<Self, Error> {
        let image = Image::select(images, device, &signature)?;
        let plan = Plan::new(signature);
        let given = variables.given();
        let backend = match &device.backend {
            device::Backend::Cpu(cpu) => Backend::Cpu(cpu::Kernel::load(cpu, image, &plan)?),
            device::Backend::Hsa(hsa) => Backend::Hsa(hsa::Kernel::load(hsa, image, &plan, given)?),
            device::Backend::Xrt(xrt) => Backend::Xrt(xrt::Kernel::load(xrt, image, &plan)?),
        };
        let shared = Shared {
            plan,
            backend,
            device: device.clone(),
        };
        Ok(Self {
            shared: Arc::new(shared),
        })
    }

    /// Runs the kernel over `grid` and returns when all of it is done. Kernels without a grid
    /// take [`Grid::ONE`]; a grid with a zero in it runs nothing.
    ///
    /// # Errors
    /// [`Error::Unchecked`] if nothing that a launch checks keeps the kernel within its arguments
    /// ([`Signature::bounds`]); [`Error::ArgumentCount`], [`Error::Argument`] or [`Error::Grid`]
    /// if the launch does not fit the signature: nothing has run then. [`Error::KernelMemory`] if
    /// memory ran out, [`Error::Assertion`] if the kernel asserts what is false, and what a device
    /// reports.
    pub fn launch(&self, grid: Grid, args: &mut [Arg<'_>]) -> Result<(), Error> {
        self.shared.plan.check_safe()?;
        // SAFETY: the checks of a launch keep the kernel within its arguments.
        unsafe { self.launch_unchecked(grid, args) }
    }

    /// As [`Kernel::launch`], for kernels of any [`Bounds`](crate::Bounds). Arguments are checked
    /// against the signature and its extents all the same.
    ///
    /// # Safety
    /// With these arguments the kernel reads and writes nothing outside of them: each memory
    /// argument has as many elements as the kernel touches, whatever scalars, grid and the
    /// contents of the arguments make of that.
    ///
    /// # Errors
    /// Those of [`Kernel::launch`], but for [`Error::Unchecked`].
    pub unsafe fn launch_unchecked(&self, grid: Grid, args: &mut [Arg<'_>]) -> Result<(), Error> {
        match self.check(grid, args)? {
            0 => Ok(()),
            programs => self.run(grid, programs, args),
        }
    }

    /// Records a launch for a [`Chain`](crate::Chain).
    ///
    /// # Errors
    /// As those of [`Kernel::launch`] that come before anything has run.
    pub fn bind<'a>(&self, grid: Grid, args: impl Into<Vec<Arg<'a>>>) -> Result<Launch<'a>, Error> {
        self.shared.plan.check_safe()?;
        // SAFETY: the checks of a launch keep the kernel within its arguments.
        unsafe { self.bind_unchecked(grid, args) }
    }

    /// As [`Kernel::bind`], for kernels of any [`Bounds`](crate::Bounds).
    ///
    /// # Safety
    /// That of [`Kernel::launch_unchecked`], whenever the launch is run.
    ///
    /// # Errors
    /// Those of [`Kernel::bind`], but for [`Error::Unchecked`].
    pub unsafe fn bind_unchecked<'a>(
        &self,
        grid: Grid,
        args: impl Into<Vec<Arg<'a>>>,
    ) -> Result<Launch<'a>, Error> {
        let args = args.into();
        let programs = self.check(grid, &args)?;
        Ok(Launch {
            kernel: self.clone(),
            grid,
            programs,
            args,
        })
    }

    /// An external variable of the kernel. Kernels that were loaded from the same content share
    /// theirs, unless they were given others.
    ///
    /// # Errors
    /// [`Error::Variable`] if the kernel has none of that name, or one that elements of type `T`
    /// do not fill.
    pub fn variable<T: Element>(&self, name: &str) -> Result<Variable<T>, Error> {
        let known = match self.backend() {
            Backend::Hsa(kernel) => kernel.variables(),
            Backend::Cpu(_) | Backend::Xrt(_) => &[],
        };
        Variable::find(self.device(), &self.signature().name, known, name)
    }

    /// What the kernel takes.
    #[must_use]
    pub fn signature(&self) -> &Signature {
        self.shared.plan.signature()
    }

    /// Refuses a launch that does not fit; the number of programs of one that does.
    #[inline]
    fn check(&self, grid: Grid, args: &[Arg<'_>]) -> Result<u64, Error> {
        let plan = &self.shared.plan;
        let programs = plan.programs(grid)?;
        plan.check(grid, args)?;
        if programs > 0 {
            match &self.shared.backend {
                Backend::Cpu(_) => {}
                Backend::Hsa(kernel) => kernel.compiled().check_grid(plan, grid)?,
                Backend::Xrt(kernel) => kernel.compiled().check_grid(plan, grid)?,
            }
        }
        Ok(programs)
    }

    /// Runs what has passed the check.
    #[inline]
    pub(crate) fn run(&self, grid: Grid, programs: u64, args: &mut [Arg<'_>]) -> Result<(), Error> {
        let plan = &self.shared.plan;
        match &self.shared.backend {
            Backend::Cpu(kernel) => kernel.launch(plan, grid, programs, args),
            Backend::Hsa(kernel) => kernel.launch(plan, args),
            Backend::Xrt(kernel) => kernel.launch(plan, args),
        }
    }

    pub(crate) fn plan(&self) -> &Plan {
        &self.shared.plan
    }

    pub(crate) fn backend(&self) -> &Backend {
        &self.shared.backend
    }

    pub(crate) fn device(&self) -> &Device {
        &self.shared.device
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
