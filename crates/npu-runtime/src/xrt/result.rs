//! The shim's functions, one checked call each: a code that is no success becomes a [`Failure`]
//! with XRT's own text.

use super::{find, sys};
use crate::error::{Candidate, LibraryError, XrtError};
use crate::{Artifact, Error, Runtime, cpu, fork, shared_object};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use std::ffi::{CStr, CString, c_char, c_void};
use std::mem::MaybeUninit;
use std::path::PathBuf;
use std::ptr::{self, NonNull};
use std::sync::OnceLock;

/// The loaded shim. It is never unloaded, and neither is XRT, which keeps threads.
pub(super) struct Shim {
    api: sys::Api,
    pub(super) path: PathBuf,
    /// The process that loaded it.
    generation: u32,
}

/// A call that failed.
pub(super) struct Failure {
    code: sys::Code,
    text: String,
    state: u32,
    /// Which argument was written, and at which byte, if [`Failure::changed`].
    pub(super) argument: usize,
    pub(super) offset: usize,
    /// How many calls of a chain were completed.
    pub(super) completed: usize,
}

impl Failure {
    /// Whether it is that the kernel wrote an input.
    pub(super) fn changed(&self) -> bool {
        self.code == sys::CHANGED
    }

    /// With what was being done, and what to do about it.
    #[cold]
    pub(super) fn error(self, doing: impl Into<String>, advice: &'static str) -> Error {
        Error::Xrt(Box::new(XrtError {
            doing: doing.into(),
            state: (self.code == sys::STATE).then_some(self.state),
            text: self.text,
            advice,
        }))
    }
}

pub(super) type Result<T> = std::result::Result<T, Failure>;

/// The process's shim: its state is the device's, so a second one would be in its way.
static SHIM: OnceLock<Shim> = OnceLock::new();

/// Room for an error's text. XRT's are a line; those of a crashed array can be a page.
const TEXT: usize = 2048;

/// A kernel of the shim.
#[derive(Clone, Copy)]
pub(super) struct KernelHandle(NonNull<sys::Kernel>);

// SAFETY: the shim's functions take kernels from any thread, as its top says.
unsafe impl Send for KernelHandle {}
// SAFETY: as above.
unsafe impl Sync for KernelHandle {}

/// A buffer of the shim.
#[derive(Clone, Copy)]
pub(super) struct BufferHandle(pub(super) NonNull<sys::Buffer>);

// SAFETY: the shim's functions take buffers from any thread, as its top says.
unsafe impl Send for BufferHandle {}
// SAFETY: as above.
unsafe impl Sync for BufferHandle {}

/// What a kernel is loaded from.
pub(super) struct Source<'a> {
    pub(super) key: &'a CStr,
    pub(super) artifact: &'a [u8],
    pub(super) insts: Option<&'a [u8]>,
    pub(super) kernel: &'a CStr,
    pub(super) arguments: usize,
}

/// One call of a chain.
#[repr(transparent)]
pub(super) struct Call(sys::Call);

impl Call {
    /// `arguments` stay where they are for as long as the call is used.
    pub(super) fn new(kernel: KernelHandle, arguments: *const sys::Argument, count: usize) -> Self {
        Self(sys::Call {
            kernel: kernel.0.as_ptr(),
            arguments,
            count: count as u64,
        })
    }
}

impl Shim {
    /// The shim: the one that is loaded already, else `given`, else the one that
    /// [`find`] names.
    pub(super) fn get(given: Option<&Artifact>) -> std::result::Result<&'static Self, Error> {
        if let Some(shim) = SHIM.get() {
            return Ok(shim);
        }
        let shim = match given {
            Some(artifact) => Self::from_artifact(artifact)?,
            None => Self::from_file()?,
        };
        Ok(SHIM.get_or_init(|| shim))
    }

    fn from_artifact(artifact: &Artifact) -> std::result::Result<Self, Error> {
        let (bytes, _) = artifact.read()?;
        let library = cpu::load_library(&bytes).map_err(|source| Error::Load {
            artifact: artifact.to_string().into(),
            source,
        })?;
        let path = PathBuf::from(artifact.to_string());
        let refused = |reason| no_shim(path.clone(), "given by the program", reason);
        Self::of(library, path.clone()).map_err(refused)
    }

    fn from_file() -> std::result::Result<Self, Error> {
        let (path, origin) = find::shim();
        let opened = if !path.is_file() {
            Err("there is no such file".into())
        } else if shared_object::is_whole(&path).is_ok_and(|whole| !whole) {
            Err("it is cut off".into())
        } else {
            // SAFETY: a file of this name, or that the user names, is the shim, whose
            // constructors and XRT's may run.
            let library = unsafe { Library::open(Some(&path), RTLD_NOW | RTLD_LOCAL) };
            library.map_err(|error| chain(&error))
        };
        let shim = opened.and_then(|library| Self::of(library, path.clone()));
        shim.map_err(|reason| no_shim(path, origin, reason))
    }

    fn of(library: Library, path: PathBuf) -> std::result::Result<Self, String> {
        // SAFETY: it is the shim by its name or its user's word, and it is never unloaded.
        let api = unsafe { sys::Api::resolve(&library) };
        std::mem::forget(library);
        let api = api.map_err(|symbol| format!("it has no `{symbol}`, so it is no launch shim"))?;
        // SAFETY: the function takes nothing.
        match unsafe { (api.npu_xrt_abi)() } {
            sys::VERSION => Ok(Self {
                api,
                path,
                generation: fork::watched_generation(),
            }),
            version => Err(format!(
                "it is of version {version}, and this npu-runtime ({}) needs version {}",
                env!("CARGO_PKG_VERSION"),
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

    /// Whether the shim was loaded by another process than this one.
    pub(super) fn is_loaded_elsewhere() -> bool {
        SHIM.get().is_some_and(Self::is_foreign)
    }

    pub(super) fn open(&self) -> Result<()> {
        // SAFETY: the error is valid for the call.
        checked(|error| unsafe { (self.api.npu_xrt_open)(0, error) })
    }

    pub(super) fn device_name(&self) -> Result<String> {
        let mut name = [0; 256];
        let (start, size) = (name.as_mut_ptr(), name.len() as u64);
        // SAFETY: the name has room for `size` bytes.
        checked(|error| unsafe { (self.api.npu_xrt_device_name)(start, size, error) })?;
        let bytes = name.iter().take_while(|&&byte| byte != 0);
        let bytes: Vec<u8> = bytes.map(|&byte| byte as u8).collect();
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    pub(super) fn load(&self, source: &Source<'_>) -> Result<KernelHandle> {
        let insts = source.insts;
        let image = sys::Image {
            key: source.key.as_ptr(),
            artifact: source.artifact.as_ptr().cast(),
            artifact_size: source.artifact.len() as u64,
            insts: insts.map_or(ptr::null(), |insts| insts.as_ptr().cast()),
            insts_size: insts.map_or(0, |insts| insts.len() as u64),
            kernel: source.kernel.as_ptr(),
            arguments: source.arguments as u64,
        };
        let mut kernel = ptr::null_mut();
        // SAFETY: the image's parts live as long as `source`, and the shim copies them.
        checked(|error| unsafe { (self.api.npu_xrt_load)(&image, &mut kernel, error) })?;
        made(kernel).map(KernelHandle)
    }

    /// # Safety
    /// The kernel is not used any more.
    pub(super) unsafe fn unload(&self, kernel: KernelHandle) {
        // SAFETY: the caller's promise.
        unsafe { (self.api.npu_xrt_unload)(kernel.0.as_ptr()) };
    }

    /// Runs calls in order.
    ///
    /// # Safety
    /// The kernels are loaded, and the arguments' memory is as large as they say, may be read, may
    /// be written where they say so, and is not accessed otherwise meanwhile.
    #[inline]
    pub(super) unsafe fn launch(&self, calls: &[Call]) -> Result<()> {
        let (start, count) = (calls.as_ptr().cast(), calls.len() as u64);
        // SAFETY: the caller's promise; a `Call` is one of the shim's.
        checked(|error| unsafe { (self.api.npu_xrt_launch)(start, count, error) })
    }

    /// A buffer of zeros, and where the host has it: at a page's start.
    pub(super) fn buffer(&self, bytes: usize) -> Result<(BufferHandle, NonNull<c_void>)> {
        let (mut buffer, mut data) = (ptr::null_mut(), ptr::null_mut());
        checked(|error| {
            // SAFETY: what is passed is valid for the call.
            unsafe { (self.api.npu_xrt_buffer_make)(bytes as u64, &mut buffer, &mut data, error) }
        })?;
        Ok((BufferHandle(made(buffer)?), made(data)?))
    }

    /// # Safety
    /// Neither the buffer nor its mapping is used any more.
    pub(super) unsafe fn free(&self, buffer: BufferHandle) {
        // SAFETY: the caller's promise.
        unsafe { (self.api.npu_xrt_buffer_free)(buffer.0.as_ptr()) };
    }

    pub(super) fn counts(&self) -> sys::Counted {
        let mut counted = sys::Counted::default();
        // SAFETY: it is as large as the shim expects.
        unsafe { (self.api.npu_xrt_counts)(&mut counted) };
        counted
    }

    pub(super) fn close(&self) -> Result<()> {
        // SAFETY: the error is valid for the call.
        checked(|error| unsafe { (self.api.npu_xrt_close)(error) })
    }
}

/// A name for the shim; none of the project's has a NUL in it.
pub(super) fn c_string(name: &str) -> Option<CString> {
    CString::new(name).ok()
}

fn made<T>(pointer: *mut T) -> Result<NonNull<T>> {
    NonNull::new(pointer).ok_or_else(|| Failure {
        code: -1,
        text: "the shim made nothing".into(),
        state: 0,
        argument: 0,
        offset: 0,
        completed: 0,
    })
}

#[inline]
fn checked(call: impl FnOnce(*mut sys::Error) -> sys::Code) -> Result<()> {
    let mut text = MaybeUninit::<[c_char; TEXT]>::uninit();
    let start: *mut c_char = text.as_mut_ptr().cast();
    // SAFETY: there is room for a first character, so that there is a text in any case.
    unsafe { start.write(0) };
    let mut error = sys::Error {
        text: start,
        size: TEXT as u64,
        state: 0,
        argument: 0,
        offset: 0,
        call: 0,
    };
    match call(&mut error) {
        sys::OK => Ok(()),
        code => Err(failure(code, &error)),
    }
}

#[cold]
fn failure(code: sys::Code, error: &sys::Error) -> Failure {
    // SAFETY: the shim ends what it writes with a NUL, and there was one before.
    let text = unsafe { CStr::from_ptr(error.text) };
    Failure {
        code,
        text: text.to_string_lossy().trim_end().to_owned(),
        state: error.state,
        argument: error.argument as usize,
        offset: usize::try_from(error.offset).unwrap_or(usize::MAX),
        completed: usize::try_from(error.call).unwrap_or(usize::MAX),
    }
}

/// An error's text with what it comes from: the loader's first line says no more than that it
/// failed.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}

#[cold]
fn no_shim(path: PathBuf, origin: &'static str, reason: String) -> Error {
    Error::Library(Box::new(LibraryError {
        runtime: Runtime::Xrt,
        library: "launch shim for XRT",
        candidates: vec![Candidate::new(path, origin, reason)],
        advice: "`npu-build shim` compiles it where an XRT with its headers and a C++ compiler are; \
                 set NPU_RUNTIME_XRT_SHIM to that file, or put it beside the program as \
                 libnpu_xrt_shim.so",
    }))
}
