//! Initialisation, agents, queues and signals.

use std::ffi::{c_char, c_void};
use std::sync::atomic::Ordering;

use super::{give, give_bytes};
use crate::abi::{ErrorCallback, HsaQueue, Status, Visit};
use crate::agents::{self, Value};
use crate::calls::Call;
use crate::doorbell;
use crate::queue::{self, Queue};
use crate::signals::{self, Condition};
use crate::state::{self, enter};

/// Initialises the runtime, once more.
#[unsafe(no_mangle)]
pub extern "C" fn hsa_init() -> Status {
    state::init()
}

/// Undoes one initialisation.
#[unsafe(no_mangle)]
pub extern "C" fn hsa_shut_down() -> Status {
    state::shut_down()
}

/// A status's text.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_status_string(status: Status, to: *mut *const c_char) -> Status {
    let Some(text) = status.text() else {
        return Status::INVALID_ARGUMENT;
    };
    // SAFETY: the caller's promise.
    let given = unsafe { give(to, text.as_ptr()) };
    given.err().unwrap_or(Status::SUCCESS)
}

/// Calls back for each handle, until a callback gives another status than success.
unsafe fn visit(handles: &[u64], callback: Visit, data: *mut c_void) -> Status {
    for handle in handles {
        // SAFETY: the caller's promise.
        let status = unsafe { callback(*handle, data) };
        if status != Status::SUCCESS {
            return status;
        }
    }
    Status::SUCCESS
}

/// Calls back for each agent: the CPU, then the AIE agent.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_iterate_agents(callback: Option<Visit>, data: *mut c_void) -> Status {
    let mut handles = vec![agents::CPU];
    let status = enter(Call::IterateAgents, |state| {
        if state.is_device(agents::DEVICE) {
            handles.push(agents::DEVICE);
        }
        callback.map(|_| ()).ok_or(Status::INVALID_ARGUMENT)
    });
    match callback {
        // SAFETY: the caller's promise.
        Some(callback) if status == Status::SUCCESS => unsafe { visit(&handles, callback, data) },
        _ => status,
    }
}

/// An attribute of an agent.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_agent_get_info(agent: u64, attribute: u32, to: *mut c_void) -> Status {
    enter(Call::AgentInfo, |state| {
        let value = match agent {
            agents::CPU => agents::cpu(attribute),
            _ if state.is_device(agent) => {
                let name = state.settings.agent.as_deref().unwrap_or_default();
                agents::device(name, attribute)
            }
            _ => return Err(Status::INVALID_AGENT),
        };
        let known = value.is_some();
        let bytes = value.unwrap_or(Value::U32(0)).bytes();
        // SAFETY: the caller's promise.
        unsafe { give_bytes(to.cast(), &bytes) }?;
        known.then_some(()).ok_or(Status::INVALID_ARGUMENT)
    })
}

/// An attribute of the system.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_system_get_info(attribute: u32, to: *mut c_void) -> Status {
    enter(Call::SystemInfo, |_| {
        let value = match attribute {
            // VERSION_MAJOR and VERSION_MINOR.
            0 | 1 => Value::U16(1),
            2 => Value::U64(now()),
            3 => Value::U64(1_000_000_000),
            4 => Value::U64(u64::MAX),
            0x205 => Value::U8(1),
            _ => return Err(Status::INVALID_ARGUMENT),
        };
        // SAFETY: the caller's promise.
        unsafe { give_bytes(to.cast(), &value.bytes()) }
    })
}

/// Nanoseconds of the monotonic clock.
fn now() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the time can be written.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Creates a queue.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_queue_create(
    agent: u64,
    size: u32,
    kind: u32,
    callback: Option<ErrorCallback>,
    data: *mut c_void,
    _private_segment: u32,
    _group_segment: u32,
    to: *mut *mut HsaQueue,
) -> Status {
    // A raw pointer cannot go into the closure's environment by itself: it is the program's.
    enter(Call::QueueCreate, |state| {
        if to.is_null() || !size.is_power_of_two() || kind > 2 {
            return Err(Status::INVALID_ARGUMENT);
        }
        if !state.is_agent(agent) {
            return Err(Status::INVALID_AGENT);
        }
        if !state.is_device(agent) || kind != 1 {
            return Err(Status::INVALID_QUEUE_CREATION);
        }
        if u64::from(size) != queue::SIZE {
            return Err(Status::INVALID_ARGUMENT);
        }
        let (queue, pointer) = Queue::create(callback, data)?;
        state.queues.push(queue);
        state.counters.queues.up();
        // SAFETY: the caller's promise.
        unsafe { give(to, pointer) }
    })
}

/// Destroys a queue.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_queue_destroy(queue: *mut HsaQueue) -> Status {
    enter(Call::QueueDestroy, |state| {
        if queue.is_null() {
            return Err(Status::INVALID_ARGUMENT);
        }
        let at = state.queues.iter().position(|own| own.pointer() == queue);
        let at = at.ok_or(Status::INVALID_QUEUE)?;
        state.queues.swap_remove(at).destroy();
        state.counters.queues.down(1);
        Ok(())
    })
}

/// The write index.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_queue_load_write_index_relaxed(queue: *const HsaQueue) -> u64 {
    // SAFETY: the caller's promise.
    match unsafe { queue::block(queue) } {
        Some(block) => block.write.load(Ordering::Relaxed),
        None => stale(),
    }
}

/// The write index, with all that was written before it.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_queue_load_write_index_scacquire(queue: *const HsaQueue) -> u64 {
    // SAFETY: the caller's promise.
    match unsafe { queue::block(queue) } {
        Some(block) => block.write.load(Ordering::Acquire),
        None => stale(),
    }
}

/// The read index.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_queue_load_read_index_scacquire(queue: *const HsaQueue) -> u64 {
    // SAFETY: the caller's promise.
    match unsafe { queue::block(queue) } {
        Some(block) => block.read.load(Ordering::Acquire),
        None => stale(),
    }
}

/// Adds to the write index; its value before.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_queue_add_write_index_relaxed(
    queue: *const HsaQueue,
    value: u64,
) -> u64 {
    // SAFETY: the caller's promise.
    match unsafe { queue::block(queue) } {
        Some(block) => block.write.fetch_add(value, Ordering::Relaxed),
        None => stale(),
    }
}

/// Sets the write index.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_queue_store_write_index_screlease(queue: *const HsaQueue, value: u64) {
    // SAFETY: the caller's promise.
    match unsafe { queue::block(queue) } {
        Some(block) => block.write.store(value, Ordering::Release),
        None => {
            stale();
        }
    }
}

/// What a function gives that cannot say that its handle is stale.
fn stale() -> u64 {
    state::misuse();
    0
}

/// Creates a signal. Anybody may wait for it.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hsa_signal_create(
    value: i64,
    consumers: u32,
    agents: *const u64,
    to: *mut u64,
) -> Status {
    enter(Call::SignalCreate, |state| {
        if to.is_null() || (consumers > 0 && agents.is_null()) {
            return Err(Status::INVALID_ARGUMENT);
        }
        let signal = signals::create(value).ok_or(Status::OUT_OF_RESOURCES)?;
        state.counters.signals.up();
        // SAFETY: the caller's promise.
        unsafe { give(to, signal) }
    })
}

/// Destroys a signal.
#[unsafe(no_mangle)]
pub extern "C" fn hsa_signal_destroy(signal: u64) -> Status {
    enter(Call::SignalDestroy, |state| {
        if signal == 0 {
            return Err(Status::INVALID_ARGUMENT);
        }
        if signals::is_doorbell(signal) || !signals::destroy(signal) {
            return Err(Status::INVALID_SIGNAL);
        }
        state.counters.signals.down(1);
        Ok(())
    })
}

/// Gives a signal a value; a doorbell submits packets instead, and returns when they are done.
#[unsafe(no_mangle)]
pub extern "C" fn hsa_signal_store_screlease(signal: u64, value: i64) {
    if signals::is_doorbell(signal) {
        doorbell::ring(signal);
    } else if !signals::store(signal, value) {
        state::misuse();
    }
}

/// A signal's value.
#[unsafe(no_mangle)]
pub extern "C" fn hsa_signal_load_scacquire(signal: u64) -> i64 {
    signals::load(signal).unwrap_or_else(|| stale() as i64)
}

/// Waits until a signal's value meets a condition, or so many nanoseconds; its value then.
#[unsafe(no_mangle)]
pub extern "C" fn hsa_signal_wait_scacquire(
    signal: u64,
    condition: u32,
    compare: i64,
    timeout: u64,
    _state: u32,
) -> i64 {
    let Some(condition) = Condition::from_number(condition) else {
        return stale() as i64;
    };
    signals::wait(signal, condition, compare, timeout).unwrap_or_else(|| stale() as i64)
}
