//! The runtime: everything behind one lock, created by the first `hsa_init` and reset by the last
//! `hsa_shut_down`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::abi::Status;
use crate::calls::Call;
use crate::counters::Counters;
use crate::executable::Executables;
use crate::handles::{Kind, Table};
use crate::loader::Refusal;
use crate::memory::Memory;
use crate::queue::Queue;
use crate::settings::Settings;

/// The runtime.
#[derive(Debug)]
pub struct State {
    /// How often it was initialised and not shut down.
    pub references: u32,
    /// What the environment said.
    pub settings: Settings,
    /// Counters.
    pub counters: Counters,
    /// Memory.
    pub memory: Memory,
    /// Code object readers.
    pub readers: Table<Vec<u8>>,
    /// Executables.
    pub executables: Executables,
    /// The queues.
    pub queues: Vec<Queue>,
    /// How many packets were submitted.
    pub packets: u64,
    /// Why something was refused last.
    pub reason: String,
    /// Settings that go before the environment's.
    told: Vec<(String, String)>,
    calls: [u64; Call::COUNT],
}

static STATE: Mutex<Option<State>> = Mutex::new(None);

/// Uses of stale handles where there is no status to say so.
static MISUSES: AtomicU64 = AtomicU64::new(0);

/// Counts a misuse.
pub fn misuse() {
    MISUSES.fetch_add(1, Ordering::Relaxed);
}

/// How many there were.
pub fn misuses() -> u64 {
    MISUSES.load(Ordering::Relaxed)
}

/// The runtime, if it was ever initialised.
pub fn lock() -> MutexGuard<'static, Option<State>> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lets time pass as a device lets it, on this thread.
pub fn spin(nanoseconds: u64) {
    let start = Instant::now();
    while start.elapsed() < Duration::from_nanos(nanoseconds) {
        std::hint::spin_loop();
    }
}

impl State {
    fn new() -> Result<Self, Status> {
        Ok(Self {
            references: 0,
            settings: Settings::default(),
            counters: Counters::default(),
            memory: Memory::new()?,
            readers: Table::new(Kind::Reader),
            executables: Executables::new(),
            queues: Vec::new(),
            packets: 0,
            reason: String::new(),
            told: Vec::new(),
            calls: [0; Call::COUNT],
        })
    }

    /// Counts a call; fails if it is told to.
    fn begin(&mut self, call: Call) -> Result<(), Status> {
        let count = self.calls.get_mut(call as usize);
        let run = count.map_or(0, |count| {
            *count += 1;
            *count
        });
        self.counters.calls += 1;
        let failure = self
            .settings
            .failures
            .iter()
            .find(|(c, n, _)| *c == call && *n == run);
        failure.map_or(Ok(()), |(.., status)| Err(*status))
    }

    /// How often a function was called.
    pub fn calls(&self, call: Call) -> u64 {
        self.calls.get(call as usize).copied().unwrap_or(0)
    }

    fn latency(&self, call: Call) -> u64 {
        let own = self.settings.latencies.iter().filter(|(c, _)| *c == call);
        own.map(|(_, nanoseconds)| nanoseconds).sum()
    }

    /// Notes a refusal.
    pub fn refuse(&mut self, refusal: Refusal) -> Status {
        self.reason = refusal.reason;
        refusal.status
    }

    /// Whether that is the AIE agent.
    pub fn is_device(&self, agent: u64) -> bool {
        self.settings.agent.is_some() && agent == crate::agents::DEVICE
    }

    /// Whether that is an agent.
    pub fn is_agent(&self, agent: u64) -> bool {
        agent == crate::agents::CPU || self.is_device(agent)
    }
}

/// The runtime, which is there from now on.
fn created(guard: &mut Option<State>) -> Result<&mut State, Status> {
    match guard {
        Some(state) => Ok(state),
        None => Ok(guard.insert(State::new()?)),
    }
}

/// Sets a variable for the `hsa_init`s to come, before the environment's.
pub fn tell(name: String, value: String) {
    if let Ok(state) = created(&mut lock()) {
        state.told.push((name, value));
    }
}

/// `hsa_init`.
pub fn init() -> Status {
    let mut guard = lock();
    let state = match created(&mut guard) {
        Ok(state) => state,
        Err(status) => return status,
    };
    if state.references == 0 {
        let told = &state.told;
        let read = |name: &str| match told.iter().rfind(|(n, _)| n == name) {
            Some((_, value)) => Some(value.clone()),
            None => std::env::var(name).ok(),
        };
        match Settings::read(read) {
            Ok(settings) => state.settings = settings,
            Err(entry) => {
                eprintln!("rocr-double: not understood: {entry}");
                return Status::FATAL;
            }
        }
        state.packets = 0;
    }
    if let Err(status) = state.begin(Call::Init) {
        return status;
    }
    spin(state.latency(Call::Init));
    state.references += 1;
    state.counters.inits.up();
    Status::SUCCESS
}

/// `hsa_shut_down`. The last one takes everything away, released or not.
pub fn shut_down() -> Status {
    enter(Call::ShutDown, |state| {
        state.references -= 1;
        state.counters.inits.down(1);
        if state.references == 0 {
            for queue in state.queues.drain(..) {
                queue.destroy();
            }
            state.executables.clear();
            state.readers.clear();
            state.memory.clear();
        }
        Ok(())
    })
}

/// Does what a call does: counted, failing if it is told to, and only while initialised.
pub fn enter(call: Call, run: impl FnOnce(&mut State) -> Result<(), Status>) -> Status {
    let mut guard = lock();
    let Some(state) = guard.as_mut().filter(|state| state.references > 0) else {
        return Status::NOT_INITIALIZED;
    };
    if let Err(status) = state.begin(call) {
        return status;
    }
    if !state.settings.latencies.is_empty() {
        let nanoseconds = state.latency(call);
        drop(guard);
        spin(nanoseconds);
        guard = lock();
    }
    let Some(state) = guard.as_mut().filter(|state| state.references > 0) else {
        return Status::NOT_INITIALIZED;
    };
    run(state).err().unwrap_or(Status::SUCCESS)
}
