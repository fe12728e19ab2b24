//! Number of repeats of a gate.
//!
//! I1. A number in the gate file is used unchanged. I2. `auto` fulfils the promise of the gate for its pass rate: at the alpha that remains
//! after sharing with other metrics and single tasks, and including the cost of interim analyses. I3. Without a baseline the tasks are unknown, so there is no promise.
//!
//! Units: attempts per task and side; drops as shares. Errors: [`RepeatsError`]. Pure; nothing to cancel.

use clawrl_config::{CiPlan, Repeats};
use clawrl_gates::{Promise, RepeatsError, TaskRate, plan, smallest_drop};

use crate::baseline::Baseline;
use crate::interim::{InterimSchedule, InterimSettings};
use crate::levels::Levels;

/// Attempts at each task in the run for the first baseline, if the gate file has `auto`.
pub const FIRST_REPEATS: u32 = 8;

/// Requirements on the pass rate for this number of tasks; `None` if the gate has no pass rate.
#[must_use]
pub fn promise(gate: &CiPlan, tasks: usize) -> Option<Promise> {
    let metric = gate.pass_rate()?;
    Some(Promise {
        drop: metric.min_effect,
        tolerance: metric.tolerance,
        // The smallest p-value of all is held against this; see `clawrl_gates::holm`.
        alpha: Levels::of(gate, tasks).metrics / gate.metrics.len().max(1) as f64,
        power: gate.power,
        uneven: 0.0,
    })
}

/// Repeats that keep the promise, against the tasks of a baseline; `None` of a gate without a pass rate.
///
/// # Errors
/// [`RepeatsError`] where no number of them does.
pub fn repeats_needed(gate: &CiPlan, baseline: &Baseline) -> Result<Option<u32>, RepeatsError> {
    let tasks = baseline.outcomes.len();
    let Some(promise) = promise(gate, tasks) else { return Ok(None) };
    let plain = plan(&rates(baseline), promise)?;
    let settings = InterimSettings {
        looks: gate.interim_analyses,
        repeats: plain,
        baseline_repeats: f64::from(plain),
        alpha: Levels::of(gate, tasks).metrics,
        power: gate.power,
    };
    // Alpha and power were checked with the gate file, so an error means that there are no interim analyses.
    let inflation = InterimSchedule::new(settings).ok().flatten().map_or(1.0, |looks| looks.plan().inflation);
    Ok(Some((f64::from(plain) * inflation).ceil() as u32))
}

/// The smallest drop that `repeats` detect; `None` if they detect none, or the gate has no pass rate.
///
/// # Errors
/// [`RepeatsError`] if there are too few tasks.
pub fn drop_seen(gate: &CiPlan, baseline: &Baseline, repeats: u32) -> Result<Option<f64>, RepeatsError> {
    match promise(gate, baseline.outcomes.len()) {
        Some(promise) => smallest_drop(&rates(baseline), repeats, promise),
        None => Ok(None),
    }
}

/// Repeats for a run of this gate (I1, I2, I3).
///
/// # Errors
/// [`RepeatsError`] if `auto` has no solution.
pub fn repeats_of(gate: &CiPlan, baseline: Option<&Baseline>) -> Result<u32, RepeatsError> {
    match (gate.repeats, baseline) {
        (Repeats::Exactly(repeats), _) => Ok(repeats),
        (Repeats::Auto, None) => Ok(FIRST_REPEATS),
        (Repeats::Auto, Some(baseline)) => Ok(repeats_needed(gate, baseline)?.unwrap_or(FIRST_REPEATS)),
    }
}

fn rates(baseline: &Baseline) -> Vec<TaskRate> {
    let rate = |counts: crate::Counts| TaskRate { passes: counts.passes, attempts: counts.attempts };
    baseline.outcomes.values().map(|task| rate(task.counts())).collect()
}
