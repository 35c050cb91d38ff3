//! Devices, and the runtimes that drive them. Everything that differs between runtimes is behind
//! [`Backend`] here and its counterpart in `kernel.rs`.

use crate::{Artifact, Buffer, Element, Error, Npu, Variable, cpu, hsa, xrt};
use std::fmt;
use std::str::FromStr;

/// What executes kernels.
///
/// ```
/// use npu_runtime::Runtime;
///
/// assert_eq!("cpu".parse::<Runtime>()?, Runtime::Cpu);
/// assert_eq!(Runtime::Hsa.to_string(), "hsa");
/// assert!("CPU".parse::<Runtime>().is_err());
/// # Ok::<(), npu_runtime::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Runtime {
    /// The host's own cores.
    Cpu,
    /// An NPU, through ROCR (`libhsa-runtime64`).
    Hsa,
    /// An NPU, through XRT.
    Xrt,
}

impl Runtime {
    const ALL: [Self; 3] = [Self::Cpu, Self::Hsa, Self::Xrt];

    /// The variable that names the runtime for [`Device::from_env`].
    pub const VARIABLE: &str = "NPU_RUNTIME";

    /// Its name on the command line and in `NPU_RUNTIME`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Hsa => "hsa",
            Self::Xrt => "xrt",
        }
    }

    /// The runtime that `NPU_RUNTIME` names; without it xrt, if an XRT is installed. Neither cpu
    /// nor hsa is ever chosen without being named.
    ///
    /// # Errors
    /// [`Error::UnknownRuntime`] if the variable names none, and [`Error::NoRuntime`] if it is not
    /// set and there is no XRT.
    pub fn from_env() -> Result<Self, Error> {
        match std::env::var_os(Self::VARIABLE) {
            Some(name) if !name.is_empty() => name.to_string_lossy().parse(),
            _ if xrt::is_installed() => Ok(Self::Xrt),
            _ => Err(Error::NoRuntime),
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
/// A process has one device of each NPU runtime, and every handle is to that one. It is closed
/// when the last handle, kernel, buffer and variable of it is gone, so keep one of them: opening
/// is what costs.
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
    Hsa(hsa::Device),
    Xrt(xrt::Device),
}

impl Device {
    /// Opens the device of a runtime.
    ///
    /// # Errors
    /// If the runtime's library or its device is not there, or is not one that can be used. The
    /// cpu can always be opened.
    pub fn open(runtime: Runtime) -> Result<Self, Error> {
        let backend = match runtime {
            Runtime::Cpu => Backend::Cpu(cpu::Device::open()),
            Runtime::Hsa => Backend::Hsa(hsa::Device::open()?),
            Runtime::Xrt => Backend::Xrt(xrt::Device::open(None)?),
        };
        Ok(Self { backend })
    }

    /// Opens XRT's device through the launch shim that `npu-build` compiled, instead of the one
    /// that `NPU_RUNTIME_XRT_SHIM` names or that is beside the program. A process loads one shim:
    /// if that was done before, it is the one that is used.
    ///
    /// # Errors
    /// As [`Device::open`], and if the shim can't be read or loaded.
    pub fn open_with_shim(shim: &Artifact) -> Result<Self, Error> {
        let backend = Backend::Xrt(xrt::Device::open(Some(shim))?);
        Ok(Self { backend })
    }

    /// Opens the device of the runtime that [`Runtime::from_env`] gives.
    ///
    /// # Errors
    /// What [`Runtime::from_env`] and [`Device::open`] report.
    pub fn from_env() -> Result<Self, Error> {
        Self::open(Runtime::from_env()?)
    }

    /// Sets how many threads the programs of a large grid may run on; kernels that are loaded
    /// afterwards keep to it. 0, the default, is one thread for each core, and 1 the calling
    /// thread alone. Small grids run on the calling thread in any case. Results do not depend on
    /// it, as long as no program of a grid reads what another one writes. It is of no consequence
    /// for an NPU.
    #[must_use]
    pub fn with_threads(mut self, n: usize) -> Self {
        match &mut self.backend {
            Backend::Cpu(device) => device.set_threads(n),
            Backend::Hsa(_) | Backend::Xrt(_) => {}
        }
        self
    }

    /// The runtime that drives the device.
    #[must_use]
    pub fn runtime(&self) -> Runtime {
        match self.backend {
            Backend::Cpu(_) => Runtime::Cpu,
            Backend::Hsa(_) => Runtime::Hsa,
            Backend::Xrt(_) => Runtime::Xrt,
        }
    }

    /// The generation of the NPU; `None` on cpu, and where the runtime does not tell.
    #[must_use]
    pub fn npu(&self) -> Option<Npu> {
        match &self.backend {
            Backend::Cpu(_) => None,
            Backend::Hsa(device) => Some(device.npu()),
            Backend::Xrt(device) => Some(device.npu()),
        }
    }

    /// Memory for `len` elements, all zero, that kernels reach without a copy.
    ///
    /// # Errors
    /// [`Error::Allocation`] or [`Error::Call`] if there is not that much memory.
    pub fn buffer<T: Element>(&self, len: usize) -> Result<Buffer<T>, Error> {
        match &self.backend {
            Backend::Cpu(_) => Buffer::zeroed(len),
            Backend::Hsa(device) => device.buffer(len),
            Backend::Xrt(device) => device.buffer(len),
        }
    }

    /// A buffer that starts as a copy of `elements`.
    ///
    /// # Errors
    /// Those of [`Device::buffer`].
    pub fn buffer_from<T: Element>(&self, elements: &[T]) -> Result<Buffer<T>, Error> {
        let mut buffer = self.buffer(elements.len())?;
        buffer.copy_from_slice(elements);
        Ok(buffer)
    }

    /// An external variable of `len` zeros, for kernels that have one of this name.
    ///
    /// # Errors
    /// [`Error::Variable`] if the runtime has no such variables, or if its size is not 4 bytes or
    /// a multiple of 4. [`Error::Call`] if the device has no room for it.
    pub fn variable<T: Element>(&self, name: &str, len: usize) -> Result<Variable<T>, Error> {
        Variable::new(self, name, len)
    }

    /// What was done so far, by whatever handle.
    #[must_use]
    pub fn counters(&self) -> Counters {
        match &self.backend {
            Backend::Hsa(device) => device.counters(),
            Backend::Xrt(device) => device.counters(),
            Backend::Cpu(_) => Counters::default(),
        }
    }
}

/// What a device has done since it was opened. On cpu nothing is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Queues that were made. One more is whenever the device has no room for another PDI.
    pub queues: u64,
    /// How often the device was told of launches.
    pub doorbells: u64,
    /// Launches that were completed.
    pub dispatches: u64,
    /// Images that were loaded.
    pub images: u64,
    /// Blocks of memory that were made for buffers and for copies of slices.
    pub allocations: u64,
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.backend {
            Backend::Cpu(device) => write!(f, "Device(cpu, threads: {})", device.threads()),
            Backend::Hsa(_) | Backend::Xrt(_) => {
                write!(f, "Device({}", self.runtime())?;
                if let Some(npu) = self.npu() {
                    write!(f, ", {npu}")?;
                }
                f.write_str(")")
            }
        }
    }
}
