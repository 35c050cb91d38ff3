//! The doubles against recorded artifacts and words of the real tools.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "these are tests"
)]

mod aiecc;
mod air;
mod misbehaviour;
mod programs;
mod recorded;
mod scene;
