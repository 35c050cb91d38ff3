//! Loaded shared objects. They are keyed by the SHA-256 of their content, process-wide: the same
//! bytes are loaded once, and what was loaded stays until the process ends.

use super::scratch::{self, Exhausted};
use super::{Stopped, sys};
use crate::{Artifact, ArtifactFault, Error, Grid, shared_object};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use rustix::fs::{MemfdFlags, memfd_create};
use std::collections::HashMap;
use std::ffi::CStr;
use std::fs::{DirBuilder, File, remove_dir, remove_file};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};

/// A shared object of the launch ABI, and what earlier launches tell about it.
pub(super) struct Object {
    api: sys::Api,
    /// The most scratch memory that any program needed, in bytes.
    scratch: AtomicU64,
    /// What a program took in the last launch, in picoseconds; 0 if unknown.
    pub(super) cost: AtomicU64,
}

impl Object {
    pub(super) fn slots(&self) -> usize {
        self.api.slots as usize
    }

    /// Why this thread's last run did not end.
    #[cold]
    fn why_stopped(&self) -> Stopped {
        let Some(failure) = self.api.failure else {
            return Stopped::NoMemory;
        };
        // SAFETY: the function takes nothing, and gives null or a string of the object, which
        // stays loaded.
        let text = unsafe {
            let text = failure();
            (!text.is_null()).then(|| CStr::from_ptr(text))
        };
        text.map_or(Stopped::NoMemory, |text| {
            Stopped::Asserted(text.to_string_lossy().into())
        })
    }
}

/// One launch: an object, its arguments and its grid.
pub(super) struct Call<'a> {
    pub(super) object: &'static Object,
    slots: &'a [u64],
    grid: [u32; 3],
}

impl<'a> Call<'a> {
    /// # Safety
    /// `slots` are as many as the object has, and hold what its kernel takes; the memory that
    /// they point to is live for `'a`, and not otherwise used where the kernel writes it.
    pub(super) unsafe fn new(object: &'static Object, slots: &'a [u64], grid: Grid) -> Self {
        let grid = [grid.x, grid.y, grid.z];
        Self {
            object,
            slots,
            grid,
        }
    }

    /// Runs the programs `first..end` on this thread.
    #[inline]
    pub(super) fn run(&self, first: u64, end: u64) -> Result<(), Stopped> {
        let known = self.object.scratch.load(Ordering::Relaxed);
        let needed = scratch::with(known, |scratch| {
            // SAFETY: `new`'s caller vouches for the slots, the grid has three dimensions, and
            // `scratch` is this thread's own.
            unsafe {
                (self.object.api.run)(self.slots.as_ptr(), self.grid.as_ptr(), first, end, scratch);
            }
        });
        let needed = needed.map_err(|Exhausted| self.object.why_stopped())?;
        if needed > known {
            self.object.scratch.fetch_max(needed, Ordering::Relaxed);
        }
        Ok(())
    }
}

static LOADED: LazyLock<Mutex<HashMap<[u8; 32], &'static Object>>> = LazyLock::new(Mutex::default);

/// Loads an artifact, unless the same content was loaded before.
pub(super) fn load(artifact: &Artifact) -> Result<&'static Object, Error> {
    // Held while an object is loaded, so that two threads don't load the same one.
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(object) = artifact.promised().and_then(|digest| loaded.get(digest)) {
        return Ok(object);
    }
    let (bytes, digest) = artifact.read()?;
    if let Some(object) = loaded.get(&digest) {
        return Ok(object);
    }
    let refused = |fault| Error::Artifact {
        artifact: artifact.to_string().into(),
        fault,
    };
    shared_object::check(&bytes).map_err(refused)?;
    let library = open(&bytes).map_err(|source| Error::Load {
        artifact: artifact.to_string().into(),
        source,
    })?;
    let api = resolve(&library).map_err(refused)?;
    // Never unloaded: thread-local destructors of the object may still have to run.
    std::mem::forget(library);
    let object = Box::leak(Box::new(Object {
        api,
        scratch: AtomicU64::new(0),
        cost: AtomicU64::new(0),
    }));
    loaded.insert(digest, object);
    Ok(object)
}

fn resolve(library: &Library) -> Result<sys::Api, ArtifactFault> {
    fn missing(symbol: &'static std::ffi::CStr) -> ArtifactFault {
        ArtifactFault::MissingSymbol {
            symbol: symbol.to_str().unwrap_or("npu_cpu_*_v1"),
        }
    }
    // SAFETY: the symbols' names carry the version of the ABI, and these are its types.
    unsafe {
        let slots = library
            .get::<*const u32>(sys::SLOTS.to_bytes_with_nul())
            .map_err(|_| missing(sys::SLOTS))?;
        let run = library
            .get::<sys::Run>(sys::RUN.to_bytes_with_nul())
            .map_err(|_| missing(sys::RUN))?;
        let failure = library.get::<sys::Failure>(sys::FAILURE.to_bytes_with_nul());
        Ok(sys::Api {
            slots: **slots,
            run: *run,
            failure: failure.ok().map(|failure| *failure),
        })
    }
}

pub(crate) type Refused = Box<dyn std::error::Error + Send + Sync>;

/// Loads bytes: from memory, or where the system does not allow that, from a private file.
pub(crate) fn open(bytes: &[u8]) -> Result<Library, Refused> {
    let from_memory = match open_in_memory(bytes) {
        Ok(library) => return Ok(library),
        Err(error) => error,
    };
    match open_in_file(bytes) {
        Ok(library) => Ok(library),
        // The loader saw it, so the way there is not to blame.
        Err(_) if from_memory.is::<libloading::Error>() => Err(from_memory),
        Err(from_file) => Err(format!("in memory: {from_memory}; in a file: {from_file}").into()),
    }
}

fn open_in_memory(bytes: &[u8]) -> Result<Library, Refused> {
    let name = c"npu-kernel";
    // Kernels before 6.3 do not know `EXEC`; newer ones may be set up to want it.
    let fd = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::EXEC)
        .or_else(|_| memfd_create(name, MemfdFlags::CLOEXEC))?;
    let mut file = File::from(fd);
    file.write_all(bytes)?;
    open_path(&unique_fd_path(file.as_raw_fd()))
}

/// A path to a file descriptor that no earlier call gave. The system's loader takes an equal path
/// for the same object, and a descriptor's number comes again once it is closed, so the path
/// spells a running number in the slashes and dots that make no difference.
fn unique_fd_path(fd: i32) -> PathBuf {
    let number = next_number();
    let mut path = String::from("/proc/self/fd/");
    for bit in 0..u32::BITS - number.leading_zeros() {
        path.push_str(if number >> bit & 1 == 1 { "./" } else { "/" });
    }
    path.push_str(&fd.to_string());
    path.into()
}

fn next_number() -> u32 {
    static NUMBER: AtomicU32 = AtomicU32::new(1);
    NUMBER.fetch_add(1, Ordering::Relaxed)
}

/// Loads bytes from a file that only this user can reach, and that is gone afterwards.
fn open_in_file(bytes: &[u8]) -> Result<Library, String> {
    let runtime_dir = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let shared_memory = PathBuf::from("/dev/shm");
    let mut reasons = Vec::new();
    for parent in [Some(std::env::temp_dir()), runtime_dir, Some(shared_memory)]
        .iter()
        .flatten()
    {
        match open_under(parent, bytes) {
            Ok(library) => return Ok(library),
            Err(error) => reasons.push(format!("{}: {error}", parent.display())),
        }
    }
    Err(reasons.join("; "))
}

fn open_under(parent: &Path, bytes: &[u8]) -> Result<Library, Refused> {
    let name = format!("npu-runtime-{}-{}", std::process::id(), next_number());
    let directory = parent.join(name);
    // Fails if it exists: what another user put there is not used.
    DirBuilder::new().mode(0o700).create(&directory)?;
    let path = directory.join("kernel.so");
    let opened = File::create_new(&path)
        .and_then(|mut file| file.write_all(bytes))
        .map_err(Refused::from)
        .and_then(|()| open_path(&path));
    // The mapping outlives the name; a leftover is harmless.
    remove_file(&path).ok();
    remove_dir(&directory).ok();
    opened
}

fn open_path(path: &Path) -> Result<Library, Refused> {
    // SAFETY: the caller vouches for the artifact, which is trusted native code; it was made by
    // npu-build, which adds no constructors.
    let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) };
    Ok(library?)
}
