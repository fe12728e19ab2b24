//! The assessment of a run by a gate. Its JSON is the output of `clawrl ci --json`.
//!
//! I1. The outcome is the worst of its parts: metrics, single tasks, `must_pass` tasks, and reasons against judging the run. I2. JSON
//! round-trips exactly, including numbers without a value.
//!
//! Units: those of [`Unit`]; shares in [0, 1], `_ms` milliseconds since 1970, minutes of wall clock, US dollars. Pure; nothing to cancel.

use clawrl_core::{RunId, SlotId};
use clawrl_gates::{Change, Decision, GateVerdict, TasksVerdict};
use serde::{Deserialize, Serialize};

/// Newest version of the assessment's JSON that this program writes.
pub const ASSESSMENT_FORMAT: u32 = 1;

/// Assessment of a run by a gate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Assessment {
    /// [`ASSESSMENT_FORMAT`] of the program that wrote it.
    pub format: u32,
    /// Name of the gate.
    pub gate: String,
    /// The run that was judged.
    pub run: RunId,
    /// The baseline.
    pub baseline: BaselineNote,
    /// The worst of all parts.
    pub outcome: Outcome,
    /// Verdicts on the gate's metrics, in its order.
    pub metrics: Vec<MetricVerdict>,
    /// Verdict on single tasks, if the gate judges them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub each_task: Option<EachTaskVerdict>,
    /// Tasks that have to pass each time, by name.
    pub must_pass: Vec<MustPass>,
    /// Every task of either side, by name.
    pub tasks: Vec<TaskChange>,
    /// Interim analyses in order, the final one last; empty if the gate has none.
    #[serde(rename = "looks")]
    pub interim_analyses: Vec<InterimResult>,
    /// Budget used by the run.
    pub budget: BudgetUse,
    /// Reasons against a pass, as sentences, the most severe first; empty for a pass.
    pub reasons: Vec<String>,
    /// Tasks without a graded attempt on one side, by name.
    pub lost: Vec<String>,
}

/// Outcome of a gate, worst last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// No metric is worse by its `min_effect`.
    Pass,
    /// Neither a pass nor a fail is shown.
    Inconclusive,
    /// Something is worse than is tolerated, or a task that must pass did not.
    Fail,
}

/// Identification of a baseline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BaselineNote {
    /// The run that was accepted.
    pub run: RunId,
    /// When, in milliseconds since 1970.
    pub accepted_ms: u64,
    /// Hex SHA-256 of the conditions of both sides.
    pub plan_sha256: String,
}

/// Unit of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// A share in [0, 1], printed in percent.
    Share,
    /// Rewards, as the suites define them.
    Reward,
    /// Turns of an attempt.
    Turns,
    /// Tokens of prompts and replies.
    Tokens,
    /// US dollars.
    Usd,
    /// Seconds.
    Seconds,
}

/// The verdict of one metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MetricVerdict {
    /// Name of the metric: `pass_rate`, `pass_at_4`.
    pub name: String,
    /// Unit of the numbers.
    pub unit: Unit,
    /// The verdict with its numbers.
    pub verdict: GateVerdict,
    /// The verdict as a sentence.
    pub sentence: String,
}

/// Verdict on single tasks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EachTaskVerdict {
    /// The broken tasks with their numbers.
    pub verdict: TasksVerdict,
    /// The verdict as a sentence.
    pub sentence: String,
}

/// A task that has to pass each time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MustPass {
    /// Name of the task.
    pub task: String,
    /// Attempts of the candidate that passed.
    pub passes: u32,
    /// Attempts that were graded.
    pub attempts: u32,
    /// Attempts that ended in a fault, and are neither.
    pub faults: u32,
    /// Whether there was an attempt and every attempt passed.
    pub ok: bool,
}

/// A task on both sides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskChange {
    /// Name of the task.
    pub task: String,
    /// Suite of the task.
    pub suite: String,
    /// Row of the suite that generated the task.
    pub family: String,
    /// Results of the baseline.
    pub baseline: Counts,
    /// Results of the candidate.
    pub candidate: Counts,
    /// Whether it went from always passing to never, or the reverse; or broke significantly, if the gate judges single tasks.
    pub change: Change,
    /// Whether one side both passed and failed.
    pub flaky: bool,
    /// An attempt of the candidate that was graded and did not pass, to look at.
    pub sample: Option<SlotId>,
}

/// Results of the attempts at a task.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Attempts that passed every check.
    pub passes: u32,
    /// Attempts that were graded.
    pub attempts: u32,
    /// Attempts that ended in a fault.
    pub faults: u32,
    /// Planned attempts that are unfinished.
    pub missing: u32,
}

/// A look at the first pass-fail metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InterimResult {
    /// Repeats of each task by then.
    pub repeats: u32,
    /// Their share of the information that all repeats give.
    pub fraction: f64,
    /// Standard errors by which the harm is above the tolerance; `None` if attempts do not vary.
    pub z: Option<f64>,
    /// The decision, in words.
    pub said: String,
}

/// Used and allowed budget; `None` without a limit.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct BudgetUse {
    /// Attempts, including retries.
    pub attempts: u32,
    /// Maximum number of attempts.
    pub most_attempts: Option<u32>,
    /// Elapsed minutes.
    pub minutes: f64,
    /// Maximum minutes.
    pub most_minutes: Option<f64>,
    /// US dollars, by the prices of the policy; `None` without prices.
    pub cost_usd: Option<f64>,
    /// Maximum US dollars.
    pub most_cost_usd: Option<f64>,
    /// Whether the budget ended the run.
    pub ended_the_run: bool,
}

impl MetricVerdict {
    /// Outcome of the metric.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        match self.verdict.decision {
            Decision::Pass | Decision::Same | Decision::Copied => Outcome::Pass,
            Decision::Fail => Outcome::Fail,
            Decision::Inconclusive(_) => Outcome::Inconclusive,
        }
    }
}

impl Outcome {
    /// Name in output and JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Inconclusive => "inconclusive",
            Self::Fail => "fail",
        }
    }
}
