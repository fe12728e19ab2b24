//! The result of a comparison. Its JSON is the output of `clawrl compare --json`.
//!
//! Units: those of [`Unit`]. A difference is candidate minus baseline, for both optimisation directions.

use clawrl_core::{AttemptId, RunId};
use clawrl_gates::{Change, Direction, Flakiness};
use serde::Serialize;

use super::difference::Difference;
use crate::assessment::{Counts, Unit};

/// Newest version of the comparison's JSON that this program writes.
pub const COMPARISON_FORMAT: u32 = 1;

/// Two runs side by side.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunComparison {
    /// [`COMPARISON_FORMAT`] of the program that wrote it.
    pub format: u32,
    /// The baseline run.
    pub baseline: RunNote,
    /// The candidate run.
    pub candidate: RunNote,
    /// Notes on the numbers, one sentence each.
    pub notes: Vec<String>,
    /// Numbers of each suite, and, where there are several, of all tasks together.
    pub suites: Vec<SuiteComparison>,
    /// Tasks of both, by name.
    pub tasks: Vec<TaskComparison>,
    /// Tasks that mostly passed on one side and mostly not on the other, those that became worse first.
    pub flips: Vec<Flip>,
    /// Tasks of the baseline alone, by name.
    pub baseline_alone: Vec<String>,
    /// Tasks of the candidate alone.
    pub candidate_alone: Vec<String>,
}

/// One of the runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RunNote {
    /// Name of the run.
    pub run: RunId,
    /// Description of the policy.
    pub policy: String,
    /// Description of its end.
    pub state: String,
}

/// The tasks of one suite.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SuiteComparison {
    /// Name of the suite; `None` for all suites together.
    pub suite: Option<String>,
    /// Tasks that both have.
    pub tasks: usize,
    /// A row for each number that both have.
    pub metrics: Vec<MetricComparison>,
}

/// Comparison of one metric.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MetricComparison {
    /// Name of the metric, as in gate files.
    pub metric: String,
    /// Unit of the metric.
    pub unit: Unit,
    /// Optimisation direction.
    pub direction: Direction,
    /// Tasks with a number on both sides.
    pub tasks: usize,
    /// Mean over these tasks of the baseline.
    pub baseline: f64,
    /// Mean over these tasks of the candidate.
    pub candidate: f64,
    /// By how much the candidate is above it.
    pub difference: f64,
    /// Ends of the 95 % interval of the difference, paired by task; `None` if there are too few tasks or all differ by the same amount.
    pub interval: Option<(f64, f64)>,
    /// Direction of a change that is significant at the 5 % level; it is not a gate.
    pub turned: Option<Turned>,
}

/// A task on both sides.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TaskComparison {
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
    /// Statistics of tasks with graded attempts on both sides.
    #[serde(flatten)]
    pub known: Option<Known>,
}

/// Statistics of a task.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Known {
    /// The task changed from always passing to never, or the reverse.
    pub change: Change,
    /// Flakiness of the baseline.
    pub baseline_steadiness: Flakiness,
    /// Flakiness of the candidate.
    pub candidate_steadiness: Flakiness,
    /// Probability that the candidate passes less often.
    pub probably_worse: f64,
}

/// Direction of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Turned {
    /// The candidate is worse.
    Worse,
    /// The candidate is better.
    Better,
}

/// A task that flipped, with an attempt of each side.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Flip {
    /// Name of the task.
    pub task: String,
    /// Direction of the flip.
    pub turned: Turned,
    /// Whether one side is flaky.
    pub flaky: bool,
    /// An attempt of the baseline with the majority outcome.
    pub baseline: AttemptId,
    /// A typical attempt of the candidate.
    pub candidate: AttemptId,
    /// The first difference between the two attempts.
    pub difference: Difference,
}

impl RunComparison {
    /// A task of both, by its name.
    #[must_use]
    pub fn task(&self, name: &str) -> Option<&TaskComparison> {
        let at = self.tasks.binary_search_by(|task| task.task.as_str().cmp(name)).ok()?;
        self.tasks.get(at)
    }
}

impl TaskComparison {
    /// Whether one side both passed and failed.
    #[must_use]
    pub fn is_flaky(&self) -> bool {
        self.known.is_some_and(|known| {
            known.baseline_steadiness.is_flaky() || known.candidate_steadiness.is_flaky()
        })
    }
}
