//! Compares two runs: metrics by suite, flipped tasks, and the first difference of their trajectories.
//!
//! It is not a gate: it judges nothing, and any two runs with common tasks can be compared.
//!
//! I1. A comparison is a function of both records: no clock, no time zone. I2. A fault is never a failure: it counts only in
//! the fault rate. I3. Missing data is reported in a note, never dropped silently. I4. Text of attempts is escaped.
//!
//! Errors: [`CompareError`]. Reads both records; nothing to cancel.

mod columns;
mod compared;
mod difference;
mod error;
mod metrics;
mod model;
mod notes;
mod page;
mod story;
mod text;

pub use compared::compare;
pub use difference::{Difference, DifferencePlace};
pub use error::CompareError;
pub use model::{
    COMPARISON_FORMAT, Flip, Known, MetricComparison, RunComparison, RunNote, SuiteComparison,
    TaskComparison, Turned,
};
pub use page::comparison_page;
pub use text::render_comparison;
