//! Memory beyond pools and mappings: who has access, handles that are shared, and what ROCR has for
//! GPUs and refuses where an AIE agent is concerned.

use std::ffi::{c_int, c_void};

use super::memory::{accessor, pool, pool_handle};
use super::{give, give_bytes};
use crate::abi::{PointerInfo, Status};
use crate::agents::{self, Value};
use crate::calls::Call;
use crate::memory::{Accessor, Pool};
use crate::state::enter;

/// What an agent was granted where an address is mapped.
///
/// # Safety
/// See the module above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_vmem_get_access(
    address: *mut c_void,
    to: *mut u32,
    agent: u64,
) -> Status {
    enter(Call::GetAccess, |state| {
        if address.is_null() {
            return Err(Status::INVALID_ARGUMENT);
        }
        // SAFETY: the caller's promise.
        unsafe { give(to, 0) }?;
        let [cpu, device] = state.memory.virtual_memory.access(address as usize)?;
        let permissions = match accessor(state, agent)? {
            Accessor::Cpu => cpu,
            Accessor::Device => device,
        };
        // SAFETY: the caller's promise.
        unsafe { give(to, permissions) }
    })
}

/// The memory that is mapped from an address on, once more.
///
/// # Safety
/// See the module above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_vmem_retain_alloc_handle(
    to: *mut u64,
    address: *mut c_void,
) -> Status {
    enter(Call::RetainMemory, |state| {
        if to.is_null() || address.is_null() {
            return Err(Status::INVALID_ARGUMENT);
        }
        let memory = state.memory.virtual_memory.retain(address as usize)?;
        state.counters.memories.up();
        // SAFETY: the caller's promise.
        unsafe { give(to, memory) }
    })
}

/// The pool and the type of memory.
///
/// # Safety
/// See the module above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_vmem_get_alloc_properties_from_handle(
    memory: u64,
    to_pool: *mut u64,
    to_kind: *mut u32,
) -> Status {
    enter(Call::MemoryProperties, |state| {
        if to_pool.is_null() || to_kind.is_null() {
            return Err(Status::INVALID_ARGUMENT);
        }
        let origin = state.memory.virtual_memory.origin(memory)?;
        // SAFETY: the caller's promise.
        unsafe { give(to_pool, pool_handle(origin.pool)) }?;
        // SAFETY: the caller's promise.
        unsafe { give(to_kind, origin.kind) }
    })
}

/// A descriptor for memory.
///
/// # Safety
/// See the module above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_vmem_export_shareable_handle(
    to: *mut c_int,
    memory: u64,
    _flags: u64,
) -> Status {
    enter(Call::ExportMemory, |state| {
        // SAFETY: the caller's promise.
        unsafe { give(to, -1) }?;
        let descriptor = state.memory.virtual_memory.export(memory)?;
        // SAFETY: the caller's promise.
        unsafe { give(to, descriptor) }
    })
}

/// The memory of a descriptor.
///
/// # Safety
/// See the module above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_vmem_import_shareable_handle(
    descriptor: c_int,
    to: *mut u64,
) -> Status {
    enter(Call::ImportMemory, |state| {
        if to.is_null() {
            return Err(Status::INVALID_ARGUMENT);
        }
        let memory = state.memory.virtual_memory.import(descriptor)?;
        state.counters.memories.up();
        // SAFETY: the caller's promise.
        unsafe { give(to, memory) }
    })
}

/// Closes a descriptor.
#[unsafe(no_mangle)]
pub extern "C" fn hsa_amd_portable_close_dmabuf(descriptor: c_int) -> Status {
    enter(Call::CloseDmabuf, |_| {
        // SAFETY: the program gives it up; a closed descriptor gives an error.
        match unsafe { libc::close(descriptor) } {
            0 => Ok(()),
            _ => Err(Status::RESOURCE_FREE),
        }
    })
}

/// A descriptor for the memory at an address: for GPUs, of which there is none.
///
/// # Safety
/// See the module above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_portable_export_dmabuf(
    address: *const c_void,
    size: usize,
    to: *mut c_int,
    to_offset: *mut u64,
) -> Status {
    enter(Call::ExportDmabuf, |_| {
        if address.is_null() || size == 0 || to.is_null() || to_offset.is_null() {
            return Err(Status::INVALID_ARGUMENT);
        }
        Err(Status::INVALID_AGENT)
    })
}

/// Maps another driver's memory: for GPUs.
///
/// # Safety
/// See the module above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_interop_map_buffer(
    count: u32,
    agents: *const u64,
    _descriptor: c_int,
    flags: u32,
    to_size: *mut usize,
    to: *mut *mut c_void,
    _to_metadata_size: *mut usize,
    _to_metadata: *mut *const c_void,
) -> Status {
    enter(Call::InteropMap, |_| {
        if count == 0 || agents.is_null() || flags != 0 || to_size.is_null() || to.is_null() {
            return Err(Status::INVALID_ARGUMENT);
        }
        Err(Status::ERROR)
    })
}

/// Gives agents access to an allocation of a pool: for GPUs.
///
/// # Safety
/// See the module above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_agents_allow_access(
    count: u32,
    agents: *const u64,
    flags: *const u32,
    address: *const c_void,
) -> Status {
    enter(Call::AllowAccess, |_| {
        if count == 0 || agents.is_null() || !flags.is_null() || address.is_null() {
            return Err(Status::INVALID_ARGUMENT);
        }
        Err(Status::INVALID_AGENT)
    })
}

/// Lets agents reach the program's own memory, which the driver of AIE agents never does.
///
/// # Safety
/// See the module above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_memory_lock(
    host: *mut c_void,
    size: usize,
    agents: *const u64,
    count: c_int,
    to: *mut *mut c_void,
) -> Status {
    enter(Call::Lock, |_| {
        if host.is_null() || size == 0 || agents.is_null() != (count == 0) {
            return Err(Status::INVALID_ARGUMENT);
        }
        // SAFETY: the caller's promise.
        unsafe { give(to, std::ptr::null_mut()) }?;
        Err(Status::ERROR)
    })
}

/// As [`hsa_amd_memory_lock`]; a pool of an AIE agent is none for this.
///
/// # Safety
/// See the module above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_memory_lock_to_pool(
    host: *mut c_void,
    size: usize,
    agents: *const u64,
    count: c_int,
    pool_of: u64,
    flags: u32,
    to: *mut *mut c_void,
) -> Status {
    enter(Call::LockToPool, |_| {
        if host.is_null() || size == 0 || agents.is_null() != (count == 0) || flags != 0 {
            return Err(Status::INVALID_ARGUMENT);
        }
        // SAFETY: the caller's promise.
        unsafe { give(to, std::ptr::null_mut()) }?;
        match pool(pool_of, false) {
            Some(_) => Err(Status::ERROR),
            None => Err(Status::INVALID_MEMORY_POOL),
        }
    })
}

/// Whether allocations move from pool to pool: they never do.
///
/// # Safety
/// See the module above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_memory_pool_can_migrate(
    from: u64,
    into: u64,
    to: *mut u8,
) -> Status {
    enter(Call::CanMigrate, |state| {
        if to.is_null() {
            return Err(Status::INVALID_ARGUMENT);
        }
        let device = state.settings.agent.is_some();
        if pool(from, device).is_none() || pool(into, device).is_none() {
            return Err(Status::INVALID_MEMORY_POOL);
        }
        // SAFETY: the caller's promise.
        unsafe { give(to, 0) }?;
        Err(Status::OUT_OF_RESOURCES)
    })
}

/// What a pool is to an agent.
///
/// # Safety
/// See the module above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_agent_memory_pool_get_info(
    agent: u64,
    handle: u64,
    attribute: u32,
    to: *mut c_void,
) -> Status {
    enter(Call::AgentPoolInfo, |state| {
        if to.is_null() {
            return Err(Status::INVALID_ARGUMENT);
        }
        if !state.is_agent(agent) {
            return Err(Status::INVALID_AGENT);
        }
        let device = state.settings.agent.is_some();
        let pool = pool(handle, device).ok_or(Status::INVALID_MEMORY_POOL)?;
        // The device reaches its own pools; the processor reaches all of them.
        let is_allowed = agent == agents::CPU || !Pool::OF_CPU.contains(&pool);
        let value = match attribute {
            0 => Value::U32(u32::from(is_allowed)),
            // No link is in between.
            1 => Value::U32(0),
            _ => return Err(Status::INVALID_ARGUMENT),
        };
        // SAFETY: the caller's promise.
        unsafe { give_bytes(to.cast(), &value.bytes()) }
    })
}

/// What is known of an address: nothing, since what knows is the GPU's driver.
///
/// # Safety
/// See the module above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_pointer_info(
    address: *const c_void,
    to: *mut PointerInfo,
    _allocate: *const c_void,
    _to_count: *mut u32,
    _to_agents: *mut *mut u64,
) -> Status {
    enter(Call::PointerInfo, |_| {
        if address.is_null() || to.is_null() {
            return Err(Status::INVALID_ARGUMENT);
        }
        // SAFETY: the caller's promise; only so much is written as the program has room for.
        let size = unsafe { (&raw const (*to).size).read_unaligned() };
        if size == 0 {
            return Err(Status::INVALID_ARGUMENT);
        }
        let mut bytes = [0; size_of::<PointerInfo>()];
        let size = bytes.len().min(size as usize);
        for (to, from) in bytes.iter_mut().zip((size as u32).to_le_bytes()) {
            *to = from;
        }
        // SAFETY: as above.
        unsafe { give_bytes(to.cast(), bytes.get(..size).unwrap_or_default()) }
    })
}
