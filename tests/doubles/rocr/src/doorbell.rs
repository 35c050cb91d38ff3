//! The doorbell: checks every packet between the indices, runs them one after the other on the
//! calling thread, and retires those that ran.
//!
//! A batch that is refused does not run at all. A device error ends it behind the packets that ran.
//! Either suspends the queue for ever, and calls its error callback once, without the lock.

use std::sync::MutexGuard;
use std::time::Duration;

use crate::abi::{Packet, Status};
use crate::executable::{Kernel, reachable};
use crate::loader::Refusal;
use crate::memory::Part;
use crate::queue::{MOST_PDIS, Prepared, Queue, SIZE};
use crate::settings::Fault;
use crate::state::{self, State};
use crate::{execute, signals};

/// The longest chain of commands that the firmware was seen to run.
const LONGEST_CHAIN: u64 = 40;
/// The buffer that holds a chain.
const CHAIN_BYTES: u64 = 4096;
/// The slot of a full ELF's command in it.
const FULL_ELF_SLOT: u64 = 60;

/// The lock on the runtime, which is given up while a device makes no progress.
struct Held(Option<MutexGuard<'static, Option<State>>>);

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
        if let Some(queue) = self.state().and_then(|state| state.queue.as_mut()) {
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

/// Rings the doorbell.
pub fn ring() {
    let mut held = Held(Some(state::lock()));
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
    let Some(queue) = state.queue.as_mut() else {
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
    let Some(state) = held.state() else {
        return Outcome::Idle;
    };
    let Some(queue) = state.queue.as_mut().filter(|queue| !queue.suspended) else {
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
    if let Err(refusal) = prepare(state, first, last) {
        return Outcome::Refused(refusal);
    }
    if state.settings.doorbell_latency != 0 {
        state::spin(state.settings.doorbell_latency);
    }
    let (done, error) = run(held);
    let Some(state) = held.state() else {
        return Outcome::Idle;
    };
    retire(state, first, done);
    match error {
        Ok(()) => Outcome::Done,
        Err(status) => Outcome::Failed(status),
    }
}

/// Checks the packets of a batch.
fn prepare(state: &mut State, first: u64, last: u64) -> Result<(), Refusal> {
    let State {
        queue,
        executables,
        memory,
        settings,
        counters,
        packets,
        ..
    } = state;
    let Some(queue) = queue else {
        return Err(Status::INVALID_QUEUE.into());
    };
    queue.batch.clear();
    queue.parts.clear();
    if last - first > SIZE {
        return Err(malformed("more packets than the ring holds"));
    }
    let known_pdis = queue.pdis.len();
    let mut full_elf = None;
    for index in first..last {
        let packet = queue.packet(index);
        check_format(&packet)?;
        let kernel = executables
            .kernels
            .get(packet.kernel())
            .ok_or_else(|| malformed("no such kernel object"))?;
        if *full_elf.get_or_insert(kernel.full_elf) != kernel.full_elf {
            return Err(malformed("full ELFs and instruction streams in one batch"));
        }
        if packet.completion != 0 && !signals::exists(packet.completion) {
            let reason = "the completion signal does not exist";
            return Err(Refusal::new(Status::INVALID_SIGNAL, reason));
        }
        if !kernel.full_elf && !queue.pdis.contains(&kernel.pdi) {
            if queue.pdis.len() == MOST_PDIS {
                queue.pdis.truncate(known_pdis);
                let reason = "no compute unit is left for a 33rd PDI";
                return Err(Refusal::new(Status::OUT_OF_RESOURCES, reason));
            }
            queue.pdis.push(kernel.pdi);
        }
        let prepared = Prepared {
            kernel: packet.kernel(),
            completion: packet.completion,
            first: queue.parts.len(),
            arguments: usize::from(packet.arguments),
        };
        arguments(queue, &memory.ranges, &packet)?;
        check_kernel(kernel, &packet, state_arch(settings), memory)?;
        queue.batch.push(prepared);
        if !settings.faults.is_empty() {
            let number = *packets + (index - first) + 1;
            if let Some(Fault::Refuse(status)) = fault(&settings.faults, number) {
                return Err(Refusal::new(status, "told to refuse this packet"));
            }
        }
    }
    queue.full_elf = full_elf.unwrap_or(false);
    if queue.full_elf {
        // The context of a full ELF has no compute units.
        queue.pdis.clear();
    }
    counters.most_pdis = counters.most_pdis.max(queue.pdis.len() as u64);
    Ok(())
}

fn state_arch(settings: &crate::settings::Settings) -> &str {
    settings.agent.as_deref().unwrap_or_default()
}

fn malformed(reason: &str) -> Refusal {
    Refusal::new(Status::INVALID_PACKET_FORMAT, reason)
}

/// What can be said of a packet alone. The fields in which older layouts have addresses are zero.
fn check_format(packet: &Packet) -> Result<(), Refusal> {
    let bad = if packet.header & 0xff != 0 {
        "the header's type is not ready"
    } else if packet.opcode != 0 {
        "the opcode is none of a queue in kernel mode"
    } else if packet.count != 24 {
        "the count is not 24"
    } else if packet.reserved_40 != [0; 3]
        || packet.reserved_6 != [0; 2]
        || (packet.reserved_16, packet.reserved_30) != (0, 0)
    {
        "a reserved field is not zero: another ROCR's packet"
    } else if packet.kernel() == 0 {
        "the kernel object is null: the executable was not frozen"
    } else if packet.arguments > 0 && packet.kernarg.is_null() {
        "arguments without an address"
    } else {
        return Ok(());
    };
    Err(malformed(bad))
}

fn check_kernel(
    kernel: &Kernel,
    packet: &Packet,
    arch: &str,
    memory: &crate::memory::Memory,
) -> Result<(), Refusal> {
    if kernel.full_elf && arch == "aie2" {
        return Err(malformed("a full ELF on aie2"));
    }
    if kernel
        .arguments
        .is_some_and(|n| n != u32::from(packet.arguments))
    {
        return Err(malformed("not as many arguments as the full ELF takes"));
    }
    for variable in &kernel.variables {
        let size = u64::from(variable.size);
        memory.ranges.part(variable.address, size, &mut 0)?;
    }
    Ok(())
}

/// Finds the memory of a packet's arguments.
fn arguments(
    queue: &mut Queue,
    ranges: &crate::memory::Ranges,
    packet: &Packet,
) -> Result<(), Refusal> {
    let count = usize::from(packet.arguments);
    if count == 0 {
        return Ok(());
    }
    let [kernarg_hint, hints @ ..] = &mut queue.hints;
    let address = packet.kernarg as u64;
    let block = ranges
        .part(address, 16 * count as u64, kernarg_hint)
        .map_err(|status| Refusal::new(status, "the kernargs are not in registered memory"))?;
    if !block.device.is_multiple_of(8) {
        return Err(malformed("the kernargs are misaligned"));
    }
    for index in 0..count {
        // SAFETY: the whole block is in registered memory, which is mapped.
        let (address, size) = unsafe {
            let words = block.device as *const u64;
            (
                words.add(index).read_volatile(),
                words.add(count + index).read_volatile(),
            )
        };
        let mut none = 0;
        let hint = hints.get_mut(index).unwrap_or(&mut none);
        let part = ranges.part(address, size, hint).map_err(|status| {
            let reason = format!("argument {index}: {size} bytes at {address:#x}");
            Refusal::new(status, reason)
        })?;
        queue.parts.push((address, part));
    }
    Ok(())
}

fn fault(faults: &[(u64, Fault)], number: u64) -> Option<Fault> {
    let found = faults.iter().find(|(n, _)| *n == number);
    found.map(|(_, fault)| *fault)
}

/// How many of the commands from one on are submitted as one chain.
fn chain(queue: &Queue, from: usize) -> u64 {
    let (mut bytes, mut count) = (0, 0);
    for prepared in queue.batch.iter().skip(from) {
        bytes += match queue.full_elf {
            true => FULL_ELF_SLOT,
            false => 52 + 4 * prepared.arguments as u64,
        };
        if bytes > CHAIN_BYTES {
            break;
        }
        count += 1;
    }
    count.max(1)
}

/// Runs a batch that was checked: how many packets ran, and whether that is all of them.
fn run(held: &mut Held) -> (u64, Result<(), Status>) {
    let (mut done, mut chained) = (0, 0);
    loop {
        let Some(state) = held.state() else {
            return (done, Err(Status::ERROR));
        };
        let State {
            queue: Some(queue), ..
        } = state
        else {
            return (done, Err(Status::ERROR));
        };
        let Some(prepared) = queue.batch.get(done as usize).copied() else {
            return (done, Ok(()));
        };
        if done == chained {
            let length = chain(queue, done as usize);
            if length > LONGEST_CHAIN {
                return (done, Err(Status::ERROR));
            }
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
    let state = held.state().ok_or(Status::ERROR)?;
    let State {
        queue: Some(queue),
        executables,
        memory,
        settings,
        counters,
        ..
    } = state
    else {
        return Err(Status::ERROR);
    };
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
fn retire(state: &mut State, first: u64, done: u64) {
    let State {
        queue: Some(queue),
        executables,
        counters,
        ..
    } = state
    else {
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
