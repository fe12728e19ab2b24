//! What a gate says of a run: the verdict with everything that it rests on. Its JSON is what `clawrl ci --json` prints.
//!
//! I1. The outcome is the worst of its parts: one metric, the tasks by themselves, one task that must pass, one reason against judging at all. I2. What is read back
//! from JSON is what was written, numbers that there are none of included.
//!
//! Units: those of [`Unit`]; shares in [0, 1], `_ms` milliseconds since 1970, minutes of wall clock, US dollars. Pure; nothing to cancel.

use clawrl_core::{RunId, SlotId};
use clawrl_gates::{Change, TasksVerdict, Verdict};
use serde::{Deserialize, Serialize};

/// Newest version of the assessment's JSON that this program writes.
pub const ASSESSMENT_FORMAT: u32 = 1;

/// What a gate says of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Assessment {
    /// [`ASSESSMENT_FORMAT`] of the program that wrote it.
    pub format: u32,
    /// Name of the gate.
    pub gate: String,
    /// The run that was judged.
    pub run: RunId,
    /// What it was judged against.
    pub baseline: BaselineNote,
    /// The worst of all parts.
    pub outcome: Outcome,
    /// One for each metric of the gate, in its order.
    pub metrics: Vec<MetricVerdict>,
    /// Which tasks broke, of a gate that judges each of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub each_task: Option<EachTaskVerdict>,
    /// Tasks that have to pass each time, by name.
    pub must_pass: Vec<MustPass>,
    /// Every task of either side, by name.
    pub tasks: Vec<TaskChange>,
    /// Looks ahead of the end, and the one at the end, in order; empty without looks.
    pub looks: Vec<LookTaken>,
    /// What the run took of its budget.
    pub budget: BudgetUse,
    /// Why it is not a pass, in sentences, the gravest first; empty for a pass.
    pub reasons: Vec<String>,
    /// Tasks that have no graded attempt on one side, by name.
    pub lost: Vec<String>,
}

/// How a gate ends, the worst last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Nothing is worse by what matters.
    Pass,
    /// Neither a pass nor a fail is shown.
    Inconclusive,
    /// Something is worse than is tolerated, or a task that must pass did not.
    Fail,
}

/// Which baseline it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BaselineNote {
    /// The run that was accepted.
    pub run: RunId,
    /// When, in milliseconds since 1970.
    pub accepted_ms: u64,
    /// Hex SHA-256 of what is the same on both sides.
    pub plan_sha256: String,
}

/// What the numbers of a metric are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// A share in [0, 1], which people are told in percent.
    Share,
    /// Of rewards, as the suites define them.
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
    /// What its numbers are.
    pub unit: Unit,
    /// What was decided, and by which numbers.
    pub verdict: Verdict,
    /// The same in words.
    pub sentence: String,
}

/// What is said of each task by itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EachTaskVerdict {
    /// Which broke, and by which numbers.
    pub verdict: TasksVerdict,
    /// The same in words.
    pub sentence: String,
}

/// A task that has to pass each time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MustPass {
    /// Its name.
    pub task: String,
    /// Attempts of the candidate that passed.
    pub passes: u32,
    /// Attempts that were graded.
    pub attempts: u32,
    /// Attempts that ended in a fault, and are neither.
    pub faults: u32,
    /// Whether there was an attempt, and each one passed.
    pub ok: bool,
}

/// One task on both sides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskChange {
    /// Its name.
    pub task: String,
    /// The suite that it is of.
    pub suite: String,
    /// The row of the suite that it was made from.
    pub family: String,
    /// What the baseline did.
    pub baseline: Counts,
    /// What the candidate did.
    pub candidate: Counts,
    /// Whether it went from always passing to never, or the other way; or is shown to have broken, by a gate that judges each task.
    pub change: Change,
    /// Whether one side both passed and did not.
    pub flaky: bool,
    /// An attempt of the candidate that was graded and did not pass, to look at.
    pub sample: Option<SlotId>,
}

/// What attempts at a task came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Attempts that passed every check.
    pub passes: u32,
    /// Attempts that were graded.
    pub attempts: u32,
    /// Attempts that ended in a fault.
    pub faults: u32,
    /// Attempts that were wanted and have no end.
    pub missing: u32,
}

/// A look at the first pass-fail metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LookTaken {
    /// Repeats of each task by then.
    pub repeats: u32,
    /// Their share of the information that all repeats give.
    pub fraction: f64,
    /// Standard errors by which the harm is above the tolerance; nothing where attempts do not vary.
    pub z: Option<f64>,
    /// What that meant, in words.
    pub said: String,
}

/// What a run took, and what it might have taken; no bound where there is none.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct BudgetUse {
    /// Attempts, those that were tried again included.
    pub attempts: u32,
    /// Most attempts.
    pub most_attempts: Option<u32>,
    /// Minutes under way.
    pub minutes: f64,
    /// Most minutes.
    pub most_minutes: Option<f64>,
    /// US dollars, by the prices of the policy; nothing where it has none.
    pub cost_usd: Option<f64>,
    /// Most of them.
    pub most_cost_usd: Option<f64>,
    /// Whether the run was ended because of it.
    pub ended_the_run: bool,
}

impl Outcome {
    /// As it is written.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Inconclusive => "inconclusive",
            Self::Fail => "fail",
        }
    }
}
