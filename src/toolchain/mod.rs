//! TODO-toolchain
