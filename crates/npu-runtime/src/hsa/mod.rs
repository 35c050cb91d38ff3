//! The HSA backend: an NPU through ROCR, `libhsa-runtime64`.
//!
//! `sys` is the raw ABI and `result` one checked call each; `find` knows where the library is.
//! On top of them, `instance` is the process's device, `blocks` its memory, `executable` what is
//! loaded, `queue` what runs, and `launch` what a launch copies and where. `section` reads of an
//! hsaco what has to be known before ROCR gets it.
//!
//! The device is one for the whole process. It is closed when the last device handle, kernel,
//! buffer and variable is gone; each of them keeps it open.

mod blocks;
mod executable;
mod find;
mod instance;
mod kernarg;
mod launch;
mod packet;
mod queue;
mod result;
mod section;
mod sys;
mod variable;

pub(crate) use launch::run_chain;
pub(crate) use variable::Memory;

use crate::buffer::Home;
use crate::error::HsacoFault;
use crate::plan::Plan;
use crate::{ArtifactFault, Buffer, Compiled, Counters, Element, Error, Image, Npu, Runtime, npu};
use blocks::{Block, Purpose};
use executable::{Executable, Loaded};
use instance::Instance;
use std::sync::Arc;

/// A handle to the process's device.
#[derive(Clone)]
pub(crate) struct Device {
    instance: Arc<Instance>,
}

impl Device {
    pub(crate) fn open() -> Result<Self, Error> {
        let instance = Instance::open()?;
        Ok(Self { instance })
    }

    pub(crate) fn npu(&self) -> Npu {
        self.instance.agents.npu
    }

    pub(crate) fn buffer<T: Element>(&self, len: usize) -> Result<Buffer<T>, Error> {
        let instance = &self.instance;
        instance.check_process()?;
        let too_large = || Error::Allocation {
            elements: len,
            element_size: size_of::<T>(),
        };
        let bytes = len.checked_mul(size_of::<T>()).ok_or_else(too_large)?;
        let taken = Instance::lock(&instance.blocks).take(bytes, Purpose::Buffer);
        let block = taken.map_err(|failure| {
            let doing = format!("allocating a buffer of {bytes} bytes");
            failure.error(instance.rocr, doing, "")
        })?;
        let block = block.ok_or_else(too_large)?;
        let start = block.start;
        // SAFETY: the block has at least as many bytes, and nobody else has it.
        unsafe { start.write_bytes(0, bytes) };
        let allocation = Allocation {
            block: Some(block),
            instance: instance.clone(),
        };
        // SAFETY: a block is page-aligned and lives as long as the allocation; it was zeroed.
        Ok(unsafe { Buffer::at(start.cast(), len, Home::Hsa(allocation)) })
    }

    /// Zeros in the device heap, for the external variable `name`.
    pub(crate) fn memory(&self, name: &str, bytes: usize) -> Result<Memory, Error> {
        self.instance.check_process()?;
        Memory::new(&self.instance, name, bytes)
    }

    pub(crate) fn counters(&self) -> Counters {
        let queue = Instance::lock(&self.instance.queue);
        let (queues, doorbells, dispatches) = (queue.number, queue.doorbells, queue.dispatches);
        drop(queue);
        Counters {
            queues,
            doorbells,
            dispatches,
            images: Instance::lock(&self.instance.executables).loaded,
            allocations: Instance::lock(&self.instance.blocks).made,
        }
    }
}

/// The memory of a buffer.
pub(crate) struct Allocation {
    /// There until it is dropped.
    block: Option<Block>,
    instance: Arc<Instance>,
}

impl Drop for Allocation {
    fn drop(&mut self) {
        if let Some(block) = self.block.take()
            && !self.instance.rocr.is_foreign()
        {
            Instance::lock(&self.instance.blocks).put(block, Purpose::Buffer);
        }
    }
}

/// A kernel of a loaded hsaco.
pub(crate) struct Kernel {
    /// There until it is dropped.
    executable: Option<Arc<Executable>>,
    /// Which of the executable's kernels it is.
    index: usize,
    compiled: Compiled,
    device: Device,
}

impl Kernel {
    /// `given` are variables that the kernel is to use, by name.
    pub(crate) fn load(
        device: &Device,
        image: &Image,
        plan: &Plan,
        given: &[(String, Arc<Memory>)],
    ) -> Result<Self, Error> {
        let Image::Hsaco {
            hsaco,
            kernel: name,
            compiled,
        } = image
        else {
            return Err(plan.refuse_image(Runtime::Hsa, image));
        };
        let instance = &device.instance;
        instance.check_process()?;
        let executable = Instance::lock(&instance.executables).get(instance, hsaco, given)?;
        let kernels = executable.kernels();
        let index = kernels.iter().position(|kernel| kernel.name == **name);
        let index = index.ok_or_else(|| Error::Artifact {
            artifact: hsaco.to_string().into(),
            fault: ArtifactFault::Hsaco(Box::new(HsacoFault::Kernel {
                name: name.to_string(),
                found: kernels.iter().map(|kernel| kernel.name.clone()).collect(),
            })),
        })?;
        let (expected, found) = (npu::operand_count(plan), kernels[index].arguments);
        let kernel = Self {
            executable: Some(executable),
            index,
            compiled: *compiled,
            device: device.clone(),
        };
        if expected != usize::from(found) {
            return Err(Error::Operands {
                kernel: plan.name(),
                expected,
                found: found.into(),
            });
        }
        let mut queue = Instance::lock(&instance.queue);
        let grown = queue.expect_arguments(instance.pools.kernarg, found);
        drop(queue);
        grown.map_err(|failure| {
            let doing = format!("making room for {found} arguments of kernel `{name}`");
            failure.error(instance.rocr, doing, "")
        })?;
        Ok(kernel)
    }

    pub(crate) fn compiled(&self) -> &Compiled {
        &self.compiled
    }

    /// The memory of its external variables, by name.
    pub(crate) fn variables(&self) -> &[(String, Arc<Memory>)] {
        self.executable
            .as_ref()
            .map_or(&[], |executable| executable.variables())
    }

    fn loaded(&self) -> Option<&Loaded> {
        self.executable.as_ref()?.kernels().get(self.index)
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        let instance = &self.device.instance;
        if !instance.rocr.is_foreign() {
            self.executable = None;
            Instance::lock(&instance.executables).trim();
        }
    }
}
