//! Pools and mappings, row by row of ROCR's rules.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::undocumented_unsafe_blocks,
    reason = "these are tests, which keep the promises of ROCR's headers"
)]

mod common;

use std::ffi::c_void;
use std::ptr;

use common::{Device, OK, PAGE, Rocr};
use rocr_double::Status;

const HEAP: usize = 64 << 20;

fn pool_info(rocr: &Rocr, pool: u64, attribute: u32) -> Result<u64, Status> {
    let mut value = 0u64;
    let to = ptr::from_mut(&mut value).cast();
    match unsafe { (rocr.api.hsa_amd_memory_pool_get_info)(pool, attribute, to) } {
        OK => Ok(value),
        status => Err(status),
    }
}

fn initialised() -> (Rocr, u64, u64, [u64; 3]) {
    let rocr = Rocr::with(&[]);
    assert_eq!(rocr.init(), OK);
    let agents = rocr.agents();
    let pools = rocr.pools(agents[1]).try_into().unwrap();
    (rocr, agents[0], agents[1], pools)
}

#[test]
fn the_agents_pools_are_kernarg_heap_and_data() {
    let (rocr, _, _, pools) = initialised();
    let granules = |attribute| pools.map(|pool| pool_info(&rocr, pool, attribute).unwrap());
    assert_eq!(granules(1), [5, 4, 4], "GLOBAL_FLAGS");
    assert_eq!(granules(18), [4096, 0, 4096], "ALLOC_REC_GRANULE");
    assert_eq!(granules(0), [0; 3], "SEGMENT");
    assert_eq!(granules(5), [1; 3], "ALLOC_ALLOWED");
    assert_eq!(granules(6), [4096; 3], "ALLOC_GRANULE");
    assert_eq!(granules(7), [4096; 3], "ALLOC_ALIGNMENT");
    assert_eq!(
        pool_info(&rocr, pools[0], 99),
        Err(Status::INVALID_ARGUMENT)
    );
    assert_eq!(pool_info(&rocr, 5, 0), Err(Status::INVALID_MEMORY_POOL));
}

#[test]
fn allocations_of_pools() {
    let (rocr, _, _, pools) = initialised();
    for pool in pools {
        let pointer = rocr.allocate(pool, 100).unwrap();
        assert!((pointer as usize).is_multiple_of(PAGE));
        unsafe { pointer.cast::<u8>().write_bytes(0xa5, 100) };
        assert_eq!(rocr.free(pointer), OK);
        assert_eq!(
            rocr.free(pointer),
            Status::INVALID_ALLOCATION,
            "freed twice"
        );
    }
    assert_eq!(rocr.free(ptr::null_mut()), OK);
    assert_eq!(rocr.allocate(pools[0], 0), Err(Status::INVALID_ARGUMENT));
    assert_eq!(rocr.allocate(1, 1), Err(Status::INVALID_MEMORY_POOL));
    assert_eq!(rocr.counters().pool_allocations.live, 0);
}

#[test]
fn the_heap_has_64_mebibytes() {
    let (rocr, _, _, pools) = initialised();
    let half = rocr.allocate(pools[1], HEAP / 2).unwrap();
    let other = rocr.allocate(pools[1], HEAP / 2).unwrap();
    assert_eq!(rocr.allocate(pools[1], 1), Err(Status::OUT_OF_RESOURCES));
    assert_eq!(
        rocr.allocate(pools[1], HEAP + 1),
        Err(Status::INVALID_ALLOCATION)
    );
    assert_eq!(rocr.free(half), OK);
    assert!(rocr.allocate(pools[1], 1).is_ok());
    assert_eq!(rocr.free(other), OK);
}

#[test]
fn the_heap_cannot_be_mapped() {
    let (rocr, _, _, pools) = initialised();
    assert!(rocr.memory(pools[1], PAGE).is_err());
}

#[test]
fn memory_comes_in_whole_pages() {
    let (rocr, _, _, pools) = initialised();
    for size in [0, 1, PAGE + 1] {
        assert_eq!(rocr.memory(pools[2], size), Err(Status::INVALID_ARGUMENT));
    }
    assert_eq!(rocr.memory(3, PAGE), Err(Status::INVALID_ARGUMENT));
    let memory = rocr.memory(pools[2], PAGE).unwrap();
    assert_eq!(rocr.release(memory), OK);
    assert_eq!(rocr.release(memory), Status::INVALID_ALLOCATION);
}

#[test]
fn a_mapping_is_inside_its_reservation_and_overlaps_none() {
    let (rocr, _, _, pools) = initialised();
    let address = rocr.reserve(4 * PAGE);
    let memory = rocr.memory(pools[2], 2 * PAGE).unwrap();
    let other = rocr.memory(pools[2], 2 * PAGE).unwrap();
    let at = |page: usize| address.wrapping_byte_add(page * PAGE);
    assert_eq!(rocr.map(at(3), 2 * PAGE, memory), Status::INVALID_ARGUMENT);
    assert_eq!(
        rocr.map(ptr::dangling_mut(), PAGE, memory),
        Status::INVALID_ARGUMENT
    );
    assert_eq!(rocr.map(at(0), 2 * PAGE, 77), Status::INVALID_ARGUMENT);
    assert_eq!(
        rocr.map(at(0), 4 * PAGE, memory),
        Status::INVALID_ARGUMENT,
        "too long"
    );
    assert_eq!(rocr.map(at(1), 2 * PAGE, memory), OK);
    for (page, size) in [(0, 2), (2, 2), (1, 2)] {
        assert_eq!(
            rocr.map(at(page), size * PAGE, other),
            Status::INVALID_ARGUMENT
        );
    }
    assert_eq!(rocr.map(at(3), PAGE, other), OK);
}

#[test]
fn access_is_granted_to_agents_on_mappings() {
    let (rocr, cpu, agent, pools) = initialised();
    let address = rocr.reserve(2 * PAGE);
    let memory = rocr.memory(pools[2], PAGE).unwrap();
    assert_eq!(
        rocr.grant(address, PAGE, &[cpu], 3),
        Status::INVALID_ALLOCATION,
        "unmapped"
    );
    assert_eq!(rocr.map(address, PAGE, memory), OK);
    assert_eq!(rocr.grant(address, PAGE, &[cpu, agent], 3), OK);
    assert_eq!(
        rocr.grant(address, PAGE, &[cpu, 99], 3),
        Status::INVALID_AGENT
    );
    assert_eq!(
        rocr.grant(address, 2 * PAGE, &[cpu], 3),
        Status::INVALID_ALLOCATION
    );
    let elsewhere = ptr::without_provenance_mut::<c_void>(PAGE);
    assert_eq!(
        rocr.grant(elsewhere, PAGE, &[cpu], 3),
        Status::INVALID_ARGUMENT
    );
    assert_eq!(rocr.grant(address, PAGE, &[], 3), Status::INVALID_ARGUMENT);
}

#[test]
fn teardown_has_an_order() {
    let (rocr, cpu, agent, pools) = initialised();
    let address = rocr.reserve(2 * PAGE);
    let memory = rocr.memory(pools[2], 2 * PAGE).unwrap();
    assert_eq!(rocr.map(address, 2 * PAGE, memory), OK);
    assert_eq!(rocr.grant(address, 2 * PAGE, &[cpu, agent], 3), OK);
    assert_eq!(
        rocr.free_addresses(address, 2 * PAGE),
        Status::RESOURCE_FREE
    );
    assert_eq!(rocr.unmap(address, PAGE), Status::INVALID_ALLOCATION);
    assert_eq!(rocr.unmap(address, 3 * PAGE), Status::INVALID_ALLOCATION);
    assert_eq!(
        rocr.unmap(address.wrapping_byte_add(PAGE), PAGE),
        Status::INVALID_ALLOCATION
    );
    assert_eq!(rocr.unmap(address, 2 * PAGE), OK);
    assert_eq!(rocr.unmap(address, 2 * PAGE), Status::INVALID_ALLOCATION);
    assert_eq!(rocr.free_addresses(address, PAGE), Status::INVALID_ARGUMENT);
    let inside = address.wrapping_byte_add(PAGE);
    assert_eq!(
        rocr.free_addresses(inside, PAGE),
        Status::INVALID_ALLOCATION
    );
    assert_eq!(rocr.free_addresses(address, 2 * PAGE), OK);
    assert_eq!(
        rocr.free_addresses(address, 2 * PAGE),
        Status::INVALID_ALLOCATION
    );
    assert_eq!(rocr.release(memory), OK);
}

#[test]
fn a_released_handle_keeps_its_mapping() {
    let device = Device::new();
    let buffer = device.buffer_of(&[1u32, 2, 3]);
    assert_eq!(device.rocr.release(buffer.memory), OK);
    assert_eq!(buffer.read::<u32>(3), [1, 2, 3]);
    assert_eq!(device.rocr.unmap(buffer.address, buffer.size), OK);
}

#[test]
fn an_older_rocr_wants_grants_revoked_before_unmapping() {
    let device = Device::with(&[("ROCR_DOUBLE_OLD", "unmap")]);
    let buffer = device.buffer(PAGE);
    assert_eq!(
        device.rocr.unmap(buffer.address, buffer.size),
        Status::ERROR
    );
    device.drop_buffer(buffer);
    assert_eq!(device.rocr.counters().mappings.live, 0);
}

#[test]
fn reservations_are_aligned() {
    let (rocr, ..) = initialised();
    let mut address = ptr::null_mut();
    let reserve = rocr.api.hsa_amd_vmem_address_reserve_align;
    assert_eq!(unsafe { reserve(&mut address, PAGE, 0, 1 << 21, 0) }, OK);
    assert!((address as usize).is_multiple_of(1 << 21));
    for (size, align) in [(0, 0), (PAGE, 3 * PAGE as u64)] {
        let status = unsafe { reserve(&mut address, size, 0, align, 0) };
        assert_eq!(status, Status::INVALID_ARGUMENT);
    }
}
