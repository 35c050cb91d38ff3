//! `hsa_amd_vmem_*`: memory, address space, and memory in address space, each with ROCR's rules.

use std::collections::BTreeMap;

use super::Pool;
use super::map::{self, PAGE, Shared};
use super::ranges::{Place, Range, Ranges};
use crate::abi::Status;
use crate::handles::{Kind, Table};

/// Reserved address space.
#[derive(Debug)]
struct Reservation {
    size: usize,
    mappings: usize,
}

/// Memory in it.
#[derive(Debug)]
struct Mapping {
    size: usize,
    reservation: usize,
    handle: u64,
    /// Of the CPU and of the device.
    permissions: [u32; 2],
}

/// Who may be granted access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accessor {
    /// The CPU.
    Cpu,
    /// The AIE agent.
    Device,
}

/// Memory that can be mapped.
#[derive(Debug)]
struct Memory {
    shared: Shared,
    /// Where it comes from.
    origin: Origin,
    /// How often it was given to the program and not released.
    references: u32,
    /// It stays as long as there are any.
    mappings: usize,
}

/// Where memory comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Its pool.
    pub pool: Pool,
    /// `hsa_amd_memory_type_t`: 0 none, 1 pinned.
    pub kind: u32,
    /// Whether it came in from a descriptor.
    pub is_imported: bool,
}

/// Everything of that interface.
#[derive(Debug)]
pub struct VirtualMemory {
    memories: Table<Memory>,
    reservations: BTreeMap<usize, Reservation>,
    mappings: BTreeMap<usize, Mapping>,
}

impl VirtualMemory {
    /// Nothing.
    pub fn new() -> Self {
        Self {
            memories: Table::new(Kind::Memory),
            reservations: BTreeMap::new(),
            mappings: BTreeMap::new(),
        }
    }

    /// `hsa_amd_vmem_handle_create`, of a pool that can be mapped.
    pub fn create(&mut self, size: usize, origin: Origin) -> Result<u64, Status> {
        if size == 0 || !size.is_multiple_of(PAGE) {
            return Err(Status::INVALID_ARGUMENT);
        }
        Ok(self.add(Shared::new(size)?, origin))
    }

    fn add(&mut self, shared: Shared, origin: Origin) -> u64 {
        self.memories.add(Memory {
            shared,
            origin,
            references: 1,
            mappings: 0,
        })
    }

    /// The memory of a handle that was not released.
    fn memory(&self, handle: u64) -> Option<&Memory> {
        let memory = self.memories.get(handle);
        memory.filter(|memory| memory.references > 0)
    }

    /// `hsa_amd_vmem_handle_release`: the memory stays as long as it is mapped.
    pub fn release(&mut self, handle: u64) -> Result<(), Status> {
        let memory = self.memories.get_mut(handle);
        let memory = memory.filter(|memory| memory.references > 0);
        memory.ok_or(Status::INVALID_ALLOCATION)?.references -= 1;
        self.drop_unused(handle);
        Ok(())
    }

    fn drop_unused(&mut self, handle: u64) {
        let memory = self.memories.get(handle);
        if memory.is_some_and(|memory| (memory.references, memory.mappings) == (0, 0)) {
            self.memories.remove(handle);
        }
    }

    /// `hsa_amd_vmem_retain_alloc_handle`: the memory that is mapped from that address on.
    pub fn retain(&mut self, address: usize) -> Result<u64, Status> {
        let mapping = self.mappings.get(&address);
        let handle = mapping.ok_or(Status::INVALID_ALLOCATION)?.handle;
        let memory = self.memories.get_mut(handle);
        memory.ok_or(Status::INVALID_ALLOCATION)?.references += 1;
        Ok(handle)
    }

    /// Where the memory of a handle comes from.
    pub fn origin(&self, handle: u64) -> Result<Origin, Status> {
        let memory = self.memory(handle).ok_or(Status::INVALID_ALLOCATION)?;
        Ok(memory.origin)
    }

    /// `hsa_amd_vmem_export_shareable_handle`: a descriptor that the program closes. What was
    /// imported is not exported again.
    pub fn export(&self, handle: u64) -> Result<i32, Status> {
        let memory = self.memory(handle).ok_or(Status::INVALID_ALLOCATION)?;
        if memory.origin.is_imported {
            return Err(Status::INVALID_ALLOCATION);
        }
        memory.shared.descriptor()
    }

    /// `hsa_amd_vmem_import_shareable_handle`, of a descriptor that stays the program's.
    pub fn import(&mut self, descriptor: i32) -> Result<u64, Status> {
        let shared = Shared::of_descriptor(descriptor)?;
        let origin = Origin {
            pool: Pool::Data,
            kind: 0,
            is_imported: true,
        };
        Ok(self.add(shared, origin))
    }

    /// `hsa_amd_vmem_address_reserve_align`. The wish for an address is not heard.
    pub fn reserve(&mut self, size: usize, align: usize) -> Result<usize, Status> {
        let aligned = align == 0 || (align.is_power_of_two() && align >= PAGE);
        if size == 0 || !size.is_multiple_of(PAGE) || !aligned {
            return Err(Status::INVALID_ARGUMENT);
        }
        let address = map::reserve(size, align)?;
        self.reservations
            .insert(address, Reservation { size, mappings: 0 });
        Ok(address)
    }

    /// `hsa_amd_vmem_address_free`.
    pub fn free(&mut self, address: usize, size: usize) -> Result<(), Status> {
        let reservation = self
            .reservations
            .get(&address)
            .ok_or(Status::INVALID_ALLOCATION)?;
        if reservation.size != size {
            return Err(Status::INVALID_ARGUMENT);
        }
        if reservation.mappings != 0 {
            return Err(Status::RESOURCE_FREE);
        }
        self.reservations.remove(&address);
        Ok(())
    }

    /// The reservation that a range is in.
    fn reservation(&self, address: usize, size: usize) -> Result<usize, Status> {
        let end = address.checked_add(size).ok_or(Status::INVALID_ARGUMENT)?;
        let (start, reservation) = self
            .reservations
            .range(..=address)
            .next_back()
            .ok_or(Status::INVALID_ARGUMENT)?;
        if end > start + reservation.size {
            return Err(Status::INVALID_ARGUMENT);
        }
        Ok(*start)
    }

    /// `hsa_amd_vmem_map`, of memory that may be mapped elsewhere as well.
    pub fn map(
        &mut self,
        ranges: &mut Ranges,
        address: usize,
        size: usize,
        offset: usize,
        handle: u64,
    ) -> Result<(), Status> {
        if size == 0 || !size.is_multiple_of(PAGE) || !address.is_multiple_of(PAGE) {
            return Err(Status::INVALID_ARGUMENT);
        }
        let reservation = self.reservation(address, size)?;
        let before = self.mappings.range(..address + size).next_back();
        if before.is_some_and(|(start, mapping)| start + mapping.size > address) {
            return Err(Status::INVALID_ARGUMENT);
        }
        let memory = self
            .memories
            .get_mut(handle)
            .filter(|memory| memory.references > 0)
            .ok_or(Status::INVALID_ARGUMENT)?;
        let end = offset.checked_add(size).ok_or(Status::INVALID_ARGUMENT)?;
        if !offset.is_multiple_of(PAGE) || end > memory.shared.size {
            return Err(Status::INVALID_ARGUMENT);
        }
        memory.shared.appear(address, size, offset)?;
        memory.mappings += 1;
        ranges.add(Range {
            start: address,
            end: address + size,
            device: memory.shared.device + offset,
            place: Place::Mapped,
            permissions: 0,
        });
        let mapping = Mapping {
            size,
            reservation,
            handle,
            permissions: [0; 2],
        };
        self.mappings.insert(address, mapping);
        if let Some(reservation) = self.reservations.get_mut(&reservation) {
            reservation.mappings += 1;
        }
        Ok(())
    }

    /// The mappings that cover a range from its start, and where they end.
    fn covering(&self, address: usize, size: usize) -> Result<(Vec<usize>, usize), Status> {
        let (mut starts, mut at) = (Vec::new(), address);
        while at < address + size {
            let mapping = self.mappings.get(&at).ok_or(Status::INVALID_ALLOCATION)?;
            starts.push(at);
            at += mapping.size;
        }
        Ok((starts, at))
    }

    /// `hsa_amd_vmem_get_access`: what the CPU and the device were granted where an address is
    /// mapped.
    pub fn access(&self, address: usize) -> Result<[u32; 2], Status> {
        let before = self.mappings.range(..=address).next_back();
        let mapping = before.filter(|(start, mapping)| address - *start < mapping.size);
        let (_, mapping) = mapping.ok_or(Status::INVALID_ALLOCATION)?;
        Ok(mapping.permissions)
    }

    /// `hsa_amd_vmem_set_access`, for agents that exist. The array walks the host's page tables, so
    /// whichever grant changes last decides what the processor may do there, too.
    pub fn set_access(
        &mut self,
        ranges: &mut Ranges,
        address: usize,
        size: usize,
        grants: &[(Accessor, u32)],
    ) -> Result<(), Status> {
        self.reservation(address, size)?;
        let (starts, _) = self.covering(address, size)?;
        for start in starts {
            let Some(mapping) = self.mappings.get_mut(&start) else {
                continue;
            };
            for (accessor, permissions) in grants {
                let [cpu, device] = &mut mapping.permissions;
                let own = match accessor {
                    Accessor::Cpu => cpu,
                    Accessor::Device => device,
                };
                if own == permissions {
                    continue;
                }
                map::protect(start, mapping.size, *permissions)?;
                *own = *permissions;
                if *accessor == Accessor::Device
                    && let Some(range) = ranges.starting(start)
                {
                    range.permissions = *permissions;
                }
            }
        }
        Ok(())
    }

    /// `hsa_amd_vmem_unmap`; how many mappings. `strict`: as an older ROCR, which wants the grants
    /// revoked first.
    pub fn unmap(
        &mut self,
        ranges: &mut Ranges,
        address: usize,
        size: usize,
        strict: bool,
    ) -> Result<usize, Status> {
        let last = address.checked_add(size).ok_or(Status::INVALID_ARGUMENT)?;
        let (starts, end) = self.covering(address, size)?;
        if size == 0 || end != last {
            return Err(Status::INVALID_ALLOCATION);
        }
        let granted = |start: &usize| {
            let mapping = self.mappings.get(start);
            mapping.is_some_and(|mapping| mapping.permissions != [0; 2])
        };
        if strict && starts.iter().any(granted) {
            return Err(Status::ERROR);
        }
        for start in &starts {
            let Some(mapping) = self.mappings.remove(start) else {
                continue;
            };
            ranges.remove(*start);
            map::decommit(*start, mapping.size);
            if let Some(reservation) = self.reservations.get_mut(&mapping.reservation) {
                reservation.mappings -= 1;
            }
            if let Some(memory) = self.memories.get_mut(mapping.handle) {
                memory.mappings -= 1;
            }
            self.drop_unused(mapping.handle);
        }
        Ok(starts.len())
    }

    /// What shutting down does: everything goes.
    pub fn clear(&mut self) {
        for (start, mapping) in std::mem::take(&mut self.mappings) {
            map::decommit(start, mapping.size);
        }
        self.reservations.clear();
        self.memories.clear();
    }
}
