//! Build cache and launcher generator for AMD NPU kernels.
#![deny(missing_docs)]

pub mod digest;
pub mod kernel;
pub mod launcher;
pub mod step;
pub mod store;
pub mod toolchain;
