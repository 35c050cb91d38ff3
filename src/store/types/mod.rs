//! The types that the store's files share.

mod errors;
mod reports;
mod results;

pub use errors::{EnsureError, Fault, LockError, MaintainError, OpenError, ShowError};
pub use reports::{
    Bounds, Checked, Cleaned, Cleared, Collected, Counts, Difference, Explanation, Listed, Missed,
    Nearest, Problem, Selection, Shown, Totals,
};
pub(super) use results::Temporary;
pub use results::{
    Artifact, Cause, Damage, Event, Fate, Holder, Miss, Observer, Outcome, Sharing, StepResult,
};
