//! Which kernels of a full ELF are parts of others.
//!
//! A sequence that configures a device and runs a sequence of it (`aiex.configure`, `aiex.run`) has
//! the operations of that sequence in its own control code, behind the load of the PDI. aiebu-asm
//! makes a group of the other as well: one that loads nothing and can't be dispatched by itself.

use super::bytes::u32_at;
use super::full_elf::{FullElf, Kernel};

/// The operation that configures the array.
const LOAD_PDI: char = '\u{8}';
/// Between the operations of two kernels.
const BOUNDARY: char = '\u{100}';
/// Of an ELF with more kernels none is taken for a part, nor of one with more bytes of control code.
const MOST_KERNELS: usize = 256;
const MOST_CODE: usize = 16 << 20;

impl FullElf<'_> {
    /// The kernels that load no PDI and whose operations are among those of one that does.
    #[must_use]
    pub fn parts(&self) -> Vec<&Kernel<'_>> {
        let loads = |kernel: &&Kernel<'_>| !kernel.pdis.is_empty();
        let code = (self.kernels.iter()).fold(0, |sum: usize, kernel| {
            sum.saturating_add(kernel.control.len())
        });
        let is_large = self.kernels.len() > MOST_KERNELS || code > MOST_CODE;
        if is_large || self.kernels.iter().all(|kernel| loads(&kernel)) {
            return Vec::new();
        }
        let mut entries = String::new();
        for kernel in self.kernels.iter().filter(loads) {
            entries.extend(operations(kernel.control));
            entries.push(BOUNDARY);
        }
        let others = self.kernels.iter().filter(|kernel| !loads(kernel));
        let is_part = |kernel: &&Kernel<'_>| {
            let own = operations(kernel.control);
            own.is_some_and(|own| !own.contains(LOAD_PDI) && entries.contains(&own))
        };
        others.filter(is_part).collect()
    }
}

/// The kinds of a control code's operations, a character each: registers, buffer descriptors and
/// arguments are numbered anew where a sequence is run. `None` if it can't be taken apart.
fn operations(control: &[u8]) -> Option<String> {
    let mut kinds = String::new();
    let mut at = 16;
    while at < control.len() {
        let word = |index: usize| u32_at(control, u64::try_from(at + 4 * index).ok()?);
        let kind = *control.get(at)?;
        let size = match kind {
            // aie-rt's XAIE_IO_WRITE, BLOCKWRITE, MASKWRITE and LOADPDI.
            0 => word(5)?,
            1 => word(3)?,
            3 => word(6)?,
            8 => 16,
            // What it calls custom operations have their size in front.
            128.. => word(1)?,
            _ => return None,
        };
        kinds.push(char::from(kind));
        at = at.checked_add(usize::try_from(size).ok().filter(|size| *size >= 8)?)?;
    }
    (at == control.len()).then_some(kinds)
}
