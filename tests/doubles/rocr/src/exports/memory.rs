//! Pools and mappings.

use std::ffi::c_void;

use super::{give, give_bytes};
use crate::abi::{AccessDescription, Status, Visit};
use crate::agents::{self, Value};
use crate::calls::Call;
use crate::handles::{Kind, handle, parts};
use crate::memory::{Accessor, Origin, PAGE, Pool};
use crate::state::{State, enter};

const POOLS: [Pool; 5] = [
    Pool::CpuFine,
    Pool::CpuCoarse,
    Pool::Kernarg,
    Pool::Heap,
    Pool::Data,
];

pub(super) fn pool_handle(pool: Pool) -> u64 {
    let index = POOLS.iter().position(|p| *p == pool).unwrap_or(0);
    handle(Kind::Pool, 1, index as u32)
}

pub(super) fn pool(handle: u64, device: bool) -> Option<Pool> {
    let (_, index) = parts(Kind::Pool, handle)?;
    let pool = POOLS.get(index as usize).copied()?;
    (device || Pool::OF_CPU.contains(&pool)).then_some(pool)
}

/// Who an agent is to memory.
pub(super) fn accessor(state: &State, agent: u64) -> Result<Accessor, Status> {
    match agent {
        agents::CPU => Ok(Accessor::Cpu),
        agent if state.is_device(agent) => Ok(Accessor::Device),
        _ => Err(Status::INVALID_AGENT),
    }
}

/// Calls back for each pool of an agent, in order.
///
/// # Safety
/// See the module above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_agent_iterate_memory_pools(
    agent: u64,
    callback: Option<Visit>,
    data: *mut c_void,
) -> Status {
    let mut pools: &[Pool] = &[];
    let status = enter(Call::IteratePools, |state| {
        callback.ok_or(Status::INVALID_ARGUMENT)?;
        pools = match agent {
            agents::CPU => &Pool::OF_CPU,
            _ if state.is_device(agent) => &Pool::OF_DEVICE,
            _ => return Err(Status::INVALID_AGENT),
        };
        Ok(())
    });
    let Some(callback) = callback.filter(|_| status == Status::SUCCESS) else {
        return status;
    };
    for pool in pools {
        // SAFETY: the caller's promise.
        let status = unsafe { callback(pool_handle(*pool), data) };
        if status != Status::SUCCESS {
            return status;
        }
    }
    Status::SUCCESS
}

/// An attribute of a pool.
///
/// # Safety
/// See the module above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_memory_pool_get_info(
    handle: u64,
    attribute: u32,
    to: *mut c_void,
) -> Status {
    enter(Call::PoolInfo, |state| {
        let device = state.settings.agent.is_some();
        let pool = pool(handle, device).ok_or(Status::INVALID_MEMORY_POOL)?;
        let value = match attribute {
            0 => Value::U32(0),
            1 => Value::U32(pool.flags()),
            // The driver gives the host's size for the heap too, where it is wrong.
            2 | 16 => Value::U64(Pool::Data.size() as u64),
            5 | 15 => Value::U8(1),
            6 | 7 => Value::U64(PAGE as u64),
            17 => Value::U32(0),
            18 => Value::U64(pool.recommended_granule() as u64),
            _ => return Err(Status::INVALID_ARGUMENT),
        };
        // SAFETY: the caller's promise.
        unsafe { give_bytes(to.cast(), &value.bytes()) }
    })
}

/// Allocates memory.
///
/// # Safety
/// See the module above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_memory_pool_allocate(
    handle: u64,
    size: usize,
    _flags: u32,
    to: *mut *mut c_void,
) -> Status {
    enter(Call::PoolAllocate, |state| {
        if size == 0 || to.is_null() {
            return Err(Status::INVALID_ARGUMENT);
        }
        let device = state.settings.agent.is_some();
        let pool = pool(handle, device).ok_or(Status::INVALID_MEMORY_POOL)?;
        let address = state.memory.allocate(pool, size, 1)?;
        state.counters.pool_allocations.up();
        // SAFETY: the caller's promise.
        unsafe { give(to, address as *mut c_void) }
    })
}

/// Frees memory.
#[unsafe(no_mangle)]
pub extern "C" fn hsa_amd_memory_pool_free(pointer: *mut c_void) -> Status {
    enter(Call::PoolFree, |state| {
        if pointer.is_null() {
            return Ok(());
        }
        if state.executables.owns(pointer as usize) {
            return Err(Status::INVALID_ALLOCATION);
        }
        state.memory.free(pointer as usize)?;
        state.counters.pool_allocations.down(1);
        Ok(())
    })
}

/// Creates memory that can be mapped.
///
/// # Safety
/// See the module above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_vmem_handle_create(
    handle: u64,
    size: usize,
    kind: u32,
    _flags: u64,
    to: *mut u64,
) -> Status {
    enter(Call::MemoryCreate, |state| {
        let device = state.settings.agent.is_some();
        let pool = pool(handle, device).ok_or(Status::INVALID_ARGUMENT)?;
        if kind > 1 || to.is_null() || size > pool.size() {
            return Err(Status::INVALID_ARGUMENT);
        }
        if pool != Pool::Data && pool != Pool::Kernarg {
            // The heap cannot be mapped, and the device's driver has no memory of the CPU's.
            return Err(Status::INVALID_ALLOCATION);
        }
        let origin = Origin {
            pool,
            kind,
            is_imported: false,
        };
        let memory = state.memory.virtual_memory.create(size, origin)?;
        state.counters.memories.up();
        // SAFETY: the caller's promise.
        unsafe { give(to, memory) }
    })
}

/// Releases memory that can be mapped.
#[unsafe(no_mangle)]
pub extern "C" fn hsa_amd_vmem_handle_release(memory: u64) -> Status {
    enter(Call::MemoryRelease, |state| {
        state.memory.virtual_memory.release(memory)?;
        state.counters.memories.down(1);
        Ok(())
    })
}

/// Reserves addresses.
///
/// # Safety
/// See the module above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_vmem_address_reserve_align(
    to: *mut *mut c_void,
    size: usize,
    _address: u64,
    alignment: u64,
    _flags: u64,
) -> Status {
    enter(Call::AddressReserve, |state| {
        if to.is_null() {
            return Err(Status::INVALID_ARGUMENT);
        }
        let alignment = alignment as usize;
        let address = state.memory.virtual_memory.reserve(size, alignment)?;
        state.counters.reservations.up();
        // SAFETY: the caller's promise.
        unsafe { give(to, address as *mut c_void) }
    })
}

/// Frees addresses.
#[unsafe(no_mangle)]
pub extern "C" fn hsa_amd_vmem_address_free(address: *mut c_void, size: usize) -> Status {
    enter(Call::AddressFree, |state| {
        if address.is_null() || size == 0 {
            return Err(Status::INVALID_ARGUMENT);
        }
        let virtual_memory = &mut state.memory.virtual_memory;
        virtual_memory.free(address as usize, size)?;
        state.counters.reservations.down(1);
        Ok(())
    })
}

/// Maps memory at reserved addresses. Nobody may touch it yet.
#[unsafe(no_mangle)]
pub extern "C" fn hsa_amd_vmem_map(
    address: *mut c_void,
    size: usize,
    offset: usize,
    memory: u64,
    _flags: u64,
) -> Status {
    enter(Call::Map, |state| {
        let (all, address) = (&mut state.memory, address as usize);
        let virtual_memory = &mut all.virtual_memory;
        virtual_memory.map(&mut all.ranges, address, size, offset, memory)?;
        state.counters.mappings.up();
        Ok(())
    })
}

/// Takes a mapping away.
#[unsafe(no_mangle)]
pub extern "C" fn hsa_amd_vmem_unmap(address: *mut c_void, size: usize) -> Status {
    enter(Call::Unmap, |state| {
        if address.is_null() || size == 0 {
            return Err(Status::INVALID_ARGUMENT);
        }
        let (all, address) = (&mut state.memory, address as usize);
        let strict = state.settings.strict_unmap;
        let virtual_memory = &mut all.virtual_memory;
        let count = virtual_memory.unmap(&mut all.ranges, address, size, strict)?;
        state.counters.mappings.down(count);
        Ok(())
    })
}

/// Says who may touch a mapping.
///
/// # Safety
/// See the module above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_amd_vmem_set_access(
    address: *mut c_void,
    size: usize,
    descriptions: *const AccessDescription,
    count: usize,
) -> Status {
    enter(Call::SetAccess, |state| {
        if address.is_null() || size == 0 || descriptions.is_null() || count == 0 {
            return Err(Status::INVALID_ARGUMENT);
        }
        // SAFETY: the caller's promise.
        let descriptions = unsafe { std::slice::from_raw_parts(descriptions, count) };
        let mut grants = Vec::new();
        for description in descriptions {
            let accessor = accessor(state, description.agent)?;
            if description.permissions > 3 {
                return Err(Status::INVALID_ARGUMENT);
            }
            grants.push((accessor, description.permissions));
        }
        let all = &mut state.memory;
        all.virtual_memory
            .set_access(&mut all.ranges, address as usize, size, &grants)
    })
}
