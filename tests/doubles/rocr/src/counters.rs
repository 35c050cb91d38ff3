//! What `rocr_double_counters` tells: how often everything was done, and what is left over.

/// How many of something live, and how many there ever were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Count {
    /// Created and not released.
    pub live: u64,
    /// Created.
    pub total: u64,
}

impl Count {
    /// One more.
    pub fn up(&mut self) {
        self.live += 1;
        self.total += 1;
    }

    /// So many less.
    pub fn down(&mut self, count: usize) {
        self.live = self.live.saturating_sub(count as u64);
    }
}

/// The counters. Shutting down changes none but `inits`: what a program left behind stays counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Counters {
    /// `hsa_init`, less `hsa_shut_down`.
    pub inits: Count,
    /// Queues.
    pub queues: Count,
    /// Signals, doorbells excluded.
    pub signals: Count,
    /// Allocations of pools.
    pub pool_allocations: Count,
    /// Handles of mappable memory.
    pub memories: Count,
    /// Reserved ranges of addresses.
    pub reservations: Count,
    /// Mappings.
    pub mappings: Count,
    /// Code object readers.
    pub readers: Count,
    /// Executables.
    pub executables: Count,
    /// Calls of functions that give a status: all but queue indices, loads, stores and waits of
    /// signals. A launch needs none of them.
    pub calls: u64,
    /// Doorbells that found packets.
    pub doorbells: u64,
    /// Doorbells that did nothing: no packets, or a suspended queue.
    pub idle_doorbells: u64,
    /// Packets that ran to their end.
    pub packets: u64,
    /// The most packets that one doorbell submitted.
    pub most_packets: u64,
    /// Chains of commands that were given to the driver.
    pub chains: u64,
    /// The most commands of a chain.
    pub longest_chain: u64,
    /// Packets whose program computed something.
    pub computed: u64,
    /// Bytes of arguments and variables that were flushed, before and behind packets.
    pub bytes_flushed: u64,
    /// Batches that were refused.
    pub refusals: u64,
    /// Errors of the device.
    pub device_errors: u64,
    /// Error callbacks that were made.
    pub callbacks: u64,
    /// The most PDIs that a queue was configured with.
    pub most_pdis: u64,
    /// Uses of stale or foreign handles in functions that have no status to say so, and doorbells
    /// that were rung while another one was at work.
    pub misuses: u64,
}

/// `rocr_double_counters`: writes the counters.
pub type ReadCounters = unsafe extern "C" fn(*mut Counters);
