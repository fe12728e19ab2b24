//! Statistics of regression gates: is a candidate worse than its baseline? Pure functions of outcomes by task.
//!
//! Depends on `clawrl-core` only. Running attempts, recording them and acting on verdicts are tasks of
//! other crates.

mod bootstrap;
mod brownian;
mod distribution;
mod each_task;
mod exact;
mod flaky;
mod holm;
mod null;
mod outcomes;
mod power;
mod resampling;
mod sequential;
mod summary_text;
mod two_rates;
mod variance;
mod verdict;

pub use bootstrap::{bca, bootstrap};
pub use each_task::{BrokenTask, EachTask, TasksVerdict};
pub use exact::{Alternative, binomial_test, clopper_pearson, mcnemar, sign_test, wilson};
pub use flaky::{Change, Flakiness, TaskReport, tasks};
pub use holm::holm;
pub use outcomes::{
    Attempts, Completeness, Direction, Kind, MissingData, Paired, PairedTask, PairingError, Side, SideName,
};
pub use power::{MAX_REPEATS, Promise, RepeatsError, TaskRate, fewest_tasks, plan, smallest_drop};
pub use resampling::{EXACT_TASKS, SubsetMeans, sign_flip};
pub use sequential::{Boundary, InterimAnalyses, InterimDecision, InterimPlan, InterimPlanError, Spending};
pub use two_rates::lower_rate;
pub use variance::Spread;
pub use verdict::{Decision, Findings, Gate, GateError, GateVerdict, InconclusiveReason, judge_together};
