//! Regression gates: compares recorded runs with an accepted baseline.
//!
//! This crate runs nothing and contains no statistics: outcomes come from records, tests from `clawrl-gates`. It decides which recorded
//! numbers are compared, when a comparison is valid, and how results are rendered.

mod assess;
mod assessment;
mod baseline;
mod compare;
mod comparison;
mod conditions;
mod interim;
mod levels;
mod outcomes;
mod remedy;
mod render;
mod repeats;

pub use assess::assess;
pub use assessment::{
    ASSESSMENT_FORMAT, Assessment, BaselineNote, BudgetUse, Counts, EachTaskVerdict, InterimResult,
    MetricVerdict, MustPass, Outcome, TaskChange, Unit,
};
pub use baseline::{AcceptError, BASELINE_FORMAT, Baseline, BaselineError};
pub use compare::{
    COMPARISON_FORMAT, CompareError, Difference, DifferencePlace, Flip, Known, MetricComparison,
    RunComparison, RunNote, SuiteComparison, TaskComparison, Turned, compare, comparison_page,
    render_comparison,
};
pub use comparison::{AnalysisPoint, AssessError, Comparison, InterimAnalysis, Verdicts};
pub use conditions::Conditions;
pub use interim::{InterimSchedule, InterimSettings};
pub use outcomes::{
    Episode, Outcomes, TaskOutcomes, direction_of, kind_of, outcomes, side, slots_of_a_task, unit_of,
};
pub use render::{
    MARKDOWN_BYTES, OutputError, Outputs, annotations, assessments_json, gates_page, junit, markdown,
    write_outputs,
};
pub use repeats::{FIRST_REPEATS, drop_seen, promise, repeats_needed, repeats_of};
