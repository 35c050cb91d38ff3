//! What the device does with a packet: addresses go into the control code, the program runs.

use aie_tools::program::{CannotRun, Operand, Program};

use crate::abi::Status;
use crate::executable::{ArgumentSite, Behaviour, Kernel};
use crate::memory::{Memory, Part};

/// The words of a shim DMA's buffer descriptor with an address added to what they hold: bits 0–31
/// of the base in the second, bits 32–47 in the third. The device sees the host's memory 2 GiB up.
pub fn shim_dma_48(words: [u32; 3], address: u64) -> [u32; 3] {
    let held = u64::from(words[2] & 0xffff) << 32 | u64::from(words[1]);
    let base = held.wrapping_add(address).wrapping_add(0x8000_0000);
    [
        words[0],
        base as u32 & 0xffff_fffc,
        words[2] & 0xffff_0000 | (base >> 32) as u32 & 0xffff,
    ]
}

/// Writes the addresses of arguments into a full ELF's control code, afresh for each packet.
pub fn patch(kernel: &Kernel, parts: &[(u64, Part)]) {
    for site in &kernel.sites {
        let ArgumentSite {
            offset,
            argument,
            addend,
            words,
        } = *site;
        let address = parts.get(argument).map_or(0, |(address, _)| *address);
        let patched = shim_dma_48(words, address.wrapping_add(u64::from(addend)));
        for (index, word) in patched.into_iter().enumerate() {
            let at = kernel.control + offset + 4 * index;
            // SAFETY: the loader has shown that the site is in the control code, which is in the
            // device heap as long as the kernel exists. No reference to it exists.
            unsafe { (at as *mut u32).write_unaligned(word) }
        }
    }
}

/// A copy of device memory: the program may hold references to it all the while.
fn read(device: usize, size: usize) -> Vec<u8> {
    let mut bytes = vec![0; size];
    // SAFETY: the part is registered, hence mapped where the device sees it.
    unsafe { std::ptr::copy_nonoverlapping(device as *const u8, bytes.as_mut_ptr(), size) }
    bytes
}

/// Runs a kernel; whether its program computed something.
///
/// # Errors
/// The device fails: the program is not understood, or reaches for memory that it was not given.
pub fn run(
    kernel: &Kernel,
    parts: &[(u64, Part)],
    memory: &Memory,
    needs_program: bool,
) -> Result<bool, Status> {
    let program = match &kernel.behaviour {
        Behaviour::Known(program) => program,
        Behaviour::Unknown if needs_program => return Err(Status::ERROR),
        Behaviour::Unknown => return Ok(false),
        Behaviour::Hangs => return Err(Status::ERROR),
    };
    if program.steps.as_ref().is_some_and(Vec::is_empty) {
        return Ok(false);
    }
    let scratchpad = kernel.variables.iter().find(|v| v.is_scratchpad);
    let variables = match scratchpad {
        Some(variable) => {
            let size = u64::from(variable.size);
            let part = memory.ranges.part(variable.address, size, &mut 0)?;
            read(part.device, part.size)
        }
        None => Vec::new(),
    };
    compute(program, parts, &variables).map_err(|_| Status::ERROR)?;
    Ok(true)
}

/// Computes on copies, and writes back what the program gives: arguments may be the same memory.
fn compute(program: &Program, parts: &[(u64, Part)], variables: &[u8]) -> Result<(), CannotRun> {
    let mut copies: Vec<Vec<u8>> = parts
        .iter()
        .map(|(_, part)| read(part.device, part.size))
        .collect();
    let mut slices: Vec<&mut [u8]> = copies.iter_mut().map(Vec::as_mut_slice).collect();
    program.run(&mut slices, variables)?;
    let mut given: Vec<u32> = Vec::new();
    for step in program.steps.as_deref().unwrap_or_default() {
        if let Operand::Argument(index) = step.result
            && !given.contains(&index)
        {
            given.push(index);
        }
    }
    for index in given {
        let missing = CannotRun::Missing(Operand::Argument(index));
        let part = parts.get(index as usize).map(|(_, part)| part);
        let (Some(part), Some(copy)) = (part, copies.get(index as usize)) else {
            return Err(missing);
        };
        if !part.writable {
            return Err(missing);
        }
        // SAFETY: as for reading; the device may write there.
        unsafe {
            std::ptr::copy_nonoverlapping(copy.as_ptr(), part.device as *mut u8, copy.len());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_added_to_descriptors() {
        // The low two bits are lost, what the third word holds besides stays.
        let words = shim_dma_48([7, 0x10, 0xabcd_0000], 0x7fff_1234_5671);
        assert_eq!(words, [7, 0x9234_5680, 0xabcd_7fff]);
    }

    #[test]
    fn a_carry_goes_into_the_third_word() {
        let words = shim_dma_48([0, 0x8000_0000, 1], 0);
        assert_eq!(words, [0, 0, 2]);
    }
}
