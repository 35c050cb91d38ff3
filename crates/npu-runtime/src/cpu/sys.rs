//! The raw ABI of a cpu artifact, version 1, as `templates/cpu_entry.c` implements it.

use std::ffi::{CStr, c_char, c_void};

/// `const uint32_t`: how many 8-byte slots the arguments take.
pub(super) const SLOTS: &CStr = c"npu_cpu_slots_v1";

/// [`Run`].
pub(super) const RUN: &CStr = c"npu_cpu_run_v1";

/// [`Failure`]; not in objects that were made before there was one.
pub(super) const FAILURE: &CStr = c"npu_cpu_failure_v1";

/// The text of the assertion that ended this thread's last run, if that is why it ended.
pub(super) type Failure = unsafe extern "C" fn() -> *const c_char;

/// Runs the programs `first..end` of a grid, counted with x fastest. `slots` has as many entries
/// as [`SLOTS`] says, `grid` three.
pub(super) type Run = unsafe extern "C" fn(
    slots: *const u64,
    grid: *const u32,
    first: u64,
    end: u64,
    scratch: *mut Scratch,
);

/// Memory that the kernel's own `malloc` serves from.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Scratch {
    /// Aligned to 64 bytes.
    pub(super) base: *mut c_void,
    /// In bytes.
    pub(super) capacity: u64,
    /// Set by the callee to the most bytes that any program so far needed at once, if that is
    /// more than it was; to [`EXHAUSTED`] if a program could not be given what it asked for, or
    /// an assertion failed.
    pub(super) needed: u64,
}

/// The value of [`Scratch::needed`] after which nothing else ran.
pub(super) const EXHAUSTED: u64 = u64::MAX;

/// The symbols of one artifact.
#[derive(Clone, Copy)]
pub(super) struct Api {
    pub(super) slots: u32,
    pub(super) run: Run,
    pub(super) failure: Option<Failure>,
}
