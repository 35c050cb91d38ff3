//! The types and numbers of ROCR's C interface, as `hsa.h`, `hsa_ext_amd.h` and
//! `hsa_ext_amd_aie.h` define them.

use std::ffi::{CStr, c_void};

/// `hsa_status_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Status(pub u32);

macro_rules! statuses {
    ($($name:ident = $value:expr, $text:literal;)*) => {
        #[allow(missing_docs, reason = "each has its text below")]
        impl Status {
            $(pub const $name: Self = Self($value);)*

            /// ROCR's text for it: its name, a colon, a sentence.
            pub fn text(self) -> Option<&'static CStr> {
                Some(match self {
                    $(Self::$name => $text,)*
                    _ => return None,
                })
            }
        }
    };
}

statuses! {
    SUCCESS = 0, c"HSA_STATUS_SUCCESS: The call did what it was asked to do.";
    INFO_BREAK = 1, c"HSA_STATUS_INFO_BREAK: The callback ended the iteration.";
    ERROR = 0x1000, c"HSA_STATUS_ERROR: The cause of the error has no code of its own.";
    INVALID_ARGUMENT = 0x1001, c"HSA_STATUS_ERROR_INVALID_ARGUMENT: The function does not take such an argument.";
    INVALID_QUEUE_CREATION = 0x1002, c"HSA_STATUS_ERROR_INVALID_QUEUE_CREATION: The agent has no queues of this kind.";
    INVALID_ALLOCATION = 0x1003, c"HSA_STATUS_ERROR_INVALID_ALLOCATION: The memory is not, or cannot be, allocated.";
    INVALID_AGENT = 0x1004, c"HSA_STATUS_ERROR_INVALID_AGENT: The handle is no agent's.";
    INVALID_REGION = 0x1005, c"HSA_STATUS_ERROR_INVALID_REGION: The handle is no region's.";
    INVALID_SIGNAL = 0x1006, c"HSA_STATUS_ERROR_INVALID_SIGNAL: The handle is no signal's.";
    INVALID_QUEUE = 0x1007, c"HSA_STATUS_ERROR_INVALID_QUEUE: The pointer is no queue's.";
    OUT_OF_RESOURCES = 0x1008, c"HSA_STATUS_ERROR_OUT_OF_RESOURCES: The runtime could not get what it needs.";
    INVALID_PACKET_FORMAT = 0x1009, c"HSA_STATUS_ERROR_INVALID_PACKET_FORMAT: The packet makes no sense.";
    RESOURCE_FREE = 0x100a, c"HSA_STATUS_ERROR_RESOURCE_FREE: The resource cannot be released.";
    NOT_INITIALIZED = 0x100b, c"HSA_STATUS_ERROR_NOT_INITIALIZED: The runtime is not initialised.";
    REFCOUNT_OVERFLOW = 0x100c, c"HSA_STATUS_ERROR_REFCOUNT_OVERFLOW: The reference count is at its limit.";
    INCOMPATIBLE_ARGUMENTS = 0x100d, c"HSA_STATUS_ERROR_INCOMPATIBLE_ARGUMENTS: The arguments do not go together.";
    INVALID_INDEX = 0x100e, c"HSA_STATUS_ERROR_INVALID_INDEX: The index is out of range.";
    INVALID_ISA = 0x100f, c"HSA_STATUS_ERROR_INVALID_ISA: The instruction set is unknown.";
    INVALID_CODE_OBJECT = 0x1010, c"HSA_STATUS_ERROR_INVALID_CODE_OBJECT: The code object cannot be loaded.";
    INVALID_EXECUTABLE = 0x1011, c"HSA_STATUS_ERROR_INVALID_EXECUTABLE: The handle is no executable's.";
    FROZEN_EXECUTABLE = 0x1012, c"HSA_STATUS_ERROR_FROZEN_EXECUTABLE: The executable can no longer change.";
    INVALID_SYMBOL_NAME = 0x1013, c"HSA_STATUS_ERROR_INVALID_SYMBOL_NAME: The executable has no symbol of this name.";
    VARIABLE_ALREADY_DEFINED = 0x1014, c"HSA_STATUS_ERROR_VARIABLE_ALREADY_DEFINED: The name is taken.";
    VARIABLE_UNDEFINED = 0x1015, c"HSA_STATUS_ERROR_VARIABLE_UNDEFINED: A variable has no definition.";
    EXCEPTION = 0x1016, c"HSA_STATUS_ERROR_EXCEPTION: The hardware raised an exception.";
    INVALID_ISA_NAME = 0x1017, c"HSA_STATUS_ERROR_INVALID_ISA_NAME: No instruction set has this name.";
    INVALID_CODE_SYMBOL = 0x1018, c"HSA_STATUS_ERROR_INVALID_CODE_SYMBOL: The handle is no symbol's of a code object.";
    INVALID_EXECUTABLE_SYMBOL = 0x1019, c"HSA_STATUS_ERROR_INVALID_EXECUTABLE_SYMBOL: The handle is no symbol's of an executable.";
    INVALID_FILE = 0x1020, c"HSA_STATUS_ERROR_INVALID_FILE: The descriptor is no readable file's.";
    INVALID_CODE_OBJECT_READER = 0x1021, c"HSA_STATUS_ERROR_INVALID_CODE_OBJECT_READER: The handle is no reader's.";
    INVALID_CACHE = 0x1022, c"HSA_STATUS_ERROR_INVALID_CACHE: The handle is no cache's.";
    FATAL = 0x1026, c"HSA_STATUS_ERROR_FATAL: The queue cannot go on.";
    INVALID_MEMORY_POOL = 40, c"HSA_STATUS_ERROR_INVALID_MEMORY_POOL: The handle is no memory pool's.";
    MEMORY_FAULT = 43, c"HSA_STATUS_ERROR_MEMORY_FAULT: The agent reached for memory that it has no access to.";
    RESOURCE_BUSY = 46, c"HSA_STATUS_ERROR_RESOURCE_BUSY: The resource is in use.";
    NOT_SUPPORTED = 47, c"HSA_STATUS_ERROR_NOT_SUPPORTED: The agent cannot do this.";
}

/// `hsa_queue_t`.
#[derive(Debug)]
#[repr(C)]
pub struct HsaQueue {
    /// `HSA_QUEUE_TYPE_SINGLE`, 1.
    pub kind: u32,
    /// None.
    pub features: u32,
    /// The ring of packets.
    pub base: *mut Packet,
    /// The signal that submits them.
    pub doorbell: u64,
    /// How many packets the ring holds.
    pub size: u32,
    /// 0.
    pub reserved: u32,
    /// Its number.
    pub id: u64,
}

/// `hsa_amd_aie_kernel_dispatch_packet_t`, in the layout that names a kernel object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Packet {
    /// Type in bits 0–7: 0 ready, 1 invalid.
    pub header: u16,
    /// 0: for a queue in kernel mode.
    pub opcode: u16,
    /// 24.
    pub count: u16,
    /// 0.
    pub reserved_6: [u8; 2],
    /// The completion signal, or 0.
    pub completion: u64,
    /// 0.
    pub reserved_16: u32,
    /// The kernel object, low half first.
    pub kernel_object: [u32; 2],
    /// How many arguments.
    pub arguments: u16,
    /// 0.
    pub reserved_30: u16,
    /// Their addresses, then their sizes.
    pub kernarg: *const u64,
    /// 0; older ROCRs have a size and addresses here.
    pub reserved_40: [u64; 3],
}

const _: () = {
    assert!(size_of::<Packet>() == 64);
    assert!(std::mem::offset_of!(Packet, kernel_object) == 20);
    assert!(std::mem::offset_of!(Packet, kernarg) == 32);
    assert!(size_of::<HsaQueue>() == 40);
    assert!(size_of::<AccessDescription>() == 16);
};

impl Packet {
    /// Its kernel object.
    pub fn kernel(&self) -> u64 {
        u64::from(self.kernel_object[1]) << 32 | u64::from(self.kernel_object[0])
    }
}

/// `hsa_amd_memory_access_desc_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct AccessDescription {
    /// 0 none, 1 read, 2 write, 3 both.
    pub permissions: u32,
    /// Whose.
    pub agent: u64,
}

/// A callback for handles: agents or pools.
pub type Visit = unsafe extern "C" fn(u64, *mut c_void) -> Status;

/// A queue's error callback.
pub type ErrorCallback = unsafe extern "C" fn(Status, *mut HsaQueue, *mut c_void);

/// How many bytes an agent's name and vendor have.
pub const TEXT: usize = 64;

/// `hsa_amd_pointer_info_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PointerInfo {
    /// Its size, which the program gives and the runtime cuts to what it knows.
    pub size: u32,
    /// 0: unknown.
    pub kind: u32,
    /// Where agents and the host see the memory, how much it is, and what the program tied to it.
    pub places: [u64; 4],
    /// Whose it is.
    pub owner: u64,
    /// The pool's flags.
    pub flags: u32,
}
