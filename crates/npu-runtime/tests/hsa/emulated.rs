//! Processes with an emulated ROCR.

use rocr_double::Counters;
use std::ffi::{CStr, OsStr, c_char};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

const SCENARIO: &str = "NPU_TEST_SCENARIO";
/// What a scenario prints at its end.
const DONE: &str = "scenario done:";
const LIBRARY: &str = "NPU_TEST_ROCR";

/// Directories of this run, below cargo's own for tests.
pub fn directory(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("hsa")
        .join(name);
    std::fs::create_dir_all(&path).unwrap();
    path
}

/// The emulated ROCR, below a root as ROCm has it.
pub fn root() -> &'static Path {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    ROOT.get_or_init(|| {
        let root = directory(&format!("rocm-{}", std::process::id()));
        rocr_double::install::install(&root).unwrap();
        root
    })
}

/// Runs `scenario` in a process of its own, in which a ROCR is found, with these variables. At
/// its end, everything has to be given back.
#[track_caller]
pub fn alone<F: FnOnce()>(variables: &[(&str, &str)], scenario: F) {
    run(variables, true, scenario);
}

/// The same, for what is left behind on purpose.
#[track_caller]
pub fn alone_and_untidy<F: FnOnce()>(variables: &[(&str, &str)], scenario: F) {
    run(variables, false, scenario);
}

#[track_caller]
fn run<F: FnOnce()>(variables: &[(&str, &str)], tidy: bool, body: F) {
    // "hsa::launches::name::{{closure}}".
    let name = std::any::type_name::<F>();
    let (_, name) = name.split_once("::").unwrap();
    let (name, _) = name.split_once("::{{").unwrap();
    // A test may have several.
    let line = std::panic::Location::caller().line().to_string();
    if let Some(scenario) = std::env::var_os(SCENARIO) {
        if scenario == *line || scenario == "any" {
            body();
            if tidy {
                assert_nothing_is_left();
            }
            println!("{DONE} {line}");
        }
        return;
    }
    let mut command = command(name, &[]);
    command.env(SCENARIO, &line);
    let output = command.envs(variables.iter().copied()).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success() && text(&output.stdout).contains(&format!("{DONE} {line}\n")),
        "{name}: {}\n{}{}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    );
}

/// A process for the scenarios of a test, as an argument of the `wrapper` if there is one.
pub fn command(name: &str, wrapper: &[&OsStr]) -> Command {
    let this = std::env::current_exe().unwrap();
    let mut words = wrapper.iter().copied().chain([this.as_os_str()]);
    let mut command = Command::new(words.next().unwrap());
    command.args(words).args(["--exact", name, "--nocapture"]);
    for variable in [
        "AMD_NPU_ROCR_PATH",
        "VIRTUAL_ENV",
        "CONDA_PREFIX",
        "NPU_RUNTIME",
        "NPU_RUNTIME_HSA_DEVICE",
        "NPU_RUNTIME_VERIFY_DIRECTIONS",
        "IRON_HSA_DEVICE",
    ] {
        command.env_remove(variable);
    }
    let library = root().join("lib").join(rocr_double::install::NAME);
    command
        .env(SCENARIO, "any")
        .env("ROCM_PATH", root())
        .env(LIBRARY, library);
    command
}

/// The library that this process has loaded.
struct Rocr(libloading::Library);

impl Rocr {
    fn loaded() -> Self {
        let path = std::env::var_os(LIBRARY).unwrap();
        // SAFETY: the double does nothing when it is loaded, and it is loaded already.
        Self(unsafe { libloading::Library::new(path) }.unwrap())
    }
}

pub fn counters() -> Counters {
    let rocr = Rocr::loaded();
    let mut counters = Counters::default();
    // SAFETY: the double's own function of this type.
    unsafe {
        let read: libloading::Symbol<rocr_double::ReadCounters> =
            rocr.0.get("rocr_double_counters").unwrap();
        read(&mut counters);
    }
    counters
}

/// How often a function was called.
pub fn calls(name: &CStr) -> u64 {
    let rocr = Rocr::loaded();
    // SAFETY: the double's own function of this type.
    unsafe {
        let calls: libloading::Symbol<unsafe extern "C" fn(*const c_char) -> u64> =
            rocr.0.get("rocr_double_calls").unwrap();
        calls(name.as_ptr())
    }
}

pub fn assert_nothing_is_left() {
    let counters = counters();
    let live = [
        ("initialisations", counters.inits),
        ("queues", counters.queues),
        ("signals", counters.signals),
        ("pool allocations", counters.pool_allocations),
        ("memories", counters.memories),
        ("reservations", counters.reservations),
        ("mappings", counters.mappings),
        ("readers", counters.readers),
        ("executables", counters.executables),
    ];
    for (what, count) in live {
        assert_eq!(count.live, 0, "{what} of {}", count.total);
    }
    assert_eq!(counters.misuses, 0);
}
