//! TODO-kernel
