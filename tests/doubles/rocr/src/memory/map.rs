//! Address space. What was given to a program and taken back is never given out again, so that a
//! pointer which outlives its memory is found: by the processor, or at the doorbell.

use std::ptr;

use crate::abi::Status;

/// The size of a page.
pub const PAGE: usize = 4096;

fn checked(address: *mut libc::c_void) -> Result<usize, Status> {
    if address == libc::MAP_FAILED {
        return Err(Status::OUT_OF_RESOURCES);
    }
    Ok(address as usize)
}

/// Reserves address space without memory, with a page behind it that nothing is ever in.
pub fn reserve(size: usize, align: usize) -> Result<usize, Status> {
    let align = align.max(PAGE);
    let size = size
        .checked_next_multiple_of(PAGE)
        .and_then(|size| size.checked_add(align + PAGE))
        .ok_or(Status::OUT_OF_RESOURCES)?;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping, at an address that the kernel chooses.
    let address = unsafe { libc::mmap(ptr::null_mut(), size, libc::PROT_NONE, flags, -1, 0) };
    Ok(checked(address)?.next_multiple_of(align))
}

/// Puts private memory, full of zeros, into reserved space.
pub fn commit(address: usize, size: usize) -> Result<(), Status> {
    protect(address, size, 3)
}

/// Changes what the processor may do: bit 0 read, bit 1 write.
pub fn protect(address: usize, size: usize, permissions: u32) -> Result<(), Status> {
    let mut protection = libc::PROT_NONE;
    if permissions & 1 != 0 {
        protection |= libc::PROT_READ;
    }
    if permissions & 2 != 0 {
        protection |= libc::PROT_WRITE;
    }
    // SAFETY: the range is one that this module reserved.
    let result = unsafe { libc::mprotect(address as *mut libc::c_void, size, protection) };
    if result == 0 {
        Ok(())
    } else {
        Err(Status::OUT_OF_RESOURCES)
    }
}

/// Takes the memory away and keeps the space reserved.
pub fn decommit(address: usize, size: usize) {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
    // SAFETY: the range is one that this module reserved. If it fails the memory stays.
    unsafe {
        libc::mmap(
            address as *mut libc::c_void,
            size.next_multiple_of(PAGE),
            libc::PROT_NONE,
            flags,
            -1,
            0,
        );
    }
}

/// Memory that can appear at several addresses. The device sees it at one of its own.
#[derive(Debug)]
pub struct Shared {
    descriptor: libc::c_int,
    /// Its size.
    pub size: usize,
    /// Where the device sees it.
    pub device: usize,
}

impl Shared {
    /// New memory, full of zeros.
    pub fn new(size: usize) -> Result<Self, Status> {
        // SAFETY: the name is a C string.
        let descriptor = unsafe { libc::memfd_create(c"rocr-double".as_ptr(), libc::MFD_CLOEXEC) };
        if descriptor < 0 {
            return Err(Status::OUT_OF_RESOURCES);
        }
        let mut shared = Self {
            descriptor,
            size,
            device: 0,
        };
        // SAFETY: the descriptor is open, and `shared` closes it on failure.
        if unsafe { libc::ftruncate(descriptor, size as libc::off_t) } != 0 {
            return Err(Status::OUT_OF_RESOURCES);
        }
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping, at an address that the kernel chooses.
        shared.device = checked(unsafe {
            let flags = libc::MAP_SHARED;
            libc::mmap(ptr::null_mut(), size, protection, flags, descriptor, 0)
        })?;
        Ok(shared)
    }

    /// Lets it appear in reserved space, where the processor may do nothing with it yet.
    pub fn appear(&self, address: usize, size: usize, offset: usize) -> Result<(), Status> {
        let flags = libc::MAP_SHARED | libc::MAP_FIXED;
        // SAFETY: the range is one that this module reserved.
        let at = unsafe {
            libc::mmap(
                address as *mut libc::c_void,
                size,
                libc::PROT_NONE,
                flags,
                self.descriptor,
                offset as libc::off_t,
            )
        };
        checked(at).map(|_| ())
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: both are its own, and nothing of the device's runs any more.
        unsafe {
            if self.device != 0 {
                libc::munmap(self.device as *mut libc::c_void, self.size);
            }
            libc::close(self.descriptor);
        }
    }
}
