//! The emulated driver of this process, as tests steer it and look at it.

use std::ffi::{CString, c_char, c_int, c_void};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::ptr;

unsafe extern "C" {
    fn dlopen(name: *const c_char, mode: c_int) -> *mut c_void;
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

const RTLD_NOW: c_int = 2;

/// Settings and counters of an emulated driver: that of the library which every shim of the same
/// installation uses, too.
#[derive(Clone, Copy, Debug)]
pub struct Driver {
    set: unsafe extern "C" fn(*const c_char, *const c_char),
    count: unsafe extern "C" fn(*const c_char) -> u64,
}

impl Driver {
    /// The driver of an installation's library.
    ///
    /// # Errors
    /// It can't be loaded.
    pub fn of(library: &Path) -> io::Result<Self> {
        let failed = || io::Error::other(format!("{} can't be loaded", library.display()));
        let name = CString::new(library.as_os_str().as_bytes())?;
        // SAFETY: the double's constructors do nothing, and it is never unloaded.
        let library = unsafe { dlopen(name.as_ptr(), RTLD_NOW) };
        if library.is_null() {
            return Err(failed());
        }
        let symbol = |name: &std::ffi::CStr| {
            // SAFETY: the library was loaded, and the name is a string.
            let symbol = unsafe { dlsym(library, name.as_ptr()) };
            ptr::NonNull::new(symbol).ok_or_else(failed)
        };
        let (set, count) = (symbol(c"xrt_double_set")?, symbol(c"xrt_double_count")?);
        // SAFETY: `library/driver.cpp` defines them with these types.
        unsafe {
            Ok(Self {
                set: std::mem::transmute::<
                    *mut c_void,
                    unsafe extern "C" fn(*const c_char, *const c_char),
                >(set.as_ptr()),
                count: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*const c_char) -> u64>(
                    count.as_ptr(),
                ),
            })
        }
    }

    /// As if `XRT_DOUBLE_<name>` had this value. Attempts are counted anew.
    pub fn set(&self, name: &str, value: &str) {
        if let (Ok(name), Ok(value)) = (CString::new(name), CString::new(value)) {
            // SAFETY: two strings.
            unsafe { (self.set)(name.as_ptr(), value.as_ptr()) };
        }
    }

    /// As if it were not set.
    pub fn unset(&self, name: &str) {
        if let Ok(name) = CString::new(name) {
            // SAFETY: a string, and none.
            unsafe { (self.set)(name.as_ptr(), ptr::null()) };
        }
    }

    /// A counter.
    pub fn count(&self, counter: &str) -> u64 {
        let Ok(counter) = CString::new(counter) else {
            return 0;
        };
        // SAFETY: a string.
        unsafe { (self.count)(counter.as_ptr()) }
    }

    /// How much a counter grows while `act` is done.
    pub fn growth<T>(&self, counter: &str, act: impl FnOnce() -> T) -> (u64, T) {
        let before = self.count(counter);
        let result = act();
        (self.count(counter) - before, result)
    }

    /// Forgets all settings.
    pub fn reset(&self) {
        for setting in SETTINGS {
            self.unset(setting);
        }
    }

    /// What is there that should have been released: counters that are not 0, and misuse.
    pub fn leftovers(&self) -> Vec<(&'static str, u64)> {
        let counted = LIVE.map(|counter| (counter, self.count(counter)));
        counted.into_iter().filter(|(_, n)| *n > 0).collect()
    }
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
