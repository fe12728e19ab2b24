//! The parts of an assessment with their outcomes. Every rendering is made from this list.
//!
//! P1. The worst part has the outcome of the gate: if no part is as bad, the gate itself is one more part, with its reasons. P2. A task
//! is blamed only if the gate fails, and only if it broke, or passes less often while passes or
//! scores fail. A task without a graded attempt on one side is inconclusive if the gate does not pass.
//!
//! Pure; nothing to cancel.

use std::collections::BTreeSet;

use clawrl_gates::{Change, Direction};

use super::words::counts;
use crate::assessment::{Assessment, Counts, EachTaskVerdict, MustPass, Outcome, TaskChange};

/// The part about single tasks, as the gate file has it.
pub(crate) const EACH_TASK: &str = "each_task";

/// Subject of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The gate as a whole.
    Gate,
    /// One metric.
    Metric,
    /// A task that has to pass each time.
    MustPass,
    /// Any task.
    Task,
}

impl Kind {
    /// Name for classes of tests.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Gate => "gate",
            Self::Metric => "metrics",
            Self::MustPass => "must_pass",
            Self::Task => "tasks",
        }
    }
}

/// One part.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Part<'a> {
    pub(crate) kind: Kind,
    pub(crate) name: &'a str,
    pub(crate) outcome: Outcome,
    /// The reason or the observation.
    pub(crate) said: String,
}

/// All parts, in the order of rendering.
pub(crate) fn parts(assessment: &Assessment) -> Vec<Part<'_>> {
    let metrics = assessment.metrics.iter().map(|metric| Part {
        kind: Kind::Metric,
        name: &metric.name,
        outcome: metric.outcome(),
        said: metric.sentence.clone(),
    });
    let each_task = assessment.each_task.iter().map(|tasks| Part {
        kind: Kind::Metric,
        name: EACH_TASK,
        outcome: each_task_outcome(tasks).min(assessment.outcome),
        said: tasks.sentence.clone(),
    });
    let must_pass = assessment.must_pass.iter().map(|task| Part {
        kind: Kind::MustPass,
        name: &task.task,
        outcome: must_pass_outcome(task, assessment.outcome),
        said: format!("must pass every time, and passed {}", counts(&counts_of(task))),
    });
    let lost: BTreeSet<&String> = assessment.lost.iter().collect();
    let fails_for_less = assessment.metrics.iter().any(|metric| {
        metric.outcome() == Outcome::Fail && metric.verdict.gate.direction == Direction::Higher
    });
    let outcome_of_task = |task: &TaskChange| {
        let is_blamed = task.change == Change::Broke || (fails_for_less && fell(task));
        match assessment.outcome {
            gate if lost.contains(&task.task) => Outcome::Inconclusive.min(gate),
            Outcome::Fail if is_blamed => Outcome::Fail,
            _ => Outcome::Pass,
        }
    };
    let tasks = assessment.tasks.iter().map(|task| Part {
        kind: Kind::Task,
        name: &task.task,
        outcome: outcome_of_task(task),
        said: change_words(task),
    });
    let mut all: Vec<Part<'_>> = metrics.chain(each_task).chain(must_pass).chain(tasks).collect();
    let worst = all.iter().map(|part| part.outcome).max().unwrap_or(Outcome::Pass);
    if worst < assessment.outcome {
        let said = assessment.reasons.join(" ");
        all.insert(0, Part { kind: Kind::Gate, name: &assessment.gate, outcome: assessment.outcome, said });
    }
    all
}

/// Tasks that pass less often than before, those that broke first.
pub(crate) fn fallen(assessment: &Assessment) -> Vec<&TaskChange> {
    let mut tasks: Vec<&TaskChange> = assessment.tasks.iter().filter(|task| fell(task)).collect();
    tasks.sort_by(|a, b| {
        let key = |task: &TaskChange| (task.change != Change::Broke, -drop_of(task));
        let ((a_kept, a_drop), (b_kept, b_drop)) = (key(a), key(b));
        a_kept.cmp(&b_kept).then(a_drop.total_cmp(&b_drop)).then_with(|| a.task.cmp(&b.task))
    });
    tasks
}

/// Share of graded attempts that passed; `None` without graded attempts.
pub(crate) fn rate(counts: &Counts) -> Option<f64> {
    (counts.attempts > 0).then(|| f64::from(counts.passes) / f64::from(counts.attempts))
}

/// Both sides of a task.
pub(crate) fn change_words(task: &TaskChange) -> String {
    format!("passed {} before and {} now", counts(&task.baseline), counts(&task.candidate))
}

fn counts_of(task: &MustPass) -> Counts {
    Counts { passes: task.passes, attempts: task.attempts, faults: task.faults, missing: 0 }
}

/// Inconclusive if no task could be tested.
pub(crate) fn each_task_outcome(tasks: &EachTaskVerdict) -> Outcome {
    match (tasks.verdict.fails(), tasks.verdict.tasks) {
        (true, _) => Outcome::Fail,
        (false, 0) => Outcome::Inconclusive,
        (false, _) => Outcome::Pass,
    }
}

/// A task without attempts, or that only faults kept from passing, is inconclusive. No task is worse than its gate.
fn must_pass_outcome(task: &MustPass, gate: Outcome) -> Outcome {
    match (task.ok, task.passes < task.attempts) {
        (true, _) => Outcome::Pass,
        (false, true) => Outcome::Fail.min(gate),
        (false, false) => Outcome::Inconclusive.min(gate),
    }
}

fn fell(task: &TaskChange) -> bool {
    task.change == Change::Broke || drop_of(task) > 0.0
}

fn drop_of(task: &TaskChange) -> f64 {
    match (rate(&task.baseline), rate(&task.candidate)) {
        (Some(before), Some(after)) => before - after,
        _ => 0.0,
    }
}
