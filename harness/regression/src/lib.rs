//! Regression gates: from records of runs to a verdict against a baseline that a person accepted.
//!
//! Runs nothing and judges nothing by itself: outcomes come from records, statistics from `clawrl-gates`. What is here is which numbers of
//! a record are compared with which, when they may be compared at all, and how that is told.

mod assessment;
mod render;

pub use assessment::{
    ASSESSMENT_FORMAT, Assessment, BaselineNote, BudgetUse, Counts, LookTaken, MetricVerdict, MustPass,
    Outcome, TaskChange, Unit,
};
pub use render::{
    MOST_BYTES, OutputError, Outputs, annotations, append_summary, json, junit, markdown, page, write_outputs,
};
