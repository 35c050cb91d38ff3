//! The library's functions, as a program that loads it sees them.

use std::ffi::{c_char, c_int, c_void};
use std::path::Path;

use libloading::Library;
use rocr_double::{AccessDescription, Counters, HsaQueue, Status};

macro_rules! api {
    ($($name:ident($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// Each function under its C name.
        pub struct Api {
            $(pub $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
            _library: Library,
        }

        impl Api {
            pub fn load(path: &Path) -> Self {
                // SAFETY: the double does nothing when it is loaded.
                let library = unsafe { Library::new(path) }.unwrap();
                Self {
                    // SAFETY: the types are those of ROCR's headers.
                    $($name: unsafe { *library.get(stringify!($name)).unwrap() },)*
                    _library: library,
                }
            }
        }
    };
}

pub type Visit = unsafe extern "C" fn(u64, *mut c_void) -> Status;
pub type OnError = unsafe extern "C" fn(Status, *mut HsaQueue, *mut c_void);

api! {
    hsa_init() -> Status;
    hsa_shut_down() -> Status;
    hsa_status_string(Status, *mut *const c_char) -> Status;
    hsa_iterate_agents(Option<Visit>, *mut c_void) -> Status;
    hsa_agent_get_info(u64, u32, *mut c_void) -> Status;
    hsa_system_get_info(u32, *mut c_void) -> Status;
    hsa_queue_create(u64, u32, u32, Option<OnError>, *mut c_void, u32, u32, *mut *mut HsaQueue) -> Status;
    hsa_queue_destroy(*mut HsaQueue) -> Status;
    hsa_queue_load_write_index_relaxed(*const HsaQueue) -> u64;
    hsa_queue_load_write_index_scacquire(*const HsaQueue) -> u64;
    hsa_queue_load_read_index_scacquire(*const HsaQueue) -> u64;
    hsa_queue_add_write_index_relaxed(*const HsaQueue, u64) -> u64;
    hsa_queue_store_write_index_screlease(*const HsaQueue, u64);
    hsa_signal_create(i64, u32, *const u64, *mut u64) -> Status;
    hsa_signal_destroy(u64) -> Status;
    hsa_signal_store_screlease(u64, i64);
    hsa_signal_load_scacquire(u64) -> i64;
    hsa_signal_wait_scacquire(u64, u32, i64, u64, u32) -> i64;
    hsa_amd_agent_iterate_memory_pools(u64, Option<Visit>, *mut c_void) -> Status;
    hsa_amd_memory_pool_get_info(u64, u32, *mut c_void) -> Status;
    hsa_amd_memory_pool_allocate(u64, usize, u32, *mut *mut c_void) -> Status;
    hsa_amd_memory_pool_free(*mut c_void) -> Status;
    hsa_amd_vmem_handle_create(u64, usize, u32, u64, *mut u64) -> Status;
    hsa_amd_vmem_handle_release(u64) -> Status;
    hsa_amd_vmem_address_reserve_align(*mut *mut c_void, usize, u64, u64, u64) -> Status;
    hsa_amd_vmem_address_free(*mut c_void, usize) -> Status;
    hsa_amd_vmem_map(*mut c_void, usize, usize, u64, u64) -> Status;
    hsa_amd_vmem_unmap(*mut c_void, usize) -> Status;
    hsa_amd_vmem_set_access(*mut c_void, usize, *const AccessDescription, usize) -> Status;
    hsa_amd_vmem_get_access(*mut c_void, *mut u32, u64) -> Status;
    hsa_amd_vmem_retain_alloc_handle(*mut u64, *mut c_void) -> Status;
    hsa_amd_vmem_get_alloc_properties_from_handle(u64, *mut u64, *mut u32) -> Status;
    hsa_amd_vmem_export_shareable_handle(*mut c_int, u64, u64) -> Status;
    hsa_amd_vmem_import_shareable_handle(c_int, *mut u64) -> Status;
    hsa_amd_portable_close_dmabuf(c_int) -> Status;
    hsa_amd_portable_export_dmabuf(*const c_void, usize, *mut c_int, *mut u64) -> Status;
    hsa_amd_interop_map_buffer(u32, *const u64, c_int, u32, *mut usize, *mut *mut c_void, *mut usize, *mut *const c_void) -> Status;
    hsa_amd_agents_allow_access(u32, *const u64, *const u32, *const c_void) -> Status;
    hsa_amd_memory_lock(*mut c_void, usize, *const u64, c_int, *mut *mut c_void) -> Status;
    hsa_amd_memory_lock_to_pool(*mut c_void, usize, *const u64, c_int, u64, u32, *mut *mut c_void) -> Status;
    hsa_amd_memory_pool_can_migrate(u64, u64, *mut u8) -> Status;
    hsa_amd_agent_memory_pool_get_info(u64, u64, u32, *mut c_void) -> Status;
    hsa_amd_pointer_info(*const c_void, *mut u64, *const c_void, *mut u32, *mut *mut u64) -> Status;
    hsa_code_object_reader_create_from_file(c_int, *mut u64) -> Status;
    hsa_code_object_reader_create_from_memory(*const c_void, usize, *mut u64) -> Status;
    hsa_code_object_reader_destroy(u64) -> Status;
    hsa_executable_create_alt(u32, u32, *const c_char, *mut u64) -> Status;
    hsa_executable_destroy(u64) -> Status;
    hsa_executable_agent_global_variable_define(u64, u64, *const c_char, *mut c_void) -> Status;
    hsa_executable_load_agent_code_object(u64, u64, u64, *const c_char, *mut u64) -> Status;
    hsa_executable_freeze(u64, *const c_char) -> Status;
    hsa_executable_get_symbol_by_name(u64, *const c_char, *const u64, *mut u64) -> Status;
    hsa_executable_symbol_get_info(u64, u32, *mut c_void) -> Status;
    rocr_double_counters(*mut Counters);
    rocr_double_calls(*const c_char) -> u64;
    rocr_double_set(*const c_char, *const c_char);
    rocr_double_reason(*mut c_char, usize) -> usize;
    rocr_double_control_code(u64, *mut usize) -> *const c_void;
}
