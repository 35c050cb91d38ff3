//! Test doubles of the AIE toolchain: air-opt, aircc, aiecc in its three dialects, bootgen,
//! xclbinutil, aiebu-asm, Peano's programs and aie-hsaco, as one program that is installed under
//! many names. Nothing here is shared with the code under test.
//!
//! - [`install`] lays out installations as they are in the field, for tests.
//! - [`program`] is what a kernel computes, as the instruction streams carry it; [`stream`] reads
//!   such streams. An emulated device needs these two and nothing else.
//! - The README of this crate says what the tools do, and how to make them misbehave.

mod axlf;
mod bytes;
mod design;
mod full_elf;
mod identity;
pub mod install;
mod kernel;
mod mlir;
mod options;
mod pdi;
pub mod program;
mod run;
pub mod stream;
pub mod tools;

use md5::{Digest as _, Md5};

fn md5(bytes: &[u8]) -> [u8; 16] {
    Md5::digest(bytes).into()
}
