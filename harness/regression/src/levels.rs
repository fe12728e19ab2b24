//! How a gate divides its probability of a false alarm.
//!
//! I1. The parts add up to alpha, so that all of them together raise no more false alarms than that. I2. Metrics share their part by Holm, tasks
//! theirs by Holm among tasks, evenly over looks: a run is judged at one of them, but which one it is depends on what was seen.
//!
//! Pure; nothing to cancel.

use clawrl_config::CiPlan;

/// Part of alpha that tasks have where each of them is judged. A task that broke is seen at levels far below it, and the metrics lose little.
const TASKS_SHARE: f64 = 0.2;

/// The parts of alpha.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Levels {
    /// Of all metrics together.
    pub(crate) metrics: f64,
    /// Of all tasks together; nothing where the gate does not judge each of them.
    pub(crate) tasks: Option<f64>,
}

impl Levels {
    /// Of a gate that has so many tasks.
    pub(crate) fn of(gate: &CiPlan, tasks: usize) -> Self {
        if gate.judges_each_task(tasks) {
            let part = TASKS_SHARE * gate.alpha;
            Self { metrics: gate.alpha - part, tasks: Some(part) }
        } else {
            Self { metrics: gate.alpha, tasks: None }
        }
    }
}
