//! Checks packets as ROCR does at the doorbell, before any of them runs.

use crate::abi::{Packet, Status};
use crate::executable::Kernel;
use crate::loader::Refusal;
use crate::memory::{Memory, Ranges};
use crate::queue::{self, MOST_PDIS, Prepared, Queue, SIZE};
use crate::settings::{Fault, fault};
use crate::signals;
use crate::state::State;

/// What the driver puts before a command's dwords in the buffer of a chain.
const SLOT_HEADER: usize = 52;
/// The most dwords of a command: what counts them has 11 bits, and one more is declared.
const MOST_DWORDS: usize = 2046;

/// Checks a queue's packets between two indices, and leaves them prepared in it.
///
/// # Errors
/// The first thing that makes ROCR refuse the batch.
pub fn check(state: &mut State, doorbell: u64, first: u64, last: u64) -> Result<(), Refusal> {
    let State {
        queues,
        executables,
        memory,
        settings,
        counters,
        packets,
        ..
    } = state;
    let Some(queue) = queue::find(queues, doorbell) else {
        return Err(Status::INVALID_QUEUE.into());
    };
    queue.batch.clear();
    queue.parts.clear();
    if last - first > SIZE {
        return Err(malformed("more packets than the ring holds"));
    }
    let arch = settings.agent.as_deref().unwrap_or_default();
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
            slot: SLOT_HEADER + 4 * kernel.dwords(packet.arguments),
        };
        check_kernel(kernel, &packet, arch)?;
        arguments(queue, &memory.ranges, &packet)?;
        check_command(kernel, &packet, memory)?;
        queue.batch.push(prepared);
        if !settings.faults.is_empty() {
            let number = *packets + (index - first) + 1;
            if let Some(Fault::Refuse(status)) = fault(&settings.faults, number) {
                *packets = number;
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

/// What is known of a full ELF before its arguments are looked at.
fn check_kernel(kernel: &Kernel, packet: &Packet, arch: &str) -> Result<(), Refusal> {
    if kernel.full_elf && arch == "aie2" {
        return Err(malformed("a full ELF on aie2"));
    }
    if kernel
        .arguments
        .is_some_and(|n| n != u32::from(packet.arguments))
    {
        return Err(malformed("not as many arguments as the full ELF takes"));
    }
    Ok(())
}

/// What the command for the firmware needs, its arguments once found.
fn check_command(kernel: &Kernel, packet: &Packet, memory: &Memory) -> Result<(), Refusal> {
    if kernel.dwords(packet.arguments) > MOST_DWORDS {
        return Err(malformed("more arguments than a command has room for"));
    }
    for variable in &kernel.variables {
        let size = u64::from(variable.size);
        memory.ranges.part(variable.address, size, &mut 0)?;
    }
    Ok(())
}

/// Finds the memory of a packet's arguments.
fn arguments(queue: &mut Queue, ranges: &Ranges, packet: &Packet) -> Result<(), Refusal> {
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
