//! Whether a launch can pass a kernel all its buffers, where an xclbin or a PDI configures the array.
//! A full ELF has no such limits: each address is patched into its code.

use npu_runtime::Runtime;

use super::{Files, Refusal};
use crate::kernel::Target;
use npu_formats::insts::untranslated;
use npu_formats::xclbin::Xclbin;

/// So many every xclbin has declared; since July 2026 it is as many as there are.
pub const FEWEST_DECLARED: u32 = 3;
/// What a launch passes before the buffers: opcode, instructions and their number.
const BEFORE_BUFFERS: usize = 3;

/// What was compiled, and for whom.
#[derive(Clone, Copy, Debug)]
pub struct Launchable<'a> {
    /// What it is compiled for.
    pub target: Target,
    /// What will load it.
    pub runtime: Runtime,
    /// Its files, and how many buffers it takes.
    pub files: &'a Files,
    /// The kernel's name in the xclbin.
    pub xclbin_kernel: &'a str,
    /// The content of the xclbin.
    pub xclbin: &'a [u8],
    /// The content of the instruction stream.
    pub insts: &'a [u8],
}

impl Launchable<'_> {
    /// Says whether every buffer gets where it is to.
    ///
    /// # Errors
    /// The reason why one does not.
    pub fn check(&self) -> Result<(), Refusal> {
        let (kernel, count) = (&self.files.name, self.files.buffers);
        let way = match self.target {
            Target::Npu2 => "use --format elf, combine",
            _ => "combine",
        };
        if self.runtime == Runtime::Xrt && self.declared() < count {
            return Err(Refusal::Undeclared {
                kernel: kernel.clone(),
                count,
                declared: self.declared(),
                way,
            });
        }
        match untranslated(self.insts) {
            Some(buffer) if buffer < count => Err(Refusal::Untranslated {
                kernel: kernel.clone(),
                count,
                way,
            }),
            _ => Ok(()),
        }
    }

    /// How many buffers XRT will take. An xclbin that can't be read declares none.
    fn declared(&self) -> u32 {
        let kernels = Xclbin::parse(self.xclbin).and_then(|xclbin| xclbin.kernels());
        let kernels = kernels.unwrap_or_default();
        let kernel = kernels.iter().find(|it| it.name == self.xclbin_kernel);
        let arguments = kernel.map_or(0, |kernel| kernel.arguments.len());
        u32::try_from(arguments.saturating_sub(BEFORE_BUFFERS)).unwrap_or(u32::MAX)
    }
}
