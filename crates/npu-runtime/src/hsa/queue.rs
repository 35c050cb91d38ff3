//! The device's queue: a ring of 64 packets, with a place for arguments that belongs to each.
//!
//! Whoever has the queue has it alone, and rings before giving it back, so the ring is empty in
//! between and place `i` is free again whenever packet `i` is. ROCR runs what was rung for on the
//! calling thread: when the doorbell's store returns, all of it is done, or the queue is suspended
//! for ever and its callback has been told why.

use super::kernarg::{Argument, Arguments};
use super::packet::Packet;
use super::result::{Failure, Rocr};
use super::section::Form;
use super::sys::{self, Status};
use crate::error::LostError;
use crate::{Error, Runtime};
use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The only size that AIE queues have. One doorbell may be rung for all of it: ROCR makes as many
/// chains of commands of that as its driver has room for, 44 commands with two arguments to one.
pub(super) const SIZE: u64 = 64;
/// PDIs that a queue's hardware context has places for.
const PDIS: u32 = 32;
/// As many arguments has each packet a place for, at first.
const ARGUMENTS: usize = 16;
/// A completion that does not come for so long does not come at all: the driver gives up on a
/// device after a few seconds.
const PATIENCE: Duration = Duration::from_secs(30);

/// A kernel that packets can name.
pub(super) struct Dispatchable {
    pub(super) object: u64,
    pub(super) form: Form,
    /// The queue that has a place for its PDI, by number; 0 if none.
    pub(super) placed: AtomicU64,
}

/// Why a run ended early.
pub(super) struct Stopped {
    /// How many dispatches were completed.
    pub(super) completed: usize,
    pub(super) error: Error,
}

pub(super) struct Queue {
    rocr: &'static Rocr,
    agent: sys::Agent,
    /// Null if there is none any more.
    raw: *mut sys::Queue,
    base: *mut Packet,
    doorbell: sys::Signal,
    /// Counts down what was rung for.
    done: sys::Signal,
    arguments: Arguments,
    /// What the callback was told. It has one address for as long as the queue lives.
    fault: Box<Fault>,
    /// Counts the queues; the first one is 1.
    pub(super) number: u64,
    /// Places for PDIs that are taken.
    pdis: u32,
    /// Executables that were destroyed, now and when the queue was made.
    retired: (Arc<AtomicU64>, u64),
    lost: Option<Box<LostError>>,
    ticks_a_second: u64,
    pub(super) doorbells: u64,
    pub(super) dispatches: u64,
}

// SAFETY: ROCR's queues and signals may be used by any thread; that one at a time does is seen to
// by the lock that every queue is behind.
unsafe impl Send for Queue {}

/// The status of a queue's error, or `NONE`.
struct Fault(AtomicU64);

impl Fault {
    const NONE: u64 = u64::MAX;
}

unsafe extern "C" fn on_error(status: Status, _: *mut sys::Queue, fault: *mut c_void) {
    // SAFETY: it is the queue's `Fault`, which outlives it.
    let fault = unsafe { &*fault.cast::<Fault>() };
    fault.0.store(u64::from(status), Ordering::Release);
}

impl Queue {
    pub(super) fn new(
        rocr: &'static Rocr,
        agent: sys::Agent,
        pool: sys::Pool,
    ) -> Result<Self, Error> {
        let failed = |failure: Failure| failure.error(rocr, "opening the device's queue", "");
        let ticks_a_second = rocr.timestamp_frequency().map_err(failed)?;
        let mut queue = Self {
            rocr,
            agent,
            raw: ptr::null_mut(),
            base: ptr::null_mut(),
            doorbell: sys::Signal::default(),
            done: sys::Signal::default(),
            arguments: Arguments::NONE,
            fault: Box::new(Fault(AtomicU64::new(Fault::NONE))),
            number: 0,
            pdis: 0,
            retired: (Arc::new(AtomicU64::new(0)), 0),
            lost: None,
            ticks_a_second,
            doorbells: 0,
            dispatches: 0,
        };
        // What was made so far is given back by `drop`.
        queue.connect().map_err(failed)?;
        queue.done = rocr.signal_create().map_err(failed)?;
        let room = queue.arguments.expect(rocr, pool, ARGUMENTS);
        room.map_err(failed)?;
        Ok(queue)
    }

    /// A count for executables to add to when they are destroyed.
    pub(super) fn retired(&self) -> Arc<AtomicU64> {
        self.retired.0.clone()
    }

    /// Makes room for kernels with `count` arguments.
    pub(super) fn expect_arguments(&mut self, pool: sys::Pool, count: u16) -> Result<(), Failure> {
        self.arguments.expect(self.rocr, pool, count.into())
    }

    /// Replaces ROCR's queue, which has room for no other PDI.
    #[cold]
    fn connect(&mut self) -> Result<(), Failure> {
        self.disconnect();
        let fault = ptr::from_ref(&*self.fault).cast_mut().cast();
        // SAFETY: `on_error` wants a `Fault`, and this one outlives the queue.
        let raw = unsafe {
            self.rocr
                .queue_create(self.agent, SIZE as u32, on_error, fault)?
        };
        self.raw = raw;
        // SAFETY: ROCR made it.
        let queue = unsafe { &*raw };
        if u64::from(queue.size) != SIZE {
            return Err(Failure {
                call: "hsa_queue_create",
                status: sys::INVALID_QUEUE_CREATION,
            });
        }
        self.base = queue.base.cast();
        self.doorbell = queue.doorbell;
        self.number += 1;
        self.pdis = 0;
        self.retired.1 = self.retired.0.load(Ordering::Acquire);
        Ok(())
    }

    /// An agent has one queue at a time.
    fn disconnect(&mut self) {
        let raw = std::mem::replace(&mut self.raw, ptr::null_mut());
        if !raw.is_null() {
            // SAFETY: nothing is under way, and it is forgotten.
            unsafe { self.rocr.queue_destroy(raw).ok() };
        }
    }

    /// Whether a kernel would need a place for its PDI that there is not. A PDI is known by its
    /// address, which may come again once its executable is gone: so then there is none either.
    #[inline]
    fn is_full_for(&self, kernel: &Dispatchable) -> bool {
        self.needs_place(kernel)
            && (self.pdis >= PDIS || self.retired.0.load(Ordering::Acquire) != self.retired.1)
    }

    #[inline]
    fn needs_place(&self, kernel: &Dispatchable) -> bool {
        kernel.form == Form::Instructions && kernel.placed.load(Ordering::Relaxed) != self.number
    }

    /// Runs the dispatches in order, ringing as rarely as may be: what one doorbell is rung for
    /// is at most the whole ring, of one form, with places for all their PDIs. `name` gives the name
    /// of a dispatch's kernel.
    pub(super) fn run<'a>(
        &mut self,
        dispatches: impl Iterator<Item = (&'a Dispatchable, &'a [Argument])>,
        name: impl Fn(usize) -> String,
    ) -> Result<(), Stopped> {
        if let Some(lost) = &self.lost {
            return Err(Stopped {
                completed: 0,
                error: Error::Lost(lost.clone()),
            });
        }
        let mut completed = 0;
        let mut pending = Pending::default();
        for (kernel, arguments) in dispatches {
            if pending.count > 0
                && (pending.count == SIZE
                    || pending.form != Some(kernel.form)
                    || self.is_full_for(kernel))
            {
                self.ring(&mut pending, &mut completed, &name)?;
            }
            if pending.count == 0 {
                if self.is_full_for(kernel) {
                    self.reconnect(completed, &name)?;
                }
                pending = Pending {
                    // SAFETY: the queue is live.
                    first: unsafe { (self.rocr.api.hsa_queue_load_write_index_relaxed)(self.raw) },
                    count: 0,
                    form: Some(kernel.form),
                };
            }
            if self.needs_place(kernel) {
                kernel.placed.store(self.number, Ordering::Relaxed);
                self.pdis += 1;
            }
            self.put(pending.first + pending.count, kernel, arguments);
            pending.count += 1;
        }
        match pending.count {
            0 => Ok(()),
            _ => self.ring(&mut pending, &mut completed, &name),
        }
    }

    #[cold]
    fn reconnect(
        &mut self,
        completed: usize,
        name: impl Fn(usize) -> String,
    ) -> Result<(), Stopped> {
        self.connect().map_err(|failure| {
            let lost = Box::new(LostError {
                runtime: Runtime::Hsa,
                kernel: name(completed),
                status: Some(failure.status),
                text: format!(
                    "no other queue could be made for more than {PDIS} PDIs, {}",
                    self.rocr.text(failure.status)
                ),
            });
            self.lost = Some(lost.clone());
            Stopped {
                completed,
                error: Error::Lost(lost),
            }
        })
    }

    /// Writes a packet and its arguments; nothing here can fail.
    #[inline]
    fn put(&mut self, index: u64, kernel: &Dispatchable, arguments: &[Argument]) {
        let slot = (index % SIZE) as usize;
        // SAFETY: no packet uses this place, and `expect_arguments` made it large enough.
        let kernarg = unsafe { self.arguments.write(slot, arguments) };
        let count = arguments.len() as u16;
        let packet = Packet::dispatch(kernel.object, kernarg, count, self.done);
        // SAFETY: the ring has `SIZE` packets, and this one is not in use.
        unsafe { self.base.add(slot).write(packet) };
    }

    /// Publishes what is pending, and waits until it is done.
    #[inline]
    fn ring(
        &mut self,
        pending: &mut Pending,
        completed: &mut usize,
        name: impl Fn(usize) -> String,
    ) -> Result<(), Stopped> {
        let api = &self.rocr.api;
        let Pending { first, count, .. } = *pending;
        pending.count = 0;
        self.doorbells += 1;
        // SAFETY: queue and signals are live, and packets and arguments have been written.
        let left = unsafe {
            (api.hsa_signal_store_screlease)(self.done, count as i64);
            (api.hsa_queue_store_write_index_screlease)(self.raw, first + count);
            (api.hsa_signal_store_screlease)(self.doorbell, (first + count - 1) as i64);
            (api.hsa_signal_load_scacquire)(self.done)
        };
        if left != 0 || self.fault.0.load(Ordering::Acquire) != Fault::NONE {
            self.settle(first, count, *completed, name)?;
        }
        *completed += count as usize;
        self.dispatches += count;
        Ok(())
    }

    /// Finds out what became of a batch that is not done when the doorbell returns.
    #[cold]
    fn settle(
        &mut self,
        first: u64,
        count: u64,
        completed: usize,
        name: impl Fn(usize) -> String,
    ) -> Result<(), Stopped> {
        let deadline = Instant::now() + PATIENCE;
        // Short enough to see the callback being told by another thread.
        let hint = self.ticks_a_second / 10;
        let status = loop {
            let fault = self.fault.0.load(Ordering::Acquire);
            if fault != Fault::NONE {
                break Some(fault as Status);
            }
            // SAFETY: the signal is live. The wait may end for no reason.
            let left = unsafe {
                (self.rocr.api.hsa_signal_wait_scacquire)(
                    self.done,
                    sys::CONDITION_LESS,
                    1,
                    hint,
                    sys::WAIT_BLOCKED,
                )
            };
            if left <= 0 {
                return Ok(());
            }
            if Instant::now() >= deadline {
                break None;
            }
        };
        // SAFETY: the queue is live.
        let read = unsafe { (self.rocr.api.hsa_queue_load_read_index_scacquire)(self.raw) };
        let retired = read.saturating_sub(first).min(count) as usize;
        let text = match status {
            Some(status) => self.rocr.text(status),
            None => format!("it was not completed within {} s", PATIENCE.as_secs()),
        };
        let lost = Box::new(LostError {
            runtime: Runtime::Hsa,
            kernel: name(completed + retired),
            status,
            text,
        });
        self.lost = Some(lost.clone());
        self.dispatches += retired as u64;
        Err(Stopped {
            completed: completed + retired,
            error: Error::Lost(lost),
        })
    }
}

/// Packets that were written and not rung for.
#[derive(Default)]
struct Pending {
    first: u64,
    count: u64,
    form: Option<Form>,
}

impl Drop for Queue {
    fn drop(&mut self) {
        if self.rocr.is_foreign() {
            return;
        }
        self.arguments.free(self.rocr);
        if self.done != sys::Signal::default() {
            // SAFETY: no packet is under way.
            unsafe { self.rocr.signal_destroy(self.done).ok() };
        }
        self.disconnect();
    }
}
