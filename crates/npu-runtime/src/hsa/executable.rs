//! Loaded hsacos. The same content is loaded once; what no kernel uses any more is kept for a
//! while, and given up when there is too much of it or no memory for something new.

use super::instance::{Agents, Instance};
use super::queue::Dispatchable;
use super::result::{Failure, Rocr};
use super::section::{self, External, Form};
use super::sys;
use super::variable::Memory;
use crate::error::{HsacoFault, VariableError, VariableFault};
use crate::{Artifact, ArtifactFault, Error};
use std::ffi::CString;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// As many executables are kept that no kernel uses.
const MOST_IDLE: usize = 32;

/// An executable and its kernels, destroyed when nobody has it any more.
pub(super) struct Executable {
    rocr: &'static Rocr,
    raw: sys::Executable,
    kernels: Vec<Loaded>,
    /// Outlive the executable, which has their addresses.
    variables: Vec<(String, Arc<Memory>)>,
    /// Counts destroyed executables whose PDIs a queue may still know.
    retired: Arc<AtomicU64>,
}

/// A kernel of an executable.
pub(super) struct Loaded {
    pub(super) name: String,
    pub(super) dispatchable: Dispatchable,
    /// Its memory arguments.
    pub(super) arguments: u16,
}

impl Executable {
    pub(super) fn kernels(&self) -> &[Loaded] {
        &self.kernels
    }

    pub(super) fn variables(&self) -> &[(String, Arc<Memory>)] {
        &self.variables
    }
}

impl Drop for Executable {
    fn drop(&mut self) {
        if self.rocr.is_foreign() {
            return;
        }
        let takes_a_place = |kernel: &Loaded| kernel.dispatchable.form == Form::Instructions;
        if self.kernels.iter().any(takes_a_place) {
            self.retired.fetch_add(1, Ordering::Release);
        }
        // SAFETY: kernels keep their executable, and launches end before their kernel does.
        unsafe { self.rocr.executable_destroy(self.raw).ok() };
    }
}

/// The executables of a device, by content.
pub(super) struct Executables {
    retired: Arc<AtomicU64>,
    /// Least recently asked for first.
    entries: Vec<Entry>,
    /// How many were loaded so far.
    pub(super) loaded: u64,
}

struct Entry {
    content: [u8; 32],
    /// The variables that the user gave for it.
    given: Vec<(String, Arc<Memory>)>,
    executable: Arc<Executable>,
}

impl Entry {
    fn is_idle(&self) -> bool {
        Arc::strong_count(&self.executable) == 1
    }

    fn is_of(&self, content: &[u8; 32], given: &[(String, Arc<Memory>)]) -> bool {
        let same = |((name, memory), (other, others)): (&(String, Arc<Memory>), &(String, _))| {
            name == other && Arc::ptr_eq(memory, others)
        };
        self.content == *content
            && self.given.len() == given.len()
            && self.given.iter().zip(given).all(same)
    }
}

impl Executables {
    pub(super) fn new(retired: Arc<AtomicU64>) -> Self {
        Self {
            retired,
            entries: Vec::new(),
            loaded: 0,
        }
    }

    /// The executable of an hsaco. What it has for the device's arch is checked before ROCR sees
    /// it.
    pub(super) fn get(
        &mut self,
        instance: &Instance,
        artifact: &Artifact,
        given: &[(String, Arc<Memory>)],
    ) -> Result<Arc<Executable>, Error> {
        if let Some(content) = artifact.promised()
            && let Some(executable) = self.find(content, given)
        {
            return Ok(executable);
        }
        let (bytes, content) = artifact.read()?;
        if let Some(executable) = self.find(&content, given) {
            return Ok(executable);
        }
        let source = Source {
            instance,
            artifact,
            bytes: &bytes,
            given,
        };
        let executable = match source.load(self) {
            // Memory that idle executables have is better used for this one.
            Err(Error::Call(error))
                if matches!(
                    error.status,
                    sys::OUT_OF_RESOURCES | sys::INVALID_ALLOCATION
                ) && self.trim_to(0) > 0 =>
            {
                source.load(self)?
            }
            loaded => loaded?,
        };
        self.loaded += 1;
        let executable = Arc::new(executable);
        self.entries.push(Entry {
            content,
            given: given.to_vec(),
            executable: executable.clone(),
        });
        Ok(executable)
    }

    fn find(
        &mut self,
        content: &[u8; 32],
        given: &[(String, Arc<Memory>)],
    ) -> Option<Arc<Executable>> {
        let index = self
            .entries
            .iter()
            .position(|entry| entry.is_of(content, given))?;
        let entry = self.entries.remove(index);
        let executable = entry.executable.clone();
        self.entries.push(entry);
        Some(executable)
    }

    /// Gives up what is too much.
    pub(super) fn trim(&mut self) {
        self.trim_to(MOST_IDLE);
    }

    /// Gives up all but `most` of what is idle, the least recently used first; how many that were.
    fn trim_to(&mut self, most: usize) -> usize {
        let idle = self.entries.iter().filter(|entry| entry.is_idle()).count();
        let mut surplus = idle.saturating_sub(most);
        let before = self.entries.len();
        self.entries.retain(|entry| {
            let goes = surplus > 0 && entry.is_idle();
            surplus -= usize::from(goes);
            !goes
        });
        before - self.entries.len()
    }
}

/// An hsaco that is to be loaded.
struct Source<'a> {
    instance: &'a Instance,
    artifact: &'a Artifact,
    bytes: &'a [u8],
    given: &'a [(String, Arc<Memory>)],
}

impl Source<'_> {
    fn load(&self, executables: &Executables) -> Result<Executable, Error> {
        let Agents { npu, .. } = self.instance.agents;
        let entries =
            section::kernels(self.bytes, npu.arch()).map_err(|fault| self.fault(fault))?;
        for entry in &entries {
            if entry.columns == 0 || entry.columns > npu.columns() {
                return Err(self.fault(HsacoFault::Columns {
                    name: entry.name.into(),
                    declared: entry.columns,
                    available: npu.columns(),
                }));
            }
        }
        let variables = self.variables(&entries)?;
        let rocr = self.instance.rocr;
        let raw = rocr
            .executable_create()
            .map_err(|failure| self.failed(failure))?;
        // From here on, `drop` destroys it.
        let mut executable = Executable {
            rocr,
            raw,
            kernels: Vec::new(),
            variables,
            retired: executables.retired.clone(),
        };
        self.fill(&executable)?;
        for entry in entries {
            let kernel = self.kernel(&executable, entry.name, entry.form)?;
            executable.kernels.push(kernel);
        }
        Ok(executable)
    }

    /// Every variable that the hsaco's full ELFs expect: the user's, or a new one.
    fn variables(
        &self,
        entries: &[section::Entry<'_>],
    ) -> Result<Vec<(String, Arc<Memory>)>, Error> {
        let mut expected: Vec<(External, &str)> = Vec::new();
        let mut seen: Option<&[u8]> = None;
        for entry in entries.iter().filter(|entry| entry.form == Form::FullElf) {
            // Kernels of one full ELF share it.
            if seen.is_some_and(|code| ptr::eq(code, entry.code)) {
                continue;
            }
            seen = Some(entry.code);
            let externals = section::externals(entry.code).map_err(|fault| self.fault(fault))?;
            for external in externals {
                match expected
                    .iter_mut()
                    .find(|(other, _)| other.name == external.name)
                {
                    Some((other, _)) => other.size = other.size.max(external.size),
                    None => expected.push((external, entry.name)),
                }
            }
        }
        let mut variables = Vec::new();
        for (External { name, size }, kernel) in expected {
            let refused = |fault| {
                let name = name.clone();
                Error::Variable(Box::new(VariableError { name, fault }))
            };
            let given = self.given.iter().find(|(other, _)| *other == name);
            let memory = match given {
                Some((_, memory)) if memory.bytes() < size => {
                    return Err(refused(VariableFault::TooSmall {
                        kernel: kernel.into(),
                        needed: size,
                        found: memory.bytes(),
                    }));
                }
                Some((_, memory)) => memory.clone(),
                None if size == 0 || !size.is_multiple_of(4) => {
                    return Err(refused(VariableFault::Size { bytes: size }));
                }
                None => Arc::new(Memory::new(self.instance, &name, size)?),
            };
            variables.push((name, memory));
        }
        let is_expected = |name: &str| variables.iter().any(|(other, _)| other == name);
        if let Some((name, _)) = self.given.iter().find(|(name, _)| !is_expected(name)) {
            let kernel = entries.first().map_or("", |entry| entry.name).into();
            let found = variables.iter().map(|(name, _)| name.clone()).collect();
            return Err(Error::Variable(Box::new(VariableError {
                name: name.clone(),
                fault: VariableFault::Undefined { kernel, found },
            })));
        }
        Ok(variables)
    }

    /// Defines the variables, loads the code, and freezes the executable.
    fn fill(&self, executable: &Executable) -> Result<(), Error> {
        let rocr = self.instance.rocr;
        let agent = self.instance.agents.aie;
        for (name, memory) in &executable.variables {
            let symbol = c_name(name)?;
            // SAFETY: the executable is live, and keeps the memory.
            let defined =
                unsafe { rocr.variable_define(executable.raw, agent, &symbol, memory.start()) };
            defined.map_err(|failure| {
                let doing = format!("defining variable `{name}` for {}", self.artifact);
                failure.error(rocr, doing, "")
            })?;
        }
        // SAFETY: the reader is destroyed below, before the bytes go.
        let reader = unsafe { rocr.reader_create(self.bytes) };
        let reader = reader.map_err(|failure| self.failed(failure))?;
        // SAFETY: executable and reader are live.
        let loaded = unsafe {
            rocr.executable_load(executable.raw, agent, reader)
                .and_then(|()| rocr.executable_freeze(executable.raw))
        };
        // SAFETY: it is of use only until the executable is frozen.
        unsafe { rocr.reader_destroy(reader).ok() };
        loaded.map_err(|failure| self.failed(failure))
    }

    fn kernel(&self, executable: &Executable, name: &str, form: Form) -> Result<Loaded, Error> {
        let rocr = self.instance.rocr;
        let agent = self.instance.agents.aie;
        let symbol = c_name(name)?;
        // SAFETY: the executable is live and frozen.
        let found = unsafe {
            rocr.symbol(executable.raw, agent, &symbol)
                .and_then(|symbol| {
                    let object = rocr.kernel_object(symbol)?;
                    Ok((object, rocr.kernarg_size(symbol)?))
                })
        };
        let (object, kernarg_size) = found.map_err(|failure| self.failed(failure))?;
        Ok(Loaded {
            name: name.into(),
            dispatchable: Dispatchable {
                object,
                form,
                placed: AtomicU64::new(0),
            },
            // An address and a size each.
            arguments: u16::try_from(kernarg_size / 16).unwrap_or(u16::MAX),
        })
    }

    fn fault(&self, fault: HsacoFault) -> Error {
        Error::Artifact {
            artifact: self.artifact.to_string().into(),
            fault: ArtifactFault::Hsaco(Box::new(fault)),
        }
    }

    #[cold]
    fn failed(&self, failure: Failure) -> Error {
        let rocr = self.instance.rocr;
        let library = rocr.path.display();
        let advice = match failure.status {
            sys::INVALID_CODE_OBJECT => format!(
                "either the hsaco is malformed (`npu-build hsaco dump` shows it), or {library} is \
                 too old to load hsacos for NPUs, or those with external variables: \
                 `rocm-sdk-core` 10.3.0a20261027 can"
            ),
            sys::VARIABLE_UNDEFINED => format!(
                "the hsaco expects a variable that npu-runtime did not find in it; please report \
                 it, with the version of {library}"
            ),
            sys::OUT_OF_RESOURCES | sys::INVALID_ALLOCATION => {
                "the device heap has 64 MiB for all loaded kernels: drop those that are not needed"
                    .into()
            }
            _ => String::new(),
        };
        failure.error(rocr, format!("loading {}", self.artifact), advice)
    }
}

fn c_name(name: &str) -> Result<CString, Error> {
    CString::new(name).map_err(|_| {
        Error::Variable(Box::new(VariableError {
            name: name.into(),
            fault: VariableFault::Name,
        }))
    })
}
