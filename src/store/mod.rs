//! The store: the cache directory and [`Store::ensure`], the one way to have a step's outputs.
//!
//! An entry is a directory named by its key, published by one rename with its manifest inside, and
//! verified by content whenever it is used. Whatever does not verify is quarantined and built again.
//! Locks only keep two processes from doing the same work; nothing relies on them.
//!
//! | what | files |
//! |---|---|
//! | the types, the paths, the file formats | `types`, `layout`, `manifest`, `lines` |
//! | handling files that anybody may have planted | `files`, `trust`, `lock` |
//! | reading: a hit | `entry_dir`, `layer`, `cache` |
//! | building: a miss | `build`, `staging`, `remove` |
//! | explaining and counting | `explain`, `history`, `stats` |
//! | maintenance | `maintain`, `scan` |

mod build;
mod cache;
mod entry_dir;
mod explain;
mod fault;
mod files;
mod history;
mod layer;
pub mod layout;
mod lines;
pub mod lock;
mod maintain;
pub mod manifest;
mod remove;
mod scan;
mod staging;
mod stats;
mod trust;
mod types;

pub use cache::Store;
pub use explain::ago;
pub use types::*;
