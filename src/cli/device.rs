//! The commands that open devices are carried out by a program that can load their drivers.

use std::env;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use super::{Failure, MISSING};

/// What that program is called; it lies beside this one.
const PROGRAM: &str = "npu-build-device";

/// Becomes that program, with the same command line.
pub fn become_device_program() -> Failure {
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
    let error = command.args(words).exec();
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

/// Where it is.
fn beside() -> Result<PathBuf, Failure> {
    let own = env::current_exe().map_err(|error| Failure::Message {
        message: format!("where npu-build is installed can't be found out: {error}"),
        code: MISSING,
    })?;
    Ok(own.with_file_name(PROGRAM))
}
