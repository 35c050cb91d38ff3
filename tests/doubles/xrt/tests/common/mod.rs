//! What the tests share: kernels that the doubles of the AIE tools compile, and the launch shim
//! behind its C ABI, on an emulated device of one's own.
#![allow(dead_code, reason = "each test binary uses its own part")]

use libloading::{Library, Symbol};
use std::ffi::{CString, c_char, c_void};
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::{Mutex, MutexGuard, OnceLock};
pub use xrt_double::kernels::combining;
use xrt_double::kernels::{Workshop, own_directory};
use xrt_double::{Driver, Installation, compile_shim};

pub const IN: u32 = 1;
pub const OUT: u32 = 2;
pub const CHECK: u32 = 4;

pub const INVALID: i32 = 1;
pub const FAILED: i32 = 2;
pub const STATE: i32 = 3;
pub const CHANGED: i32 = 4;

/// A directory that this process has for itself.
pub fn directory() -> &'static Path {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    let shared = Path::new(env!("CARGO_TARGET_TMPDIR")).join("xrt-double");
    DIRECTORY.get_or_init(|| own_directory(&shared).unwrap())
}

/// The double, installed.
pub fn installation() -> &'static Installation {
    static INSTALLED: OnceLock<Installation> = OnceLock::new();
    INSTALLED.get_or_init(|| Installation::new(&directory().join("xrt")).unwrap())
}

/// Where kernels are compiled.
pub fn workshop() -> &'static Workshop {
    static WORKSHOP: OnceLock<Workshop> = OnceLock::new();
    WORKSHOP.get_or_init(|| Workshop::new(directory()).unwrap())
}

/// A kernel's compiled form.
#[derive(Clone, Debug)]
pub struct Artifact {
    pub key: String,
    pub bytes: Vec<u8>,
    pub insts: Option<Vec<u8>>,
    pub kernel: String,
    pub arguments: u64,
}

/// Compiles an AIE-level design to a full ELF.
pub fn full_elf(name: &str, text: &str, kernel: &str) -> Artifact {
    let compiled = workshop().full_elf(name, text).unwrap();
    Artifact {
        key: name.to_owned(),
        bytes: compiled.artifact,
        insts: None,
        kernel: kernel.to_owned(),
        arguments: 0,
    }
}

/// Compiles an AIE-level design to an xclbin and its instruction stream.
pub fn xclbin(name: &str, text: &str) -> Artifact {
    let compiled = workshop().xclbin(name, text).unwrap();
    Artifact {
        key: name.to_owned(),
        bytes: compiled.artifact,
        insts: compiled.insts,
        kernel: "MLIR_AIE".to_owned(),
        arguments: 3,
    }
}

/// Adds, as a full ELF for npu2.
pub fn adding_elf() -> Artifact {
    static ADDING: OnceLock<Artifact> = OnceLock::new();
    let compile = || full_elf("add.elf", &combining("npu2", "arith.addi"), "main:sequence");
    ADDING.get_or_init(compile).clone()
}

/// Multiplies, as a full ELF for npu2.
pub fn multiplying_elf() -> Artifact {
    static MULTIPLYING: OnceLock<Artifact> = OnceLock::new();
    let compile = || full_elf("mul.elf", &combining("npu2", "arith.muli"), "main:sequence");
    MULTIPLYING.get_or_init(compile).clone()
}

/// Adds, as an xclbin for npu1.
pub fn adding_xclbin() -> Artifact {
    static ADDING: OnceLock<Artifact> = OnceLock::new();
    ADDING
        .get_or_init(|| xclbin("add.xclbin", &combining("npu1", "arith.addi")))
        .clone()
}

/// The same artifact under another key, as if its content were another.
pub fn renamed(artifact: &Artifact, key: &str) -> Artifact {
    Artifact {
        key: key.to_owned(),
        ..artifact.clone()
    }
}

#[repr(C)]
struct RawError {
    text: *mut c_char,
    size: u64,
    state: u32,
    argument: u32,
    offset: u64,
    call: u64,
}

#[repr(C)]
struct RawImage {
    key: *const c_char,
    artifact: *const c_void,
    artifact_size: u64,
    insts: *const c_void,
    insts_size: u64,
    kernel: *const c_char,
    arguments: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Argument {
    data: *mut c_void,
    buffer: *mut c_void,
    size: u64,
    flags: u32,
    reserved: u32,
}

#[repr(C)]
struct RawCall {
    kernel: *mut c_void,
    arguments: *const Argument,
    count: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    pub sessions: u64,
    pub opened: u64,
    pub evicted: u64,
    pub abandoned: u64,
    pub kernels: u64,
    pub submitted: u64,
    pub completed: u64,
    pub buffers: u64,
}

/// What a function of the shim reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub code: i32,
    pub text: String,
    pub state: u32,
    pub argument: u32,
    pub offset: u64,
    pub call: u64,
}

/// The memory of an argument.
pub fn memory(data: &mut [i32], flags: u32) -> Argument {
    Argument {
        data: data.as_mut_ptr().cast(),
        buffer: ptr::null_mut(),
        size: size_of_val(data) as u64,
        flags,
        reserved: 0,
    }
}

#[derive(Clone, Copy)]
pub struct Kernel(*mut c_void);

#[derive(Clone, Copy)]
pub struct Buffer {
    raw: *mut c_void,
    data: *mut i32,
    len: usize,
}

impl Buffer {
    pub fn argument(self, flags: u32) -> Argument {
        Argument {
            data: ptr::null_mut(),
            buffer: self.raw,
            size: 4 * self.len as u64,
            flags,
            reserved: 0,
        }
    }

    pub fn elements<'a>(self) -> &'a mut [i32] {
        // SAFETY: the mapping has as many elements, and no launch runs while a test looks at them.
        unsafe { std::slice::from_raw_parts_mut(self.data, self.len) }
    }
}

/// A shim, loaded.
pub struct Shim {
    library: Library,
}

impl Shim {
    pub fn compile(compiler: &str, name: &str) -> Self {
        let path = directory().join(name);
        compile_shim(compiler, installation(), &path).unwrap();
        // SAFETY: the shim's constructors do nothing.
        let library = unsafe { Library::new(path) }.unwrap();
        let shim = Self { library };
        let version: Symbol<'_, unsafe extern "C" fn() -> u32> = shim.get(b"npu_xrt_abi");
        // SAFETY: as the shim declares it.
        assert_eq!(unsafe { version() }, 1);
        shim
    }

    fn get<T>(&self, name: &[u8]) -> Symbol<'_, T> {
        // SAFETY: the callers name the types that the shim declares.
        unsafe { self.library.get(name) }.unwrap()
    }

    fn failing(&self, room: usize, call: impl FnOnce(*mut RawError) -> i32) -> Result<(), Failure> {
        let mut text = vec![0x55_u8; room + 1];
        let mut error = RawError {
            text: text.as_mut_ptr().cast(),
            size: room as u64,
            state: 0,
            argument: 0,
            offset: 0,
            call: 0,
        };
        let code = call(&mut error);
        let (state, argument, offset, call) =
            (error.state, error.argument, error.offset, error.call);
        assert_eq!(text[room], 0x55, "the shim wrote beyond the buffer");
        if code == 0 {
            return Ok(());
        }
        let end = text.iter().position(|byte| *byte == 0).unwrap();
        let text = String::from_utf8(text[..end].to_vec()).unwrap();
        Err(Failure {
            code,
            text,
            state,
            argument,
            offset,
            call,
        })
    }

    pub fn open(&self, index: u32) -> Result<(), Failure> {
        let open: Symbol<'_, unsafe extern "C" fn(u32, *mut RawError) -> i32> =
            self.get(b"npu_xrt_open");
        // SAFETY: as the shim declares it.
        self.failing(1000, |error| unsafe { open(index, error) })
    }

    pub fn device_name(&self) -> String {
        type Name = unsafe extern "C" fn(*mut c_char, u64, *mut RawError) -> i32;
        let name: Symbol<'_, Name> = self.get(b"npu_xrt_device_name");
        let mut text = [0_u8; 64];
        // SAFETY: as the shim declares it.
        self.failing(1000, |error| unsafe {
            name(text.as_mut_ptr().cast(), 64, error)
        })
        .unwrap();
        let end = text.iter().position(|byte| *byte == 0).unwrap();
        String::from_utf8(text[..end].to_vec()).unwrap()
    }

    pub fn load(&self, artifact: &Artifact) -> Result<Kernel, Failure> {
        self.load_with(artifact, 1000)
    }

    /// With room for so many bytes of an error's text.
    pub fn load_with(&self, artifact: &Artifact, room: usize) -> Result<Kernel, Failure> {
        type Load = unsafe extern "C" fn(*const RawImage, *mut *mut c_void, *mut RawError) -> i32;
        let load: Symbol<'_, Load> = self.get(b"npu_xrt_load");
        let key = CString::new(artifact.key.as_str()).unwrap();
        let name = CString::new(artifact.kernel.as_str()).unwrap();
        let insts = artifact.insts.as_deref();
        let image = RawImage {
            key: key.as_ptr(),
            artifact: artifact.bytes.as_ptr().cast(),
            artifact_size: artifact.bytes.len() as u64,
            insts: insts.map_or(ptr::null(), |insts| insts.as_ptr().cast()),
            insts_size: insts.map_or(0, |insts| insts.len() as u64),
            kernel: name.as_ptr(),
            arguments: artifact.arguments,
        };
        let mut kernel = ptr::null_mut();
        // SAFETY: as the shim declares it.
        self.failing(room, |error| unsafe { load(&image, &mut kernel, error) })?;
        Ok(Kernel(kernel))
    }

    pub fn unload(&self, kernel: Kernel) {
        let unload: Symbol<'_, unsafe extern "C" fn(*mut c_void)> = self.get(b"npu_xrt_unload");
        // SAFETY: the kernel is the caller's, and not used again.
        unsafe { unload(kernel.0) };
    }

    pub fn launch(&self, kernel: Kernel, arguments: &[Argument]) -> Result<(), Failure> {
        self.chain(&[(kernel, arguments)])
    }

    pub fn chain(&self, calls: &[(Kernel, &[Argument])]) -> Result<(), Failure> {
        type Launch = unsafe extern "C" fn(*const RawCall, u64, *mut RawError) -> i32;
        let launch: Symbol<'_, Launch> = self.get(b"npu_xrt_launch");
        let raw: Vec<RawCall> = calls
            .iter()
            .map(|(kernel, arguments)| RawCall {
                kernel: kernel.0,
                arguments: arguments.as_ptr(),
                count: arguments.len() as u64,
            })
            .collect();
        // SAFETY: as the shim declares it; the memory is that of slices that the test holds.
        self.failing(1000, |error| unsafe {
            launch(raw.as_ptr(), raw.len() as u64, error)
        })
    }

    /// Launches `z = x ? y` over memory of 256 elements.
    pub fn combine(
        &self,
        kernel: Kernel,
        x: &mut [i32],
        y: &mut [i32],
    ) -> Result<Vec<i32>, Failure> {
        let mut z = vec![-1; 256];
        self.launch(kernel, &[memory(x, IN), memory(y, IN), memory(&mut z, OUT)])?;
        Ok(z)
    }

    pub fn buffer(&self, len: usize) -> Result<Buffer, Failure> {
        type Make =
            unsafe extern "C" fn(u64, *mut *mut c_void, *mut *mut c_void, *mut RawError) -> i32;
        let make: Symbol<'_, Make> = self.get(b"npu_xrt_buffer_make");
        let (mut raw, mut data) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: as the shim declares it.
        self.failing(1000, |error| unsafe {
            make(4 * len as u64, &mut raw, &mut data, error)
        })?;
        Ok(Buffer {
            raw,
            data: data.cast(),
            len,
        })
    }

    pub fn free(&self, buffer: Buffer) {
        let free: Symbol<'_, unsafe extern "C" fn(*mut c_void)> = self.get(b"npu_xrt_buffer_free");
        // SAFETY: the buffer is the caller's, and not used again.
        unsafe { free(buffer.raw) };
    }

    pub fn counts(&self) -> Counted {
        let counts: Symbol<'_, unsafe extern "C" fn(*mut Counted)> = self.get(b"npu_xrt_counts");
        let mut counted = Counted::default();
        // SAFETY: as the shim declares it.
        unsafe { counts(&mut counted) };
        counted
    }

    pub fn close(&self) -> Result<(), Failure> {
        let close: Symbol<'_, unsafe extern "C" fn(*mut RawError) -> i32> =
            self.get(b"npu_xrt_close");
        // SAFETY: as the shim declares it.
        self.failing(1000, |error| unsafe { close(error) })
    }
}

/// A device and a shim that a test has for itself. In the end everything must have been released.
pub struct Scene {
    pub shim: &'static Shim,
    pub driver: Driver,
    _alone: MutexGuard<'static, ()>,
}

impl Scene {
    pub fn on(device: &str) -> Self {
        static ALONE: Mutex<()> = Mutex::new(());
        static SHIM: OnceLock<Shim> = OnceLock::new();
        let alone = ALONE
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        let shim = SHIM.get_or_init(|| Shim::compile("g++", "shim.so"));
        let driver = Driver::of(&installation().library()).unwrap();
        driver.reset();
        driver.set("DEVICE", device);
        Self {
            shim,
            driver,
            _alone: alone,
        }
    }

    /// How much a counter grows while `act` is done.
    pub fn growth<T>(&self, counter: &str, act: impl FnOnce() -> T) -> (u64, T) {
        self.driver.growth(counter, act)
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let closed = self.shim.close();
        if std::thread::panicking() {
            return;
        }
        closed.unwrap();
        assert_eq!(self.driver.leftovers(), []);
    }
}

/// `0, 1, 2…`
pub fn counting() -> Vec<i32> {
    (0..256).collect()
}

pub fn sums(x: &[i32], y: &[i32]) -> Vec<i32> {
    x.iter().zip(y).map(|(x, y)| x.wrapping_add(*y)).collect()
}

pub fn products(x: &[i32], y: &[i32]) -> Vec<i32> {
    x.iter().zip(y).map(|(x, y)| x.wrapping_mul(*y)).collect()
}

/// An argument of another size.
pub fn larger(argument: Argument, bytes: u64) -> Argument {
    Argument {
        size: bytes,
        ..argument
    }
}
