//! Two runs side by side: numbers by suite and metric, tasks that flipped, and where their trajectories part.
//!
//! No gate: it judges nothing, and any two runs with tasks in common can be compared.
//!
//! I1. A comparison is a function of both records: no clock, no time zone. I2. A fault is never a failure: it is in no denominator but that
//! of the fault rate. I3. What lacks is told in a note, never left out in silence. I4. What attempts wrote is shown as text.
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
pub use difference::{Difference, Place};
pub use error::CompareError;
pub use model::{
    COMPARISON_FORMAT, Flip, Known, MetricComparison, RunComparison, RunNote, SuiteComparison,
    TaskComparison, Turned,
};
pub use page::comparison_page;
pub use text::render_comparison;
