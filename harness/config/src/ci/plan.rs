//! A gate with every default filled in.
//!
//! I1. Shares are shares, whatever people are told in percent. I2. A pattern of `must_pass` that matches no task is refused: a gate that
//! lost a task must not pass for that.
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

/// What an agent has to keep.
#[derive(Debug, Clone, PartialEq)]
pub struct CiPlan {
    /// Name of the gate.
    pub gate: String,
    /// The gate file, as it was named.
    pub file: PathBuf,
    /// Whose tasks are tried; at least one.
    pub suites: Vec<CiSuite>,
    /// Who is judged, as `--policy` takes it; files are relative to the gate file.
    pub policy: String,
    /// Root of all seeds.
    pub seed: u64,
    /// Attempts at each task.
    pub repeats: Repeats,
    /// What is compared; at least one.
    pub metrics: Vec<CiMetric>,
    /// Patterns of tasks that have to pass in every attempt.
    pub must_pass: Vec<String>,
    /// Whether it fails where single tasks broke; as [`CiPlan::judges_each_task`] has it where nothing is said.
    pub each_task: Option<bool>,
    /// Probability of a fail where nothing is worse than is tolerated.
    pub alpha: f64,
    /// Probability of not passing if a metric is worse by `min_effect`.
    pub power: f64,
    /// Number of interim analyses, the final one included; at least 1.
    pub interim_analyses: u32,
    /// Whether the policy does the same each time.
    pub deterministic: bool,
    /// How much may lack before nothing is judged.
    pub completeness: CiCompleteness,
    /// Where a run ends.
    pub budget: CiBudget,
}

/// A suite of a gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CiSuite {
    /// The suite file.
    pub path: PathBuf,
    /// Which of its tasks take part.
    pub choice: TaskChoice,
}

/// Attempts at each task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Repeats {
    /// As many as it takes to see a drop by `min_effect`.
    Auto,
    /// So many; at least 1.
    Exactly(u32),
}

/// What is compared, and how much worse it may be.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CiMetric {
    /// What.
    pub kind: MetricKind,
    /// Worsening up to which nothing is wrong.
    pub tolerance: f64,
    /// Smallest effect of interest; above the tolerance.
    #[serde(rename = "matters")]
    pub min_effect: f64,
}

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MetricKind {
    /// Share of graded attempts that passed every check.
    PassRate,
    /// The chance that at least one of so many attempts passes.
    PassAtK(u32),
    /// The chance that all of so many pass.
    PassHatK(u32),
    /// What a learner would consume.
    Reward,
    /// Turns of an attempt.
    Turns,
    /// Tokens of the prompts and replies of an attempt.
    Tokens,
    /// What an attempt cost, in US dollars.
    CostUsd,
    /// Wall clock of an attempt, in seconds.
    LatencyS,
    /// Share of attempts that ended in a fault.
    FaultRate,
}

/// How much may lack before nothing is judged.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CiCompleteness {
    /// Largest share of attempts that may end in faults.
    pub max_fault_share: f64,
    /// Largest share of tasks that may have no graded attempt on one side.
    pub max_lost_share: f64,
}

/// Where a run ends; nowhere without a number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct CiBudget {
    /// Attempts, those that are tried again included.
    pub attempts: Option<u32>,
    /// Minutes of wall clock.
    pub minutes: Option<f64>,
    /// US dollars.
    pub cost_usd: Option<f64>,
}

impl MetricKind {
    /// As verdicts name it.
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

    /// Whether it is a share in [0, 1].
    #[must_use]
    pub fn is_share(self) -> bool {
        matches!(self, Self::PassRate | Self::PassAtK(_) | Self::PassHatK(_) | Self::FaultRate)
    }

    /// Whether each attempt passes or fails, so that interim analyses can test the metric.
    #[must_use]
    pub fn is_pass_fail(self) -> bool {
        matches!(self, Self::PassRate | Self::FaultRate)
    }

    /// Whether it is made of passes and fails alone.
    #[must_use]
    pub fn is_of_passes(self) -> bool {
        matches!(self, Self::PassRate | Self::PassAtK(_) | Self::PassHatK(_))
    }

    /// Attempts at a task without which it has no value there.
    #[must_use]
    pub fn fewest_attempts(self) -> u32 {
        match self {
            Self::PassAtK(k) | Self::PassHatK(k) => k,
            _ => 1,
        }
    }
}

impl CiPlan {
    /// Which tasks of each of its suites take part, by the suite's name; `suites` are those of the plan, in its order.
    #[must_use]
    pub fn choices(&self, suites: &[Suite]) -> BTreeMap<String, TaskChoice> {
        let named = suites.iter().map(|suite| suite.name().to_owned());
        named.zip(self.suites.iter().map(|suite| suite.choice.clone())).collect()
    }

    /// Whether the gate fails where single tasks broke, if it has so many.
    #[must_use]
    pub fn judges_each_task(&self, tasks: usize) -> bool {
        let is_fixed =
            tasks <= bounds::FIXED_TASKS && self.metrics.iter().any(|metric| metric.kind.is_of_passes());
        self.each_task.unwrap_or(is_fixed)
    }

    /// The pass rate that the gate is about, if it is about one.
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
