//! Queues and signals.

use super::{Failure, Result, Rocr};
use crate::hsa::sys;
use std::ffi::c_void;
use std::ptr;

impl Rocr {
    /// A queue that tells `callback` of its errors. Without one, ROCR would end the process.
    ///
    /// # Safety
    /// `data` is what `callback` expects, for as long as the queue lives.
    pub(in crate::hsa) unsafe fn queue_create(
        &self,
        agent: sys::Agent,
        size: u32,
        callback: sys::QueueCallback,
        data: *mut c_void,
    ) -> Result<*mut sys::Queue> {
        let mut queue = ptr::null_mut();
        // SAFETY: `queue` is a valid place for a pointer, and the caller vouches for the rest.
        unsafe {
            checked!(self.hsa_queue_create(
                agent,
                size,
                sys::QUEUE_SINGLE,
                callback,
                data,
                0,
                0,
                &mut queue
            ))?;
        }
        Ok(queue)
    }

    /// # Safety
    /// `queue` is of [`Self::queue_create`] and not used any more.
    pub(in crate::hsa) unsafe fn queue_destroy(&self, queue: *mut sys::Queue) -> Result<()> {
        // SAFETY: by the caller.
        unsafe { checked!(self.hsa_queue_destroy(queue)) }
    }

    pub(in crate::hsa) fn signal_create(&self) -> Result<sys::Signal> {
        let mut signal = sys::Signal::default();
        // SAFETY: `signal` is a valid place, and there are no consumers to name.
        unsafe { checked!(self.hsa_signal_create(0, 0, ptr::null(), &mut signal))? };
        Ok(signal)
    }

    /// # Safety
    /// `signal` is of [`Self::signal_create`] and not used any more.
    pub(in crate::hsa) unsafe fn signal_destroy(&self, signal: sys::Signal) -> Result<()> {
        // SAFETY: by the caller.
        unsafe { checked!(self.hsa_signal_destroy(signal)) }
    }
}
