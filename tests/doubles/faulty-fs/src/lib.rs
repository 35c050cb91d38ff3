//! A file system that fails: stands between a program and the C library, see the README.
//!
//! Every function here has the C library's name and does what that one does, unless its turn to fail
//! has come. Nothing is allocated after the first call.
#![allow(
    clippy::missing_safety_doc,
    reason = "the functions are those of the C library"
)]

use std::ffi::{CStr, c_char, c_int, c_long, c_uint, c_void};
use std::mem::transmute;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    fn getpid() -> c_int;
    fn kill(pid: c_int, signal: c_int) -> c_int;
    fn dirfd(directory: *mut c_void) -> c_int;
    fn atexit(function: extern "C" fn()) -> c_int;
    fn __errno_location() -> *mut c_int;
}

/// The next definition after the one that asks, `RTLD_NEXT` of dlfcn.h.
const NEXT: *mut c_void = -1isize as *mut c_void;
const SIGKILL: c_int = 9;

/// What the variables say.
struct Plan {
    under: Vec<u8>,
    calls: Option<Vec<String>>,
    at: usize,
    always: bool,
    action: Action,
    report: Option<std::path::PathBuf>,
}

#[derive(Clone, Copy, PartialEq)]
enum Action {
    Nothing,
    Kill,
    Short,
    Errno(c_int),
}

static PLAN: OnceLock<Plan> = OnceLock::new();
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// Which descriptors were opened below the directory.
static TRACKED: [AtomicBool; 4096] = [const { AtomicBool::new(false) }; 4096];

fn plan() -> &'static Plan {
    PLAN.get_or_init(|| {
        use std::os::unix::ffi::OsStringExt;
        let text = |name: &str| std::env::var_os(name).map(OsStringExt::into_vec);
        let string = |name: &str| text(name).and_then(|text| String::from_utf8(text).ok());
        let report = std::env::var_os("FAULTY_FS_REPORT").map(Into::into);
        if report.is_some() {
            // SAFETY: the function may run at any time and calls nothing of ours.
            unsafe { atexit(tell) };
        }
        Plan {
            under: text("FAULTY_FS_UNDER").unwrap_or_default(),
            calls: string("FAULTY_FS_CALLS")
                .map(|calls| calls.split(',').map(str::to_owned).collect()),
            at: string("FAULTY_FS_AT")
                .and_then(|at| at.parse().ok())
                .unwrap_or(0),
            always: text("FAULTY_FS_ALWAYS").is_some(),
            action: match string("FAULTY_FS_ACTION").as_deref() {
                Some("kill") => Action::Kill,
                Some("short") => Action::Short,
                Some(errno) => errno.parse().map_or(Action::Nothing, Action::Errno),
                None => Action::Nothing,
            },
            report,
        }
    })
}

/// Says how many calls were counted.
extern "C" fn tell() {
    use std::io::Write as _;
    let Some(path) = &plan().report else { return };
    let file = std::fs::File::options()
        .append(true)
        .create(true)
        .open(path);
    let _ = file.and_then(|mut file| writeln!(file, "{}", COUNT.load(Ordering::Relaxed)));
}

/// Counts a call, and says what is to become of it.
fn turn(name: &str, concerned: bool) -> Action {
    let plan = plan();
    let is_meant = plan
        .calls
        .as_ref()
        .is_none_or(|calls| calls.iter().any(|call| call == name));
    if !concerned || !is_meant {
        return Action::Nothing;
    }
    let number = COUNT.fetch_add(1, Ordering::Relaxed) + 1;
    if number != plan.at && !(plan.always && plan.at > 0 && number > plan.at) {
        return Action::Nothing;
    }
    if plan.action == Action::Kill {
        // SAFETY: ends this process.
        unsafe { kill(getpid(), SIGKILL) };
    }
    plan.action
}

fn is_under(path: *const c_char) -> bool {
    let under = &*plan().under;
    if path.is_null() || under.is_empty() {
        return false;
    }
    // SAFETY: callers pass strings, as the C library demands.
    unsafe { CStr::from_ptr(path) }
        .to_bytes()
        .starts_with(under)
}

fn tracked(fd: c_int) -> Option<&'static AtomicBool> {
    usize::try_from(fd).ok().and_then(|fd| TRACKED.get(fd))
}

fn is_tracked(fd: c_int) -> bool {
    tracked(fd).is_some_and(|tracked| tracked.load(Ordering::Relaxed))
}

fn track(fd: c_int, concerned: bool) {
    if let Some(tracked) = tracked(fd) {
        tracked.store(concerned, Ordering::Relaxed);
    }
}

fn set_errno(errno: c_int) {
    // SAFETY: the C library's own place for it.
    unsafe { *__errno_location() = errno };
}

/// Reads the variables before there is a second thread: who waits for another thread to do it would
/// wait by a system call, which comes here, and wait again.
#[used]
#[unsafe(link_section = ".init_array")]
static READ_VARIABLES: extern "C" fn() = {
    extern "C" fn read_variables() {
        plan();
    }
    read_variables
};

/// The C library's own function.
fn real(name: &'static CStr) -> *mut c_void {
    // SAFETY: a name that ends in 0.
    unsafe { dlsym(NEXT, name.as_ptr()) }
}

/// The same, looked up once. Threads may do it at the same time: none waits for another, for the
/// reason above.
fn known(address: &AtomicUsize, name: &'static CStr) -> usize {
    match address.load(Ordering::Relaxed) {
        0 => {
            let found = real(name) as usize;
            address.store(found, Ordering::Relaxed);
            found
        }
        found => found,
    }
}

/// Defines functions that may fail: what a failure returns, and what the call concerns.
macro_rules! interpose {
    ($(fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty, fails with $failed:expr, if $concerned:expr $(, opens $opened:ident)?;)*) => {$(
        /// The C library's function, which may fail.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> $result {
            static REAL: AtomicUsize = AtomicUsize::new(0);
            let name = concat!(stringify!($name), "\0");
            let name = CStr::from_bytes_with_nul(name.as_bytes()).unwrap_or_default();
            let real_address = known(&REAL, name);
            let concerned = $concerned;
            if let Action::Errno(errno) = turn(stringify!($name), concerned) {
                set_errno(errno);
                return $failed;
            }
            // SAFETY: the C library's function of that name has this type.
            let result = unsafe {
                let function: unsafe extern "C" fn($($type),*) -> $result = transmute(real_address);
                function($($argument),*)
            };
            $(
                let $opened = result;
                track($opened, concerned);
            )?
            result
        }
    )*};
}

interpose! {
    fn open(path: *const c_char, flags: c_int, mode: c_uint) -> c_int, fails with -1, if is_under(path), opens fd;
    fn open64(path: *const c_char, flags: c_int, mode: c_uint) -> c_int, fails with -1, if is_under(path), opens fd;
    fn openat(at: c_int, path: *const c_char, flags: c_int, mode: c_uint) -> c_int, fails with -1, if is_under(path) || is_tracked(at), opens fd;
    fn openat64(at: c_int, path: *const c_char, flags: c_int, mode: c_uint) -> c_int, fails with -1, if is_under(path) || is_tracked(at), opens fd;
    fn close(fd: c_int) -> c_int, fails with -1, if { track(fd, false); false };
    fn statx(at: c_int, path: *const c_char, flags: c_int, mask: c_uint, buffer: *mut c_void) -> c_int, fails with -1, if is_under(path) || is_tracked(at);
    fn fstat64(fd: c_int, buffer: *mut c_void) -> c_int, fails with -1, if is_tracked(fd);
    fn lseek64(fd: c_int, offset: i64, whence: c_int) -> i64, fails with -1, if is_tracked(fd);
    fn flock(fd: c_int, operation: c_int) -> c_int, fails with -1, if is_tracked(fd);
    fn fchmod(fd: c_int, mode: c_uint) -> c_int, fails with -1, if is_tracked(fd);
    fn chmod(path: *const c_char, mode: c_uint) -> c_int, fails with -1, if is_under(path);
    fn ftruncate64(fd: c_int, length: i64) -> c_int, fails with -1, if is_tracked(fd);
    fn futimens(fd: c_int, times: *const c_void) -> c_int, fails with -1, if is_tracked(fd);
    fn fsync(fd: c_int) -> c_int, fails with -1, if is_tracked(fd);
    fn mkdir(path: *const c_char, mode: c_uint) -> c_int, fails with -1, if is_under(path);
    fn rmdir(path: *const c_char) -> c_int, fails with -1, if is_under(path);
    fn unlink(path: *const c_char) -> c_int, fails with -1, if is_under(path);
    fn unlinkat(at: c_int, path: *const c_char, flags: c_int) -> c_int, fails with -1, if is_under(path) || is_tracked(at);
    fn rename(from: *const c_char, to: *const c_char) -> c_int, fails with -1, if is_under(from) || is_under(to);
    fn renameat2(at: c_int, from: *const c_char, to_at: c_int, to: *const c_char, flags: c_uint) -> c_int, fails with -1, if is_under(from) || is_under(to);
    fn symlink(target: *const c_char, path: *const c_char) -> c_int, fails with -1, if is_under(path);
    fn readlink(path: *const c_char, buffer: *mut c_char, size: usize) -> isize, fails with -1, if is_under(path);
    fn copy_file_range(from: c_int, from_at: *mut c_long, to: c_int, to_at: *mut c_long, length: usize, flags: c_uint) -> isize, fails with -1, if is_tracked(from) || is_tracked(to);
    fn fdopendir(fd: c_int) -> *mut c_void, fails with std::ptr::null_mut(), if is_tracked(fd);
    fn readdir64(directory: *mut c_void) -> *mut c_void, fails with std::ptr::null_mut(), if {
        // SAFETY: the caller's directory is open.
        is_tracked(unsafe { dirfd(directory) })
    };
}

/// The C library's function, which may fail.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn opendir(path: *const c_char) -> *mut c_void {
    let concerned = is_under(path);
    if let Action::Errno(errno) = turn("opendir", concerned) {
        set_errno(errno);
        return std::ptr::null_mut();
    }
    // SAFETY: the C library's function of that name has this type.
    unsafe {
        let function: unsafe extern "C" fn(*const c_char) -> *mut c_void =
            transmute(real(c"opendir"));
        let directory = function(path);
        if !directory.is_null() {
            track(dirfd(directory), concerned);
        }
        directory
    }
}

/// The C library's function, which may fail or read less.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn read(fd: c_int, buffer: *mut c_void, mut length: usize) -> isize {
    match turn("read", is_tracked(fd)) {
        Action::Errno(errno) => {
            set_errno(errno);
            return -1;
        }
        Action::Short => length = length.div_ceil(2),
        Action::Nothing | Action::Kill => {}
    }
    // SAFETY: the C library's function of that name has this type.
    unsafe {
        let function: unsafe extern "C" fn(c_int, *mut c_void, usize) -> isize =
            transmute(real(c"read"));
        function(fd, buffer, length)
    }
}

/// The C library's function, which may fail or write less.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn write(fd: c_int, buffer: *const c_void, mut length: usize) -> isize {
    match turn("write", is_tracked(fd)) {
        Action::Errno(errno) => {
            set_errno(errno);
            return -1;
        }
        Action::Short => length = length.div_ceil(2),
        Action::Nothing | Action::Kill => {}
    }
    // SAFETY: the C library's function of that name has this type.
    unsafe {
        let function: unsafe extern "C" fn(c_int, *const c_void, usize) -> isize =
            transmute(real(c"write"));
        function(fd, buffer, length)
    }
}

/// Numbers of calls that the C library has no function for, or had none for long: the same on x86-64
/// and aarch64.
const SYS_OPENAT2: c_long = 437;

/// The C library's function; of the calls that it makes, `openat2` may fail.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscall(
    number: c_long,
    a: c_long,
    b: c_long,
    c: c_long,
    d: c_long,
    e: c_long,
    f: c_long,
) -> c_long {
    static REAL: AtomicUsize = AtomicUsize::new(0);
    let address = known(&REAL, c"syscall");
    let is_open = number == SYS_OPENAT2;
    let at = c_int::try_from(a).unwrap_or(-1);
    let concerned = is_open && (is_tracked(at) || is_under(b as *const c_char));
    if is_open && let Action::Errno(errno) = turn("openat2", concerned) {
        set_errno(errno);
        return -1;
    }
    // SAFETY: the C library's function of that name takes as many words as there are.
    let result = unsafe {
        type Syscall =
            unsafe extern "C" fn(c_long, c_long, c_long, c_long, c_long, c_long, c_long) -> c_long;
        let function: Syscall = transmute(address);
        function(number, a, b, c, d, e, f)
    };
    if is_open {
        track(c_int::try_from(result).unwrap_or(-1), concerned);
    }
    result
}
