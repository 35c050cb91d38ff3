//! `hsa_amd_vmem_*`: memory, address space, and memory in address space, each with ROCR's rules.

use std::collections::BTreeMap;
use std::sync::Arc;

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
    memory: Arc<Shared>,
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

/// Memory that is mapped at most once.
#[derive(Debug)]
struct Memory {
    shared: Arc<Shared>,
    was_mapped: bool,
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
    pub fn create(&mut self, size: usize) -> Result<u64, Status> {
        if size == 0 || !size.is_multiple_of(PAGE) {
            return Err(Status::INVALID_ARGUMENT);
        }
        Ok(self.memories.add(Memory {
            shared: Arc::new(Shared::new(size)?),
            was_mapped: false,
        }))
    }

    /// `hsa_amd_vmem_handle_release`: the memory stays as long as it is mapped.
    pub fn release(&mut self, handle: u64) -> Result<(), Status> {
        let memory = self.memories.remove(handle);
        memory.map(|_| ()).ok_or(Status::INVALID_ALLOCATION)
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

    /// `hsa_amd_vmem_map`. Memory that was mapped once is not mapped again: the driver has trouble
    /// with it, which a program is not to rely on.
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
            .ok_or(Status::INVALID_ARGUMENT)?;
        let end = offset.checked_add(size).ok_or(Status::INVALID_ARGUMENT)?;
        if !offset.is_multiple_of(PAGE) || end > memory.shared.size {
            return Err(Status::INVALID_ARGUMENT);
        }
        if memory.was_mapped {
            return Err(Status::ERROR);
        }
        let shared = memory.shared.clone();
        shared.appear(address, size, offset)?;
        memory.was_mapped = true;
        ranges.add(Range {
            start: address,
            end: address + size,
            device: shared.device + offset,
            place: Place::Mapped,
            permissions: 0,
        });
        let mapping = Mapping {
            size,
            reservation,
            memory: shared,
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

    /// `hsa_amd_vmem_set_access`, for agents that exist.
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
                match accessor {
                    Accessor::Cpu => {
                        map::protect(start, mapping.size, *permissions)?;
                        *cpu = *permissions;
                    }
                    Accessor::Device => {
                        *device = *permissions;
                        if let Some(range) = ranges.starting(start) {
                            range.permissions = *permissions;
                        }
                    }
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
            drop(mapping.memory);
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
