//! Gate files: what a change has to keep, as written and as `clawrl ci` judges by it.
//!
//! The way is that of suites: as written, with the place of every value ([`crate::ci_schema`] describes it to editors);
//! checked, with every mistake found at once ([`load_ci`]), to a [`CiPlan`]. It names suites and a policy; with the suites it makes a run
//! plan like that of any other run.

mod check;
mod file;
mod plan;

pub use check::load_ci;
pub(crate) use file::CiFile;
pub use plan::{CiBudget, CiCompleteness, CiMetric, CiPlan, CiSuite, MetricKind, Repeats};
