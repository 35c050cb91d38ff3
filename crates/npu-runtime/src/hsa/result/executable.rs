//! Code objects.

use super::{Failure, Result, Rocr};
use crate::hsa::sys;
use std::ffi::CStr;
use std::ptr;

impl Rocr {
    /// # Safety
    /// `code` outlives the reader.
    pub(in crate::hsa) unsafe fn reader_create(&self, code: &[u8]) -> Result<sys::Reader> {
        let mut reader = sys::Reader::default();
        // SAFETY: `code` is as long as it says, and the caller keeps it alive.
        unsafe {
            checked!(self.hsa_code_object_reader_create_from_memory(
                code.as_ptr().cast(),
                code.len(),
                &mut reader
            ))?;
        }
        Ok(reader)
    }

    /// # Safety
    /// `reader` is of [`Self::reader_create`] and not used any more.
    pub(in crate::hsa) unsafe fn reader_destroy(&self, reader: sys::Reader) -> Result<()> {
        // SAFETY: by the caller.
        unsafe { checked!(self.hsa_code_object_reader_destroy(reader)) }
    }

    pub(in crate::hsa) fn executable_create(&self) -> Result<sys::Executable> {
        let mut executable = sys::Executable::default();
        // SAFETY: `executable` is a valid place, and no options may be null.
        unsafe {
            checked!(self.hsa_executable_create_alt(
                sys::PROFILE_FULL,
                sys::ROUNDING_DEFAULT,
                ptr::null(),
                &mut executable
            ))?;
        }
        Ok(executable)
    }

    /// # Safety
    /// `executable` is of [`Self::executable_create`], and no dispatch of its kernels is under
    /// way or to come.
    pub(in crate::hsa) unsafe fn executable_destroy(
        &self,
        executable: sys::Executable,
    ) -> Result<()> {
        // SAFETY: by the caller.
        unsafe { checked!(self.hsa_executable_destroy(executable)) }
    }

    /// # Safety
    /// `executable` is live, and `memory` outlives it.
    pub(in crate::hsa) unsafe fn variable_define(
        &self,
        executable: sys::Executable,
        agent: sys::Agent,
        name: &CStr,
        memory: *mut u8,
    ) -> Result<()> {
        // SAFETY: by the caller.
        unsafe {
            checked!(self.hsa_executable_agent_global_variable_define(
                executable,
                agent,
                name.as_ptr(),
                memory.cast()
            ))
        }
    }

    /// # Safety
    /// `executable` and `reader` are live.
    pub(in crate::hsa) unsafe fn executable_load(
        &self,
        executable: sys::Executable,
        agent: sys::Agent,
        reader: sys::Reader,
    ) -> Result<()> {
        let mut loaded = sys::Loaded::default();
        // SAFETY: by the caller; no options may be null.
        unsafe {
            checked!(self.hsa_executable_load_agent_code_object(
                executable,
                agent,
                reader,
                ptr::null(),
                &mut loaded
            ))
        }
    }

    /// # Safety
    /// `executable` is live.
    pub(in crate::hsa) unsafe fn executable_freeze(
        &self,
        executable: sys::Executable,
    ) -> Result<()> {
        // SAFETY: by the caller; no options may be null.
        unsafe { checked!(self.hsa_executable_freeze(executable, ptr::null())) }
    }

    /// # Safety
    /// `executable` is live.
    pub(in crate::hsa) unsafe fn symbol(
        &self,
        executable: sys::Executable,
        agent: sys::Agent,
        name: &CStr,
    ) -> Result<sys::Symbol> {
        let mut symbol = sys::Symbol::default();
        // SAFETY: by the caller; the other arguments live as long as the call.
        unsafe {
            checked!(self.hsa_executable_get_symbol_by_name(
                executable,
                name.as_ptr(),
                &agent,
                &mut symbol
            ))?;
        }
        Ok(symbol)
    }

    /// The handle that packets name a kernel by; 0 before its executable is frozen.
    ///
    /// # Safety
    /// `symbol` is a kernel of a live executable.
    pub(in crate::hsa) unsafe fn kernel_object(&self, symbol: sys::Symbol) -> Result<u64> {
        let mut object = 0_u64;
        let place = ptr::from_mut(&mut object).cast();
        // SAFETY: the attribute is a `u64`; the rest is by the caller.
        unsafe {
            checked!(self.hsa_executable_symbol_get_info(
                symbol,
                sys::SYMBOL_KERNEL_OBJECT,
                place
            ))?;
        }
        Ok(object)
    }

    /// Bytes of a kernel's arguments, 16 for each.
    ///
    /// # Safety
    /// `symbol` is a kernel of a live executable.
    pub(in crate::hsa) unsafe fn kernarg_size(&self, symbol: sys::Symbol) -> Result<u32> {
        let mut size = 0_u32;
        let place = ptr::from_mut(&mut size).cast();
        // SAFETY: the attribute is a `u32`; the rest is by the caller.
        unsafe {
            checked!(self.hsa_executable_symbol_get_info(symbol, sys::SYMBOL_KERNARG_SIZE, place))?;
        }
        Ok(size)
    }
}
