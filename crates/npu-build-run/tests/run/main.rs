//! `npu-build run` and `npu-build bench`: with the real tools on cpu, and on emulated NPUs through
//! ROCR and through XRT.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "these are tests"
)]

#[path = "../../../../tests/common/mod.rs"]
mod common;

mod bench;
mod cpu;
mod delegate;
mod files;
mod kernels;
mod npu;
mod refusals;
mod scene;
mod types;
