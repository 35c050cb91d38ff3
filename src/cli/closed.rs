//! Whether there is a standard output at all.
//!
//! Before `main` the standard library opens `/dev/null` in the place of a standard stream that is
//! closed, so that a result would go nowhere and nobody would know. This looks before that.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::{Errno, fcntl_getfd};

static IS_CLOSED: AtomicBool = AtomicBool::new(false);

/// What the C library calls before `main`, and so before the standard library.
#[expect(unsafe_code, reason = "the section's name is the C library's")]
#[used]
// SAFETY: the section holds pointers to functions of the C ABI, and this is one.
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

#[expect(unsafe_code, reason = "the stream is looked at by its number")]
extern "C" fn look() {
    // SAFETY: the descriptor is not kept, and the call that it is for reports one that is closed.
    let stdout = unsafe { BorrowedFd::borrow_raw(1) };
    let is_closed = fcntl_getfd(stdout) == Err(Errno::BADF);
    IS_CLOSED.store(is_closed, Ordering::Relaxed);
}

/// Fails if standard output was closed when the program was started.
pub fn check() -> io::Result<()> {
    match IS_CLOSED.load(Ordering::Relaxed) {
        true => Err(Errno::BADF.into()),
        false => Ok(()),
    }
}
