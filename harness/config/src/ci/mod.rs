//! Gate files: requirements on an agent, in file form and in the form that `clawrl ci` uses.
//!
//! They are read like suites: the file form keeps the place of every value ([`crate::ci_schema`] describes it to editors);
//! [`load_ci`] reports all mistakes at once and returns a [`CiPlan`]. It names suites and a policy, which give an ordinary run plan.

mod check;
mod file;
mod plan;

pub use check::load_ci;
pub(crate) use file::CiFile;
pub use plan::{CiBudget, CiCompleteness, CiMetric, CiPlan, CiSuite, MetricKind, Repeats};
