//! The same work on many items, on several threads at once.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::process::{Resource, getrlimit};

/// The most files that one thread has open at once: a build with its locks, directories, log and
/// pipes to a tool.
const FILES_PER_THREAD: usize = 12;

/// As many of `threads` as the limit on open files lets work, and at least one.
fn affordable(threads: usize) -> usize {
    let Some(limit) = getrlimit(Resource::Nofile).current else {
        return threads;
    };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    // What is open already is counted only where it matters: that takes some system calls.
    const OPEN_AT_MOST: usize = 64;
    if threads <= 1 || limit.saturating_sub(OPEN_AT_MOST) / FILES_PER_THREAD >= threads {
        return threads;
    }
    let open = fs::read_dir("/proc/self/fd").map_or(OPEN_AT_MOST, Iterator::count);
    threads
        .min(limit.saturating_sub(open) / FILES_PER_THREAD)
        .max(1)
}

/// Applies `work` to every item on up to `threads` threads, or as many as may have files open;
/// results in the items' order. This thread is one of them, so a system that gives no more threads
/// costs time and nothing else.
pub(crate) fn map<T: Sync, R: Send>(
    items: &[T],
    threads: usize,
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::with_capacity(items.len()));
    let work_on = || {
        while let Some((index, item)) = {
            let index = next.fetch_add(1, Ordering::Relaxed);
            items.get(index).map(|item| (index, item))
        } {
            let result = work(item);
            let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
            results.push((index, result));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..affordable(threads.min(items.len())) {
            if std::thread::Builder::new()
                .spawn_scoped(scope, work_on)
                .is_err()
            {
                break;
            }
        }
        work_on();
    });
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn results_keep_the_order_of_the_items() {
        let items: Vec<u32> = (0..100).collect();
        let doubled: Vec<u32> = (0..100).map(|item| 2 * item).collect();
        for threads in [0, 1, 3, 1000] {
            assert_eq!(super::map(&items, threads, |item| 2 * item), doubled);
        }
        assert!(super::map(&[] as &[u32], 4, |item| *item).is_empty());
    }
}
