//! Regression gates: from records of runs to a verdict against a baseline that a person accepted.
//!
//! Runs nothing and judges nothing by itself: outcomes come from records, statistics from `clawrl-gates`. What is here is which numbers of
//! a record are compared with which, when they may be compared at all, and how that is told.

mod assess;
mod assessment;
mod baseline;
mod compare;
mod comparison;
mod conditions;
mod cure;
mod digest;
mod levels;
mod looks;
mod outcomes;
mod render;
mod repeats;

pub use assess::assess;
pub use assessment::{
    ASSESSMENT_FORMAT, Assessment, BaselineNote, BudgetUse, Counts, EachTaskVerdict, LookTaken,
    MetricVerdict, MustPass, Outcome, TaskChange, Unit,
};
pub use baseline::{BASELINE_FORMAT, Baseline, BaselineError, Unacceptable};
pub use compare::{
    COMPARISON_FORMAT, CompareError, Difference, Flip, Known, MetricComparison, Place, RunComparison,
    RunNote, SuiteComparison, TaskComparison, Turned, compare, comparison_page, render_comparison,
};
pub use comparison::{AssessError, Comparison, Judged, Judgement, Look};
pub use conditions::Conditions;
pub use looks::{LookSchedule, LookSettings};
pub use outcomes::{
    Episode, Outcomes, TaskOutcomes, direction_of, kind_of, outcomes, side, slots_of_a_task, unit_of,
};
pub use render::{
    MARKDOWN_BYTES, OutputError, Outputs, annotations, assessments_json, gates_page, junit, markdown,
    write_outputs,
};
pub use repeats::{FIRST_REPEATS, drop_seen, promise, repeats_needed, repeats_of};
