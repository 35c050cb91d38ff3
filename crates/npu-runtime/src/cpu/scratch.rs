//! Memory for the temporaries of kernels: one block for each thread that runs them, which only
//! grows and is freed with its thread. Once it has the size that a kernel needs, launches of that
//! kernel allocate nothing.

use super::sys;
use std::alloc::{Layout, alloc, dealloc};
use std::cell::Cell;
use std::ptr;

/// A kernel asked for memory that the system does not have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exhausted;

/// What `base` is aligned to, as the ABI asks.
const ALIGNMENT: usize = 64;

/// Capacities are multiples of this, so that a need that creeps up is not followed step by step.
const GRANULE: u64 = 64 << 10;

thread_local! {
    static BLOCK: Cell<Block> = const { Cell::new(Block::EMPTY) };
}

/// Lends this thread's block, with `needed` bytes if the system has them, to `run`, which returns
/// with `sys::Scratch::needed` set.
#[inline]
pub(super) fn with(needed: u64, run: impl FnOnce(&mut sys::Scratch)) -> Result<u64, Exhausted> {
    // The block is taken out while it is lent. A thread that is ending has none and gets one for
    // this call alone.
    let mut block = BLOCK.try_with(Cell::take).unwrap_or_default();
    if block.capacity < needed {
        block.grow(needed);
    }
    let mut scratch = sys::Scratch {
        base: block.base.cast(),
        capacity: block.capacity,
        needed: 0,
    };
    run(&mut scratch);
    BLOCK.try_with(|cell| cell.set(block)).ok();
    match scratch.needed {
        sys::EXHAUSTED => Err(Exhausted),
        needed => Ok(needed),
    }
}

/// An allocation of `capacity` bytes at `base`; none if that is 0.
struct Block {
    base: *mut u8,
    capacity: u64,
}

impl Block {
    const EMPTY: Self = Self {
        base: ptr::null_mut(),
        capacity: 0,
    };

    /// Replaces the block by one of at least `needed` bytes. Without memory for that it is empty,
    /// and the kernel asks the system itself.
    #[cold]
    fn grow(&mut self, needed: u64) {
        *self = Self::EMPTY;
        let capacity = needed.checked_next_multiple_of(GRANULE);
        let Some((capacity, layout)) = capacity.and_then(|size| Some((size, layout(size)?))) else {
            return;
        };
        if layout.size() == 0 {
            return;
        }
        // SAFETY: the layout's size is not zero.
        let base = unsafe { alloc(layout) };
        if !base.is_null() {
            *self = Self { base, capacity };
        }
    }
}

impl Default for Block {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if self.capacity != 0
            && let Some(layout) = layout(self.capacity)
        {
            // SAFETY: `grow` allocated `base` with this very layout.
            unsafe { dealloc(self.base, layout) };
        }
    }
}

fn layout(capacity: u64) -> Option<Layout> {
    Layout::from_size_align(usize::try_from(capacity).ok()?, ALIGNMENT).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lent(needed: u64) -> sys::Scratch {
        let mut copy = None;
        with(needed, |scratch| copy = Some(*scratch)).unwrap();
        copy.unwrap()
    }

    #[test]
    fn a_block_is_aligned_large_enough_and_kept() {
        let first = lent(1000);
        assert!(first.capacity >= 1000);
        assert_eq!(first.base.addr() % 64, 0);
        assert_eq!(lent(10).base, first.base);
        let grown = lent(1 << 20);
        assert!(grown.capacity >= 1 << 20);
        assert_eq!(lent(1 << 20).base, grown.base);
    }

    #[test]
    fn what_the_callee_says_is_passed_on() {
        assert_eq!(with(0, |scratch| scratch.needed = 77).unwrap(), 77);
        with(0, |scratch| scratch.needed = sys::EXHAUSTED).unwrap_err();
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri ends at an allocation that fails")]
    fn more_than_there_can_be_is_not_lent() {
        for needed in [u64::MAX - 1, 1 << 63, 1 << 62] {
            assert_eq!(lent(needed).capacity, 0);
        }
    }

    #[test]
    fn a_call_within_a_call_gets_memory_of_its_own() {
        with(100, |outer| {
            let inner = lent(100);
            assert_ne!(inner.base, outer.base);
        })
        .unwrap();
    }
}
