//! The cpu backend: kernels are shared objects that run on the host's own cores.
//!
//! `sys` is the raw ABI, `object` loads what speaks it, `slots` packs arguments, `scratch` lends
//! memory for a kernel's temporaries, and `schedule` spreads a grid over the threads of `pool`.

mod object;
mod pool;
mod schedule;
mod scratch;
mod slots;
mod sys;

use crate::plan::Plan;
use crate::{Arg, ArtifactFault, Error, Grid, Image, shared_object};
use object::Object;
pub(crate) use object::open as load_library;
use std::sync::OnceLock;
use std::thread::available_parallelism;

/// How grids are spread over the host's cores.
#[derive(Clone)]
pub(crate) struct Device {
    threads: usize,
}

impl Device {
    pub(crate) fn open() -> Self {
        Self { threads: cores() }
    }

    /// 0 is one for each core.
    pub(crate) fn set_threads(&mut self, n: usize) {
        self.threads = if n == 0 { cores() } else { n };
    }

    pub(crate) fn threads(&self) -> usize {
        self.threads
    }
}

/// Says whether `bytes` are a shared object that this machine could load: what a build checks of
/// its compiler's output, and what [`crate::Kernel::load`] checks before anything is loaded.
///
/// # Errors
/// What is wrong with them.
pub fn check_cpu_object(bytes: &[u8]) -> Result<(), ArtifactFault> {
    shared_object::check(bytes)
}

/// The cores that this process may use, asked once: the answer takes several system calls.
fn cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| available_parallelism().map_or(1, usize::from))
}

/// Why a kernel did not run to its end.
enum Stopped {
    /// It asked for memory that the system does not have.
    NoMemory,
    /// An assertion of its own failed, which says this.
    Asserted(Box<str>),
}

/// A loaded object and how to launch it.
pub(crate) struct Kernel {
    object: &'static Object,
    threads: usize,
}

impl Kernel {
    pub(crate) fn load(device: &Device, image: &Image, plan: &Plan) -> Result<Self, Error> {
        let Image::Object(artifact) = image else {
            return Err(plan.refuse_image(crate::Runtime::Cpu, image));
        };
        let object = object::load(artifact)?;
        if object.slots() != plan.slots() {
            return Err(Error::Slots {
                kernel: plan.name(),
                expected: plan.slots(),
                found: object.slots(),
            });
        }
        Ok(Self {
            object,
            threads: device.threads,
        })
    }

    /// Runs `programs`, which are all that `grid` has. The arguments have passed the plan's check.
    pub(crate) fn launch(
        &self,
        plan: &Plan,
        grid: Grid,
        programs: u64,
        args: &mut [Arg<'_>],
    ) -> Result<(), Error> {
        let done = slots::with(plan, args, |slots| {
            // SAFETY: the slots are those of the object's own ABI (their number was compared at
            // load), they hold what the signature says, and the memory they point to is borrowed
            // by `args`, mutably where the kernel writes.
            let call = unsafe { object::Call::new(self.object, slots, grid) };
            schedule::run(&call, programs, self.threads)
        });
        done.map_err(|stopped| match stopped {
            Stopped::NoMemory => Error::KernelMemory {
                kernel: plan.name(),
            },
            Stopped::Asserted(text) => Error::Assertion {
                kernel: plan.name(),
                text,
            },
        })
    }
}
