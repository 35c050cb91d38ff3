//! Kernels from MLIR to their results: built with the real tools, launched with checked arguments,
//! and compared with plain Rust.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that can't go on fails"
)]

mod cases;
#[path = "../common/mod.rs"]
mod common;
mod contracts;
mod examples;
mod floats;
mod grids;
mod names;
mod narrowing;
mod numerics;
mod programs;
mod types;
mod vectors;
mod workshop;
