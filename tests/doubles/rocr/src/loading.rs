//! Loads the kernels of a section: PDIs and control codes go into the device heap, and addresses that
//! are known go into control codes. A load that fails leaves nothing there.

use std::collections::BTreeMap;

use aie_tools::program::{NotAProgram, Program};
use aie_tools::stream::{Generation, Stream};

use crate::abi::Status;
use crate::executable::{ArgumentSite, Behaviour, Kernel, Variable};
use crate::loader::{Entry, FullElf, Refusal, Section, Target};
use crate::memory::{Memory, Pool};

/// The alignment that the firmware wants of a full ELF's control code.
const CONTROL_ALIGN: usize = 16384;

/// What loads code.
pub struct Agent<'a> {
    /// Its name.
    pub arch: &'a str,
    /// Its columns.
    pub columns: u32,
    /// Whether it knows external variables.
    pub knows_variables: bool,
}

/// A load under way. What it allocated is freed if it fails.
struct Loading<'a> {
    memory: &'a mut Memory,
    agent: &'a Agent<'a>,
    variables: &'a BTreeMap<String, u64>,
    allocations: Vec<usize>,
    /// PDIs that are in the heap: where in the file, and where there.
    pdis: BTreeMap<(usize, usize), usize>,
}

/// A kernel that was loaded: name, size of its arguments, the rest.
pub type Loaded = (String, u32, Kernel);

impl Loading<'_> {
    fn place(&mut self, bytes: &[u8], align: usize) -> Result<usize, Refusal> {
        let address = self
            .memory
            .allocate(Pool::Heap, bytes.len(), align)
            .map_err(|_| Refusal::new(Status::OUT_OF_RESOURCES, "the device heap is full"))?;
        self.allocations.push(address);
        write(address, bytes);
        Ok(address)
    }

    fn pdi(&mut self, pdi: &[u8]) -> Result<usize, Refusal> {
        let key = (pdi.as_ptr() as usize, pdi.len());
        if let Some(address) = self.pdis.get(&key) {
            return Ok(*address);
        }
        let address = self.place(pdi, 1)?;
        self.pdis.insert(key, address);
        Ok(address)
    }

    fn kernel(&mut self, name: &str, entry: &Entry<'_>) -> Result<Loaded, Refusal> {
        let refuse = |reason: String| Refusal::new(Status::INVALID_CODE_OBJECT, reason);
        let (columns, most) = (entry.columns, self.agent.columns);
        if entry.kind > 1 {
            return Err(refuse(format!("{name}: unknown kind {}", entry.kind)));
        }
        if columns == 0 || columns > most {
            return Err(refuse(format!(
                "{name}: declares {columns} columns; the agent has {most}"
            )));
        }
        if entry.kind == 1 {
            return self.full_elf(name, entry);
        }
        if entry.pdi.is_empty() {
            return Err(refuse(format!(
                "{name}: has no PDI to configure the array with"
            )));
        }
        let kernel = Kernel {
            full_elf: false,
            pdi: self.pdi(entry.pdi)?,
            arguments: None,
            control: self.place(entry.insts, 1)?,
            control_size: entry.insts.len(),
            sites: Vec::new(),
            variables: Vec::new(),
            behaviour: Behaviour::of(entry.insts, self.agent.arch),
        };
        Ok((name.to_owned(), entry.kernarg_size, kernel))
    }

    fn full_elf(&mut self, name: &str, entry: &Entry<'_>) -> Result<Loaded, Refusal> {
        let refuse = |reason: String| Refusal::new(Status::INVALID_CODE_OBJECT, reason);
        if self.agent.arch != "aie2p" {
            let arch = self.agent.arch;
            return Err(refuse(format!(
                "{name}: no full-ELF format for arch {arch}"
            )));
        }
        let elf = FullElf::parse(entry.insts)?;
        let code = elf.kernels.get(name);
        let code = code.ok_or_else(|| refuse(format!("{name}: not in its full ELF")))?;
        let arguments = code.arguments();
        if entry.kernarg_size != 0 && entry.kernarg_size != 16 * arguments {
            return Err(refuse(format!("{name}: kernarg size mismatch")));
        }
        // Asked of the kernels that are packed; others in the ELF may be parts of them.
        let is_pdi = |target: &Target| matches!(target, Target::Pdi(_));
        if !code.sites.iter().any(|site| is_pdi(&site.target)) {
            return Err(refuse(format!(
                "{name}: has no PDI patch site in its control code"
            )));
        }
        let mut image = code.control.to_vec();
        let (mut sites, mut variables) = (Vec::new(), Vec::new());
        let mut pdi = 0;
        for site in &code.sites {
            let address = match &site.target {
                Target::Argument(index) => {
                    sites.push(ArgumentSite {
                        offset: site.offset,
                        argument: *index as usize,
                        addend: site.addend,
                        words: words(&image, site.offset),
                    });
                    continue;
                }
                Target::Pdi(section) => {
                    let bytes = elf.pdis.get(section).copied().unwrap_or_default();
                    if bytes.is_empty() {
                        return Err(refuse(format!("{name}: {section} has 0 bytes")));
                    }
                    pdi = self.pdi(bytes)?;
                    pdi as u64
                }
                Target::Variable { name, size } => {
                    let variable = self.variable(name, *size)?;
                    variables.push(variable);
                    variable.address
                }
            };
            let address = address.wrapping_add(u64::from(site.addend));
            if let Some(place) = image.get_mut(site.offset..site.offset + 8) {
                place.copy_from_slice(&address.to_le_bytes());
            }
        }
        let kernel = Kernel {
            full_elf: true,
            pdi,
            arguments: Some(arguments),
            control: self.place(&image, CONTROL_ALIGN)?,
            control_size: image.len(),
            sites,
            variables,
            behaviour: Behaviour::of(code.control, self.agent.arch),
        };
        Ok((name.to_owned(), 16 * arguments, kernel))
    }

    fn variable(&self, name: &str, size: u32) -> Result<Variable, Refusal> {
        if !self.agent.knows_variables {
            let reason = format!("unsupported relocation symbol: {name}");
            return Err(Refusal::new(Status::INVALID_CODE_OBJECT, reason));
        }
        let address = self.variables.get(name).copied();
        let address = address.ok_or_else(|| {
            Refusal::new(Status::VARIABLE_UNDEFINED, format!("{name} is undefined"))
        })?;
        let inside = self
            .memory
            .ranges
            .part(address, u64::from(size), &mut 0)
            .is_ok();
        if !inside {
            let reason = format!("{name}: {size} bytes are not in one allocation of the agent's");
            return Err(Refusal::new(Status::INVALID_ALLOCATION, reason));
        }
        Ok(Variable {
            address,
            size,
            is_scratchpad: name == "scratch-pad-ctrl",
        })
    }
}

/// Three words of a control code that the loader has shown to be there.
fn words(image: &[u8], offset: usize) -> [u32; 3] {
    [0, 4, 8].map(|step| {
        let four = image.get(offset + step..offset + step + 4);
        let four = four.and_then(|four| four.try_into().ok());
        four.map_or(0, u32::from_le_bytes)
    })
}

/// Writes to device memory of this module's.
fn write(address: usize, bytes: &[u8]) {
    // SAFETY: the caller allocated so many bytes there.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, bytes.len()) }
}

/// Loads all kernels of a section: them, and what they took of the device heap.
pub fn load(
    memory: &mut Memory,
    agent: &Agent<'_>,
    variables: &BTreeMap<String, u64>,
    section: &Section<'_>,
) -> Result<(Vec<Loaded>, Vec<usize>), Refusal> {
    let mut loading = Loading {
        memory,
        agent,
        variables,
        allocations: Vec::new(),
        pdis: BTreeMap::new(),
    };
    let kernels: Result<Vec<Loaded>, Refusal> = section
        .kernels
        .iter()
        .map(|(name, entry)| loading.kernel(name, entry))
        .collect();
    let allocations = loading.allocations;
    match kernels {
        Ok(kernels) => Ok((kernels, allocations)),
        Err(refusal) => {
            for address in allocations {
                let _ = memory.free(address);
            }
            Err(refusal)
        }
    }
}

impl Behaviour {
    fn of(control: &[u8], arch: &str) -> Self {
        let Ok(stream) = Stream::parse(control) else {
            // The first byte is the major version of the instructions: firmware knows 0.
            return match control.first() {
                Some(0) => Self::Unknown,
                _ => Self::Hangs,
            };
        };
        let other = match stream.generation {
            Generation::Npu1 => "aie2p",
            Generation::Npu2 => "aie2",
        };
        if arch == other {
            return Self::Hangs;
        }
        match Program::of_stream(&stream) {
            Ok(program) if program.steps.is_some() => Self::Known(program),
            Err(NotAProgram::Absent) => Self::Unknown,
            Ok(_) | Err(NotAProgram::Malformed { .. }) => Self::Hangs,
        }
    }
}
