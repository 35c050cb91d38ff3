//! Queues: their rings, their indices, and what is known of them when their doorbells ring.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::abi::{ErrorCallback, HsaQueue, Packet, Status};
use crate::memory::{self, PAGE, Part};
use crate::signals;

/// How many packets the ring holds.
pub const SIZE: u64 = 64;

/// How many PDIs a hardware context can be configured with.
pub const MOST_PDIS: usize = 32;

/// What a program sees of a queue. Never freed, so that a stale pointer reads no freed memory.
#[derive(Debug)]
#[repr(C)]
pub struct Block {
    public: HsaQueue,
    /// The write index.
    pub write: AtomicU64,
    /// The read index.
    pub read: AtomicU64,
    alive: AtomicBool,
}

/// A packet that was found good.
#[derive(Clone, Copy, Debug)]
pub struct Prepared {
    /// Its kernel object.
    pub kernel: u64,
    /// Its completion signal, or 0.
    pub completion: u64,
    /// The first of its arguments in [`Queue::parts`].
    pub first: usize,
    /// How many.
    pub arguments: usize,
    /// Bytes of its command in the buffer of a chain.
    pub slot: usize,
}

/// A queue.
#[derive(Debug)]
pub struct Queue {
    block: &'static Block,
    ring: *const Packet,
    /// The signal that submits its packets.
    pub doorbell: u64,
    callback: Option<ErrorCallback>,
    data: *mut c_void,
    /// It takes no more packets.
    pub suspended: bool,
    /// A doorbell is at work.
    pub busy: bool,
    /// Whether the last batch was of full ELFs, for which the context has no PDIs.
    pub full_elf: bool,
    /// The PDIs that the context is configured with.
    pub pdis: Vec<usize>,
    /// The packets of the batch at hand. Kept, so that a doorbell allocates nothing.
    pub batch: Vec<Prepared>,
    /// Their arguments, with their addresses.
    pub parts: Vec<(u64, Part)>,
    /// Where the argument of each position, and the kernargs, were found last.
    pub hints: [usize; 32],
}

// SAFETY: the pointers are to memory that lives as long as the process, or are the program's own
// and go back to it.
unsafe impl Send for Queue {}

impl Queue {
    /// `hsa_queue_create`, of a size and type that were checked.
    pub fn create(
        callback: Option<ErrorCallback>,
        data: *mut c_void,
    ) -> Result<(Self, *mut HsaQueue), Status> {
        static ID: AtomicU64 = AtomicU64::new(0);
        let bytes = (SIZE as usize) * size_of::<Packet>();
        let ring = memory::reserve(bytes, PAGE)?;
        memory::commit(ring, bytes)?;
        let doorbell = signals::create_doorbell().ok_or(Status::OUT_OF_RESOURCES)?;
        let block = Box::leak(Box::new(Block {
            public: HsaQueue {
                kind: 1,
                features: 0,
                base: ring as *mut Packet,
                doorbell,
                size: SIZE as u32,
                reserved: 0,
                id: ID.fetch_add(1, Ordering::Relaxed),
            },
            write: AtomicU64::new(0),
            read: AtomicU64::new(0),
            alive: AtomicBool::new(true),
        }));
        let pointer = ptr::from_mut(block).cast::<HsaQueue>();
        let queue = Self {
            // SAFETY: it was leaked above. The program writes to no field but through this interface.
            block: unsafe { &*pointer.cast::<Block>() },
            ring: ring as *const Packet,
            doorbell,
            callback,
            data,
            suspended: false,
            busy: false,
            full_elf: false,
            pdis: Vec::with_capacity(MOST_PDIS),
            batch: Vec::with_capacity(SIZE as usize),
            parts: Vec::with_capacity(SIZE as usize * 16),
            hints: [0; 32],
        };
        Ok((queue, pointer))
    }

    /// The queue's pointer.
    pub fn pointer(&self) -> *mut HsaQueue {
        ptr::from_ref(self.block).cast::<HsaQueue>().cast_mut()
    }

    /// `hsa_queue_destroy`.
    pub fn destroy(self) {
        self.block.alive.store(false, Ordering::Release);
        signals::destroy(self.doorbell);
        memory::decommit(self.ring as usize, SIZE as usize * size_of::<Packet>());
    }

    /// The packet of an index.
    pub fn packet(&self, index: u64) -> Packet {
        // SAFETY: the ring has as many slots, and lives as long as the queue. The program does not
        // write to packets that it has published.
        unsafe { self.ring.add((index % SIZE) as usize).read_volatile() }
    }

    /// The indices: first packet, and behind the last.
    pub fn indices(&self) -> (u64, u64) {
        let read = self.block.read.load(Ordering::Relaxed);
        (read, self.block.write.load(Ordering::Acquire))
    }

    /// Moves the read index.
    pub fn advance(&self, index: u64) {
        self.block.read.store(index, Ordering::Release);
    }

    /// Whom to call about an error.
    pub fn callback(&self) -> (Option<ErrorCallback>, *mut HsaQueue, *mut c_void) {
        (self.callback, self.pointer(), self.data)
    }
}

/// The queue of that doorbell, unless it is gone.
pub fn find(queues: &mut [Queue], doorbell: u64) -> Option<&mut Queue> {
    queues.iter_mut().find(|queue| queue.doorbell == doorbell)
}

/// The queue behind a program's pointer, unless it is gone.
///
/// # Safety
/// The pointer is null or was given by `hsa_queue_create`, ever.
pub unsafe fn block(queue: *const HsaQueue) -> Option<&'static Block> {
    // SAFETY: blocks are never freed.
    let block = unsafe { queue.cast::<Block>().as_ref() }?;
    block.alive.load(Ordering::Acquire).then_some(block)
}
