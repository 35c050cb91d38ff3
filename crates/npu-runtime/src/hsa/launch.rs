//! What a launch does around its dispatch: slices get a copy that the device can reach, and what
//! the kernel wrote is copied back. Buffers are there already.

use super::blocks::{Block, Purpose};
use super::instance::Instance;
use super::kernarg::Argument;
use super::queue::{self, Dispatchable, Stopped};
use super::{Kernel, Loaded};
use crate::arg::Place;
use crate::chain::Launch;
use crate::kernel::Backend;
use crate::npu::{self, Operand};
use crate::plan::Plan;
use crate::{Arg, Direction, Error};
use std::cell::Cell;
use std::ops::Range;

impl Kernel {
    /// Runs the kernel once. The arguments have passed the plan's check.
    pub(crate) fn launch(&self, plan: &Plan, args: &[Arg<'_>]) -> Result<(), Error> {
        let instance = &*self.device.instance;
        instance.check_process()?;
        let Some(loaded) = self.loaded() else {
            return Ok(());
        };
        let mut staging = Staging::begin(instance);
        let operands = staging.add(plan, args)?;
        let before = staging.snapshots(&operands);
        let dispatch = (&loaded.dispatchable, &staging.arguments()[operands.clone()]);
        let name = |_| plan.name().into_string();
        let done = Instance::lock(&instance.queue).run([dispatch].into_iter(), name);
        done.map_err(|stopped| stopped.error)?;
        staging.copy_out(&operands);
        staging.verify(&operands, &before, plan)
    }
}

/// Launches that are made ready together: as many as one doorbell can be rung for.
const TOGETHER: usize = queue::SIZE as usize;

/// Runs launches of this backend in order; an error comes with the number that was completed.
pub(crate) fn run_chain(launches: &[Launch<'_>]) -> Result<(), (usize, Error)> {
    let mut completed = 0;
    while let Some(rest) = launches.get(completed..)
        && let Some(Backend::Hsa(first)) = rest.first().map(|launch| launch.kernel.backend())
    {
        let instance = &*first.device.instance;
        // What one of them wrote to an input is to be told from what the next one did.
        let most = if instance.verify { 1 } else { TOGETHER };
        let by_itself = |launch: &&Launch<'_>| launch.copies_shared(|place| place == Place::Hsa);
        let others = rest
            .iter()
            .take(most)
            .take_while(|launch| !by_itself(launch));
        let together = &rest[..others.count().max(1)];
        run_together(instance, together).map_err(|(more, error)| (completed + more, error))?;
        completed += together.len();
    }
    Ok(())
}

fn run_together(instance: &Instance, launches: &[Launch<'_>]) -> Result<(), (usize, Error)> {
    let not_begun = |error| (0, error);
    instance.check_process().map_err(not_begun)?;
    let mut staging = Staging::begin(instance);
    let mut ends = [0; TOGETHER];
    for (launch, end) in launches.iter().zip(&mut ends) {
        let operands = staging.add(launch.kernel.plan(), &launch.args);
        *end = operands.map_err(not_begun)?.end;
    }
    let operands = |index: usize| {
        let start = index.checked_sub(1).map_or(0, |before| ends[before]);
        start..ends[index]
    };
    let before = staging.snapshots(&operands(0));
    let arguments = staging.arguments();
    let dispatches = launches.iter().enumerate().filter_map(|(index, launch)| {
        let dispatchable = dispatchable(launch)?;
        Some((dispatchable, &arguments[operands(index)]))
    });
    let name = |index: usize| {
        let launch = launches.get(index);
        launch.map_or_else(String::new, |launch| launch.kernel.plan().name().into())
    };
    let done = Instance::lock(&instance.queue).run(dispatches, name);
    let completed = match &done {
        Ok(()) => launches.len(),
        Err(stopped) => stopped.completed,
    };
    if let Some(last) = completed.checked_sub(1) {
        staging.copy_out(&(0..ends[last]));
    }
    if let Err(Stopped { completed, error }) = done {
        return Err((completed, error));
    }
    if instance.verify
        && let [launch] = launches
    {
        let verified = staging.verify(&operands(0), &before, launch.kernel.plan());
        verified.map_err(not_begun)?;
    }
    Ok(())
}

fn dispatchable<'a>(launch: &'a Launch<'_>) -> Option<&'a Dispatchable> {
    match launch.kernel.backend() {
        Backend::Hsa(kernel) => kernel
            .loaded()
            .map(|Loaded { dispatchable, .. }| dispatchable),
        Backend::Cpu(_) | Backend::Xrt(_) => None,
    }
}

/// The operands of launches, with the blocks that slices are copied to.
struct Staging<'a> {
    instance: &'a Instance,
    kept: Kept,
}

/// What a thread keeps from launch to launch, so that a launch allocates nothing.
#[derive(Default)]
struct Kept {
    /// As the device sees them.
    arguments: Vec<Argument>,
    /// The same ones as the host does.
    staged: Vec<Staged>,
}

struct Staged {
    operand: Operand,
    /// Where its bytes are for the device; `None` if the operand itself is.
    block: Option<Block>,
}

thread_local! {
    static KEPT: Cell<Kept> = const {
        Cell::new(Kept {
            arguments: Vec::new(),
            staged: Vec::new(),
        })
    };
}

impl<'a> Staging<'a> {
    #[inline]
    fn begin(instance: &'a Instance) -> Self {
        // A thread that is ending has nothing left: it allocates for once.
        let kept = KEPT.try_with(Cell::take).unwrap_or_default();
        Self { instance, kept }
    }

    #[inline]
    fn arguments(&self) -> &[Argument] {
        &self.kept.arguments
    }

    /// Makes the operands of a launch ready for the device; which ones they are.
    #[inline]
    fn add(&mut self, plan: &Plan, args: &[Arg<'_>]) -> Result<Range<usize>, Error> {
        let Kept { arguments, staged } = &mut self.kept;
        let start = arguments.len();
        for operand in npu::operands(plan, args) {
            arguments.push(Argument {
                address: operand.memory.address.expose_provenance() as u64,
                bytes: operand.bytes() as u64,
            });
            staged.push(Staged {
                operand,
                block: None,
            });
        }
        let end = arguments.len();
        let is_resident = |staged: &Staged| staged.operand.memory.place == Place::Hsa;
        if !staged[start..].iter().all(is_resident) {
            self.stage(start)?;
        }
        Ok(start..end)
    }

    /// Gives the slices from `start` on a block each, and copies in what may be read.
    fn stage(&mut self, start: usize) -> Result<(), Error> {
        let Kept { arguments, staged } = &mut self.kept;
        let mut blocks = Instance::lock(&self.instance.blocks);
        for staged in &mut staged[start..] {
            if staged.operand.memory.place == Place::Hsa {
                continue;
            }
            let bytes = staged.operand.bytes();
            let taken = blocks.take(bytes, Purpose::Staging);
            staged.block = taken.map_err(|failure| {
                let doing = format!("making room for an argument of {bytes} bytes");
                failure.error(self.instance.rocr, doing, "")
            })?;
        }
        drop(blocks);
        for (argument, staged) in arguments[start..].iter_mut().zip(&staged[start..]) {
            let Some(block) = &staged.block else {
                continue;
            };
            argument.address = block.start.expose_provenance().get() as u64;
            let operand = &staged.operand;
            if operand.direction != Direction::Out {
                // SAFETY: the arguments borrow as many bytes, and the block has them.
                unsafe {
                    let to = block.start.as_ptr();
                    to.copy_from_nonoverlapping(operand.memory.address, operand.bytes());
                }
            }
        }
        Ok(())
    }

    /// Copies back what was written.
    #[inline]
    fn copy_out(&self, operands: &Range<usize>) {
        for Staged { operand, block } in &self.kept.staged[operands.clone()] {
            let Some(block) = block else {
                continue;
            };
            if operand.direction.is_written() {
                // SAFETY: the arguments borrow as many bytes, mutably where the kernel writes,
                // and the block has them.
                unsafe {
                    let to = operand.memory.address;
                    to.copy_from_nonoverlapping(block.start.as_ptr(), operand.bytes());
                }
            }
        }
    }

    /// In verify mode: what is in the buffers that the kernel only reads, by operand.
    fn snapshots(&self, operands: &Range<usize>) -> Vec<(usize, Vec<u8>)> {
        if !self.instance.verify {
            return Vec::new();
        }
        let staged = self.kept.staged[operands.clone()].iter().enumerate();
        let inputs = staged.filter(|(_, staged)| {
            staged.block.is_none() && staged.operand.direction == Direction::In
        });
        let copy = |(index, staged): (usize, &Staged)| (index, staged.operand.content().to_vec());
        inputs.map(copy).collect()
    }

    /// In verify mode: whether all inputs are as they were.
    fn verify(
        &self,
        operands: &Range<usize>,
        before: &[(usize, Vec<u8>)],
        plan: &Plan,
    ) -> Result<(), Error> {
        if !self.instance.verify {
            return Ok(());
        }
        for (index, staged) in self.kept.staged[operands.clone()].iter().enumerate() {
            let Staged { operand, block } = staged;
            if operand.direction != Direction::In {
                continue;
            }
            let snapshot = before.iter().find(|(of, _)| *of == index);
            let (was, is): (&[u8], &[u8]) = match (block, snapshot) {
                (Some(block), _) => {
                    let start = block.start.as_ptr();
                    // SAFETY: the block has as many bytes, and no launch uses it any more.
                    let is = unsafe { std::slice::from_raw_parts(start, operand.bytes()) };
                    (operand.content(), is)
                }
                (None, Some((_, was))) => (was, operand.content()),
                (None, None) => continue,
            };
            if let Some(offset) = was.iter().zip(is).position(|(was, is)| was != is) {
                return Err(plan.input_written(operand.index, offset));
            }
        }
        Ok(())
    }
}

impl Drop for Staging<'_> {
    #[inline]
    fn drop(&mut self) {
        let Kept { arguments, staged } = &mut self.kept;
        arguments.clear();
        if staged.iter().any(|staged| staged.block.is_some()) {
            let mut blocks = Instance::lock(&self.instance.blocks);
            for block in staged.iter_mut().filter_map(|staged| staged.block.take()) {
                blocks.put(block, Purpose::Staging);
            }
        }
        staged.clear();
        // Not kept if the thread is ending.
        KEPT.try_with(|cell| cell.set(std::mem::take(&mut self.kept)))
            .ok();
    }
}
