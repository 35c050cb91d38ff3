//! The functions of the library, under their C names.
//!
//! # Safety
//! As in C: pointers are null or point to what the headers say, and out-parameters can be written.
//! Handles may be anything.

mod device;
mod executables;
mod memory;
mod own;
mod sharing;

use std::ffi::{CStr, c_char};

use crate::abi::Status;

/// Writes a result.
///
/// # Safety
/// The pointer is null or can be written.
unsafe fn give<T>(to: *mut T, value: T) -> Result<(), Status> {
    if to.is_null() {
        return Err(Status::INVALID_ARGUMENT);
    }
    // SAFETY: not null, so the caller's promise holds.
    unsafe { to.write_unaligned(value) };
    Ok(())
}

/// Writes the bytes of an attribute's value.
///
/// # Safety
/// The pointer is null or has room for the attribute's type.
unsafe fn give_bytes(to: *mut u8, bytes: &[u8]) -> Result<(), Status> {
    if to.is_null() {
        return Err(Status::INVALID_ARGUMENT);
    }
    // SAFETY: not null, so the caller's promise holds.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
    Ok(())
}

/// A C string.
///
/// # Safety
/// The pointer is null or a C string's.
unsafe fn text(pointer: *const c_char) -> Result<String, Status> {
    if pointer.is_null() {
        return Err(Status::INVALID_ARGUMENT);
    }
    // SAFETY: not null, so the caller's promise holds.
    let text = unsafe { CStr::from_ptr(pointer) };
    Ok(text.to_string_lossy().into_owned())
}
