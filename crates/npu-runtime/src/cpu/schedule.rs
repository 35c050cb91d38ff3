//! Which programs of a grid run where. A grid goes to several threads only if what is left of it
//! is worth waking them; that is judged by the time that its first programs take, and by earlier
//! launches of the same kernel.

use super::object::Call;
use super::{Stopped, pool};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Work that is worth waking threads for, in picoseconds: several times what that costs.
const WORTHWHILE: u64 = 60_000_000;

/// Chunks for each thread, so that a slow one does not keep the others waiting.
const CHUNKS: u64 = 8;

/// Runs `programs` programs on up to `threads` threads.
#[inline]
pub(super) fn run(call: &Call<'_>, programs: u64, threads: usize) -> Result<(), Stopped> {
    if programs == 1 {
        return call.run(0, 1);
    }
    if threads == 1 {
        // The first program tells how much scratch memory the others need.
        call.run(0, 1)?;
        return call.run(1, programs);
    }
    run_timed(call, programs, threads)
}

fn run_timed(call: &Call<'_>, programs: u64, threads: usize) -> Result<(), Stopped> {
    let cost = &call.object.cost;
    let mut done = 0;
    if cost.load(Ordering::Relaxed).saturating_mul(programs) < WORTHWHILE {
        done = run_while_small(call, programs)?;
    }
    if done < programs {
        run_shared(call, done, programs, threads)?;
    }
    Ok(())
}

/// Runs programs on this thread, in batches that grow fourfold, until all are done or the rest is known
/// to be worth sharing. Returns how many are done.
fn run_while_small(call: &Call<'_>, programs: u64) -> Result<u64, Stopped> {
    let mut done = 0;
    let mut batch = 1;
    let mut begun = Instant::now();
    while done < programs {
        let end = programs.min(done + batch);
        call.run(done, end)?;
        let now = Instant::now();
        let each = picoseconds(begun, now) / (end - done);
        note_cost(call, each);
        done = end;
        if each.saturating_mul(programs - done) >= WORTHWHILE {
            break;
        }
        batch *= 4;
        begun = now;
    }
    Ok(done)
}

/// Runs the programs `first..end` on this thread and others.
fn run_shared(call: &Call<'_>, first: u64, end: u64, threads: usize) -> Result<(), Stopped> {
    let programs = end - first;
    let threads = programs.min(threads as u64);
    let chunk = (programs / threads.saturating_mul(CHUNKS)).max(1);
    // Every thread overshoots by one chunk at most: far from an overflow, since a grid has less
    // than 2⁶³ programs.
    let next = AtomicU64::new(first);
    let stopped = OnceLock::new();
    let work = || {
        let begun = Instant::now();
        let mut ran = 0;
        while stopped.get().is_none() {
            let from = next.fetch_add(chunk, Ordering::Relaxed);
            if from >= end {
                break;
            }
            let to = end.min(from + chunk);
            if let Err(reason) = call.run(from, to) {
                // That of the first thread counts.
                stopped.set(reason).ok();
            }
            ran += to - from;
        }
        if let Some(each) = picoseconds(begun, Instant::now()).checked_div(ran) {
            note_cost(call, each);
        }
    };
    // Leaving the pool orders all that the workers wrote before what follows.
    pool::share(usize::try_from(threads - 1).unwrap_or(usize::MAX), &work);
    stopped.into_inner().map_or(Ok(()), Err)
}

/// Remembers what a program costs, if that is news: all threads that launch this kernel read it.
fn note_cost(call: &Call<'_>, each: u64) {
    let known = call.object.cost.load(Ordering::Relaxed);
    if known.abs_diff(each) > known / 4 {
        call.object.cost.store(each, Ordering::Relaxed);
    }
}

fn picoseconds(begun: Instant, ended: Instant) -> u64 {
    let nanoseconds = ended.saturating_duration_since(begun).as_nanos();
    u64::try_from(nanoseconds.saturating_mul(1000)).unwrap_or(u64::MAX)
}
