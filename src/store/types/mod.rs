//! The types that the store's files share.

mod errors;

mod reports;
mod results;

pub use super::fault::Fault;
pub use errors::{CacheError, EnsureError, OpenError, ShowError};
pub use reports::{
    Bounds, Checked, Cleaned, Cleared, Counts, Difference, Explanation, Listed, Missed, Nearest,
    Problem, Selection, Shown, Totals,
};
pub(super) use results::Temporary;
pub use results::{Artifact, Cause, Event, Miss, Observer, Outcome, Sharing, StepResult};
