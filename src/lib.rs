//! Build cache and launcher generator for AMD NPU kernels.
//!
//! `npu-build` finds a kernel's signature in its MLIR, drives the compilers as subprocesses, keeps
//! every artifact in a verified cache directory, and generates a typed Rust launcher. This library
//! is the whole of it; the `npu-build` program only parses a command line and prints.
//!
//! | module | what it knows |
//! |---|---|
//! | [`kernel`] | what is compiled: level, signature, argument directions, target |
//! | [`toolchain`] | which programs do it, and what identifies them |
//! | [`step`] | the pure steps, their keys, and the one place that runs a subprocess |
//! | [`store`] | the cache directory: look up, verify, lock, publish, repair |
//! | [`launcher`] | generated Rust |
//! | [`config`] | flags, variables and files, in layers |
//! | [`message`] | how the words of others are shown |
//! | [`plan`] | which steps a kernel needs, chained by content |
//!
//! Dependencies point one way, from [`plan`] down; nothing here prints.
#![deny(missing_docs)]

mod build_script;
mod builder;
#[cfg(feature = "cli")]
#[doc(hidden)]
#[allow(missing_docs, reason = "only the two programs call it")]
pub mod cli;
pub mod config;
pub mod digest;
pub mod interrupt;
pub mod kernel;
pub mod launcher;
pub mod message;
#[doc(hidden)]
pub mod nearest;
mod parallel;
pub mod plan;
mod recent;
mod setters;
pub mod step;
pub mod store;
pub mod toolchain;
mod value;

pub use build_script::{BuildScript, ScriptError, build_script};
pub use builder::Builder;
pub use config::Package;
pub use kernel::Target;
pub use npu_runtime::{Direction, Grid, Runtime};
pub use plan::{Build, BuildError, BuiltKernel, Request, Session};
