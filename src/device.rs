//! The `npu-build-device` program: `npu-build` as it is linked to open devices, whose drivers it loads.
//!
//! Nobody calls it by name: `npu-build run`, `bench` and `doctor` become this program.

mod cli;

use std::process::ExitCode;

/// See `npu-build`.
const OPENS_DEVICES: bool = true;

fn main() -> ExitCode {
    cli::main()
}
