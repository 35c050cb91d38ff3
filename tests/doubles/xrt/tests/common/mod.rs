//! What the tests share: kernels that the doubles of the AIE tools compile, and the launch shim
//! behind its C ABI, on an emulated device of one's own.
#![allow(dead_code, reason = "each test binary uses its own part")]

use aie_tools::install::Installation as Tools;
use libloading::{Library, Symbol};
use std::ffi::{CString, c_char, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::ptr;
use std::sync::{Mutex, MutexGuard, OnceLock};
use xrt_double::{Installation, compile_shim};

pub const IN: u32 = 1;
pub const OUT: u32 = 2;
pub const CHECK: u32 = 4;

pub const INVALID: i32 = 1;
pub const FAILED: i32 = 2;
pub const STATE: i32 = 3;
pub const CHANGED: i32 = 4;

/// A directory that is new for this process.
pub fn directory() -> &'static Path {
    static DIRECTORY: OnceLock<tempfile::TempDir> = OnceLock::new();
    let create = || {
        tempfile::Builder::new()
            .prefix("xrt-")
            .tempdir_in(env!("CARGO_TARGET_TMPDIR"))
            .unwrap()
    };
    DIRECTORY.get_or_init(create).path()
}

/// The double, installed.
pub fn installation() -> &'static Installation {
    static INSTALLED: OnceLock<Installation> = OnceLock::new();
    INSTALLED.get_or_init(|| Installation::new(&directory().join("xrt")).unwrap())
}

fn tools() -> &'static Tools {
    static TOOLS: OnceLock<Tools> = OnceLock::new();
    TOOLS.get_or_init(|| Tools::new(&directory().join("tools"), 3).unwrap())
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
    let at = compile(name, text, &["--get-full-elf", "--full-elf-name=k.elf"]);
    Artifact {
        key: name.to_owned(),
        bytes: std::fs::read(at.join("k.elf")).unwrap(),
        insts: None,
        kernel: kernel.to_owned(),
        arguments: 0,
    }
}

/// Compiles an AIE-level design to an xclbin and its instruction stream.
pub fn xclbin(name: &str, text: &str) -> Artifact {
    let options = [
        "--get-xclbin",
        "--xclbin-name=k.xclbin",
        "--get-npu-insts",
        "--npu-insts-name=k.bin",
    ];
    let at = compile(name, text, &options);
    Artifact {
        key: name.to_owned(),
        bytes: std::fs::read(at.join("k.xclbin")).unwrap(),
        insts: Some(std::fs::read(at.join("k.bin")).unwrap()),
        kernel: "MLIR_AIE".to_owned(),
        arguments: 3,
    }
}

fn compile(name: &str, text: &str, options: &[&str]) -> PathBuf {
    let at = directory().join("kernels").join(name);
    std::fs::create_dir_all(&at).unwrap();
    std::fs::write(at.join("k.mlir"), text).unwrap();
    let output = Command::new(tools().tool("aiecc"))
        .current_dir(&at)
        .env("PATH", tools().search_path())
        .args(options)
        .arg(format!("--peano={}", tools().peano().display()))
        .arg("k.mlir")
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    at
}

/// A core that combines two inputs of 256 `i32` into an output, by `operation`.
pub fn combining(part: &str, operation: &str) -> String {
    let of = "memref<256xi32>";
    format!(
        "module {{
  aie.device({part}) @main {{
    %shim = aie.tile(0, 0)
    %core_tile = aie.tile(0, 2)
    aie.objectfifo @a(%shim, {{%core_tile}}, 2 : i32) : !aie.objectfifo<{of}>
    aie.objectfifo @b(%shim, {{%core_tile}}, 2 : i32) : !aie.objectfifo<{of}>
    aie.objectfifo @c(%core_tile, {{%shim}}, 2 : i32) : !aie.objectfifo<{of}>
    %core = aie.core(%core_tile) {{
      %av = aie.objectfifo.acquire @a(Consume, 1) : !aie.objectfifosubview<{of}>
      %am = aie.objectfifo.subview.access %av[0] : !aie.objectfifosubview<{of}> -> {of}
      %bv = aie.objectfifo.acquire @b(Consume, 1) : !aie.objectfifosubview<{of}>
      %bm = aie.objectfifo.subview.access %bv[0] : !aie.objectfifosubview<{of}> -> {of}
      %cv = aie.objectfifo.acquire @c(Produce, 1) : !aie.objectfifosubview<{of}>
      %cm = aie.objectfifo.subview.access %cv[0] : !aie.objectfifosubview<{of}> -> {of}
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %n = arith.constant 256 : index
      scf.for %i = %c0 to %n step %c1 {{
        %x = memref.load %am[%i] : {of}
        %y = memref.load %bm[%i] : {of}
        %z = {operation} %x, %y : i32
        memref.store %z, %cm[%i] : {of}
      }}
      aie.end
    }}
    aie.runtime_sequence @sequence(%x : {of}, %y : {of}, %z : {of}) {{
      aiex.npu.load_pdi {{ device_ref = @main }}
      aiex.npu.dma_memcpy_nd(%x[0, 0, 0, 0][1, 1, 1, 256][0, 0, 0, 1]) {{id = 0 : i64, metadata = @a}} : {of}
      aiex.npu.dma_memcpy_nd(%y[0, 0, 0, 0][1, 1, 1, 256][0, 0, 0, 1]) {{id = 1 : i64, metadata = @b}} : {of}
      aiex.npu.dma_memcpy_nd(%z[0, 0, 0, 0][1, 1, 1, 256][0, 0, 0, 1]) {{id = 2 : i64, metadata = @c}} : {of}
      aiex.npu.dma_wait {{symbol = @c}}
    }}
  }}
}}
"
    )
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

/// The emulated driver of this process.
pub struct Driver {
    library: Library,
}

impl Driver {
    fn new() -> Self {
        // SAFETY: the double's constructors do nothing.
        let library = unsafe { Library::new(installation().library()) }.unwrap();
        Self { library }
    }

    pub fn set(&self, name: &str, value: &str) {
        self.set_to(name, Some(value));
    }

    pub fn unset(&self, name: &str) {
        self.set_to(name, None);
    }

    fn set_to(&self, name: &str, value: Option<&str>) {
        type Set = unsafe extern "C" fn(*const c_char, *const c_char);
        // SAFETY: as the double declares it.
        let set: Symbol<'_, Set> = unsafe { self.library.get(b"xrt_double_set") }.unwrap();
        let name = CString::new(name).unwrap();
        let value = value.map(|value| CString::new(value).unwrap());
        // SAFETY: as above.
        unsafe {
            set(
                name.as_ptr(),
                value.as_ref().map_or(ptr::null(), |value| value.as_ptr()),
            )
        };
    }

    pub fn count(&self, counter: &str) -> u64 {
        type Count = unsafe extern "C" fn(*const c_char) -> u64;
        // SAFETY: as the double declares it.
        let count: Symbol<'_, Count> = unsafe { self.library.get(b"xrt_double_count") }.unwrap();
        let counter = CString::new(counter).unwrap();
        // SAFETY: as above.
        unsafe { count(counter.as_ptr()) }
    }
}

/// A device and a shim that a test has for itself. In the end everything must have been released.
pub struct Scene {
    pub shim: &'static Shim,
    pub driver: Driver,
    _alone: MutexGuard<'static, ()>,
}

const SETTINGS: [&str; 9] = [
    "DEVICE", "NAME", "CONTEXTS", "MEMORY", "FAIL", "STATE", "BANKS", "EMPTY", "COSTS",
];
const LIVE: [&str; 7] = [
    "devices_live",
    "contexts_live",
    "kernels_live",
    "runs_live",
    "runlists_live",
    "bos_live",
    "misuse",
];

impl Scene {
    pub fn on(device: &str) -> Self {
        static ALONE: Mutex<()> = Mutex::new(());
        static SHIM: OnceLock<Shim> = OnceLock::new();
        let alone = ALONE
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        let shim = SHIM.get_or_init(|| Shim::compile("g++", "shim.so"));
        let driver = Driver::new();
        for setting in SETTINGS {
            driver.unset(setting);
        }
        driver.set("DEVICE", device);
        Self {
            shim,
            driver,
            _alone: alone,
        }
    }

    /// How much a counter grows while `act` is done.
    pub fn growth<T>(&self, counter: &str, act: impl FnOnce() -> T) -> (u64, T) {
        let before = self.driver.count(counter);
        let result = act();
        (self.driver.count(counter) - before, result)
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let closed = self.shim.close();
        if std::thread::panicking() {
            return;
        }
        closed.unwrap();
        for live in LIVE {
            assert_eq!(self.driver.count(live), 0, "{live}");
        }
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
