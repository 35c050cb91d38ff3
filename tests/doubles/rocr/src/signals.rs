//! Signals. They live in a fixed table, so that loads and waits take no lock and a stale handle
//! reads no freed memory.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::handles::{Kind, handle, parts};

const MOST: usize = 4096;

struct Cell {
    /// Odd while the signal lives.
    generation: AtomicU32,
    value: AtomicI64,
    /// Whether it is a queue's.
    is_doorbell: AtomicBool,
}

static CELLS: [Cell; MOST] = [const {
    Cell {
        generation: AtomicU32::new(0),
        value: AtomicI64::new(0),
        is_doorbell: AtomicBool::new(false),
    }
}; MOST];

/// Where the search for a free cell starts.
static NEXT: AtomicUsize = AtomicUsize::new(0);

static WAITERS: AtomicU32 = AtomicU32::new(0);
static WAIT: Mutex<()> = Mutex::new(());
static CHANGED: Condvar = Condvar::new();

fn find(signal: u64) -> Option<&'static Cell> {
    let (generation, index) = parts(Kind::Signal, signal)?;
    let cell = CELLS.get(index as usize)?;
    let current = cell.generation.load(Ordering::Acquire);
    (current & 1 == 1 && current & 0xff_ffff == generation).then_some(cell)
}

/// Creates a signal; `None` if there are too many.
pub fn create(value: i64) -> Option<u64> {
    add(value, false)
}

/// Creates the signal that submits a queue's packets.
pub fn create_doorbell() -> Option<u64> {
    add(0, true)
}

fn add(value: i64, is_doorbell: bool) -> Option<u64> {
    for _ in 0..MOST {
        let index = NEXT.fetch_add(1, Ordering::Relaxed) % MOST;
        let cell = CELLS.get(index)?;
        let generation = cell.generation.load(Ordering::Relaxed);
        let taken = generation & 1 == 0
            && cell
                .generation
                .compare_exchange(
                    generation,
                    generation + 1,
                    Ordering::AcqRel,
                    Ordering::Relaxed,
                )
                .is_ok();
        if taken {
            cell.is_doorbell.store(is_doorbell, Ordering::Relaxed);
            cell.value.store(value, Ordering::Release);
            return Some(handle(Kind::Signal, generation + 1, index as u32));
        }
    }
    None
}

/// Destroys a signal; whether there was one.
pub fn destroy(signal: u64) -> bool {
    let Some(cell) = find(signal) else {
        return false;
    };
    cell.generation.fetch_add(1, Ordering::AcqRel);
    true
}

/// Whether there is such a signal.
pub fn exists(signal: u64) -> bool {
    find(signal).is_some()
}

/// Whether that signal is the doorbell of a queue that there is.
pub fn is_doorbell(signal: u64) -> bool {
    find(signal).is_some_and(|cell| cell.is_doorbell.load(Ordering::Relaxed))
}

/// Its value.
pub fn load(signal: u64) -> Option<i64> {
    find(signal).map(|cell| cell.value.load(Ordering::Acquire))
}

/// Gives it a value; whether there is such a signal.
pub fn store(signal: u64, value: i64) -> bool {
    let Some(cell) = find(signal) else {
        return false;
    };
    cell.value.store(value, Ordering::SeqCst);
    wake();
    true
}

/// Subtracts one from its value, as a completed packet does.
pub fn decrement(signal: u64) {
    if let Some(cell) = find(signal) {
        cell.value.fetch_sub(1, Ordering::SeqCst);
        wake();
    }
}

fn wake() {
    if WAITERS.load(Ordering::SeqCst) != 0 {
        let _guard = WAIT.lock().unwrap_or_else(PoisonError::into_inner);
        CHANGED.notify_all();
    }
}

/// A condition on a signal's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Equal.
    Eq,
    /// Not equal.
    Ne,
    /// Less.
    Lt,
    /// Greater or equal.
    Gte,
}

impl Condition {
    /// `hsa_signal_condition_t`.
    pub fn from_number(number: u32) -> Option<Self> {
        Some(match number {
            0 => Self::Eq,
            1 => Self::Ne,
            2 => Self::Lt,
            3 => Self::Gte,
            _ => return None,
        })
    }

    fn holds(self, value: i64, compare: i64) -> bool {
        match self {
            Self::Eq => value == compare,
            Self::Ne => value != compare,
            Self::Lt => value < compare,
            Self::Gte => value >= compare,
        }
    }
}

/// Waits until the condition holds, or so many nanoseconds; the value then. `None` if there is no
/// such signal, or no longer.
pub fn wait(signal: u64, condition: Condition, compare: i64, nanoseconds: u64) -> Option<i64> {
    let value = load(signal)?;
    if condition.holds(value, compare) || nanoseconds == 0 {
        return Some(value);
    }
    let start = Instant::now();
    let limit = Duration::from_nanos(nanoseconds);
    WAITERS.fetch_add(1, Ordering::SeqCst);
    let mut guard = WAIT.lock().unwrap_or_else(PoisonError::into_inner);
    let result = loop {
        let Some(value) = load(signal) else {
            break None;
        };
        let left = limit.saturating_sub(start.elapsed());
        if condition.holds(value, compare) || left.is_zero() {
            break Some(value);
        }
        // A destroyed signal wakes nobody: look again from time to time.
        let nap = left.min(Duration::from_millis(50));
        guard = CHANGED
            .wait_timeout(guard, nap)
            .unwrap_or_else(PoisonError::into_inner)
            .0;
    };
    drop(guard);
    WAITERS.fetch_sub(1, Ordering::SeqCst);
    result
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "these are tests")]
mod tests {
    use super::*;

    #[test]
    fn a_destroyed_signal_has_no_value() {
        let signal = create(7).unwrap();
        assert_eq!(load(signal), Some(7));
        assert!(destroy(signal));
        assert!(!destroy(signal));
        assert_eq!(load(signal), None);
        assert!(!store(signal, 1));
    }

    #[test]
    fn a_waiter_wakes_when_the_condition_holds() {
        let signal = create(1).unwrap();
        let waiter = std::thread::spawn(move || wait(signal, Condition::Lt, 1, u64::MAX));
        decrement(signal);
        assert_eq!(waiter.join().unwrap(), Some(0));
        assert_eq!(wait(signal, Condition::Gte, 1, 1000), Some(0));
    }
}
