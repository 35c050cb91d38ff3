//! Executables: variables, then code objects, then frozen; and the kernels that loading makes.

use std::collections::BTreeMap;

use aie_tools::program::{NotAProgram, Program};
use aie_tools::stream::Stream;

use crate::abi::Status;
use crate::handles::{Kind, Table};
use crate::loader::{Entry, FullElf, Refusal, Section, Target};
use crate::memory::{Memory, Place, Pool};

/// The alignment that the firmware wants of a full ELF's control code.
const CONTROL_ALIGN: usize = 16384;

/// What a control code does when it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Behaviour {
    /// Nothing that memory shows: a real compiler's, whose computation nobody here can know.
    Unknown,
    /// This.
    Known(Program),
    /// The device hangs: a double compiler did not understand the kernel, or the program is broken.
    Hangs,
}

impl Behaviour {
    fn of(control: &[u8]) -> Self {
        let Ok(stream) = Stream::parse(control) else {
            return Self::Unknown;
        };
        match Program::of_stream(&stream) {
            Ok(program) if program.steps.is_some() => Self::Known(program),
            Err(NotAProgram::Absent) => Self::Unknown,
            Ok(_) | Err(NotAProgram::Malformed { .. }) => Self::Hangs,
        }
    }
}

/// A place in a control code that takes an argument's address.
#[derive(Clone, Copy, Debug)]
pub struct ArgumentSite {
    /// The first of three words.
    pub offset: usize,
    /// Whose address.
    pub argument: usize,
    /// What is added to it.
    pub addend: u32,
    /// The words as they are in the file: they hold the place in the argument.
    pub words: [u32; 3],
}

/// Memory of an external variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Where it begins.
    pub address: u64,
    /// Its size.
    pub size: u32,
    /// Whether the control code's program reads it.
    pub is_scratchpad: bool,
}

/// A kernel in the device heap.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// Whether a full ELF's.
    pub full_elf: bool,
    /// Where its PDI lies, which is what tells it from others.
    pub pdi: usize,
    /// How many arguments it takes, where the code object says so.
    pub arguments: Option<u32>,
    /// Where its control code lies.
    pub control: usize,
    /// The control code's size.
    pub control_size: usize,
    /// Where addresses of arguments go.
    pub sites: Vec<ArgumentSite>,
    /// The external variables that it knows.
    pub variables: Vec<Variable>,
    /// What it does.
    pub behaviour: Behaviour,
}

/// What a symbol is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// A kernel, with the size of its arguments.
    Kernel {
        /// The kernel object.
        object: u64,
        /// Bytes of addresses and sizes.
        kernarg_size: u32,
    },
    /// A variable at an address.
    Variable(u64),
}

/// A symbol.
#[derive(Clone, Debug)]
pub struct Symbol {
    /// Its executable.
    pub executable: u64,
    /// Its name.
    pub name: String,
    /// What it is of.
    pub meaning: Meaning,
}

/// An executable.
#[derive(Clone, Debug, Default)]
pub struct Executable {
    /// Whether it can no longer change.
    pub frozen: bool,
    /// Its symbols by name.
    pub symbols: BTreeMap<String, u64>,
    variables: BTreeMap<String, u64>,
    kernels: Vec<u64>,
    allocations: Vec<usize>,
}

/// All executables.
#[derive(Debug)]
pub struct Executables {
    /// The executables.
    pub all: Table<Executable>,
    /// Their symbols.
    pub symbols: Table<Symbol>,
    /// Their kernels.
    pub kernels: Table<Kernel>,
}

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
type Loaded = (String, u32, Kernel);

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
            behaviour: Behaviour::of(entry.insts),
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
                    pdi = self.pdi(elf.pdis.get(section).copied().unwrap_or_default())?;
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
            behaviour: Behaviour::of(code.control),
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

impl Executables {
    /// None.
    pub fn new() -> Self {
        Self {
            all: Table::new(Kind::Executable),
            symbols: Table::new(Kind::Symbol),
            kernels: Table::new(Kind::Kernel),
        }
    }

    /// `hsa_executable_agent_global_variable_define`.
    pub fn define(&mut self, handle: u64, name: &str, address: u64) -> Result<(), Status> {
        let executable = self.all.get_mut(handle).ok_or(Status::INVALID_EXECUTABLE)?;
        if executable.frozen {
            return Err(Status::FROZEN_EXECUTABLE);
        }
        if executable.symbols.contains_key(name) {
            return Err(Status::VARIABLE_ALREADY_DEFINED);
        }
        let symbol = self.symbols.add(Symbol {
            executable: handle,
            name: name.to_owned(),
            meaning: Meaning::Variable(address),
        });
        executable.symbols.insert(name.to_owned(), symbol);
        executable.variables.insert(name.to_owned(), address);
        Ok(())
    }

    /// `hsa_executable_load_agent_code_object`. A refusal leaves everything as it was.
    pub fn load(
        &mut self,
        memory: &mut Memory,
        handle: u64,
        file: &[u8],
        agent: &Agent<'_>,
    ) -> Result<(), Refusal> {
        let executable = self.all.get_mut(handle).ok_or(Status::INVALID_EXECUTABLE)?;
        if executable.frozen {
            return Err(Status::FROZEN_EXECUTABLE.into());
        }
        let section = Section::find(file, agent.arch)?;
        let known = |(name, _): &&(String, Entry<'_>)| executable.symbols.contains_key(name);
        if let Some((name, _)) = section.kernels.iter().find(known) {
            let reason = format!("{name}: already in the executable");
            return Err(Refusal::new(Status::VARIABLE_ALREADY_DEFINED, reason));
        }
        let mut loading = Loading {
            memory,
            agent,
            variables: &executable.variables,
            allocations: Vec::new(),
            pdis: BTreeMap::new(),
        };
        let kernels: Result<Vec<Loaded>, Refusal> = section
            .kernels
            .iter()
            .map(|(name, entry)| loading.kernel(name, entry))
            .collect();
        let allocations = loading.allocations;
        let kernels = match kernels {
            Ok(kernels) => kernels,
            Err(refusal) => {
                for address in allocations {
                    let _ = memory.free(address);
                }
                return Err(refusal);
            }
        };
        executable.allocations.extend(allocations);
        for (name, kernarg_size, kernel) in kernels {
            let object = self.kernels.add(kernel);
            executable.kernels.push(object);
            let symbol = self.symbols.add(Symbol {
                executable: handle,
                name: name.clone(),
                meaning: Meaning::Kernel {
                    object,
                    kernarg_size,
                },
            });
            executable.symbols.insert(name, symbol);
        }
        Ok(())
    }

    /// `hsa_executable_freeze`.
    pub fn freeze(&mut self, handle: u64) -> Result<(), Status> {
        let executable = self.all.get_mut(handle).ok_or(Status::INVALID_EXECUTABLE)?;
        if executable.frozen {
            return Err(Status::FROZEN_EXECUTABLE);
        }
        executable.frozen = true;
        Ok(())
    }

    /// `hsa_executable_destroy`: its kernel objects are stale from now on.
    pub fn destroy(&mut self, memory: &mut Memory, handle: u64) -> Result<(), Status> {
        let executable = self.all.remove(handle).ok_or(Status::INVALID_EXECUTABLE)?;
        for symbol in executable.symbols.into_values() {
            self.symbols.remove(symbol);
        }
        for kernel in executable.kernels {
            self.kernels.remove(kernel);
        }
        for address in executable.allocations {
            let _ = memory.free(address);
        }
        Ok(())
    }

    /// Whether an allocation of the device heap is an executable's, and no program's.
    pub fn owns(&self, address: usize) -> bool {
        self.all
            .values()
            .any(|executable| executable.allocations.contains(&address))
    }

    /// What shutting down does.
    pub fn clear(&mut self) {
        self.all.clear();
        self.symbols.clear();
        self.kernels.clear();
    }
}

/// Whether a variable lies where the firmware can read it.
pub fn reachable(memory: &Memory, variable: Variable) -> bool {
    let found = memory.ranges.find(variable.address as usize, &mut 0);
    found.is_some_and(|range| range.place == Place::Heap)
}
