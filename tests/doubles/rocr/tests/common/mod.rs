//! A program that uses the double as it would use ROCR: each test loads a copy of its own.
#![allow(dead_code, reason = "each test binary uses its own part")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::undocumented_unsafe_blocks,
    reason = "these are tests, which keep the promises of ROCR's headers"
)]

mod api;
pub mod designs;
pub mod elf;
pub mod hsaco;
pub mod scene;

use std::ffi::{CString, c_void};
use std::ptr;
use std::sync::Mutex;

use api::Api;
use rocr_double::{AccessDescription, Counters, HsaQueue, Packet, Status};
use tempfile::TempDir;

pub const OK: Status = Status::SUCCESS;
pub const PAGE: usize = 4096;

/// A copy of the library.
pub struct Rocr {
    pub api: Api,
    _directory: TempDir,
}

pub unsafe extern "C" fn collect(handle: u64, data: *mut c_void) -> Status {
    unsafe { (*data.cast::<Vec<u64>>()).push(handle) };
    OK
}

impl Rocr {
    /// With variables of the double's.
    pub fn with(variables: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = rocr_double::install::install(directory.path()).unwrap();
        let rocr = Self {
            api: Api::load(&path),
            _directory: directory,
        };
        for (name, value) in variables {
            let (name, value) = (CString::new(*name).unwrap(), CString::new(*value).unwrap());
            unsafe { (rocr.api.rocr_double_set)(name.as_ptr(), value.as_ptr()) };
        }
        rocr
    }

    pub fn init(&self) -> Status {
        unsafe { (self.api.hsa_init)() }
    }

    pub fn shut_down(&self) -> Status {
        unsafe { (self.api.hsa_shut_down)() }
    }

    pub fn counters(&self) -> Counters {
        let mut counters = Counters::default();
        unsafe { (self.api.rocr_double_counters)(&mut counters) };
        counters
    }

    /// Why something was refused last.
    pub fn reason(&self) -> String {
        let mut bytes = vec![0u8; 512];
        let length = unsafe { (self.api.rocr_double_reason)(bytes.as_mut_ptr().cast(), 512) };
        bytes.truncate(length);
        String::from_utf8(bytes).unwrap()
    }

    pub fn agents(&self) -> Vec<u64> {
        let mut agents: Vec<u64> = Vec::new();
        let data = ptr::from_mut(&mut agents).cast();
        assert_eq!(
            unsafe { (self.api.hsa_iterate_agents)(Some(collect), data) },
            OK
        );
        agents
    }

    pub fn pools(&self, agent: u64) -> Vec<u64> {
        let mut pools: Vec<u64> = Vec::new();
        let data = ptr::from_mut(&mut pools).cast();
        let iterate = self.api.hsa_amd_agent_iterate_memory_pools;
        assert_eq!(unsafe { iterate(agent, Some(collect), data) }, OK);
        pools
    }

    /// An agent's attribute as a number of four bytes.
    pub fn agent_info(&self, agent: u64, attribute: u32) -> Result<u32, Status> {
        let mut value = u32::MAX;
        let to = ptr::from_mut(&mut value).cast();
        match unsafe { (self.api.hsa_agent_get_info)(agent, attribute, to) } {
            OK => Ok(value),
            status => Err(status),
        }
    }

    pub fn signal(&self, value: i64) -> u64 {
        let mut signal = 0;
        let status = unsafe { (self.api.hsa_signal_create)(value, 0, ptr::null(), &mut signal) };
        assert_eq!(status, OK);
        signal
    }

    pub fn load(&self, signal: u64) -> i64 {
        unsafe { (self.api.hsa_signal_load_scacquire)(signal) }
    }

    pub fn allocate(&self, pool: u64, size: usize) -> Result<*mut c_void, Status> {
        let mut pointer = ptr::null_mut();
        match unsafe { (self.api.hsa_amd_memory_pool_allocate)(pool, size, 0, &mut pointer) } {
            OK => Ok(pointer),
            status => Err(status),
        }
    }

    pub fn free(&self, pointer: *mut c_void) -> Status {
        unsafe { (self.api.hsa_amd_memory_pool_free)(pointer) }
    }

    pub fn memory(&self, pool: u64, size: usize) -> Result<u64, Status> {
        let mut handle = 0;
        match unsafe { (self.api.hsa_amd_vmem_handle_create)(pool, size, 0, 0, &mut handle) } {
            OK => Ok(handle),
            status => Err(status),
        }
    }

    pub fn reserve(&self, size: usize) -> *mut c_void {
        let mut address = ptr::null_mut();
        let reserve = self.api.hsa_amd_vmem_address_reserve_align;
        assert_eq!(unsafe { reserve(&mut address, size, 0, 0, 0) }, OK);
        address
    }

    pub fn map(&self, address: *mut c_void, size: usize, memory: u64) -> Status {
        unsafe { (self.api.hsa_amd_vmem_map)(address, size, 0, memory, 0) }
    }

    pub fn unmap(&self, address: *mut c_void, size: usize) -> Status {
        unsafe { (self.api.hsa_amd_vmem_unmap)(address, size) }
    }

    pub fn free_addresses(&self, address: *mut c_void, size: usize) -> Status {
        unsafe { (self.api.hsa_amd_vmem_address_free)(address, size) }
    }

    pub fn release(&self, memory: u64) -> Status {
        unsafe { (self.api.hsa_amd_vmem_handle_release)(memory) }
    }

    pub fn grant(&self, address: *mut c_void, size: usize, agents: &[u64], how: u32) -> Status {
        let descriptions: Vec<_> = agents
            .iter()
            .map(|agent| AccessDescription {
                permissions: how,
                agent: *agent,
            })
            .collect();
        let (first, count) = (descriptions.as_ptr(), descriptions.len());
        unsafe { (self.api.hsa_amd_vmem_set_access)(address, size, first, count) }
    }

    pub fn reader(&self, bytes: &[u8]) -> u64 {
        let mut reader = 0;
        let create = self.api.hsa_code_object_reader_create_from_memory;
        let status = unsafe { create(bytes.as_ptr().cast(), bytes.len(), &mut reader) };
        assert_eq!(status, OK);
        reader
    }

    pub fn executable(&self) -> u64 {
        let mut executable = 0;
        let create = self.api.hsa_executable_create_alt;
        assert_eq!(unsafe { create(1, 0, ptr::null(), &mut executable) }, OK);
        executable
    }

    pub fn define(&self, executable: u64, agent: u64, name: &str, at: *mut c_void) -> Status {
        let name = CString::new(name).unwrap();
        let define = self.api.hsa_executable_agent_global_variable_define;
        unsafe { define(executable, agent, name.as_ptr(), at) }
    }

    pub fn load_into(&self, executable: u64, agent: u64, reader: u64) -> Status {
        let load = self.api.hsa_executable_load_agent_code_object;
        unsafe { load(executable, agent, reader, ptr::null(), ptr::null_mut()) }
    }

    pub fn freeze(&self, executable: u64) -> Status {
        unsafe { (self.api.hsa_executable_freeze)(executable, ptr::null()) }
    }

    pub fn symbol(&self, executable: u64, agent: u64, name: &str) -> Result<u64, Status> {
        let name = CString::new(name).unwrap();
        let mut symbol = 0;
        let get = self.api.hsa_executable_get_symbol_by_name;
        match unsafe { get(executable, name.as_ptr(), &agent, &mut symbol) } {
            OK => Ok(symbol),
            status => Err(status),
        }
    }

    /// A symbol's attribute of up to eight bytes.
    pub fn symbol_info(&self, symbol: u64, attribute: u32) -> Result<u64, Status> {
        let mut value = 0u64;
        let to = ptr::from_mut(&mut value).cast();
        match unsafe { (self.api.hsa_executable_symbol_get_info)(symbol, attribute, to) } {
            OK => Ok(value),
            status => Err(status),
        }
    }
}

/// A mapped buffer.
#[derive(Clone, Copy, Debug)]
pub struct Buffer {
    pub address: *mut c_void,
    pub size: usize,
    pub memory: u64,
}

impl Buffer {
    pub fn write<T: Copy>(&self, values: &[T]) {
        assert!(size_of_val(values) <= self.size);
        unsafe { ptr::copy_nonoverlapping(values.as_ptr(), self.address.cast(), values.len()) };
    }

    pub fn read<T: Copy + Default>(&self, count: usize) -> Vec<T> {
        let mut values = vec![T::default(); count];
        unsafe { ptr::copy_nonoverlapping(self.address.cast(), values.as_mut_ptr(), count) };
        values
    }
}

/// A device with its queue, as a runtime keeps it.
pub struct Device {
    pub rocr: Rocr,
    pub cpu: u64,
    pub agent: u64,
    /// Kernarg, heap, data.
    pub pools: [u64; 3],
    pub queue: *mut HsaQueue,
    pub signal: u64,
    pub kernarg: *mut u64,
    pub errors: Box<Mutex<Vec<(Status, usize)>>>,
}

pub unsafe extern "C" fn record(status: Status, queue: *mut HsaQueue, data: *mut c_void) {
    let errors = unsafe { &*data.cast::<Mutex<Vec<(Status, usize)>>>() };
    errors.lock().unwrap().push((status, queue as usize));
}

/// Bytes of a ring slot's kernargs.
pub const SLOT: usize = 256;

impl Device {
    pub fn new() -> Self {
        Self::with(&[])
    }

    pub fn with(variables: &[(&str, &str)]) -> Self {
        let rocr = Rocr::with(variables);
        assert_eq!(rocr.init(), OK);
        let agents = rocr.agents();
        let (cpu, agent) = (agents[0], agents[1]);
        let pools: [u64; 3] = rocr.pools(agent).try_into().unwrap();
        let errors = Box::new(Mutex::new(Vec::new()));
        let mut queue = ptr::null_mut();
        let data = ptr::from_ref(&*errors).cast_mut().cast();
        let create = rocr.api.hsa_queue_create;
        let status = unsafe { create(agent, 64, 1, Some(record), data, 0, 0, &mut queue) };
        assert_eq!(status, OK);
        let signal = rocr.signal(0);
        let kernarg = rocr.allocate(pools[0], 64 * SLOT).unwrap().cast();
        Self {
            rocr,
            cpu,
            agent,
            pools,
            queue,
            signal,
            kernarg,
            errors,
        }
    }

    pub fn errors(&self) -> Vec<Status> {
        let errors = self.errors.lock().unwrap();
        assert!(
            errors
                .iter()
                .all(|(_, queue)| *queue == self.queue as usize)
        );
        errors.iter().map(|(status, _)| *status).collect()
    }

    pub fn buffer(&self, size: usize) -> Buffer {
        let size = size.next_multiple_of(PAGE);
        let memory = self.rocr.memory(self.pools[2], size).unwrap();
        let address = self.rocr.reserve(size);
        assert_eq!(self.rocr.map(address, size, memory), OK);
        let agents = [self.cpu, self.agent];
        assert_eq!(self.rocr.grant(address, size, &agents, 3), OK);
        Buffer {
            address,
            size,
            memory,
        }
    }

    pub fn buffer_of<T: Copy>(&self, values: &[T]) -> Buffer {
        let buffer = self.buffer(size_of_val(values));
        buffer.write(values);
        buffer
    }

    pub fn drop_buffer(&self, buffer: Buffer) {
        let Buffer {
            address,
            size,
            memory,
        } = buffer;
        let agents = [self.cpu, self.agent];
        assert_eq!(self.rocr.grant(address, size, &agents, 0), OK);
        assert_eq!(self.rocr.unmap(address, size), OK);
        assert_eq!(self.rocr.free_addresses(address, size), OK);
        assert_eq!(self.rocr.release(memory), OK);
    }

    /// Loads a code object into a new executable, with variables, and freezes it.
    pub fn load(&self, hsaco: &[u8], variables: &[(&str, *mut c_void)]) -> Result<u64, Status> {
        let reader = self.rocr.reader(hsaco);
        let executable = self.rocr.executable();
        for (name, address) in variables {
            let status = self.rocr.define(executable, self.agent, name, *address);
            assert_eq!(status, OK);
        }
        let status = self.rocr.load_into(executable, self.agent, reader);
        unsafe { (self.rocr.api.hsa_code_object_reader_destroy)(reader) };
        if status != OK {
            unsafe { (self.rocr.api.hsa_executable_destroy)(executable) };
            return Err(status);
        }
        assert_eq!(self.rocr.freeze(executable), OK);
        Ok(executable)
    }

    /// The kernel object of a kernel.
    pub fn kernel(&self, executable: u64, name: &str) -> u64 {
        let symbol = self.rocr.symbol(executable, self.agent, name).unwrap();
        self.rocr.symbol_info(symbol, 22).unwrap()
    }

    /// The next packet, for a kernel and its arguments, in the ring but not published.
    pub fn packet(&self, kernel: u64, arguments: &[(*mut c_void, usize)]) -> Packet {
        let index = self.write_index();
        let slot = unsafe { self.kernarg.byte_add((index % 64) as usize * SLOT) };
        for (i, (address, size)) in arguments.iter().enumerate() {
            unsafe {
                slot.add(i).write(*address as u64);
                slot.add(arguments.len() + i).write(*size as u64);
            }
        }
        Packet {
            header: 0x1400,
            opcode: 0,
            count: 24,
            reserved_6: [0; 2],
            completion: self.signal,
            reserved_16: 0,
            kernel_object: [kernel as u32, (kernel >> 32) as u32],
            arguments: arguments.len() as u16,
            reserved_30: 0,
            kernarg: if arguments.is_empty() {
                ptr::null()
            } else {
                slot
            },
            reserved_40: [0; 3],
        }
    }

    pub fn write_index(&self) -> u64 {
        unsafe { (self.rocr.api.hsa_queue_load_write_index_relaxed)(self.queue) }
    }

    pub fn read_index(&self) -> u64 {
        unsafe { (self.rocr.api.hsa_queue_load_read_index_scacquire)(self.queue) }
    }

    /// Puts a packet into the ring.
    pub fn publish(&self, packet: Packet) {
        let api = &self.rocr.api;
        let index = unsafe { (api.hsa_queue_add_write_index_relaxed)(self.queue, 1) };
        unsafe { (*self.queue).base.add((index % 64) as usize).write(packet) };
    }

    pub fn ring(&self) {
        let api = &self.rocr.api;
        unsafe { (api.hsa_signal_store_screlease)((*self.queue).doorbell, 0) };
    }

    /// One packet, one doorbell; how far the signal counted down.
    pub fn dispatch(&self, kernel: u64, arguments: &[Buffer]) -> i64 {
        let arguments: Vec<_> = arguments.iter().map(|b| (b.address, b.size)).collect();
        let before = self.rocr.load(self.signal);
        self.publish(self.packet(kernel, &arguments));
        self.ring();
        before - self.rocr.load(self.signal)
    }
}
