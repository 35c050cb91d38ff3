//! The device heap: 64 MiB, out of which PDIs, instructions and control scratchpads are allocated.
//! Freed space is used again as late as possible.

use std::collections::BTreeMap;

use super::map::{self, PAGE};
use crate::abi::Status;

/// Its size.
pub const SIZE: usize = 64 << 20;

/// The heap.
#[derive(Debug)]
pub struct Heap {
    base: usize,
    /// Offsets and sizes.
    used: BTreeMap<usize, usize>,
    /// Where the search for space starts.
    next: usize,
}

impl Heap {
    /// An empty heap.
    pub fn new() -> Result<Self, Status> {
        Ok(Self {
            base: map::reserve(SIZE, SIZE)?,
            used: BTreeMap::new(),
            next: 0,
        })
    }

    /// The gaps: offset and size.
    fn gaps(&self) -> Vec<(usize, usize)> {
        let mut gaps = Vec::new();
        let mut end = 0;
        for (offset, size) in &self.used {
            gaps.push((end, offset - end));
            end = offset + size;
        }
        gaps.push((end, SIZE - end));
        gaps
    }

    /// Allocates memory in whole pages.
    pub fn allocate(&mut self, size: usize, align: usize) -> Result<usize, Status> {
        if size > SIZE {
            return Err(Status::INVALID_ALLOCATION);
        }
        let pages = size.next_multiple_of(PAGE);
        let fits = |(start, length): (usize, usize), from: usize| {
            let offset = start.max(from).next_multiple_of(align.max(PAGE));
            (offset + pages <= start + length).then_some(offset)
        };
        let gaps = self.gaps();
        let behind = gaps.iter().find_map(|gap| fits(*gap, self.next));
        let anywhere = || gaps.iter().find_map(|gap| fits(*gap, 0));
        let offset = behind.or_else(anywhere).ok_or(Status::OUT_OF_RESOURCES)?;
        map::commit(self.base + offset, pages)?;
        self.used.insert(offset, pages);
        self.next = offset + pages;
        Ok(self.base + offset)
    }

    /// Frees an allocation.
    pub fn free(&mut self, address: usize) {
        let offset = address.wrapping_sub(self.base);
        if let Some(pages) = self.used.remove(&offset) {
            map::decommit(address, pages);
        }
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        map::decommit(self.base, SIZE);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "these are tests")]
mod tests {
    use super::*;

    #[test]
    fn space_is_used_again_when_the_heap_is_full() {
        let mut heap = Heap::new().unwrap();
        let first = heap.allocate(SIZE / 2, 1).unwrap();
        let second = heap.allocate(SIZE / 2, 1).unwrap();
        assert_eq!(heap.allocate(1, 1), Err(Status::OUT_OF_RESOURCES));
        heap.free(first);
        assert_eq!(heap.allocate(100, 1).unwrap(), first);
        assert_eq!(heap.allocate(SIZE / 2, 1), Err(Status::OUT_OF_RESOURCES));
        heap.free(second);
        assert!(heap.allocate(SIZE / 2, 1).is_ok());
        assert_eq!(heap.allocate(SIZE + 1, 1), Err(Status::INVALID_ALLOCATION));
    }

    #[test]
    fn allocations_are_aligned() {
        let mut heap = Heap::new().unwrap();
        heap.allocate(1, 1).unwrap();
        assert_eq!(heap.allocate(1, 16384).unwrap() % 16384, 0);
    }
}
