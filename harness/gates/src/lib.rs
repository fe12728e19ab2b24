//! Whether a candidate is worse than its baseline, as pure statistics over outcomes by task.
//!
//! Knows the words of `clawrl-core` and nothing else of ours: who ran the attempts, where they are recorded and what
//! a pipeline does with a verdict is for others.

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
mod sentence;
mod sequential;
mod two_rates;
mod variance;
mod verdict;

pub use bootstrap::{bca, bootstrap};
pub use each_task::{Broken, EachTask, TasksVerdict};
pub use exact::{Alternative, binomial_test, clopper_pearson, mcnemar, sign_test, wilson};
pub use flaky::{Change, Steadiness, TaskReport, tasks};
pub use holm::holm;
pub use outcomes::{
    Attempts, Completeness, Direction, Kind, Paired, PairedTask, Refused, Shortfall, Side, SideName,
};
pub use power::{MAX_REPEATS, Promise, TaskRate, Unplannable, fewest_tasks, plan, smallest_drop};
pub use resampling::{EXACT_TASKS, SubsetMeans, sign_flip};
pub use sequential::{Boundary, LookError, LookPlan, Looks, Says, Spending};
pub use two_rates::lower_rate;
pub use variance::Spread;
pub use verdict::{Decision, Findings, Gate, GateError, Lack, Verdict, judge_together};
