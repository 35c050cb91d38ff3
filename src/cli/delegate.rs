//! `npu-build-run`, the program that opens devices: `npu-build` becomes it or asks it.
//!
//! To load a driver takes the dynamic linker, and to be started by that takes longer than looking a
//! kernel up: so `npu-build` is another program, which is linked statically.

use std::env;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use npu_runtime::Runtime;
use serde::{Deserialize, Serialize};

use super::{Failure, MISSING, closed};

/// What that program is called; it lies beside this one.
const PROGRAM: &str = "npu-build-run";
/// Tells it the version of the program that called it.
const CALLER: &str = "NPU_BUILD_CALLER";
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What `npu-build-run device` prints.
#[derive(Debug, Deserialize, Serialize)]
pub struct Launchable {
    pub launch: String,
    pub usable: bool,
    pub npu: Option<String>,
    pub reason: Option<String>,
}

/// Becomes that program, with the same command line.
pub fn become_it() -> Failure {
    // That program's standard output would be what was opened in its place.
    if let Err(error) = closed::check() {
        return error.into();
    }
    let program = match beside() {
        Ok(program) => program,
        Err(failure) => return failure,
    };
    let mut words = env::args_os();
    let mut command = Command::new(&program);
    if let Some(name) = words.next() {
        // Usage lines name the program that was called.
        command.arg0(name);
    }
    let error = command.args(words).env(CALLER, VERSION).exec();
    let message = not_started(&program.display().to_string(), &error);
    Failure::missing(message)
}

fn not_started(program: &str, error: &io::Error) -> String {
    format!(
        "cannot start {program}: {error}\n\
         It opens devices for `run`, `bench` and `doctor`. Install it into the directory of npu-build: \
         `cargo install --path crates/npu-build-run`, or `cargo build --release --workspace`."
    )
}

/// Has that program open a runtime's device, in a process that a driver may crash.
pub fn device(runtime: Runtime, shim: Option<PathBuf>) -> Launchable {
    let refused = |reason: String| Launchable {
        launch: runtime.name().to_owned(),
        usable: false,
        npu: None,
        reason: Some(reason),
    };
    let Ok(program) = beside() else {
        return refused(format!("cannot find {PROGRAM}"));
    };
    let mut command = Command::new(&program);
    command.args(["--json", "device", runtime.name()]);
    command.env(CALLER, VERSION).stderr(Stdio::null());
    if let Some(shim) = shim {
        command.env("NPU_RUNTIME_XRT_SHIM", shim);
    }
    match command.output() {
        Ok(output) => serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| refused(format!("{PROGRAM} ended with {}", output.status))),
        Err(error) => refused(not_started(PROGRAM, &error)),
    }
}

/// Whether another program called this one.
pub(super) fn was_called() -> bool {
    env::var_os(CALLER).is_some()
}

/// Why this program must not go on, if another version called it: the two would not mean the same.
pub fn other_version() -> Option<Failure> {
    let caller = env::var_os(CALLER)?;
    (caller != VERSION).then(|| {
        Failure::missing(format!(
            "npu-build is version {}, and the {PROGRAM} beside it {VERSION}: install both together",
            caller.display()
        ))
    })
}

/// Whether it is there.
pub fn is_installed() -> bool {
    beside().is_ok_and(|program| program.exists())
}

/// Where it is.
fn beside() -> Result<PathBuf, Failure> {
    let own = env::current_exe().map_err(|error| {
        Failure::missing(format!("cannot tell where npu-build is installed: {error}"))
    })?;
    Ok(own.with_file_name(PROGRAM))
}

impl Failure {
    pub(super) fn missing(message: String) -> Self {
        Self::Message {
            message,
            code: MISSING,
        }
    }
}
