//! Kernels for an NPU, from MLIR to what a runtime loads, against doubles of the AIE toolchain: what
//! is built, kept, made again, refused, and by which tools.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a failed helper is a failed test"
)]

mod buffers;
mod build_script;
mod builder;
#[path = "../common/mod.rs"]
mod common;
mod concurrency;
mod configuration;
mod core_elfs;
mod diagnostics;
mod failures;
mod files;
mod judge;
mod kernels;
mod keys;
mod matrix;
mod outputs;
mod packers;
mod refusals;
mod repair;
mod scene;
mod scripts;
mod several;
mod toolchains;
