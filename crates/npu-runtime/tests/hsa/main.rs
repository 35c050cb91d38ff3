//! The HSA backend on the emulated ROCR, with kernels that the double compilers made. The device
//! is one for a process, so each test runs in a process of its own and has its own environment;
//! at its end, nothing of the device may be left.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test that can't go on fails"
)]

mod chains;
mod designs;
mod device;
mod directions;
mod emulated;
mod executables;
mod kernels;
mod launches;
mod lifetimes;
mod loading;
mod lost;
mod memory;
mod threads;
mod variables;
