//! Plan form of a gate, with all defaults.
//!
//! I1. Shares are stored as shares, although output shows percent. I2. A pattern of `must_pass` that matches no task is refused: a gate
//! must not pass because a task disappeared.
//!
//! Units: tolerances in those of their metric. Errors: [`ConfigError`]. Pure; nothing to cancel.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use clawrl_core::RunPlan;
use serde::{Deserialize, Serialize};

use crate::bounds;
use crate::problem::{ConfigError, Problem};
use crate::resolve::TaskChoice;
use crate::select::Selection;
use crate::suggest::did_you_mean;
use crate::suite::Suite;

/// Requirements on an agent.
#[derive(Debug, Clone, PartialEq)]
pub struct CiPlan {
    /// Name of the gate.
    pub gate: String,
    /// The gate file, as it was named.
    pub file: PathBuf,
    /// Suites whose tasks are run; at least one.
    pub suites: Vec<CiSuite>,
    /// The policy to judge, in the syntax of `--policy`; files are relative to the gate file.
    pub policy: String,
    /// Root of all seeds.
    pub seed: u64,
    /// Attempts at each task.
    pub repeats: Repeats,
    /// Compared metrics; at least one.
    pub metrics: Vec<CiMetric>,
    /// Patterns of tasks that have to pass in every attempt.
    pub must_pass: Vec<String>,
    /// Whether the gate fails if a single task broke; `None` for the default of [`CiPlan::judges_each_task`].
    pub each_task: Option<bool>,
    /// Probability that the gate fails although no metric is worse than tolerated.
    pub alpha: f64,
    /// Probability of not passing if a metric is worse by `min_effect`.
    pub power: f64,
    /// Number of interim analyses, the final one included; at least 1.
    pub interim_analyses: u32,
    /// Whether the policy is deterministic.
    pub deterministic: bool,
    /// Maximum missing data.
    pub completeness: CiCompleteness,
    /// Limits at which the run stops.
    pub budget: CiBudget,
}

/// A suite of a gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CiSuite {
    /// The suite file.
    pub path: PathBuf,
    /// Selected tasks of the suite.
    pub choice: TaskChoice,
}

/// Attempts at each task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Repeats {
    /// As many as are needed to detect a drop by `min_effect`.
    Auto,
    /// A fixed number, at least 1.
    Exactly(u32),
}

/// A compared metric and its tolerance.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CiMetric {
    /// Metric kind.
    pub kind: MetricKind,
    /// Tolerated worsening.
    pub tolerance: f64,
    /// Smallest effect of interest; above the tolerance.
    #[serde(rename = "matters")]
    pub min_effect: f64,
}

/// A metric that gates compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MetricKind {
    /// Share of graded attempts that passed every check.
    PassRate,
    /// Probability that at least one of `k` attempts passes.
    PassAtK(u32),
    /// Probability that all of `k` attempts pass.
    PassHatK(u32),
    /// Reward, as a learner receives it.
    Reward,
    /// Turns of an attempt.
    Turns,
    /// Tokens of the prompts and replies of an attempt.
    Tokens,
    /// Cost of an attempt, US dollars.
    CostUsd,
    /// Wall clock of an attempt, in seconds.
    LatencyS,
    /// Share of attempts that ended in a fault.
    FaultRate,
}

/// Maximum missing data.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CiCompleteness {
    /// Largest share of attempts that may end in faults.
    pub max_fault_share: f64,
    /// Maximum share of tasks without a graded attempt on one side.
    pub max_lost_share: f64,
}

/// Limits at which a run stops; `None` means unlimited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct CiBudget {
    /// Attempts, including retries.
    pub attempts: Option<u32>,
    /// Minutes of wall clock.
    pub minutes: Option<f64>,
    /// US dollars.
    pub cost_usd: Option<f64>,
}

impl MetricKind {
    /// Name of the metric in verdicts.
    #[must_use]
    pub fn name(self) -> String {
        let plain = match self {
            Self::PassAtK(k) => return format!("pass_at_{k}"),
            Self::PassHatK(k) => return format!("pass_hat_{k}"),
            Self::PassRate => "pass_rate",
            Self::Reward => "reward",
            Self::Turns => "turns",
            Self::Tokens => "tokens",
            Self::CostUsd => "cost_usd",
            Self::LatencyS => "latency_s",
            Self::FaultRate => "fault_rate",
        };
        plain.to_owned()
    }

    /// Whether the metric is a share in [0, 1].
    #[must_use]
    pub fn is_share(self) -> bool {
        matches!(self, Self::PassRate | Self::PassAtK(_) | Self::PassHatK(_) | Self::FaultRate)
    }

    /// Whether each attempt passes or fails, so that interim analyses can test the metric.
    #[must_use]
    pub fn is_pass_fail(self) -> bool {
        matches!(self, Self::PassRate | Self::FaultRate)
    }

    /// Whether the metric depends only on passes and failures.
    #[must_use]
    pub fn is_of_passes(self) -> bool {
        matches!(self, Self::PassRate | Self::PassAtK(_) | Self::PassHatK(_))
    }

    /// Minimum number of attempts at a task for the metric to have a value.
    #[must_use]
    pub fn fewest_attempts(self) -> u32 {
        match self {
            Self::PassAtK(k) | Self::PassHatK(k) => k,
            _ => 1,
        }
    }
}

impl CiPlan {
    /// Selected tasks by name of the suite; `suites` are those of the plan, in the same order.
    #[must_use]
    pub fn choices(&self, suites: &[Suite]) -> BTreeMap<String, TaskChoice> {
        let named = suites.iter().map(|suite| suite.name().to_owned());
        named.zip(self.suites.iter().map(|suite| suite.choice.clone())).collect()
    }

    /// Whether a gate with this number of tasks fails if a single task broke.
    #[must_use]
    pub fn judges_each_task(&self, tasks: usize) -> bool {
        let is_fixed =
            tasks <= bounds::FIXED_TASKS && self.metrics.iter().any(|metric| metric.kind.is_of_passes());
        self.each_task.unwrap_or(is_fixed)
    }

    /// The pass rate among the metrics, if any.
    #[must_use]
    pub fn pass_rate(&self) -> Option<&CiMetric> {
        self.metrics.iter().find(|metric| metric.kind == MetricKind::PassRate)
    }

    /// The tasks of a run that have to pass in every attempt, by id.
    ///
    /// # Errors
    /// A pattern that matches none (I2).
    pub fn must_pass(&self, plan: &RunPlan) -> Result<BTreeSet<String>, ConfigError> {
        let mut selection = Selection::new(&self.must_pass);
        let mut found = BTreeSet::new();
        for task in plan.tasks.iter().filter(|_| !self.must_pass.is_empty()) {
            let index = task.id.0.rsplit_once('#').and_then(|(_, index)| index.parse().ok());
            if selection.takes(&task.suite, &task.family, index) {
                found.insert(task.id.0.clone());
            }
        }
        let ids = || plan.tasks.iter().flat_map(|task| [task.id.0.as_str(), task.family.as_str()]);
        let problem = |pattern: &str| {
            let message = format!("no task of the gate `{}` matches `must_pass: {pattern}`", self.gate);
            let help = format!(
                "{}name tasks that the gate tries; {} says which they are",
                did_you_mean(pattern, ids()),
                "`clawrl ci plan`"
            );
            Problem::new(message, help)
        };
        match ConfigError::from_problems(selection.unused().map(problem).collect()) {
            Some(error) => Err(error),
            None => Ok(found),
        }
    }
}
