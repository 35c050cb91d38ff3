//! Code object readers, executables and symbols.

use std::ffi::{c_char, c_int, c_void};
use std::fs::File;
use std::mem::ManuallyDrop;
use std::os::fd::FromRawFd as _;
use std::os::unix::fs::FileExt as _;

use super::{give, give_bytes, text};
use crate::abi::Status;
use crate::agents::Value;
use crate::calls::Call;
use crate::executable::{Executable, Meaning};
use crate::handles::Table;
use crate::loader::Refusal;
use crate::loading::Agent;
use crate::state::{State, enter};

/// All of an open file, whatever its position.
fn contents(descriptor: c_int) -> Option<Vec<u8>> {
    if descriptor < 0 {
        return None;
    }
    // SAFETY: the file is not closed here; a closed descriptor gives an error.
    let file = ManuallyDrop::new(unsafe { File::from_raw_fd(descriptor) });
    let size = file.metadata().ok()?.len();
    let mut bytes = vec![0; usize::try_from(size).ok()?];
    file.read_exact_at(&mut bytes, 0).ok()?;
    Some(bytes)
}

/// Reads a code object from a file, which may be closed then.
///
/// # Safety
/// See the module above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_code_object_reader_create_from_file(
    descriptor: c_int,
    to: *mut u64,
) -> Status {
    enter(Call::ReaderFromFile, |state| {
        if to.is_null() {
            return Err(Status::INVALID_ARGUMENT);
        }
        let bytes = contents(descriptor).ok_or(Status::INVALID_FILE)?;
        if bytes.is_empty() {
            return Err(Status::INVALID_FILE);
        }
        state.counters.readers.up();
        // SAFETY: the caller's promise.
        unsafe { give(to, state.readers.add(bytes)) }
    })
}

/// Reads a code object from memory. Unlike ROCR the double keeps a copy.
///
/// # Safety
/// See the module above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_code_object_reader_create_from_memory(
    bytes: *const c_void,
    size: usize,
    to: *mut u64,
) -> Status {
    enter(Call::ReaderFromMemory, |state| {
        if bytes.is_null() || size == 0 || to.is_null() {
            return Err(Status::INVALID_ARGUMENT);
        }
        // SAFETY: the caller's promise.
        let bytes = unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), size) };
        state.counters.readers.up();
        // SAFETY: the caller's promise.
        unsafe { give(to, state.readers.add(bytes.to_vec())) }
    })
}

/// Destroys a reader.
#[unsafe(no_mangle)]
pub extern "C" fn hsa_code_object_reader_destroy(reader: u64) -> Status {
    enter(Call::ReaderDestroy, |state| {
        let found = state.readers.remove(reader);
        found.ok_or(Status::INVALID_CODE_OBJECT_READER)?;
        state.counters.readers.down(1);
        Ok(())
    })
}

/// Creates an executable.
///
/// # Safety
/// See the module above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_executable_create_alt(
    profile: u32,
    rounding: u32,
    _options: *const c_char,
    to: *mut u64,
) -> Status {
    enter(Call::ExecutableCreate, |state| {
        if profile > 1 || rounding > 2 || to.is_null() {
            return Err(Status::INVALID_ARGUMENT);
        }
        let executable = state.executables.all.add(Executable::default());
        state.counters.executables.up();
        // SAFETY: the caller's promise.
        unsafe { give(to, executable) }
    })
}

/// Destroys an executable.
#[unsafe(no_mangle)]
pub extern "C" fn hsa_executable_destroy(executable: u64) -> Status {
    enter(Call::ExecutableDestroy, |state| {
        state.executables.destroy(&mut state.memory, executable)?;
        state.counters.executables.down(1);
        Ok(())
    })
}

fn known(all: &Table<Executable>, executable: u64) -> Result<(), Status> {
    all.get(executable)
        .map(|_| ())
        .ok_or(Status::INVALID_EXECUTABLE)
}

/// Defines a variable at an address.
///
/// # Safety
/// See the module above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_executable_agent_global_variable_define(
    executable: u64,
    agent: u64,
    name: *const c_char,
    address: *mut c_void,
) -> Status {
    enter(Call::VariableDefine, |state| {
        known(&state.executables.all, executable)?;
        if !state.is_device(agent) {
            return Err(Status::INVALID_AGENT);
        }
        // SAFETY: the caller's promise.
        let name = unsafe { text(name) }?;
        state.executables.define(executable, &name, address as u64)
    })
}

fn load(state: &mut State, executable: u64, reader: u64) -> Result<(), Refusal> {
    let State {
        executables,
        memory,
        readers,
        settings,
        ..
    } = state;
    let bytes = readers
        .get(reader)
        .ok_or(Status::INVALID_CODE_OBJECT_READER)?;
    if settings.no_hsaco {
        let found = executables.all.get(executable);
        if found.is_some_and(|executable| executable.frozen) {
            return Err(Status::FROZEN_EXECUTABLE.into());
        }
        let reason = "an old ROCR, to which every code object is the GPU's";
        return Err(Refusal::new(Status::INVALID_CODE_OBJECT, reason));
    }
    let agent = Agent {
        arch: settings.agent.as_deref().unwrap_or_default(),
        columns: settings.columns(),
        knows_variables: !settings.no_variables,
    };
    executables.load(memory, executable, bytes, &agent)
}

/// Loads the kernels of a code object.
///
/// # Safety
/// See the module above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_executable_load_agent_code_object(
    executable: u64,
    agent: u64,
    reader: u64,
    _options: *const c_char,
    loaded: *mut u64,
) -> Status {
    enter(Call::Load, |state| {
        known(&state.executables.all, executable)?;
        if !state.is_device(agent) {
            return Err(Status::INVALID_AGENT);
        }
        load(state, executable, reader).map_err(|refusal| state.refuse(refusal))?;
        if !loaded.is_null() {
            // SAFETY: the caller's promise. Nothing takes this handle.
            unsafe { give(loaded, 0) }?;
        }
        Ok(())
    })
}

/// Freezes an executable: its kernels can be dispatched.
#[unsafe(no_mangle)]
pub extern "C" fn hsa_executable_freeze(executable: u64, _options: *const c_char) -> Status {
    enter(Call::Freeze, |state| state.executables.freeze(executable))
}

/// A symbol by its name.
///
/// # Safety
/// See the module above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_executable_get_symbol_by_name(
    executable: u64,
    name: *const c_char,
    agent: *const u64,
    to: *mut u64,
) -> Status {
    enter(Call::SymbolByName, |state| {
        let found = state.executables.all.get(executable);
        let found = found.ok_or(Status::INVALID_EXECUTABLE)?;
        // SAFETY: the caller's promise.
        let name = unsafe { text(name) }?;
        // Kernels and variables belong to the agent: without one they are not found.
        if agent.is_null() {
            return Err(Status::INVALID_SYMBOL_NAME);
        }
        // SAFETY: the caller's promise.
        let agent = unsafe { agent.read_unaligned() };
        if !state.is_agent(agent) {
            return Err(Status::INVALID_AGENT);
        }
        let symbol = found.symbols.get(&name).filter(|_| state.is_device(agent));
        // SAFETY: the caller's promise.
        unsafe { give(to, *symbol.ok_or(Status::INVALID_SYMBOL_NAME)?) }
    })
}

/// An attribute of a symbol.
///
/// # Safety
/// See the module above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_executable_symbol_get_info(
    symbol: u64,
    attribute: u32,
    to: *mut c_void,
) -> Status {
    enter(Call::SymbolInfo, |state| {
        let symbol = state.executables.symbols.get(symbol);
        let symbol = symbol.ok_or(Status::INVALID_EXECUTABLE_SYMBOL)?;
        let executable = state.executables.all.get(symbol.executable);
        let frozen = executable.is_some_and(|executable| executable.frozen);
        let value = match (attribute, symbol.meaning) {
            (0, Meaning::Variable(_)) => Value::U32(0),
            (0, Meaning::Kernel { .. }) => Value::U32(1),
            (1, _) => Value::U32(symbol.name.len() as u32),
            (2, _) => Value::Bytes(symbol.name.clone().into_bytes()),
            // LINKAGE: program.
            (5, _) => Value::U32(1),
            (11, Meaning::Kernel { kernarg_size, .. }) => Value::U32(kernarg_size),
            (12, Meaning::Kernel { .. }) => Value::U32(64),
            (13 | 14, Meaning::Kernel { .. }) => Value::U32(0),
            (17, _) => Value::U8(1),
            (20, _) => Value::U64(crate::agents::DEVICE),
            (21, Meaning::Variable(address)) => Value::U64(address),
            (22, Meaning::Kernel { object, .. }) => Value::U64(if frozen { object } else { 0 }),
            _ => return Err(Status::INVALID_ARGUMENT),
        };
        // SAFETY: the caller's promise.
        unsafe { give_bytes(to.cast(), &value.bytes()) }
    })
}
