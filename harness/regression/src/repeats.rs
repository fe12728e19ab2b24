//! How many repeats a gate takes.
//!
//! I1. A number in the gate file is kept. I2. `auto` keeps the promise of the gate, that of its pass rate: alpha as several metrics leave it
//! and the tasks by themselves leave it to one, and what looks ahead of the end cost. I3. Without a baseline nothing is known of the tasks, so nothing is promised.
//!
//! Units: attempts a task, of each side; drops as shares. Errors: [`Unplannable`]. Pure; nothing to cancel.

use clawrl_config::{CiPlan, Repeats};
use clawrl_gates::{Promise, TaskRate, Unplannable, plan, smallest_drop};

use crate::baseline::Baseline;
use crate::levels::Levels;
use crate::looks::{LookSchedule, LookSettings};

/// Attempts at each task of a run that is to become the first baseline, where the gate file says `auto`.
pub const FIRST_REPEATS: u32 = 8;

/// What a gate of so many tasks promises of its pass rate; `None` of a gate that has none.
#[must_use]
pub fn promise(gate: &CiPlan, tasks: usize) -> Option<Promise> {
    let metric = gate.pass_rate()?;
    Some(Promise {
        drop: metric.matters,
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
/// [`Unplannable`] where no number of them does.
pub fn repeats_needed(gate: &CiPlan, baseline: &Baseline) -> Result<Option<u32>, Unplannable> {
    let tasks = baseline.outcomes.len();
    let Some(promise) = promise(gate, tasks) else { return Ok(None) };
    let plain = plan(&rates(baseline), promise)?;
    let settings = LookSettings {
        looks: gate.looks,
        repeats: plain,
        baseline_repeats: f64::from(plain),
        alpha: Levels::of(gate, tasks).metrics,
        power: gate.power,
    };
    // Alpha and power were checked with the gate file, so that an error means no looks.
    let inflation = LookSchedule::new(settings).ok().flatten().map_or(1.0, |looks| looks.plan().inflation);
    Ok(Some((f64::from(plain) * inflation).ceil() as u32))
}

/// The smallest drop that so many repeats see; `None` where they see none, or the gate has no pass rate.
///
/// # Errors
/// [`Unplannable`] where the tasks are too few for any.
pub fn drop_seen(gate: &CiPlan, baseline: &Baseline, repeats: u32) -> Result<Option<f64>, Unplannable> {
    match promise(gate, baseline.outcomes.len()) {
        Some(promise) => smallest_drop(&rates(baseline), repeats, promise),
        None => Ok(None),
    }
}

/// Repeats of a run of this gate (I1, I2, I3).
///
/// # Errors
/// [`Unplannable`] where `auto` has no answer.
pub fn repeats_of(gate: &CiPlan, baseline: Option<&Baseline>) -> Result<u32, Unplannable> {
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
