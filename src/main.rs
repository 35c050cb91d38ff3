//! The `npu-build` program: parses the command line, calls one function, maps errors to exit codes.

mod cli;

use std::process::ExitCode;

/// Loading what drives a device takes the dynamic linker, and being started by it takes longer than
/// looking up a kernel: this program is linked statically where that is possible.
const OPENS_DEVICES: bool = false;

fn main() -> ExitCode {
    cli::main()
}
