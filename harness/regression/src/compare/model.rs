//! What a comparison says. Its JSON is what `clawrl compare --json` prints.
//!
//! Units: those of [`Unit`]. A difference is the candidate's number less the baseline's, whichever way is better.

use clawrl_core::{AttemptId, RunId};
use clawrl_gates::{Change, Direction, Steadiness};
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
    /// What is compared with.
    pub baseline: RunNote,
    /// What is compared.
    pub candidate: RunNote,
    /// What a reader has to know of the numbers, in sentences.
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

/// One of both runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RunNote {
    /// Its name.
    pub run: RunId,
    /// Who acted, in words.
    pub policy: String,
    /// How it ended, in words.
    pub state: String,
}

/// The tasks of one suite.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SuiteComparison {
    /// Its name; `None` for all of them together.
    pub suite: Option<String>,
    /// Tasks that both have.
    pub tasks: usize,
    /// A row for each number that both have.
    pub metrics: Vec<MetricComparison>,
}

/// One number.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MetricComparison {
    /// Its name, as gate files have it.
    pub metric: String,
    /// What it is.
    pub unit: Unit,
    /// Which way it is better.
    pub direction: Direction,
    /// Tasks with a number on both sides.
    pub tasks: usize,
    /// Mean over these tasks of the baseline.
    pub baseline: f64,
    /// That of the candidate.
    pub candidate: f64,
    /// By how much the candidate is above it.
    pub difference: f64,
    /// Ends of the 95 % interval of the difference, paired by task; nothing where tasks are too few, or all differ by the same.
    pub interval: Option<(f64, f64)>,
    /// Which way it changed, where that is more than chance brings about in one of twenty runs of the same agent; it is no gate.
    pub turned: Option<Turned>,
}

/// One task on both sides.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TaskComparison {
    /// Its name.
    pub task: String,
    /// Its suite.
    pub suite: String,
    /// The row of the suite that it was made from.
    pub family: String,
    /// What the baseline did.
    pub baseline: Counts,
    /// What the candidate did.
    pub candidate: Counts,
    /// Of tasks with graded attempts on both sides.
    #[serde(flatten)]
    pub known: Option<Known>,
}

/// What passes and failures of both sides say of a task.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Known {
    /// From always passing to never, or the other way.
    pub change: Change,
    /// Whether the baseline does the same each time.
    pub baseline_steadiness: Steadiness,
    /// Whether the candidate does.
    pub candidate_steadiness: Steadiness,
    /// Probability that the candidate passes less often.
    pub probably_worse: f64,
}

/// Which way something changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Turned {
    /// It was better.
    Worse,
    /// It is better now.
    Better,
}

/// A task that flipped, with an attempt of each side.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Flip {
    /// Its name.
    pub task: String,
    /// Which way.
    pub turned: Turned,
    /// Whether either side did both.
    pub flaky: bool,
    /// An attempt of the baseline that is as most of them are.
    pub baseline: AttemptId,
    /// One of the candidate.
    pub candidate: AttemptId,
    /// Where they part.
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
    /// Whether one side passed and did not.
    #[must_use]
    pub fn is_flaky(&self) -> bool {
        self.known.is_some_and(|known| {
            known.baseline_steadiness.is_flaky() || known.candidate_steadiness.is_flaky()
        })
    }
}
