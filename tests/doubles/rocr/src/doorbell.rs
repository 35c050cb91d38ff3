//! The doorbell: has every packet between the indices checked, runs them one after the other on the
//! calling thread, and retires those that ran.
//!
//! A batch that is refused does not run at all. A device error ends it behind the packets that ran.
//! Either suspends the queue for ever, and calls its error callback once, without the lock.

use std::sync::MutexGuard;
use std::time::Duration;

use crate::abi::Status;
use crate::executable::reachable;
use crate::loader::Refusal;
use crate::memory::Part;
use crate::queue::{self, Prepared};
use crate::settings::{Fault, fault};
use crate::state::{self, State};
use crate::{execute, packets, signals};

/// The buffer that holds a chain of commands.
const CHAIN_BYTES: usize = 4096;

/// The lock on the runtime, which is given up while a device makes no progress, and the queue that
/// was rung for.
struct Held(Option<MutexGuard<'static, Option<State>>>, u64);

impl Held {
    fn state(&mut self) -> Option<&mut State> {
        self.0.as_mut()?.as_mut()
    }

    /// Lets time pass without the lock, as a driver does while it waits.
    fn pause(&mut self, milliseconds: u64) {
        self.set_busy(true);
        self.0 = None;
        std::thread::sleep(Duration::from_millis(milliseconds));
        self.0 = Some(state::lock());
        self.set_busy(false);
    }

    fn set_busy(&mut self, busy: bool) {
        let doorbell = self.1;
        let state = self.state();
        let queue = state.and_then(|state| queue::find(&mut state.queues, doorbell));
        if let Some(queue) = queue {
            queue.busy = busy;
        }
    }
}

/// What a batch came to.
enum Outcome {
    /// Nothing was to do.
    Idle,
    /// All packets ran.
    Done,
    /// Nothing ran.
    Refused(Refusal),
    /// Some packets ran, then the device failed.
    Failed(Status),
}

/// Rings a doorbell.
pub fn ring(doorbell: u64) {
    let mut held = Held(Some(state::lock()), doorbell);
    let outcome = submit(&mut held);
    let Some(state) = held.state() else {
        return;
    };
    let status = match outcome {
        Outcome::Idle => {
            state.counters.idle_doorbells += 1;
            return;
        }
        Outcome::Done => return,
        Outcome::Refused(refusal) => {
            state.counters.refusals += 1;
            state.refuse(refusal)
        }
        Outcome::Failed(status) => {
            state.counters.device_errors += 1;
            status
        }
    };
    let Some(queue) = queue::find(&mut state.queues, doorbell) else {
        return;
    };
    queue.suspended = true;
    state.counters.callbacks += 1;
    let (callback, pointer, data) = queue.callback();
    let tell = state.settings.fault_message;
    drop(held);
    match callback {
        // SAFETY: the program promised that it can be called, with its own data.
        Some(callback) => unsafe { callback(status, pointer, data) },
        None => {
            if tell {
                let text = status.text().unwrap_or_default().to_string_lossy();
                eprintln!("Queue at {pointer:p} inactivated due to async error:\n\t{text}");
            }
            std::process::abort();
        }
    }
}

fn submit(held: &mut Held) -> Outcome {
    let doorbell = held.1;
    let Some(state) = held.state() else {
        return Outcome::Idle;
    };
    let found = queue::find(&mut state.queues, doorbell);
    let Some(queue) = found.filter(|queue| !queue.suspended) else {
        return Outcome::Idle;
    };
    if queue.busy {
        state::misuse();
        return Outcome::Idle;
    }
    let (first, last) = queue.indices();
    if first >= last {
        return Outcome::Idle;
    }
    state.counters.doorbells += 1;
    state.counters.most_packets = state.counters.most_packets.max(last - first);
    if let Err(refusal) = packets::check(state, doorbell, first, last) {
        return Outcome::Refused(refusal);
    }
    if state.settings.doorbell_latency != 0 {
        state::spin(state.settings.doorbell_latency);
    }
    let (done, error) = run(held);
    let Some(state) = held.state() else {
        return Outcome::Idle;
    };
    retire(state, doorbell, first, done);
    match error {
        Ok(()) => Outcome::Done,
        Err(status) => Outcome::Failed(status),
    }
}

/// How many of these commands are submitted as one chain: as many as its buffer holds, or one that
/// is larger than that.
fn chain(batch: &[Prepared]) -> u64 {
    let (mut bytes, mut count) = (0, 0);
    for prepared in batch {
        bytes += prepared.slot;
        if bytes > CHAIN_BYTES {
            break;
        }
        count += 1;
    }
    count.max(1)
}

/// Runs a batch that was checked: how many packets ran, and whether that is all of them.
fn run(held: &mut Held) -> (u64, Result<(), Status>) {
    let (doorbell, mut done, mut chained) = (held.1, 0, 0);
    loop {
        let Some(state) = held.state() else {
            return (done, Err(Status::ERROR));
        };
        let Some(queue) = queue::find(&mut state.queues, doorbell) else {
            return (done, Err(Status::ERROR));
        };
        let Some(prepared) = queue.batch.get(done as usize).copied() else {
            return (done, Ok(()));
        };
        if done == chained {
            let length = chain(queue.batch.get(done as usize..).unwrap_or_default());
            state.counters.chains += 1;
            state.counters.longest_chain = state.counters.longest_chain.max(length);
            chained += length;
        }
        state.packets += 1;
        if !state.settings.faults.is_empty() {
            let result = match fault(&state.settings.faults, state.packets) {
                Some(Fault::Error(status)) => Err(status),
                Some(Fault::Hang(milliseconds)) => {
                    held.pause(milliseconds);
                    Err(Status::ERROR)
                }
                Some(Fault::Slow(milliseconds)) => {
                    held.pause(milliseconds);
                    Ok(())
                }
                Some(Fault::Refuse(_)) | None => Ok(()),
            };
            if let Err(status) = result {
                return (done, Err(status));
            }
        }
        if let Err(status) = one(held, &prepared) {
            return (done, Err(status));
        }
        done += 1;
    }
}

/// Runs one packet.
fn one(held: &mut Held, prepared: &Prepared) -> Result<(), Status> {
    let doorbell = held.1;
    let State {
        queues,
        executables,
        memory,
        settings,
        counters,
        ..
    } = held.state().ok_or(Status::ERROR)?;
    let queue = queue::find(queues, doorbell).ok_or(Status::ERROR)?;
    let kernel = executables.kernels.get(prepared.kernel);
    let kernel = kernel.ok_or(Status::ERROR)?;
    let parts: &[(u64, Part)] = queue
        .parts
        .get(prepared.first..prepared.first + prepared.arguments)
        .unwrap_or_default();
    if settings.packet_latency != 0 {
        state::spin(settings.packet_latency);
    }
    execute::patch(kernel, parts);
    if !kernel.variables.iter().all(|v| reachable(memory, *v)) {
        // Loads, but the firmware cannot read it there.
        return Err(Status::ERROR);
    }
    if settings.empty {
        return Ok(());
    }
    let computed = execute::run(kernel, parts, memory, settings.needs_program)?;
    counters.computed += u64::from(computed);
    Ok(())
}

/// Flushes, signals and forgets the packets that ran.
fn retire(state: &mut State, doorbell: u64, first: u64, done: u64) {
    let State {
        queues,
        executables,
        counters,
        ..
    } = state;
    let Some(queue) = queue::find(queues, doorbell) else {
        return;
    };
    for prepared in queue.batch.iter().take(done as usize) {
        let parts = queue.parts.iter().skip(prepared.first);
        let sizes = parts.take(prepared.arguments).map(|(_, p)| p.size as u64);
        counters.bytes_flushed += 2 * sizes.sum::<u64>();
        if let Some(kernel) = executables.kernels.get(prepared.kernel) {
            for variable in &kernel.variables {
                counters.bytes_flushed += u64::from(variable.size);
            }
        }
        if prepared.completion != 0 {
            signals::decrement(prepared.completion);
        }
    }
    counters.packets += done;
    queue.advance(first + done);
}
