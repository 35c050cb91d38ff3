//! Worker threads, shared by the whole process: parked while there is nothing to do, started when
//! first wanted, and never more than the largest launch asked for.
//!
//! One caller at a time has the pool. Whoever finds it taken works alone, so that no launch waits
//! for another one.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;

/// More workers than this are never started, whatever is asked for.
const MOST: usize = 256;

/// As large as a main thread's usual stack, so that what runs there runs here.
const STACK: usize = 8 << 20;

struct Pool {
    /// The process that the workers belong to; 0 before there are any.
    process: AtomicU32,
    /// Held by the caller that has the pool.
    taken: Mutex<()>,
    state: Mutex<State>,
    /// Signalled when there is work.
    posted: Condvar,
    /// Signalled when the last worker has left the work.
    left: Condvar,
}

struct State {
    workers: usize,
    work: Option<Work>,
    /// How many more workers may join.
    seats: usize,
    /// How many are at it.
    active: usize,
}

/// A caller's closure. The caller keeps it alive until no worker can reach it any more.
type Work = &'static (dyn Fn() + Sync);

static POOL: Pool = Pool {
    process: AtomicU32::new(0),
    taken: Mutex::new(()),
    state: Mutex::new(State {
        workers: 0,
        work: None,
        seats: 0,
        active: 0,
    }),
    posted: Condvar::new(),
    left: Condvar::new(),
};

/// Calls `work` on this thread and, at the same time, on up to `others` workers; returns when all
/// calls have returned. There may be fewer workers, or none: if another caller has the pool, if
/// no thread can be started, or in a child process after `fork`, where the workers don't exist.
pub(super) fn share(others: usize, work: &(dyn Fn() + Sync)) {
    if !POOL.is_of_this_process() {
        return work();
    }
    let taken = match POOL.taken.try_lock() {
        Ok(guard) => guard,
        Err(TryLockError::Poisoned(guard)) => guard.into_inner(),
        Err(TryLockError::WouldBlock) => return work(),
    };
    let posted = POOL.post(others, work);
    work();
    drop(posted);
    drop(taken);
}

impl Pool {
    /// No lock is touched before this is known: in a child process one may be held for ever by a
    /// thread that was not copied.
    fn is_of_this_process(&self) -> bool {
        let this = std::process::id();
        let claim = self
            .process
            .compare_exchange(0, this, Ordering::Relaxed, Ordering::Relaxed);
        claim.map_or_else(|owner| owner == this, |_| true)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets up to `others` workers join `work`, until the guard is dropped.
    fn post<'a>(&'static self, others: usize, work: &'a (dyn Fn() + Sync)) -> Posted<'a> {
        // SAFETY: only the lifetime changes. Workers reach the reference through `State::work`,
        // and `Posted::drop`, which runs before `'a` ends, takes it away and waits until the last
        // one has left.
        let work = unsafe { std::mem::transmute::<&'a (dyn Fn() + Sync), Work>(work) };
        let mut state = self.lock();
        while state.workers < others.min(MOST) && self.start_worker(state.workers) {
            state.workers += 1;
        }
        let seats = others.min(state.workers);
        state.work = Some(work);
        state.seats = seats;
        drop(state);
        for _ in 0..seats {
            self.posted.notify_one();
        }
        Posted {
            pool: self,
            work: PhantomData,
        }
    }

    fn start_worker(&'static self, number: usize) -> bool {
        thread::Builder::new()
            .name(format!("npu-cpu-{number}"))
            .stack_size(STACK)
            .spawn(move || self.serve())
            .is_ok()
    }

    /// A worker's life.
    fn serve(&self) {
        let mut state = self.lock();
        loop {
            match state.work {
                Some(work) if state.seats > 0 => {
                    state.seats -= 1;
                    state.active += 1;
                    drop(state);
                    let seat = Seat(self);
                    work();
                    drop(seat);
                    state = self.lock();
                }
                _ => {
                    state = self
                        .posted
                        .wait(state)
                        .unwrap_or_else(PoisonError::into_inner)
                }
            }
        }
    }
}

/// A worker's place at the work; given back even if the work panics.
struct Seat<'a>(&'a Pool);

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.active -= 1;
        if state.active == 0 {
            self.0.left.notify_one();
        }
    }
}

/// Work that workers may join. Dropping it ends that, and waits for those who did.
struct Posted<'a> {
    pool: &'static Pool,
    work: PhantomData<&'a (dyn Fn() + Sync)>,
}

impl Drop for Posted<'_> {
    fn drop(&mut self) {
        let mut state = self.pool.lock();
        state.work = None;
        state.seats = 0;
        while state.active > 0 {
            state = self
                .pool
                .left
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::sync::atomic::AtomicUsize;

    /// All threads of this process share the pool, so these tests take turns.
    static TURN: Mutex<()> = Mutex::new(());

    #[test]
    fn work_runs_on_the_caller_and_on_workers_at_the_same_time() {
        let _turn = TURN.lock().unwrap();
        for _ in 0..if cfg!(miri) { 2 } else { 200 } {
            // Three threads meet, or this would never end.
            let meeting = Barrier::new(3);
            share(2, &|| {
                meeting.wait();
            });
        }
    }

    #[test]
    fn nothing_runs_after_it_has_returned() {
        let _turn = TURN.lock().unwrap();
        for _ in 0..if cfg!(miri) { 2 } else { 500 } {
            let calls = AtomicUsize::new(0);
            share(3, &|| {
                calls.fetch_add(1, Ordering::Relaxed);
            });
            let after = calls.load(Ordering::Relaxed);
            assert!((1..=4).contains(&after));
            thread::yield_now();
            assert_eq!(calls.load(Ordering::Relaxed), after);
        }
    }

    #[test]
    fn a_caller_that_finds_the_pool_taken_works_alone() {
        let _turn = TURN.lock().unwrap();
        let inner = AtomicUsize::new(0);
        share(0, &|| {
            let this = thread::current().id();
            share(8, &|| {
                assert_eq!(thread::current().id(), this);
                inner.fetch_add(1, Ordering::Relaxed);
            });
        });
        assert_eq!(inner.into_inner(), 1);
    }
}
