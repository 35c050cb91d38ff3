//! TODO-store
