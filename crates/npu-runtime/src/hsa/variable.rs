//! Memory of the device heap for external variables, which an instruction stream reads and the
//! host changes between launches.

use super::instance::Instance;
use super::result::Rocr;
use crate::Error;

/// Memory of the device heap, zero at first. ROCR flushes it before each dispatch of a kernel
/// that uses it, so ordinary stores are seen.
pub(crate) struct Memory {
    rocr: &'static Rocr,
    start: *mut u8,
    bytes: usize,
}

// SAFETY: it is one allocation, which the host only accesses through atomics.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    pub(super) fn new(instance: &Instance, name: &str, bytes: usize) -> Result<Self, Error> {
        let rocr = instance.rocr;
        let allocated = rocr.pool_allocate(instance.pools.heap, bytes);
        let start = allocated.map_err(|failure| {
            let doing = format!("allocating {bytes} bytes of the device heap for `{name}`");
            failure.error(
                rocr,
                doing,
                "the heap has 64 MiB, for all loaded kernels too",
            )
        })?;
        // SAFETY: the allocation has as many bytes, and nobody else knows of it.
        unsafe { start.write_bytes(0, bytes) };
        Ok(Self { rocr, start, bytes })
    }

    pub(crate) fn start(&self) -> *mut u8 {
        self.start
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if !self.rocr.is_foreign() {
            // SAFETY: executables that use it keep it.
            unsafe { self.rocr.pool_free(self.start).ok() };
        }
    }
}
