//! Tells a process from the children that it forks, without a system call. A device's library
//! keeps threads, mappings and file descriptors that a child has copies or nothing of, so what
//! was opened before a fork may not be used after it.

use std::ffi::c_int;
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

/// How many forks this process is away from the one that first called [`generation`].
static FORKS: AtomicU32 = AtomicU32::new(0);

unsafe extern "C" {
    fn pthread_atfork(
        prepare: Option<unsafe extern "C" fn()>,
        parent: Option<unsafe extern "C" fn()>,
        child: Option<unsafe extern "C" fn()>,
    ) -> c_int;
}

unsafe extern "C" fn in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// A number that a child never has in common with its parents, once one of them has asked for it.
pub(crate) fn watched_generation() -> u32 {
    static WATCH: Once = Once::new();
    WATCH.call_once(|| {
        // SAFETY: the handler only changes an atomic. Without memory for the registration, forks
        // are not noticed.
        unsafe { pthread_atfork(None, None, Some(in_child)) };
    });
    generation()
}

/// The number for whoever has asked [`watched_generation`] before.
#[inline]
pub(crate) fn generation() -> u32 {
    FORKS.load(Ordering::Relaxed)
}
