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
