//! TODO-step
