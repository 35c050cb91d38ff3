//! A test double of AMD's ROCR runtime: a `libhsa-runtime64.so.1` with an AIE agent that is
//! emulated, for tests and benchmarks of hosts without one.
//!
//! It has the C interface of ROCR's AIE agents, its rules and its statuses, and it is strict: what a
//! real driver may or may not notice, it notices. Kernels of the double compilers (crate
//! `aie-tools`) are executed; those of real compilers do nothing. The README says how it is told to
//! fail.
//!
//! As a Rust library it is only [`install`], which puts the built library where it is to be found,
//! and [`Counters`], which it counts in.

mod abi;
mod agents;
mod calls;
mod counters;
mod doorbell;
mod executable;
mod execute;
mod exports;
mod handles;
pub mod install;
mod loader;
mod loading;
mod memory;
mod packets;
mod queue;
mod settings;
mod signals;
mod state;

pub use abi::{AccessDescription, HsaQueue, Packet, Status};
pub use counters::{Count, Counters, ReadCounters};
