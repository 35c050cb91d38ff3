//! Devices, and the runtimes that drive them. Everything that differs between runtimes is behind
//! [`Backend`] here and its counterpart in `kernel.rs`.

use crate::{Buffer, Element, Error, cpu};
use std::fmt;
use std::str::FromStr;

/// What executes kernels.
///
/// ```
/// use npu_runtime::Runtime;
///
/// assert_eq!("cpu".parse::<Runtime>()?, Runtime::Cpu);
/// assert_eq!(Runtime::Cpu.to_string(), "cpu");
/// assert!("CPU".parse::<Runtime>().is_err());
/// # Ok::<(), npu_runtime::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Runtime {
    /// The host's own cores.
    Cpu,
}

impl Runtime {
    const ALL: [Self; 1] = [Self::Cpu];

    /// Its name on the command line and in `NPU_RUNTIME`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
        }
    }
}

impl fmt::Display for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Runtime {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        Self::ALL
            .into_iter()
            .find(|runtime| runtime.name() == name)
            .ok_or_else(|| Error::UnknownRuntime { name: name.into() })
    }
}

/// An open device: a cheap handle that may be cloned and shared between threads.
///
/// ```
/// use npu_runtime::{Device, Runtime};
///
/// let device = Device::open(Runtime::Cpu)?.with_threads(1);
/// assert_eq!(device.runtime(), Runtime::Cpu);
/// # Ok::<(), npu_runtime::Error>(())
/// ```
#[derive(Clone)]
pub struct Device {
    pub(crate) backend: Backend,
}

/// The runtimes' own devices.
#[derive(Clone)]
pub(crate) enum Backend {
    Cpu(cpu::Device),
}

impl Device {
    /// Opens the device of a runtime.
    ///
    /// # Errors
    /// The cpu can always be opened.
    pub fn open(runtime: Runtime) -> Result<Self, Error> {
        let backend = match runtime {
            Runtime::Cpu => Backend::Cpu(cpu::Device::open()),
        };
        Ok(Self { backend })
    }

    /// Sets how many threads the programs of a large grid may run on; kernels that are loaded
    /// afterwards keep to it. 0, the default, is one thread for each core, and 1 the calling
    /// thread alone. Small grids run on the calling thread in any case. Results do not depend on
    /// it, as long as no program of a grid reads what another one writes.
    #[must_use]
    pub fn with_threads(mut self, n: usize) -> Self {
        match &mut self.backend {
            Backend::Cpu(device) => device.set_threads(n),
        }
        self
    }

    /// The runtime that drives the device.
    #[must_use]
    pub fn runtime(&self) -> Runtime {
        match self.backend {
            Backend::Cpu(_) => Runtime::Cpu,
        }
    }

    /// Memory for `len` elements, all zero, that kernels reach without a copy.
    ///
    /// # Errors
    /// [`Error::Allocation`] if there is not that much memory.
    pub fn buffer<T: Element>(&self, len: usize) -> Result<Buffer<T>, Error> {
        match self.backend {
            Backend::Cpu(_) => Buffer::zeroed(len),
        }
    }

    /// A buffer that starts as a copy of `elements`.
    ///
    /// # Errors
    /// [`Error::Allocation`] if there is not that much memory.
    pub fn buffer_from<T: Element>(&self, elements: &[T]) -> Result<Buffer<T>, Error> {
        match self.backend {
            Backend::Cpu(_) => Buffer::copied(elements),
        }
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.backend {
            Backend::Cpu(device) => write!(f, "Device(cpu, threads: {})", device.threads()),
        }
    }
}
