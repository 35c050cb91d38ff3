//! The raw ABI of the launch shim, `templates/xrt_shim.cpp`, whose top documents it. Nothing here
//! checks anything.

use libloading::os::unix::Library;
use std::ffi::{c_char, c_void};

/// What `npu_xrt_abi` returns.
pub(super) const VERSION: u32 = 1;

/// `npu_xrt_code`.
pub(super) type Code = i32;

pub(super) const OK: Code = 0;
pub(super) const STATE: Code = 3;
pub(super) const CHANGED: Code = 4;

/// `npu_xrt_flags`.
pub(super) const IN: u32 = 1;
pub(super) const OUT: u32 = 2;
pub(super) const CHECK: u32 = 4;

/// `npu_xrt_kernel`.
#[repr(C)]
pub(super) struct Kernel {
    _opaque: [u8; 0],
}

/// `npu_xrt_buffer`.
#[repr(C)]
pub(crate) struct Buffer {
    _opaque: [u8; 0],
}

/// `npu_xrt_error`.
#[repr(C)]
pub(super) struct Error {
    pub(super) text: *mut c_char,
    pub(super) size: u64,
    pub(super) state: u32,
    pub(super) argument: u32,
    pub(super) offset: u64,
    pub(super) call: u64,
}

/// `npu_xrt_image`.
#[repr(C)]
pub(super) struct Image {
    pub(super) key: *const c_char,
    pub(super) artifact: *const c_void,
    pub(super) artifact_size: u64,
    pub(super) insts: *const c_void,
    pub(super) insts_size: u64,
    pub(super) kernel: *const c_char,
    pub(super) arguments: u64,
}

/// `npu_xrt_argument`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Argument {
    pub(super) data: *mut c_void,
    pub(super) buffer: *mut Buffer,
    pub(super) size: u64,
    pub(super) flags: u32,
    pub(super) reserved: u32,
}

/// `npu_xrt_call`.
#[repr(C)]
pub(super) struct Call {
    pub(super) kernel: *mut Kernel,
    pub(super) arguments: *const Argument,
    pub(super) count: u64,
}

/// `npu_xrt_counted`.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(super) struct Counted {
    pub(super) sessions: u64,
    pub(super) opened: u64,
    pub(super) evicted: u64,
    pub(super) abandoned: u64,
    pub(super) kernels: u64,
    pub(super) submitted: u64,
    pub(super) completed: u64,
    pub(super) buffers: u64,
}

macro_rules! api {
    ($($name:ident: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The shim's functions.
        pub(super) struct Api {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Api {
            /// The functions of a library, or the name of one that it has not.
            ///
            /// # Safety
            /// What the library has under these names is the shim's, and stays loaded.
            pub(super) unsafe fn resolve(library: &Library) -> Result<Self, &'static str> {
                Ok(Self {$(
                    $name: {
                        let name = concat!(stringify!($name), "\0");
                        // SAFETY: the caller's promise.
                        let symbol = unsafe { library.get(name.as_bytes()) };
                        *symbol.map_err(|_| stringify!($name))?
                    },
                )*})
            }
        }
    };
}

api! {
    npu_xrt_abi: fn() -> u32;
    npu_xrt_open: fn(u32, *mut Error) -> Code;
    npu_xrt_device_name: fn(*mut c_char, u64, *mut Error) -> Code;
    npu_xrt_load: fn(*const Image, *mut *mut Kernel, *mut Error) -> Code;
    npu_xrt_unload: fn(*mut Kernel);
    npu_xrt_launch: fn(*const Call, u64, *mut Error) -> Code;
    npu_xrt_buffer_make: fn(u64, *mut *mut Buffer, *mut *mut c_void, *mut Error) -> Code;
    npu_xrt_buffer_free: fn(*mut Buffer);
    npu_xrt_counts: fn(*mut Counted);
    npu_xrt_close: fn(*mut Error) -> Code;
}
