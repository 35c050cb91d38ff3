//! ROCR's functions, one checked call each: a status that is no success becomes an error with
//! ROCR's own text for it.

use super::sys::{self, Status};
use crate::error::{CallError, Candidate, LibraryError};
use crate::{Error, Runtime, fork, shared_object};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use std::ffi::{CStr, c_void};
use std::path::{Path, PathBuf};
use std::ptr;

/// A loaded ROCR. It is never unloaded: it keeps threads.
pub(super) struct Rocr {
    pub(super) api: sys::Api,
    pub(super) path: PathBuf,
    /// The process that loaded it.
    generation: u32,
}

pub(super) type Result<T> = std::result::Result<T, Failure>;

/// A call that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) call: &'static str,
    pub(super) status: Status,
}

impl Failure {
    /// With ROCR's words, and what was being done.
    #[cold]
    pub(super) fn error(
        self,
        rocr: &Rocr,
        doing: impl Into<String>,
        advice: impl Into<String>,
    ) -> Error {
        Error::Call(Box::new(CallError {
            runtime: Runtime::Hsa,
            call: self.call,
            status: self.status,
            text: rocr.text(self.status),
            doing: doing.into(),
            advice: advice.into(),
        }))
    }
}

macro_rules! checked {
    ($self:ident.$call:ident($($argument:expr),* $(,)?)) => {
        match ($self.api.$call)($($argument),*) {
            sys::SUCCESS => Ok(()),
            status => Err(Failure { call: stringify!($call), status }),
        }
    };
}

mod executable;
mod memory;
mod queue;

impl Rocr {
    /// Loads the first usable library that [`find`](super::find) knows of.
    pub(super) fn load() -> std::result::Result<Self, Error> {
        let mut candidates = Vec::new();
        for root in super::find::roots(|name| std::env::var_os(name)) {
            let libraries = match super::find::libraries(&root.path) {
                Ok(libraries) => libraries,
                Err(reason) => {
                    candidates.push(Candidate::new(root.path, root.origin, reason));
                    continue;
                }
            };
            for path in libraries {
                match Self::open(&path) {
                    Ok(rocr) => return Ok(rocr),
                    Err(reason) => candidates.push(Candidate::new(path, root.origin, reason)),
                }
            }
        }
        Err(Error::Library(Box::new(LibraryError {
            runtime: Runtime::Hsa,
            library: sys::SONAME,
            candidates,
            advice: "install the wheel `rocm-sdk-core`, 10.3.0a20261027 or newer, in the active \
                     Python environment, or set AMD_NPU_ROCR_PATH to the root of such a ROCm",
        })))
    }

    /// Loads one library, or says why it can't be used.
    fn open(path: &Path) -> std::result::Result<Self, String> {
        // The loader maps what is not there, and whoever reads it is killed.
        match shared_object::is_whole(path) {
            Ok(true) => {}
            Ok(false) => return Err("it is cut off: install it anew".to_owned()),
            Err(error) => return Err(error.to_string()),
        }
        // SAFETY: a file of this name that the user's environment names is ROCR, whose
        // constructors may run.
        let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) };
        let library = library.map_err(|error| {
            // The first line says no more than that it failed.
            let mut text = error.to_string();
            let mut source = std::error::Error::source(&error);
            while let Some(error) = source {
                text = format!("{text}: {error}");
                source = error.source();
            }
            text
        })?;
        // SAFETY: it is ROCR by its name, and it is never unloaded.
        let api = unsafe { sys::Api::resolve(&library) };
        // Also if it is not usable: what its constructors began is not to be interrupted.
        std::mem::forget(library);
        match api {
            Ok(api) => Ok(Self {
                api,
                path: path.into(),
                generation: fork::watched_generation(),
            }),
            Err(missing) => Err(format!(
                "it is too old for NPUs, or no ROCR: it lacks {} (version {})",
                missing.join(", "),
                sys::VERSION
            )),
        }
    }

    /// Whether another process loaded it, of which this one is a forked child. Nothing of it may
    /// be called then.
    #[inline]
    pub(super) fn is_foreign(&self) -> bool {
        self.generation != fork::generation()
    }

    /// What ROCR says of a status.
    pub(super) fn text(&self, status: Status) -> String {
        let mut text = ptr::null();
        // SAFETY: `text` is a valid place for a pointer.
        let known = unsafe { (self.api.hsa_status_string)(status, &mut text) };
        if known != sys::SUCCESS || text.is_null() {
            return "a status that this ROCR has no text for".into();
        }
        // SAFETY: ROCR gives a string of static lifetime.
        let text = unsafe { CStr::from_ptr(text) };
        text.to_string_lossy()
            .trim_end_matches([' ', '\n', '.'])
            .into()
    }

    pub(super) fn init(&self) -> Result<()> {
        // SAFETY: it takes nothing.
        unsafe { checked!(self.hsa_init()) }
    }

    /// # Safety
    /// Nothing of ROCR is used afterwards.
    pub(super) unsafe fn shut_down(&self) -> Result<()> {
        // SAFETY: by the caller.
        unsafe { checked!(self.hsa_shut_down()) }
    }

    pub(super) fn timestamp_frequency(&self) -> Result<u64> {
        let mut hertz = 0_u64;
        let place = ptr::from_mut(&mut hertz).cast();
        // SAFETY: the attribute is a `u64`.
        unsafe { checked!(self.hsa_system_get_info(sys::SYSTEM_TIMESTAMP_FREQUENCY, place))? };
        Ok(hertz)
    }

    pub(super) fn agents(&self) -> Result<Vec<sys::Agent>> {
        unsafe extern "C" fn push(agent: sys::Agent, agents: *mut c_void) -> Status {
            // SAFETY: `agents` is the vector below, which nobody else has now.
            unsafe { (*agents.cast::<Vec<sys::Agent>>()).push(agent) };
            sys::SUCCESS
        }
        let mut agents = Vec::new();
        let place = ptr::from_mut(&mut agents).cast();
        // SAFETY: `push` fits `place`, and neither is kept.
        unsafe { checked!(self.hsa_iterate_agents(push, place))? };
        Ok(agents)
    }

    pub(super) fn device_type(&self, agent: sys::Agent) -> Result<u32> {
        let mut kind = 0_u32;
        let place = ptr::from_mut(&mut kind).cast();
        // SAFETY: the attribute is a `u32`.
        unsafe { checked!(self.hsa_agent_get_info(agent, sys::AGENT_DEVICE, place))? };
        Ok(kind)
    }

    pub(super) fn agent_name(&self, agent: sys::Agent) -> Result<String> {
        let mut name = [0_u8; 64];
        // SAFETY: the attribute has 64 bytes.
        unsafe {
            checked!(self.hsa_agent_get_info(agent, sys::AGENT_NAME, name.as_mut_ptr().cast()))?;
        }
        let end = name.iter().position(|&byte| byte == 0);
        let name = &name[..end.unwrap_or(name.len())];
        Ok(String::from_utf8_lossy(name).into_owned())
    }

    pub(super) fn pools(&self, agent: sys::Agent) -> Result<Vec<sys::Pool>> {
        unsafe extern "C" fn push(pool: sys::Pool, pools: *mut c_void) -> Status {
            // SAFETY: `pools` is the vector below, which nobody else has now.
            unsafe { (*pools.cast::<Vec<sys::Pool>>()).push(pool) };
            sys::SUCCESS
        }
        let mut pools = Vec::new();
        let place = ptr::from_mut(&mut pools).cast();
        // SAFETY: `push` fits `place`, and neither is kept.
        unsafe { checked!(self.hsa_amd_agent_iterate_memory_pools(agent, push, place))? };
        Ok(pools)
    }

    /// An attribute of a pool that is a `u32`.
    pub(super) fn pool_word(&self, pool: sys::Pool, attribute: u32) -> Result<u32> {
        let mut value = 0_u32;
        let place = ptr::from_mut(&mut value).cast();
        // SAFETY: the attribute is a `u32`.
        unsafe { checked!(self.hsa_amd_memory_pool_get_info(pool, attribute, place))? };
        Ok(value)
    }

    /// An attribute of a pool that is a `size_t`.
    pub(super) fn pool_size(&self, pool: sys::Pool, attribute: u32) -> Result<usize> {
        let mut value = 0_usize;
        let place = ptr::from_mut(&mut value).cast();
        // SAFETY: the attribute is a `size_t`.
        unsafe { checked!(self.hsa_amd_memory_pool_get_info(pool, attribute, place))? };
        Ok(value)
    }

    pub(super) fn pool_allocate(&self, pool: sys::Pool, size: usize) -> Result<*mut u8> {
        let mut memory = ptr::null_mut();
        // SAFETY: `memory` is a valid place for a pointer.
        unsafe { checked!(self.hsa_amd_memory_pool_allocate(pool, size, 0, &mut memory))? };
        if memory.is_null() {
            return Err(Failure {
                call: "hsa_amd_memory_pool_allocate",
                status: sys::OUT_OF_RESOURCES,
            });
        }
        Ok(memory.cast())
    }

    /// # Safety
    /// `memory` is of [`Self::pool_allocate`], and neither host nor device use it any more.
    pub(super) unsafe fn pool_free(&self, memory: *mut u8) -> Result<()> {
        // SAFETY: by the caller.
        unsafe { checked!(self.hsa_amd_memory_pool_free(memory.cast())) }
    }
}
