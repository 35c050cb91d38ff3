//! The three ways of using npu-build, each as its users do: from a build script that Cargo runs, by
//! `npu-build compile --out-dir`, and as a library at run time. The tools are the real ones.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test that can't go on fails"
)]

mod build_script;
#[path = "../common/mod.rs"]
mod common;
mod library;
mod out_dir;
mod package;
mod reruns;
