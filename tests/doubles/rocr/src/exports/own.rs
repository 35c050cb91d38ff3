//! What ROCR does not have: what tests ask the double.

use std::ffi::{c_char, c_void};

use super::{give, text};
use crate::calls::Call;
use crate::counters::Counters;
use crate::state::{lock, misuses, tell};

/// The counters.
///
/// # Safety
/// The pointer can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocr_double_counters(to: *mut Counters) {
    let mut counters = lock().as_ref().map_or(Counters::default(), |s| s.counters);
    counters.misuses = misuses();
    // SAFETY: the caller's promise.
    let _ = unsafe { give(to, counters) };
}

/// Sets one of the double's variables, for the initialisations to come: it goes before the
/// environment's, which threads cannot change safely.
///
/// # Safety
/// Both are C strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocr_double_set(name: *const c_char, value: *const c_char) {
    // SAFETY: the caller's promise.
    if let (Ok(name), Ok(value)) = unsafe { (text(name), text(value)) } {
        tell(name, value);
    }
}

/// How often a function that gives a status was called; `u64::MAX` if it is none.
///
/// # Safety
/// The name is a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocr_double_calls(name: *const c_char) -> u64 {
    // SAFETY: the caller's promise.
    let name = unsafe { text(name) }.unwrap_or_default();
    let Some(call) = Call::from_name(&name) else {
        return u64::MAX;
    };
    lock().as_ref().map_or(0, |state| state.calls(call))
}

/// Why a code object or a batch was refused last, cut to the buffer's size; how long it is.
///
/// # Safety
/// The buffer can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocr_double_reason(to: *mut c_char, size: usize) -> usize {
    let reason = lock().as_ref().map_or(String::new(), |s| s.reason.clone());
    if size > 0 && !to.is_null() {
        let length = reason.len().min(size - 1);
        // SAFETY: the caller's promise; the end mark fits, too.
        unsafe {
            std::ptr::copy_nonoverlapping(reason.as_ptr(), to.cast::<u8>(), length);
            to.add(length).write(0);
        }
    }
    reason.len()
}

/// A kernel's control code as it lies in the device heap, with the addresses of its last dispatch.
/// Its size is written; null if there is no such kernel object.
///
/// # Safety
/// The pointer can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocr_double_control_code(kernel: u64, size: *mut usize) -> *const c_void {
    let guard = lock();
    let found = guard
        .as_ref()
        .and_then(|state| state.executables.kernels.get(kernel));
    let Some(kernel) = found else {
        return std::ptr::null();
    };
    // SAFETY: the caller's promise.
    let _ = unsafe { give(size, kernel.control_size) };
    kernel.control as *const c_void
}
