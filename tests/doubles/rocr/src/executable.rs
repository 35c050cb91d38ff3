//! Executables: variables, then code objects, then frozen.

use std::collections::BTreeMap;

use aie_tools::program::Program;

use crate::abi::Status;
use crate::handles::{Kind, Table};
use crate::loader::{Entry, Refusal, Section};
use crate::loading::{self, Agent};
use crate::memory::{Memory, Place};

/// What a control code does when it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Behaviour {
    /// Nothing that memory shows: a real compiler's, whose computation nobody here can know.
    Unknown,
    /// This.
    Known(Program),
    /// The device hangs: a double compiler did not understand the kernel, the program is broken, or
    /// the code is for the other generation of the array.
    Hangs,
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

impl Kernel {
    /// Dwords that the driver counts of a command: a full ELF's arguments are in its control code,
    /// and a stream's behind the compute unit, the opcode, and the stream's address and size.
    pub fn dwords(&self, arguments: u16) -> usize {
        match self.full_elf {
            true => 2,
            false => 6 + 2 * usize::from(arguments),
        }
    }
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
        let variables = &executable.variables;
        let (kernels, allocations) = loading::load(memory, agent, variables, &section)?;
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
