//! The raw ABI of `libhsa-runtime64.so.1` as far as AIE agents need it: `hsa.h`,
//! `hsa_ext_amd.h` and `hsa_ext_amd_aie.h` of ROCR. Nothing here checks anything.

use libloading::os::unix::Library;
use std::ffi::{c_char, c_void};

/// `hsa_status_t`.
pub(super) type Status = u32;

pub(super) const SUCCESS: Status = 0;
pub(super) const INVALID_QUEUE_CREATION: Status = 0x1002;
pub(super) const INVALID_ALLOCATION: Status = 0x1003;
pub(super) const OUT_OF_RESOURCES: Status = 0x1008;
pub(super) const INVALID_CODE_OBJECT: Status = 0x1010;
pub(super) const VARIABLE_UNDEFINED: Status = 0x1015;

macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[repr(C)]
        pub(super) struct $name(pub(super) u64);
    )*};
}

handles! {
    /// `hsa_agent_t`.
    Agent;
    /// `hsa_amd_memory_pool_t`.
    Pool;
    /// `hsa_signal_t`.
    Signal;
    /// `hsa_amd_vmem_alloc_handle_t`.
    Memory;
    /// `hsa_code_object_reader_t`.
    Reader;
    /// `hsa_executable_t`.
    Executable;
    /// `hsa_executable_symbol_t`.
    Symbol;
    /// `hsa_loaded_code_object_t`.
    Loaded;
}

/// `hsa_queue_t`.
#[repr(C)]
pub(super) struct Queue {
    pub(super) kind: u32,
    pub(super) features: u32,
    pub(super) base: *mut c_void,
    pub(super) doorbell: Signal,
    pub(super) size: u32,
    reserved: u32,
    pub(super) id: u64,
}

/// `hsa_amd_memory_access_desc_t`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Access {
    pub(super) permission: u32,
    pub(super) agent: Agent,
}

const _: () = {
    assert!(size_of::<Queue>() == 40);
    assert!(std::mem::offset_of!(Queue, doorbell) == 16);
    assert!(size_of::<Access>() == 16);
};

// hsa_device_type_t.
pub(super) const DEVICE_CPU: u32 = 0;
pub(super) const DEVICE_AIE: u32 = 3;

// hsa_agent_info_t.
pub(super) const AGENT_NAME: u32 = 0;
pub(super) const AGENT_DEVICE: u32 = 17;

// hsa_system_info_t.
pub(super) const SYSTEM_TIMESTAMP_FREQUENCY: u32 = 3;

// hsa_amd_memory_pool_info_t.
pub(super) const POOL_SEGMENT: u32 = 0;
pub(super) const POOL_FLAGS: u32 = 1;
pub(super) const POOL_GRANULE: u32 = 6;
pub(super) const POOL_REC_GRANULE: u32 = 18;

/// `HSA_AMD_SEGMENT_GLOBAL`.
pub(super) const SEGMENT_GLOBAL: u32 = 0;
// hsa_amd_memory_pool_global_flag_t.
pub(super) const FLAG_KERNARG: u32 = 1;
pub(super) const FLAG_COARSE: u32 = 4;

/// `HSA_QUEUE_TYPE_SINGLE`.
pub(super) const QUEUE_SINGLE: u32 = 1;
/// `HSA_SIGNAL_CONDITION_LT`.
pub(super) const CONDITION_LESS: u32 = 2;
/// `HSA_WAIT_STATE_BLOCKED`.
pub(super) const WAIT_BLOCKED: u32 = 0;

// hsa_access_permission_t.
pub(super) const ACCESS_NONE: u32 = 0;
pub(super) const ACCESS_READ_WRITE: u32 = 3;
/// `MEMORY_TYPE_PINNED`.
pub(super) const MEMORY_PINNED: u32 = 1;
/// `HSA_AMD_VMEM_ADDRESS_NO_REGISTER`: no GPU has to know of the range.
pub(super) const ADDRESS_NO_REGISTER: u64 = 1;

/// `HSA_PROFILE_FULL`.
pub(super) const PROFILE_FULL: u32 = 1;
/// `HSA_DEFAULT_FLOAT_ROUNDING_MODE_DEFAULT`.
pub(super) const ROUNDING_DEFAULT: u32 = 0;

// hsa_executable_symbol_info_t.
pub(super) const SYMBOL_KERNARG_SIZE: u32 = 11;
pub(super) const SYMBOL_KERNEL_OBJECT: u32 = 22;

pub(super) type AgentCallback = unsafe extern "C" fn(Agent, *mut c_void) -> Status;
pub(super) type PoolCallback = unsafe extern "C" fn(Pool, *mut c_void) -> Status;
pub(super) type QueueCallback = unsafe extern "C" fn(Status, *mut Queue, *mut c_void);

macro_rules! api {
    ($(fn $name:ident($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions that are used, each under its own name.
        pub(super) struct Api {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Api {
            /// Looks all of them up; those that are not there are the error.
            ///
            /// # Safety
            /// `library` is a `libhsa-runtime64.so.1`, and stays loaded for as long as the
            /// functions are called.
            pub(super) unsafe fn resolve(library: &Library) -> Result<Self, Vec<&'static str>> {
                let mut missing = Vec::new();
                $(
                    // SAFETY: ROCR's headers give this name this type.
                    let $name = unsafe {
                        library.get::<unsafe extern "C" fn($($argument),*) $(-> $result)?>(
                            concat!(stringify!($name), "\0").as_bytes(),
                        )
                    };
                    if $name.is_err() {
                        missing.push(stringify!($name));
                    }
                )*
                match ($($name,)*) {
                    ($(Ok($name),)*) => Ok(Self { $($name: *$name,)* }),
                    _ => Err(missing),
                }
            }
        }
    };
}

api! {
    fn hsa_init() -> Status;
    fn hsa_shut_down() -> Status;
    fn hsa_status_string(Status, *mut *const c_char) -> Status;
    fn hsa_system_get_info(u32, *mut c_void) -> Status;
    fn hsa_iterate_agents(AgentCallback, *mut c_void) -> Status;
    fn hsa_agent_get_info(Agent, u32, *mut c_void) -> Status;

    fn hsa_queue_create(
        Agent, u32, u32, QueueCallback, *mut c_void, u32, u32, *mut *mut Queue
    ) -> Status;
    fn hsa_queue_destroy(*mut Queue) -> Status;
    fn hsa_queue_load_write_index_relaxed(*const Queue) -> u64;
    fn hsa_queue_load_read_index_scacquire(*const Queue) -> u64;
    fn hsa_queue_store_write_index_screlease(*const Queue, u64);

    fn hsa_signal_create(i64, u32, *const Agent, *mut Signal) -> Status;
    fn hsa_signal_destroy(Signal) -> Status;
    fn hsa_signal_store_screlease(Signal, i64);
    fn hsa_signal_load_scacquire(Signal) -> i64;
    fn hsa_signal_wait_scacquire(Signal, u32, i64, u64, u32) -> i64;

    fn hsa_amd_agent_iterate_memory_pools(Agent, PoolCallback, *mut c_void) -> Status;
    fn hsa_amd_memory_pool_get_info(Pool, u32, *mut c_void) -> Status;
    fn hsa_amd_memory_pool_allocate(Pool, usize, u32, *mut *mut c_void) -> Status;
    fn hsa_amd_memory_pool_free(*mut c_void) -> Status;

    fn hsa_amd_vmem_handle_create(Pool, usize, u32, u64, *mut Memory) -> Status;
    fn hsa_amd_vmem_handle_release(Memory) -> Status;
    fn hsa_amd_vmem_address_reserve_align(*mut *mut c_void, usize, u64, u64, u64) -> Status;
    fn hsa_amd_vmem_address_free(*mut c_void, usize) -> Status;
    fn hsa_amd_vmem_map(*mut c_void, usize, usize, Memory, u64) -> Status;
    fn hsa_amd_vmem_unmap(*mut c_void, usize) -> Status;
    fn hsa_amd_vmem_set_access(*mut c_void, usize, *const Access, usize) -> Status;

    fn hsa_code_object_reader_create_from_memory(*const c_void, usize, *mut Reader) -> Status;
    fn hsa_code_object_reader_destroy(Reader) -> Status;
    fn hsa_executable_create_alt(u32, u32, *const c_char, *mut Executable) -> Status;
    fn hsa_executable_destroy(Executable) -> Status;
    fn hsa_executable_agent_global_variable_define(
        Executable, Agent, *const c_char, *mut c_void
    ) -> Status;
    fn hsa_executable_load_agent_code_object(
        Executable, Agent, Reader, *const c_char, *mut Loaded
    ) -> Status;
    fn hsa_executable_freeze(Executable, *const c_char) -> Status;
    fn hsa_executable_get_symbol_by_name(
        Executable, *const c_char, *const Agent, *mut Symbol
    ) -> Status;
    fn hsa_executable_symbol_get_info(Symbol, u32, *mut c_void) -> Status;
}

/// The library's version node and name, for messages.
pub(super) const SONAME: &str = "libhsa-runtime64.so.1";
/// The symbols' version.
pub(super) const VERSION: &str = "ROCR_1";
