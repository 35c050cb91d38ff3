//! What ROCR's loader asks of one kernel, before it is packed and after.

use std::collections::HashMap;

use serde::Serialize;

use super::bytes::size_of;
use super::elf32::ElfFault;
use super::full_elf::FullElf;
use super::insts::{Insts, InstsFault};
use super::{Arch, KernelKind};

/// An agent that would load kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Agent {
    /// Its name.
    pub arch: Arch,
    /// The columns that it reports.
    pub columns: u32,
}

impl Agent {
    /// The agent of a device of that architecture.
    #[must_use]
    pub const fn of(arch: Arch) -> Self {
        Self {
            arch,
            columns: arch.columns(),
        }
    }
}

/// A kernel as a loader is shown it.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// What `insts` is.
    pub kind: KernelKind,
    /// The instruction stream, or the full ELF.
    pub insts: &'a [u8],
    /// The PDI; empty if there is none.
    pub pdi: &'a [u8],
    /// Size of the kernarg block in bytes.
    pub kernarg_size: u32,
    /// Columns of the partition.
    pub columns: u32,
}

/// Why ROCR does not load a kernel; the texts are those of its loader.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No partition, or one that is wider than the device.
    #[error("declares {declared} columns; the agent has {agent}")]
    Columns {
        /// What the entry says.
        declared: u32,
        /// What the agent has.
        agent: u32,
    },
    /// The instruction stream does not consist of words.
    #[error("its instruction stream has {0} bytes, which is no multiple of 4")]
    NotWords(u64),
    /// An instruction stream alone.
    #[error("has no PDI to configure the array with")]
    NoPdi,
    /// The full ELF is refused as a whole.
    #[error("full ELF: {0}")]
    Elf(ElfFault),
    /// The full ELF has no kernel of that name.
    #[error("the full ELF has no kernel of that name")]
    NoSuchKernel,
    /// The size of the kernarg block is not the one that the full ELF needs.
    #[error("kernarg size mismatch: declared {declared}, the full ELF's arguments take {needed}")]
    Kernarg {
        /// What the entry says.
        declared: u32,
        /// 16 bytes for each argument.
        needed: u32,
    },
    /// A PDI without bytes.
    #[error("its PDI in the full ELF has 0 bytes")]
    EmptyPdi,
    /// Nothing in the control code loads a PDI.
    #[error("has no PDI patch site in its control code")]
    NoPdiSite,
    /// The stream was made for another device; ROCR would load it, and the device would hang.
    #[error("{0}; ROCR would load it and the device would hang until the driver's time-out")]
    Generation(InstsFault),
}

impl Refusal {
    /// What to do about it, for the commonest.
    #[must_use]
    pub const fn remedy(&self) -> Option<&'static str> {
        match self {
            Self::NoPdiSite => Some(
                "let the runtime sequence load its configuration with aiex.npu.load_pdi, or use \
                 --format xclbin",
            ),
            _ => None,
        }
    }
}

/// A variable that the application has to define before it loads the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Bytes that it must have.
    pub size: u32,
}

/// ROCR's loader for one agent. Each full ELF is read once, however many kernels it has.
pub struct Loader<'a> {
    agent: Agent,
    /// By address and size, as in ROCR.
    elves: HashMap<(*const u8, usize), Result<FullElf<'a>, ElfFault>>,
    /// Bytes of full ELFs that may still be read.
    budget: u64,
}

impl<'a> Loader<'a> {
    /// A loader for kernels whose code has `size` bytes in all.
    pub fn new(agent: Agent, size: u64) -> Self {
        Self {
            agent,
            elves: HashMap::new(),
            budget: size,
        }
    }

    /// Whether the kernel loads, and which variables it then needs.
    pub fn judge(&mut self, kernel: &Candidate<'a>) -> Result<Vec<Variable>, Refusal> {
        if kernel.columns == 0 || kernel.columns > self.agent.columns {
            return Err(Refusal::Columns {
                declared: kernel.columns,
                agent: self.agent.columns,
            });
        }
        match kernel.kind {
            KernelKind::PdiInsts => stream(kernel).map(|()| Vec::new()),
            KernelKind::FullElf => self.full_elf(kernel),
        }
    }

    fn full_elf(&mut self, kernel: &Candidate<'a>) -> Result<Vec<Variable>, Refusal> {
        let elf = match self.read(kernel.insts) {
            Ok(elf) => elf,
            Err(fault) => return Err(Refusal::Elf(fault.clone())),
        };
        let found = elf.kernel(kernel.name).ok_or(Refusal::NoSuchKernel)?;
        let needed = found.kernarg_size();
        if kernel.kernarg_size != 0 && kernel.kernarg_size != needed {
            return Err(Refusal::Kernarg {
                declared: kernel.kernarg_size,
                needed,
            });
        }
        if found.pdis.is_empty() {
            return Err(Refusal::NoPdiSite);
        }
        if found.pdis.iter().any(|site| site.image.is_empty()) {
            return Err(Refusal::EmptyPdi);
        }
        let mut variables: Vec<_> = (found.variables.iter())
            .map(|site| Variable {
                name: String::from_utf8_lossy(site.name).into_owned(),
                size: site.size,
            })
            .collect();
        variables.sort_by(|one, other| one.name.cmp(&other.name));
        variables.dedup();
        Ok(variables)
    }

    /// The full ELF in `bytes`.
    pub fn read(&mut self, bytes: &'a [u8]) -> Result<&FullElf<'a>, &ElfFault> {
        let budget = &mut self.budget;
        let arch = self.agent.arch;
        self.elves
            .entry((bytes.as_ptr(), bytes.len()))
            .or_insert_with(|| {
                // Only ELFs that lie over each other can be more than there is.
                *budget = (budget.checked_sub(size_of(bytes))).ok_or(ElfFault::Overlap)?;
                FullElf::parse(bytes, arch)
            })
            .as_ref()
    }
}

fn stream(kernel: &Candidate<'_>) -> Result<(), Refusal> {
    let size = size_of(kernel.insts);
    if !size.is_multiple_of(4) {
        return Err(Refusal::NotWords(size));
    }
    if kernel.pdi.is_empty() {
        return Err(Refusal::NoPdi);
    }
    Ok(())
}

/// The fault of a stream that is whole and made for another architecture than `arch`.
pub fn other_generation(insts: &[u8], arch: Arch) -> Option<InstsFault> {
    let known = Insts::parse(insts).ok()?.arch()?;
    (known != arch).then_some(InstsFault::Generation {
        found: known.generation(),
        arch,
    })
}
