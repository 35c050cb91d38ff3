//! Places for the arguments of each packet of the ring: place `i` belongs to packet `i`, and is
//! free whenever that is.

use super::queue::SIZE;
use super::result::{Failure, Rocr};
use super::sys;
use std::ptr;

/// An argument as the device sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Argument {
    pub(super) address: u64,
    /// Its logical size: as far as ROCR flushes the caches.
    pub(super) bytes: u64,
}

/// One allocation of the kernarg pool.
pub(super) struct Arguments {
    base: *mut u8,
    /// Bytes of one place, a multiple of a cache line.
    stride: usize,
}

impl Arguments {
    pub(super) const NONE: Self = Self {
        base: ptr::null_mut(),
        stride: 0,
    };

    /// Makes room for packets of `count` arguments. No packet may be under way.
    pub(super) fn expect(
        &mut self,
        rocr: &Rocr,
        pool: sys::Pool,
        count: usize,
    ) -> Result<(), Failure> {
        let stride = (count * size_of::<Argument>()).next_multiple_of(64);
        if stride <= self.stride {
            return Ok(());
        }
        let base = rocr.pool_allocate(pool, stride * SIZE as usize)?;
        self.free(rocr);
        *self = Self { base, stride };
        Ok(())
    }

    /// Writes the arguments of the packet in `slot`: all addresses, then all sizes. Where they are.
    ///
    /// # Safety
    /// The slot is one of the ring's, no packet uses it, and [`Self::expect`] was told of as many
    /// arguments.
    #[inline]
    pub(super) unsafe fn write(&mut self, slot: usize, arguments: &[Argument]) -> u64 {
        let kernarg = self.base.wrapping_add(slot * self.stride);
        let words = kernarg.cast::<u64>();
        for (i, argument) in arguments.iter().enumerate() {
            // SAFETY: by the caller, the place has two words for each argument; it is aligned as
            // every allocation of the pool is.
            unsafe {
                words.add(i).write(argument.address);
                words.add(arguments.len() + i).write(argument.bytes);
            }
        }
        kernarg.expose_provenance() as u64
    }

    /// Gives the memory back. No packet may be under way.
    pub(super) fn free(&mut self, rocr: &Rocr) {
        let base = std::mem::replace(self, Self::NONE).base;
        if !base.is_null() {
            // SAFETY: no packet uses it, and it is forgotten.
            unsafe { rocr.pool_free(base).ok() };
        }
    }
}
