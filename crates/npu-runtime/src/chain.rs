//! Launches that are recorded once and run together, in order. An NPU is told of many at once,
//! which costs less than telling it of each.

use crate::arg::{Place, Value};
use crate::device::Backend;
use crate::{Arg, Device, Error, Grid, Kernel, Runtime, hsa, xrt};
use std::fmt;

/// A launch that has been checked and not run yet, made by [`Kernel::bind`].
pub struct Launch<'a> {
    pub(crate) kernel: Kernel,
    pub(crate) grid: Grid,
    pub(crate) programs: u64,
    pub(crate) args: Vec<Arg<'a>>,
}

impl Launch<'_> {
    /// Whether a device that only reaches what `is_resident` would work on a copy of memory that
    /// other launches of the chain have as well. Then none of them may run between copying in and
    /// copying out.
    pub(crate) fn copies_shared(&self, is_resident: impl Fn(Place) -> bool) -> bool {
        self.args.iter().any(|arg| match arg.value() {
            Value::Memory(memory) => memory.shared && !is_resident(memory.place),
            Value::Scalar { .. } => false,
        })
    }
}

impl fmt::Debug for Launch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Launch")
            .field("kernel", &self.kernel.signature().name)
            .field("grid", &self.grid)
            .field("args", &self.args)
            .finish()
    }
}

/// Any number of launches on one device. They run in order, each after the one before it is done,
/// so that one may read what an earlier one wrote.
///
/// The memory of a chain is borrowed as long as launches may still be run. Where one launch writes
/// what another one reads, give both a [`Shared`](crate::Shared) of the buffer.
///
/// ```no_run
/// # use npu_runtime::{Arg, Chain, Device, Error, Grid, Kernel, Runtime};
/// # fn steps(step: &Kernel, input: &[f32]) -> Result<(), Error> {
/// let device = Device::from_env()?;
/// let mut state = device.buffer_from(input)?;
/// let shared = state.share();
/// let mut chain = Chain::new(&device);
/// for _ in 0..1000 {
///     chain.push(step.bind(Grid::ONE, [shared.input(), shared.output()])?)?;
/// }
/// chain.run()?;
/// drop(chain);
/// println!("{:?}", state);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Chain<'a> {
    device: Device,
    launches: Vec<Launch<'a>>,
}

impl<'a> Chain<'a> {
    /// An empty chain.
    #[must_use]
    pub fn new(device: &Device) -> Self {
        Self {
            device: device.clone(),
            launches: Vec::new(),
        }
    }

    /// Adds a launch behind the others. One over a grid with a zero in it is not kept.
    ///
    /// # Errors
    /// [`Error::ChainRuntime`] if the kernel is loaded on another runtime's device.
    pub fn push(&mut self, launch: Launch<'a>) -> Result<(), Error> {
        let runtime = |device: &Device| -> Runtime { device.runtime() };
        let (chain, found) = (runtime(&self.device), runtime(launch.kernel.device()));
        if chain != found {
            return Err(Error::ChainRuntime {
                kernel: launch.kernel.plan().name(),
                chain,
                found,
            });
        }
        if launch.programs > 0 {
            self.launches.push(launch);
        }
        Ok(())
    }

    /// How many launches there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.launches.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.launches.is_empty()
    }

    /// Runs all launches and returns when the last one is done. It may be called again.
    ///
    /// # Errors
    /// [`Error::Chain`] if one failed. It tells how many were completed before: what those wrote
    /// is there, and what later ones would have written is as it was.
    pub fn run(&mut self) -> Result<(), Error> {
        let launches = self.launches.len();
        let failed = |(completed, source)| Error::Chain {
            completed,
            launches,
            source: Box::new(source),
        };
        let done = match self.device.backend {
            Backend::Hsa(_) => hsa::run_chain(&self.launches),
            Backend::Xrt(_) => xrt::run_chain(&mut self.launches),
            Backend::Cpu(_) => run_in_order(&mut self.launches),
        };
        done.map_err(failed)
    }
}

/// One launch after the other; an error comes with the number of launches that were completed.
pub(crate) fn run_in_order(launches: &mut [Launch<'_>]) -> Result<(), (usize, Error)> {
    for (index, launch) in launches.iter_mut().enumerate() {
        let (grid, programs) = (launch.grid, launch.programs);
        let done = launch.kernel.run(grid, programs, &mut launch.args);
        done.map_err(|error| (index, error))?;
    }
    Ok(())
}
