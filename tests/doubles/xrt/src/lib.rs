//! Test double of XRT: headers and a `libxrt_coreutil` with an emulated NPU behind them, for the
//! launch shim and for whatever is built on it. The README of this crate says what is emulated,
//! how strictly, and how failures are injected.
//!
//! The API is C++, in `include` and `library`. What reads bytes and computes is Rust: [`Installation`]
//! lays out both as an XRT installation is laid out.

mod device;
mod driver;
mod elf;
mod install;
pub mod kernels;
mod xclbin;

pub use driver::Driver;
pub use install::{Installation, compile_shim};
