//! The commands that open devices are carried out by a program that can load their drivers.

use std::env;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use super::{Failure, MISSING, closed};

/// What that program is called; it lies beside this one.
const PROGRAM: &str = "npu-build-device";
/// Tells it the version of the program that became it.
const CALLER: &str = "NPU_BUILD_CALLER";
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Becomes that program, with the same command line.
pub fn become_device_program() -> Failure {
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
    Failure::Message {
        message: format!(
            "{} can't be started: {error}\n\
             It carries out `run`, `bench` and `doctor` and is installed together with npu-build: \
             `cargo install` and `cargo build` put both in one directory.",
            program.display()
        ),
        code: MISSING,
    }
}

/// Whether another program became this one.
pub fn was_called() -> bool {
    env::var_os(CALLER).is_some()
}

/// Why this program must not go on, if another version became it: the two would not mean the same.
pub fn refuse_other_version() -> Option<String> {
    let caller = env::var_os(CALLER)?;
    (caller != VERSION).then(|| {
        format!(
            "npu-build is version {}, and the {PROGRAM} beside it {VERSION}: install both together",
            caller.display()
        )
    })
}

/// Where it is.
fn beside() -> Result<PathBuf, Failure> {
    let own = env::current_exe().map_err(|error| Failure::Message {
        message: format!("where npu-build is installed can't be found out: {error}"),
        code: MISSING,
    })?;
    Ok(own.with_file_name(PROGRAM))
}
