//! Address space. What was given to a program and taken back is never given out again, so that a
//! pointer which outlives its memory is found: by the processor, or at the doorbell.

use std::ffi::CStr;
use std::os::fd::{AsRawFd as _, FromRawFd as _, IntoRawFd as _, OwnedFd};
use std::ptr;

use crate::abi::Status;

/// The size of a page.
pub const PAGE: usize = 4096;

/// What the files of [`Shared`] are called, by which they are known again.
const NAME: &CStr = c"rocr-double";

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

fn duplicate(descriptor: libc::c_int) -> libc::c_int {
    // SAFETY: a closed descriptor gives an error.
    unsafe { libc::fcntl(descriptor, libc::F_DUPFD_CLOEXEC, 0) }
}

/// A descriptor that was just opened, if it was.
fn opened(descriptor: libc::c_int) -> Result<OwnedFd, Status> {
    if descriptor < 0 {
        return Err(Status::OUT_OF_RESOURCES);
    }
    // SAFETY: it is open, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Memory that can appear at several addresses. The device sees it at one of its own.
#[derive(Debug)]
pub struct Shared {
    descriptor: OwnedFd,
    /// Its size.
    pub size: usize,
    /// Where the device sees it.
    pub device: usize,
}

impl Shared {
    /// New memory, full of zeros.
    pub fn new(size: usize) -> Result<Self, Status> {
        // SAFETY: the name is a C string.
        let descriptor = unsafe { libc::memfd_create(NAME.as_ptr(), libc::MFD_CLOEXEC) };
        let descriptor = opened(descriptor)?;
        // SAFETY: the descriptor is open.
        if unsafe { libc::ftruncate(descriptor.as_raw_fd(), size as libc::off_t) } != 0 {
            return Err(Status::OUT_OF_RESOURCES);
        }
        Self::seen(descriptor, size)
    }

    /// The memory that a descriptor gives, which must be such memory's.
    pub fn of_descriptor(descriptor: libc::c_int) -> Result<Self, Status> {
        let link = std::fs::read_link(format!("/proc/self/fd/{descriptor}"));
        let link = link.map_err(|_| Status::INVALID_ARGUMENT)?;
        let name = format!("/memfd:{}", NAME.to_string_lossy());
        if !link.to_string_lossy().starts_with(&name) {
            return Err(Status::INCOMPATIBLE_ARGUMENTS);
        }
        let descriptor = opened(duplicate(descriptor))?;
        let file = std::fs::File::from(descriptor);
        let size = file.metadata().map_err(|_| Status::INVALID_ALLOCATION)?;
        Self::seen(file.into(), size.len() as usize)
    }

    /// A descriptor for the memory, which whoever gets it closes.
    pub fn descriptor(&self) -> Result<libc::c_int, Status> {
        Ok(opened(duplicate(self.descriptor.as_raw_fd()))?.into_raw_fd())
    }

    /// Lets the device see the memory of a descriptor.
    fn seen(descriptor: OwnedFd, size: usize) -> Result<Self, Status> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let device = checked(unsafe {
            let (flags, file) = (libc::MAP_SHARED, descriptor.as_raw_fd());
            libc::mmap(ptr::null_mut(), size, protection, flags, file, 0)
        })?;
        Ok(Self {
            descriptor,
            size,
            device,
        })
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
                self.descriptor.as_raw_fd(),
                offset as libc::off_t,
            )
        };
        checked(at).map(|_| ())
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: it is its own, and nothing of the device's runs any more.
        unsafe { libc::munmap(self.device as *mut libc::c_void, self.size) };
    }
}
