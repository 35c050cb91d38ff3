//! What a launch tells the shim. Copies of slices and syncs of buffers are the shim's work: it
//! knows which argument is read and which is written.

use super::result::{Call, Failure};
use super::{Kernel, sys};
use crate::arg::Place;
use crate::chain::{Launch, run_in_order};
use crate::kernel::Backend;
use crate::npu::{self, Operand};
use crate::plan::Plan;
use crate::{Arg, Direction, Error};
use std::cell::Cell;
use std::ptr;

thread_local! {
    /// What a thread keeps from launch to launch, so that a launch allocates nothing.
    static KEPT: Cell<Vec<sys::Argument>> = const { Cell::new(Vec::new()) };
}

impl Kernel {
    /// Runs the kernel once. The arguments have passed the plan's check.
    #[inline]
    pub(crate) fn launch(&self, plan: &Plan, args: &[Arg<'_>]) -> Result<(), Error> {
        let instance = self.instance();
        instance.check_process()?;
        // A thread that is ending has nothing kept any more.
        let mut arguments = KEPT.try_with(Cell::take).unwrap_or_default();
        arguments.clear();
        let operands = npu::operands(plan, args);
        arguments.extend(operands.map(|operand| argument(&operand, instance.verify)));
        let call = Call::new(self.handle(), arguments.as_ptr(), arguments.len());
        // SAFETY: `args` borrow their memory, mutably where it is written, and are in use until
        // the launch is over. The kernel is loaded as long as `self` lives.
        let done = unsafe { instance.shim.launch(&[call]) };
        let _ = KEPT.try_with(|kept| kept.set(arguments));
        done.map_err(|failure| failed(failure, plan, args))
    }
}

/// Runs launches of this backend in order; an error comes with the number that was completed.
pub(crate) fn run_chain(launches: &mut [Launch<'_>]) -> Result<(), (usize, Error)> {
    let kernel_of = |launch: &Launch<'_>| match launch.kernel.backend() {
        Backend::Xrt(kernel) => Some(kernel.handle()),
        Backend::Cpu(_) | Backend::Hsa(_) => None,
    };
    let Some(Backend::Xrt(first)) = launches.first().map(|launch| launch.kernel.backend()) else {
        return Ok(());
    };
    let instance = first.instance().clone();
    instance.check_process().map_err(|error| (0, error))?;
    if instance.verify {
        // What one of them wrote to an input is to be told from what the next one did.
        return run_in_order(launches);
    }
    let mut arguments = Vec::new();
    let mut ends = Vec::with_capacity(launches.len());
    for launch in launches.iter() {
        let operands = npu::operands(launch.kernel.plan(), &launch.args);
        arguments.extend(operands.map(|operand| argument(&operand, false)));
        ends.push(arguments.len());
    }
    let mut start = 0;
    let calls: Vec<Call> = launches
        .iter()
        .zip(ends)
        .filter_map(|(launch, end)| {
            let own = arguments.get(start..end)?;
            start = end;
            Some(Call::new(kernel_of(launch)?, own.as_ptr(), own.len()))
        })
        .collect();
    // SAFETY: as in `launch`; memory that several launches share is lent for this, and they run
    // one after the other.
    let done = unsafe { instance.shim.launch(&calls) };
    done.map_err(|failure| {
        let completed = failure.completed.min(launches.len().saturating_sub(1));
        let error = match launches.get(completed) {
            Some(launch) => failed(failure, launch.kernel.plan(), &launch.args),
            None => failure.error("", ""),
        };
        (completed, error)
    })
}

fn argument(operand: &Operand, verify: bool) -> sys::Argument {
    let Operand {
        memory, direction, ..
    } = operand;
    let mut flags = 0;
    if *direction != Direction::Out {
        flags |= sys::IN;
    }
    if direction.is_written() {
        flags |= sys::OUT;
    } else if verify {
        flags |= sys::CHECK;
    }
    let (data, buffer) = match memory.place {
        Place::Xrt(buffer) => (ptr::null_mut(), buffer.as_ptr()),
        Place::Host | Place::Hsa => (memory.address.cast(), ptr::null_mut()),
    };
    sys::Argument {
        data,
        buffer,
        size: operand.bytes() as u64,
        flags,
        reserved: 0,
    }
}

#[cold]
fn failed(failure: Failure, plan: &Plan, args: &[Arg<'_>]) -> Error {
    if failure.changed()
        && let Some(operand) = npu::operands(plan, args).nth(failure.argument)
    {
        return plan.input_written(operand.index, failure.offset);
    }
    failure.error(format!("launching kernel `{}`", plan.name()), "")
}
