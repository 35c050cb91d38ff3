//! What ROCR's own memory tests do with an AIE agent, beyond pools and one mapping: access, handles
//! that are mapped, retained, exported and imported, and what is refused.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::undocumented_unsafe_blocks,
    reason = "these are tests, which keep the promises of ROCR's headers"
)]

mod common;

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr;

use common::{Device, OK, PAGE, Rocr};
use rocr_double::{AccessDescription, Status};

const WORDS: usize = PAGE / 4;

/// Memory of the agent, mapped where nobody was granted anything yet.
struct Mapped {
    device: Device,
    memory: u64,
    address: *mut c_void,
}

impl Mapped {
    fn new() -> Self {
        let device = Device::new();
        let memory = device.rocr.memory(device.pools[0], PAGE).unwrap();
        let address = device.rocr.reserve(PAGE);
        assert_eq!(device.rocr.map(address, PAGE, memory), OK);
        Self {
            device,
            memory,
            address,
        }
    }

    fn access(&self, agent: u64) -> Result<u32, Status> {
        access(&self.device.rocr, self.address, agent)
    }

    fn grant(&self, agent: u64, how: u32) {
        let granted = self.device.rocr.grant(self.address, PAGE, &[agent], how);
        assert_eq!(granted, OK);
    }

    fn words(&self) -> &[Cell<u32>] {
        unsafe { std::slice::from_raw_parts(self.address.cast(), WORDS) }
    }

    fn unmap(&self) {
        assert_eq!(self.device.rocr.unmap(self.address, PAGE), OK);
    }

    /// Gives everything back.
    fn end(self) {
        let rocr = &self.device.rocr;
        self.unmap();
        assert_eq!(rocr.free_addresses(self.address, PAGE), OK);
        assert_eq!(rocr.release(self.memory), OK);
        let counters = rocr.counters();
        assert_eq!(
            (counters.memories.live, counters.mappings.live),
            (0, 0),
            "{counters:?}"
        );
        assert_eq!(rocr.shut_down(), OK);
    }
}

fn access(rocr: &Rocr, address: *mut c_void, agent: u64) -> Result<u32, Status> {
    let mut how = u32::MAX;
    match unsafe { (rocr.api.hsa_amd_vmem_get_access)(address, &mut how, agent) } {
        OK => Ok(how),
        status => Err(status),
    }
}

#[test]
fn access_is_what_was_granted_last() {
    let mapped = Mapped::new();
    let (cpu, agent) = (mapped.device.cpu, mapped.device.agent);
    assert_eq!((mapped.access(agent), mapped.access(cpu)), (Ok(0), Ok(0)));
    mapped.grant(agent, 3);
    assert_eq!(mapped.access(agent), Ok(3));
    mapped.grant(agent, 1);
    assert_eq!((mapped.access(agent), mapped.access(cpu)), (Ok(1), Ok(0)));
    // Both at once, and not the same.
    let both =
        [(agent, 3), (cpu, 1)].map(|(agent, permissions)| AccessDescription { permissions, agent });
    let set = mapped.device.rocr.api.hsa_amd_vmem_set_access;
    assert_eq!(unsafe { set(mapped.address, PAGE, both.as_ptr(), 2) }, OK);
    assert_eq!((mapped.access(agent), mapped.access(cpu)), (Ok(3), Ok(1)));
    // Anywhere in the mapping, and nowhere else; the agent is looked at last.
    let rocr = &mapped.device.rocr;
    let at = |offset: usize| mapped.address.wrapping_byte_add(offset);
    assert_eq!(access(rocr, at(PAGE - 1), agent), Ok(3));
    assert_eq!(
        access(rocr, at(PAGE), agent),
        Err(Status::INVALID_ALLOCATION)
    );
    assert_eq!(access(rocr, at(PAGE), 9), Err(Status::INVALID_ALLOCATION));
    assert_eq!(mapped.access(9), Err(Status::INVALID_AGENT));
    mapped.end();
}

/// The array walks the host's page tables: what is granted to it lets the processor in as well.
#[test]
fn memory_keeps_its_contents_from_mapping_to_mapping() {
    let mapped = Mapped::new();
    for cycle in 0..8 {
        if cycle > 0 {
            let (rocr, at) = (&mapped.device.rocr, mapped.address);
            assert_eq!(rocr.map(at, PAGE, mapped.memory), OK);
        }
        mapped.grant(mapped.device.agent, 3);
        let before = mapped.words().iter().enumerate();
        assert!(before.into_iter().all(|(i, word)| match cycle {
            0 => word.get() == 0,
            _ => word.get() as usize == i + cycle - 1,
        }));
        for (i, word) in mapped.words().iter().enumerate() {
            word.set((i + cycle) as u32);
        }
        if cycle < 7 {
            mapped.unmap();
        }
    }
    mapped.end();
}

#[test]
fn memory_is_mapped_at_two_places_and_seen_at_both() {
    let mapped = Mapped::new();
    let device = &mapped.device;
    let other = device.rocr.reserve(PAGE);
    assert_eq!(
        device.rocr.map(mapped.address, PAGE, mapped.memory),
        Status::INVALID_ARGUMENT,
        "there it is"
    );
    assert_eq!(device.rocr.map(other, PAGE, mapped.memory), OK);
    for address in [mapped.address, other] {
        let agents = [device.cpu, device.agent];
        assert_eq!(device.rocr.grant(address, PAGE, &agents, 3), OK);
    }
    mapped.words()[5].set(42);
    assert_eq!(unsafe { other.cast::<u32>().add(5).read() }, 42);
    assert_eq!(device.rocr.unmap(other, PAGE), OK);
    assert_eq!(mapped.words()[5].get(), 42);
    mapped.end();
}

#[test]
fn a_part_of_memory_is_mapped() {
    let device = Device::new();
    let rocr = &device.rocr;
    let memory = rocr.memory(device.pools[0], 2 * PAGE).unwrap();
    let (whole, second) = (rocr.reserve(2 * PAGE), rocr.reserve(PAGE));
    let map = |address, size, offset| unsafe {
        (rocr.api.hsa_amd_vmem_map)(address, size, offset, memory, 0)
    };
    assert_eq!(map(second, PAGE, PAGE), OK);
    assert_eq!(map(whole, 2 * PAGE, PAGE), Status::INVALID_ARGUMENT);
    assert_eq!(map(whole, 2 * PAGE, 0), OK);
    let agents = [device.cpu, device.agent];
    assert_eq!(rocr.grant(second, PAGE, &agents, 3), OK);
    assert_eq!(rocr.grant(whole, 2 * PAGE, &agents, 3), OK);
    unsafe { second.cast::<u32>().write(0xdead_beef) };
    let seen = unsafe { whole.cast::<u32>().add(WORDS).read() };
    assert_eq!(seen, 0xdead_beef);
}

#[test]
fn an_unmapped_range_stays_reserved() {
    let mapped = Mapped::new();
    let agents = [mapped.device.cpu, mapped.device.agent];
    let rocr = &mapped.device.rocr;
    assert_eq!(rocr.grant(mapped.address, PAGE, &agents, 3), OK);
    mapped.words()[0].set(1);
    mapped.unmap();
    let mut resident = 0u8;
    let found = unsafe { libc::mincore(mapped.address, PAGE, &mut resident) };
    assert_eq!(found, 0, "{}", std::io::Error::last_os_error());
    assert_eq!(
        access(rocr, mapped.address, agents[1]),
        Err(Status::INVALID_ALLOCATION)
    );
    assert_eq!(rocr.map(mapped.address, PAGE, mapped.memory), OK);
    mapped.end();
}

#[test]
fn a_mapping_gives_its_handle_again() {
    let mapped = Mapped::new();
    let rocr = &mapped.device.rocr;
    let retain = |address| {
        let mut memory = 0;
        match unsafe { (rocr.api.hsa_amd_vmem_retain_alloc_handle)(&mut memory, address) } {
            OK => Ok(memory),
            status => Err(status),
        }
    };
    assert_eq!(retain(mapped.address), Ok(mapped.memory));
    assert_eq!(rocr.release(mapped.memory), OK);
    // The first reference is left; after it, the mapping keeps the memory, and gives a new one.
    assert_eq!(rocr.release(mapped.memory), OK);
    assert_eq!(rocr.release(mapped.memory), Status::INVALID_ALLOCATION);
    let elsewhere = rocr.reserve(PAGE);
    assert_eq!(
        rocr.map(elsewhere, PAGE, mapped.memory),
        Status::INVALID_ARGUMENT,
        "released"
    );
    assert_eq!(retain(mapped.address), Ok(mapped.memory));
    assert_eq!(retain(elsewhere), Err(Status::INVALID_ALLOCATION));
    mapped.end();
}

#[test]
fn a_handle_knows_its_pool_and_its_type() {
    let device = Device::new();
    let rocr = &device.rocr;
    let properties = |memory| {
        let (mut pool, mut kind) = (0, u32::MAX);
        let get = rocr.api.hsa_amd_vmem_get_alloc_properties_from_handle;
        match unsafe { get(memory, &mut pool, &mut kind) } {
            OK => Ok((pool, kind)),
            status => Err(status),
        }
    };
    for pool in [device.pools[0], device.pools[2]] {
        for kind in [0, 1] {
            let mut memory = 0;
            let create = rocr.api.hsa_amd_vmem_handle_create;
            assert_eq!(unsafe { create(pool, PAGE, kind, 0, &mut memory) }, OK);
            assert_eq!(properties(memory), Ok((pool, kind)));
            assert_eq!(rocr.release(memory), OK);
            assert_eq!(properties(memory), Err(Status::INVALID_ALLOCATION));
        }
    }
}

#[test]
fn exported_memory_is_imported_as_the_same_memory() {
    let mapped = Mapped::new();
    let rocr = &mapped.device.rocr;
    mapped.grant(mapped.device.cpu, 3);
    mapped.words()[0].set(7);
    let export = |memory| {
        let mut descriptor = 0;
        let export = rocr.api.hsa_amd_vmem_export_shareable_handle;
        let status = unsafe { export(&mut descriptor, memory, 0) };
        (status, descriptor)
    };
    let import = |descriptor: c_int| {
        let mut memory = 0;
        let import = rocr.api.hsa_amd_vmem_import_shareable_handle;
        (unsafe { import(descriptor, &mut memory) }, memory)
    };
    let (status, descriptor) = export(mapped.memory);
    assert_eq!(status, OK);
    assert!(descriptor > 0);
    let (status, imported) = import(descriptor);
    assert_eq!(status, OK);
    assert_ne!(imported, mapped.memory);
    let close = rocr.api.hsa_amd_portable_close_dmabuf;
    assert_eq!(unsafe { close(descriptor) }, OK);
    assert_eq!(unsafe { close(descriptor) }, Status::RESOURCE_FREE);
    assert_eq!(
        export(imported),
        (Status::INVALID_ALLOCATION, -1),
        "never again"
    );
    let other = rocr.reserve(PAGE);
    assert_eq!(rocr.map(other, PAGE, imported), OK);
    assert_eq!(rocr.grant(other, PAGE, &[mapped.device.cpu], 3), OK);
    assert_eq!(unsafe { other.cast::<u32>().read() }, 7);
    assert_eq!(rocr.unmap(other, PAGE), OK);
    assert_eq!(rocr.release(imported), OK);
    assert_eq!(mapped.words()[0].get(), 7);
    // A descriptor that is closed, and one of something else.
    assert_eq!(import(-1), (Status::INVALID_ARGUMENT, 0));
    assert_eq!(import(2), (Status::INCOMPATIBLE_ARGUMENTS, 0));
    assert_eq!(export(77), (Status::INVALID_ALLOCATION, -1));
    mapped.end();
}

#[test]
fn the_driver_of_the_array_pins_no_memory_of_the_programs() {
    let device = Device::new();
    let (api, agent) = (&device.rocr.api, [device.agent]);
    let mut own = [0u32; WORDS];
    let own = own.as_mut_ptr().cast();
    let mut seen = own;
    let lock = api.hsa_amd_memory_lock;
    let locked = unsafe { lock(own, PAGE, agent.as_ptr(), 1, &mut seen) };
    assert_eq!((locked, seen.is_null()), (Status::ERROR, true));
    let lock = api.hsa_amd_memory_lock_to_pool;
    let locked =
        |pool| unsafe { lock(own, PAGE, agent.as_ptr(), 1, pool, 0, &mut ptr::null_mut()) };
    assert_eq!(locked(device.pools[0]), Status::INVALID_MEMORY_POOL);
    assert_eq!(locked(device.rocr.pools(device.cpu)[1]), Status::ERROR);
    let allow = api.hsa_amd_agents_allow_access;
    let memory = device.rocr.allocate(device.pools[2], PAGE).unwrap();
    let allowed = unsafe { allow(1, agent.as_ptr(), ptr::null(), memory) };
    assert_eq!(allowed, Status::INVALID_AGENT);
    let (mut descriptor, mut offset) = (0, 0);
    let export = api.hsa_amd_portable_export_dmabuf;
    let exported = unsafe { export(memory, PAGE, &mut descriptor, &mut offset) };
    assert_eq!(exported, Status::INVALID_AGENT);
    let (mut size, mut at) = (0, ptr::null_mut());
    let (map, none) = (api.hsa_amd_interop_map_buffer, ptr::null_mut());
    let mapped = unsafe {
        map(
            1,
            agent.as_ptr(),
            5,
            0,
            &mut size,
            &mut at,
            none,
            ptr::null_mut(),
        )
    };
    assert_eq!(mapped, Status::ERROR);
}

#[test]
fn what_is_known_of_pools_and_pointers() {
    let device = Device::new();
    let rocr = &device.rocr;
    let cpu_pool = rocr.pools(device.cpu)[1];
    let migrate = |from, to| {
        let mut can = 1u8;
        let status = unsafe { (rocr.api.hsa_amd_memory_pool_can_migrate)(from, to, &mut can) };
        (status, can)
    };
    let own = device.pools[0];
    assert_eq!(migrate(own, cpu_pool), (Status::OUT_OF_RESOURCES, 0));
    assert_eq!(migrate(cpu_pool, own), (Status::OUT_OF_RESOURCES, 0));
    assert_eq!(migrate(cpu_pool, 3).0, Status::INVALID_MEMORY_POOL);
    let access = |agent, pool| {
        let mut value = u32::MAX;
        let to = ptr::from_mut(&mut value).cast();
        let info = rocr.api.hsa_amd_agent_memory_pool_get_info;
        match unsafe { info(agent, pool, 0, to) } {
            OK => Ok(value),
            status => Err(status),
        }
    };
    assert_eq!(
        (access(device.agent, own), access(device.cpu, own)),
        (Ok(1), Ok(1))
    );
    assert_eq!(
        access(device.agent, cpu_pool),
        Ok(0),
        "the device cannot reach it"
    );
    assert_eq!(access(8, own), Err(Status::INVALID_AGENT));
    // What answers is the GPU's driver, which knows nothing of this memory.
    let memory = rocr.allocate(own, PAGE).unwrap();
    let mut info = [u64::MAX; 8];
    info[0] = 56;
    let (none, nothing) = (ptr::null_mut(), ptr::null_mut());
    let get = rocr.api.hsa_amd_pointer_info;
    let status = unsafe { get(memory, info.as_mut_ptr(), ptr::null(), none, nothing) };
    assert_eq!(status, OK);
    assert_eq!(info, [56, 0, 0, 0, 0, 0, 0, u64::MAX], "size, then unknown");
}
