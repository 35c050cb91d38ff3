//! Memory as ROCR deals it out: pools with their rules, mappings, and what the driver knows of
//! addresses.

mod heap;
mod map;
mod ranges;
mod virtual_memory;

use std::collections::BTreeMap;

use crate::abi::Status;

pub use heap::{Heap, SIZE as HEAP_SIZE};
pub use map::{PAGE, commit, decommit, reserve};
pub use ranges::{Part, Place, Range, Ranges};
pub use virtual_memory::{Accessor, Origin, VirtualMemory};

/// A memory pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    /// Of the CPU: kernel arguments and fine-grained memory.
    CpuFine,
    /// Of the CPU.
    CpuCoarse,
    /// Of the AIE agent, from here on.
    Kernarg,
    /// PDIs, instructions, control scratchpads.
    Heap,
    /// Buffers.
    Data,
}

impl Pool {
    /// The pools of the CPU agent, in order.
    pub const OF_CPU: [Self; 2] = [Self::CpuFine, Self::CpuCoarse];
    /// The pools of the AIE agent, in order.
    pub const OF_DEVICE: [Self; 3] = [Self::Kernarg, Self::Heap, Self::Data];

    /// `HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS`.
    pub fn flags(self) -> u32 {
        match self {
            Self::CpuFine => 3,
            Self::Kernarg => 5,
            Self::CpuCoarse | Self::Heap | Self::Data => 4,
        }
    }

    /// `HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_REC_GRANULE`, by which the heap is told apart.
    pub fn recommended_granule(self) -> usize {
        if self == Self::Heap { 0 } else { PAGE }
    }

    /// Its size.
    pub fn size(self) -> usize {
        if self == Self::Heap {
            HEAP_SIZE
        } else {
            64 << 30
        }
    }

    fn place(self) -> Place {
        match self {
            Self::CpuFine | Self::CpuCoarse => Place::System,
            Self::Kernarg => Place::Kernarg,
            Self::Heap => Place::Heap,
            Self::Data => Place::Data,
        }
    }
}

/// All memory.
#[derive(Debug)]
pub struct Memory {
    /// What the driver knows.
    pub ranges: Ranges,
    /// Mappings.
    pub virtual_memory: VirtualMemory,
    heap: Heap,
    /// Allocations of pools: address and size.
    allocations: BTreeMap<usize, (Pool, usize)>,
}

impl Memory {
    /// Nothing allocated yet.
    pub fn new() -> Result<Self, Status> {
        Ok(Self {
            ranges: Ranges::default(),
            virtual_memory: VirtualMemory::new(),
            heap: Heap::new()?,
            allocations: BTreeMap::new(),
        })
    }

    /// `hsa_amd_memory_pool_allocate`, at an alignment.
    pub fn allocate(&mut self, pool: Pool, size: usize, align: usize) -> Result<usize, Status> {
        if size == 0 {
            return Err(Status::INVALID_ARGUMENT);
        }
        if size > pool.size() {
            return Err(Status::INVALID_ALLOCATION);
        }
        let address = match pool {
            Pool::Heap => self.heap.allocate(size, align)?,
            _ => {
                let address = map::reserve(size, align)?;
                map::commit(address, size.next_multiple_of(PAGE))?;
                address
            }
        };
        let place = pool.place();
        self.ranges.add(Range {
            start: address,
            end: address + size,
            device: address,
            place,
            permissions: if place == Place::System { 0 } else { 3 },
        });
        self.allocations.insert(address, (pool, size));
        Ok(address)
    }

    /// `hsa_amd_memory_pool_free`.
    pub fn free(&mut self, address: usize) -> Result<(), Status> {
        let (pool, size) = self
            .allocations
            .remove(&address)
            .ok_or(Status::INVALID_ALLOCATION)?;
        self.ranges.remove(address);
        match pool {
            Pool::Heap => self.heap.free(address),
            _ => map::decommit(address, size),
        }
        Ok(())
    }

    /// What shutting down does: everything goes.
    pub fn clear(&mut self) {
        self.virtual_memory.clear();
        let addresses: Vec<usize> = self.allocations.keys().copied().collect();
        for address in addresses {
            let _ = self.free(address);
        }
        self.ranges.clear();
    }
}
