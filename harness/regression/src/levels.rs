//! Division of a gate's false-alarm probability.
//!
//! I1. The parts add up to alpha, which bounds the false alarms of all tests together. I2. Metrics share their part by Holm. Single tasks
//! share theirs by Holm, in the final analysis and in each interim analysis. No interim analysis passes a run with a suspicious task, so
//! the final analysis gets nearly all of it.
//!
//! Pure; nothing to cancel.

use clawrl_config::CiPlan;

/// Part of alpha for single tasks, if they are judged. A broken task is detected at levels far below it, and the metrics lose little.
const TASKS_SHARE: f64 = 0.2;

/// Part of the tasks' alpha that the analyses before the final one share.
const LOOKS_SHARE: f64 = 0.1;

/// The parts of alpha.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Levels {
    /// Level of all metrics together.
    pub(crate) metrics: f64,
    /// Level of all tasks together; `None` if the gate does not judge single tasks.
    pub(crate) tasks: Option<f64>,
}

impl Levels {
    /// Levels of a gate with this number of tasks.
    pub(crate) fn of(gate: &CiPlan, tasks: usize) -> Self {
        if gate.judges_each_task(tasks) {
            let part = TASKS_SHARE * gate.alpha;
            Self { metrics: gate.alpha - part, tasks: Some(part) }
        } else {
            Self { metrics: gate.alpha, tasks: None }
        }
    }
}

/// The level of one judgement of the tasks, given the level of all judgements and the number of analyses, including the final one.
pub(crate) fn tasks_level(alpha: f64, looks: usize, is_end: bool) -> f64 {
    match (looks, is_end) {
        (..=1, _) => alpha,
        (_, true) => (1.0 - LOOKS_SHARE) * alpha,
        (looks, false) => LOOKS_SHARE * alpha / (looks - 1) as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_and_the_end_have_all_that_tasks_have() {
        for looks in 1..20 {
            let early: f64 = (1..looks).map(|_| tasks_level(0.01, looks, false)).sum();
            let all = early + tasks_level(0.01, looks, true);
            assert!((all - 0.01).abs() < 1e-12, "{looks} looks have {all}");
        }
    }
}
