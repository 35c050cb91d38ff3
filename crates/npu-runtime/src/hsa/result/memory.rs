//! Memory that host and device both have mapped.

use super::{Failure, Result, Rocr};
use crate::hsa::sys;
use std::ptr;

impl Rocr {
    pub(in crate::hsa) fn memory_create(
        &self,
        pool: sys::Pool,
        size: usize,
    ) -> Result<sys::Memory> {
        let mut memory = sys::Memory::default();
        // SAFETY: `memory` is a valid place.
        unsafe {
            checked!(self.hsa_amd_vmem_handle_create(
                pool,
                size,
                sys::MEMORY_PINNED,
                0,
                &mut memory
            ))?;
        }
        Ok(memory)
    }

    /// # Safety
    /// `memory` is of [`Self::memory_create`], mapped nowhere and not used any more.
    pub(in crate::hsa) unsafe fn memory_release(&self, memory: sys::Memory) -> Result<()> {
        // SAFETY: by the caller.
        unsafe { checked!(self.hsa_amd_vmem_handle_release(memory)) }
    }

    pub(in crate::hsa) fn address_reserve(&self, size: usize) -> Result<*mut u8> {
        let mut address = ptr::null_mut();
        // SAFETY: `address` is a valid place for a pointer.
        unsafe {
            checked!(self.hsa_amd_vmem_address_reserve_align(
                &mut address,
                size,
                0,
                0,
                sys::ADDRESS_NO_REGISTER
            ))?;
        }
        Ok(address.cast())
    }

    /// # Safety
    /// The range is one of [`Self::address_reserve`], and nothing is mapped there.
    pub(in crate::hsa) unsafe fn address_free(&self, address: *mut u8, size: usize) -> Result<()> {
        // SAFETY: by the caller.
        unsafe { checked!(self.hsa_amd_vmem_address_free(address.cast(), size)) }
    }

    /// # Safety
    /// The range is one of [`Self::address_reserve`], and nothing is mapped there.
    pub(in crate::hsa) unsafe fn map(
        &self,
        address: *mut u8,
        size: usize,
        memory: sys::Memory,
    ) -> Result<()> {
        // SAFETY: by the caller.
        unsafe { checked!(self.hsa_amd_vmem_map(address.cast(), size, 0, memory, 0)) }
    }

    /// # Safety
    /// The range is mapped, and neither host nor device use it any more.
    pub(in crate::hsa) unsafe fn unmap(&self, address: *mut u8, size: usize) -> Result<()> {
        // SAFETY: by the caller.
        unsafe { checked!(self.hsa_amd_vmem_unmap(address.cast(), size)) }
    }

    /// Gives `agents` a right to mapped memory, or takes it away.
    ///
    /// # Safety
    /// The range is mapped, and who loses a right does not use it any more.
    pub(in crate::hsa) unsafe fn set_access(
        &self,
        address: *mut u8,
        size: usize,
        permission: u32,
        agents: [sys::Agent; 2],
    ) -> Result<()> {
        let access = agents.map(|agent| sys::Access { permission, agent });
        // SAFETY: `access` has that many entries, and the caller vouches for the range.
        unsafe {
            checked!(self.hsa_amd_vmem_set_access(
                address.cast(),
                size,
                access.as_ptr(),
                access.len()
            ))
        }
    }
}
