//! The `npu-build` program: parses the command line, calls one function, maps errors to exit codes.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
