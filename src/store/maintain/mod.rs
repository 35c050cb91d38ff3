//! What is done with a cache as a whole: listing, verifying, collecting garbage, clearing.

mod clear;
mod gc;
mod list;
mod sweep;
mod verify;
