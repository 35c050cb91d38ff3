//! The formats, held against real artifacts, LLVM's tools and damaged files.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "these are tests"
)]

mod containers;
mod edit;
mod files;
mod pack;
mod refusals;
mod robust;
