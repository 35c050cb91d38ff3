//! TODO-launcher
