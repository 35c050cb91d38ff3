//! The calls that give a status: each is counted, can be told to fail, and can be told to take time.

macro_rules! calls {
    ($($variant:ident $name:ident,)*) => {
        /// A function of the interface that gives a status.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs, reason = "the names of functions")]
        pub enum Call {
            $($variant,)*
        }

        impl Call {
            /// How many there are.
            pub const COUNT: usize = [$(Self::$variant),*].len();

            /// The call of that C function.
            pub fn from_name(name: &str) -> Option<Self> {
                Some(match name {
                    $(stringify!($name) => Self::$variant,)*
                    _ => return None,
                })
            }
        }
    };
}

calls! {
    Init hsa_init,
    ShutDown hsa_shut_down,
    IterateAgents hsa_iterate_agents,
    AgentInfo hsa_agent_get_info,
    SystemInfo hsa_system_get_info,
    QueueCreate hsa_queue_create,
    QueueDestroy hsa_queue_destroy,
    SignalCreate hsa_signal_create,
    SignalDestroy hsa_signal_destroy,
    IteratePools hsa_amd_agent_iterate_memory_pools,
    PoolInfo hsa_amd_memory_pool_get_info,
    PoolAllocate hsa_amd_memory_pool_allocate,
    PoolFree hsa_amd_memory_pool_free,
    MemoryCreate hsa_amd_vmem_handle_create,
    MemoryRelease hsa_amd_vmem_handle_release,
    AddressReserve hsa_amd_vmem_address_reserve_align,
    AddressFree hsa_amd_vmem_address_free,
    Map hsa_amd_vmem_map,
    Unmap hsa_amd_vmem_unmap,
    SetAccess hsa_amd_vmem_set_access,
    GetAccess hsa_amd_vmem_get_access,
    RetainMemory hsa_amd_vmem_retain_alloc_handle,
    MemoryProperties hsa_amd_vmem_get_alloc_properties_from_handle,
    ExportMemory hsa_amd_vmem_export_shareable_handle,
    ImportMemory hsa_amd_vmem_import_shareable_handle,
    CloseDmabuf hsa_amd_portable_close_dmabuf,
    ExportDmabuf hsa_amd_portable_export_dmabuf,
    InteropMap hsa_amd_interop_map_buffer,
    AllowAccess hsa_amd_agents_allow_access,
    Lock hsa_amd_memory_lock,
    LockToPool hsa_amd_memory_lock_to_pool,
    CanMigrate hsa_amd_memory_pool_can_migrate,
    AgentPoolInfo hsa_amd_agent_memory_pool_get_info,
    PointerInfo hsa_amd_pointer_info,
    ReaderFromFile hsa_code_object_reader_create_from_file,
    ReaderFromMemory hsa_code_object_reader_create_from_memory,
    ReaderDestroy hsa_code_object_reader_destroy,
    ExecutableCreate hsa_executable_create_alt,
    ExecutableDestroy hsa_executable_destroy,
    VariableDefine hsa_executable_agent_global_variable_define,
    Load hsa_executable_load_agent_code_object,
    Freeze hsa_executable_freeze,
    SymbolByName hsa_executable_get_symbol_by_name,
    SymbolInfo hsa_executable_symbol_get_info,
}
