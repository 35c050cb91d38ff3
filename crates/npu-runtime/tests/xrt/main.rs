//! The XRT backend on the emulated XRT: real shim, real artifacts, a device that computes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that can't go on fails"
)]

#[path = "../support/mod.rs"]
mod support;

mod chains;
mod counting;
mod environment;
mod launches;
mod refusals;
mod scene;
