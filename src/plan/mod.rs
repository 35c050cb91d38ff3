//! The plan of a build: which steps a kernel needs, chained by the content of what they make.
//!
//! A [`Session`] holds what builds share (the cache, the toolchain, the runner). A plan says which
//! step follows those that are done; building, explaining and asking for the first key all walk
//! through it. Nothing here knows how a step is run or kept.

mod built;
mod cpu;
mod error;
mod files;
mod npu;
mod prepared;
mod remembered;
mod request;
mod session;
mod walk;

pub use built::{Build, BuiltKernel, copy_into};
pub use error::{BuildError, KernelError};
pub use files::FileError;
pub use prepared::{Prepared, Understood};
pub use request::{Request, Variant};
pub use session::Session;

/// What messages call the kernels of a file.
fn subject(prepared: &Prepared) -> String {
    let kernels = prepared.understood.kernels.iter();
    let names: Vec<_> = kernels.map(|kernel| &*kernel.signature.name).collect();
    names.join(", ")
}
