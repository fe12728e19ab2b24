//! Power analysis: repeats that detect a drop, and the drop that a number of repeats detects.
//!
//! The test is that of the mean harm over tasks at level alpha against tau; it should reject with probability `power` at a drop of delta.
//! With T tasks of n attempts per side, the variance of the mean harm at that drop is `(effect + within / n) / T`, and the requirement is
//! `(delta - tau)^2 (T - z_alpha^2 / 2) >= (z_alpha + z_beta)^2 (effect + within / n)`.
//!
//! I1. More repeats never detect only a larger drop. I2. A drop that no number of repeats detects is an error: repeats do not reduce the
//! variance between tasks.
//!
//! Units: pass rates in [0, 1]; repeats are attempts per task and side. Errors: [`RepeatsError`]. Pure; nothing to cancel.
//! Source: the normal approximation of the paired test, with the correction of Guenther (1981) for an estimated variance;
//! Miller, Adding Error Bars to Evals (2024), for variance within and between questions. Deviations: (1) a drop takes the same
//! share of every task's passes, so that tasks that never pass do not fall, and the effect differs from task to task as the rates do;
//! (2) shares are Jeffreys' as in [`crate::Spread`], so that a single repeat in the baseline is not taken as certain; (3) it plans for
//! fewer misses than promised, see `PLANNED_MISSES`.

use serde::{Deserialize, Serialize};

use crate::distribution::{falling_root, upper_point};
use crate::outcomes::mean;
use crate::variance::sample_variance;

/// Share of the promised misses to plan for. The rates come from few attempts. If they look steadier than they are, more drops are missed
/// than are gained in the opposite case: planned for 10 %, 10.5 % of drops were missed in flaky suites known
/// from 8 attempts per task (`ci/bench/run.sh gate-calibration --suites flaky --metrics two`).
const PLANNED_MISSES: f64 = 0.85;
/// Maximum number of repeats.
pub const MAX_REPEATS: u32 = 10_000;

/// Passes and attempts at one task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskRate {
    /// Attempts that passed.
    pub passes: u32,
    /// Attempts that finished.
    pub attempts: u32,
}

/// Requirements on the power of a gate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Promise {
    /// The drop of the mean pass rate, as a share.
    pub drop: f64,
    /// Tolerated drop.
    pub tolerance: f64,
    /// Probability of an alarm at the tolerance.
    pub alpha: f64,
    /// Probability of an alarm at the drop.
    pub power: f64,
    /// Standard deviation of the drop between tasks, besides the part from unequal pass rates; 0 if unknown.
    pub uneven: f64,
}

/// Reason for which no number of repeats suffices.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum RepeatsError {
    /// The probability is invalid, or the drop is within the tolerance.
    #[error("{what} is {value}, but must be {expected}")]
    Setting {
        /// The setting.
        what: &'static str,
        /// The refused value.
        value: f64,
        /// The valid values.
        expected: &'static str,
    },
    /// Sign flips of so few tasks cannot reach the level.
    #[error("{tasks} tasks cannot reach a level of {alpha}: {needed} are needed")]
    FewTasks {
        /// Number of tasks.
        tasks: usize,
        /// Number of tasks needed.
        needed: usize,
        /// The level.
        alpha: f64,
    },
    /// There is not that much to lose.
    #[error("a drop of {drop} is more than the mean pass rate of {rate:.3}")]
    MoreThanAll {
        /// The requested drop.
        drop: f64,
        /// The mean pass rate.
        rate: f64,
    },
    /// Repeats do not help.
    #[error(
        "no number of repeats of {tasks} tasks detects a drop of {drop}: about {needed} tasks are needed"
    )]
    MoreTasks {
        /// Number of tasks.
        tasks: usize,
        /// The requested drop.
        drop: f64,
        /// Number of tasks that suffice with many repeats.
        needed: u64,
    },
}

/// Tasks that sign flips need to reach a level.
#[must_use]
pub fn fewest_tasks(alpha: f64) -> usize {
    (1..64).find(|tasks| 0.5f64.powi(*tasks) <= alpha * (1.0 + 1e-12)).unwrap_or(64) as usize
}

/// Attempts a task and side that keep the promise.
///
/// # Errors
/// [`RepeatsError`] where no number up to [`MAX_REPEATS`] does.
pub fn plan(rates: &[TaskRate], promise: Promise) -> Result<u32, RepeatsError> {
    let suite = Suite::new(rates, promise)?;
    if promise.drop > suite.mean {
        return Err(RepeatsError::MoreThanAll { drop: promise.drop, rate: suite.mean });
    }
    let Needs { effect, within, per_variance } = suite.needs(promise.drop);
    let room = 1.0 / per_variance - effect;
    let repeats = within / room;
    // Rounding may ask for one repeat too many, which errs on the safe side.
    if room > 0.0 && repeats <= f64::from(MAX_REPEATS) {
        return Ok((repeats.ceil() as u32).max(1));
    }
    let variance = effect + within / f64::from(MAX_REPEATS);
    let needed =
        variance * suite.quantiles.powi(2) / (promise.drop - promise.tolerance).powi(2) + suite.estimated;
    Err(RepeatsError::MoreTasks { tasks: rates.len(), drop: promise.drop, needed: needed.ceil() as u64 })
}

/// The smallest drop that `repeats` detect, independent of the promise's own drop; `None` if not even a drop to 0 is detected.
///
/// # Errors
/// As for [`plan`], except for errors about the drop.
pub fn smallest_drop(
    rates: &[TaskRate],
    repeats: u32,
    promise: Promise,
) -> Result<Option<f64>, RepeatsError> {
    let suite = Suite::new(rates, Promise { drop: f64::INFINITY, ..promise })?;
    let is_unseen = |drop: f64| {
        let Needs { effect, within, per_variance } = suite.needs(drop);
        (effect + within / f64::from(repeats.max(1))) * per_variance - 1.0
    };
    if promise.tolerance >= suite.mean || is_unseen(suite.mean) > 0.0 {
        return Ok(None);
    }
    Ok(Some(falling_root(promise.tolerance, suite.mean, is_unseen)))
}

struct Suite {
    rates: Vec<f64>,
    mean: f64,
    promise: Promise,
    /// Sum of the two quantiles.
    quantiles: f64,
    /// Tasks that estimating the variance costs.
    estimated: f64,
}

struct Needs {
    effect: f64,
    within: f64,
    /// Inverse of the largest sufficient variance of a task's difference.
    per_variance: f64,
}

impl Suite {
    fn new(rates: &[TaskRate], promise: Promise) -> Result<Self, RepeatsError> {
        check(promise)?;
        let needed = fewest_tasks(promise.alpha);
        if rates.len() < needed {
            return Err(RepeatsError::FewTasks { tasks: rates.len(), needed, alpha: promise.alpha });
        }
        let share = |rate: &TaskRate| {
            (f64::from(rate.passes.min(rate.attempts)) + 0.5) / (f64::from(rate.attempts) + 1.0)
        };
        let rates: Vec<f64> = rates.iter().map(share).collect();
        let level = upper_point(promise.alpha);
        Ok(Self {
            mean: mean(&rates),
            rates,
            promise,
            quantiles: level + upper_point(PLANNED_MISSES * (1.0 - promise.power)),
            estimated: level * level / 2.0,
        })
    }

    fn needs(&self, drop: f64) -> Needs {
        let kept = (1.0 - drop / self.mean).max(0.0);
        let variance = |rate: f64| rate * (1.0 - rate);
        let within: f64 = self.rates.iter().map(|rate| variance(*rate) + variance(rate * kept)).sum();
        let drops: Vec<f64> = self.rates.iter().map(|rate| rate * (1.0 - kept)).collect();
        let effect = sample_variance(&drops).unwrap_or(0.0) + self.promise.uneven.powi(2);
        let count = self.rates.len() as f64;
        let distance = drop - self.promise.tolerance;
        let enough = distance * distance * (count - self.estimated).max(0.0);
        Needs { effect, within: within / count, per_variance: self.quantiles.powi(2) / enough }
    }
}

fn check(promise: Promise) -> Result<(), RepeatsError> {
    let Promise { drop, tolerance, alpha, power, uneven } = promise;
    let rules = [
        ("tolerance", tolerance, (0.0..1.0).contains(&tolerance), "in [0, 1)"),
        ("alpha", alpha, alpha > 0.0 && alpha < 0.5, "between 0 and 0.5"),
        ("power", power, (0.5..1.0).contains(&power), "in [0.5, 1)"),
        ("drop", drop, drop > tolerance, "above the tolerance"),
        ("uneven", uneven, uneven >= 0.0 && uneven.is_finite(), "0 or more"),
    ];
    match rules.into_iter().find(|(_, _, holds, _)| !holds) {
        Some((what, value, _, expected)) => Err(RepeatsError::Setting { what, value, expected }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PROMISE: Promise = Promise { drop: 0.1, tolerance: 0.0, alpha: 0.05, power: 0.9, uneven: 0.0 };

    fn even(tasks: usize) -> Vec<TaskRate> {
        vec![TaskRate { passes: 10, attempts: 20 }; tasks]
    }

    #[test]
    fn repeats_by_hand() {
        let check =
            |tasks, promise, expected| assert_eq!(plan(&even(tasks), promise), Ok(expected), "{tasks} tasks");
        // (1.645 + 1.372)^2 * (0.25 + 0.24) / 0.01 = 446.1 attempts a side, over 98.6 tasks, and over 18.6.
        check(100, PROMISE, 5);
        check(20, PROMISE, 24);
        check(100, Promise { tolerance: 0.05, ..PROMISE }, 19);
        check(1_000, PROMISE, 1);
    }

    #[test]
    fn impossible_promises_are_errors() {
        let check = |tasks, promise, expected: &str| {
            let told = plan(&even(tasks), promise).unwrap_err().to_string();
            assert!(told.contains(expected), "{told:?} says nothing of {expected:?}");
        };
        check(4, PROMISE, "4 tasks cannot reach a level of 0.05: 5 are needed");
        check(0, PROMISE, "0 tasks");
        check(20, Promise { drop: 0.6, ..PROMISE }, "more than the mean pass rate of 0.500");
        check(
            20,
            Promise { uneven: 0.5, ..PROMISE },
            "no number of repeats of 20 tasks detects a drop of 0.1: about 229",
        );
        check(20, Promise { drop: 0.0, ..PROMISE }, "drop is 0, but must be above the tolerance");
        check(20, Promise { alpha: f64::NAN, ..PROMISE }, "alpha is NaN");
        check(20, Promise { power: 1.0, ..PROMISE }, "power is 1");
    }

    #[test]
    fn levels_need_tasks() {
        let check = |alpha, expected| assert_eq!(fewest_tasks(alpha), expected, "{alpha}");
        check(0.05, 5);
        check(0.0625, 4);
        check(0.01, 7);
        check(0.0, 64);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// I1.
        #[test]
        fn planned_drop_is_detected(
            passes in prop::collection::vec(0u32..=10, 8..60),
            drop in 0.02f64..0.5,
        ) {
            let rates: Vec<TaskRate> = passes.iter().map(|passes| TaskRate { passes: *passes, attempts: 10 }).collect();
            let promise = Promise { drop, ..PROMISE };
            if let Ok(repeats) = plan(&rates, promise) {
                let seen = smallest_drop(&rates, repeats, promise).unwrap().unwrap();
                prop_assert!(seen <= drop + 1e-9, "{} repeats see {}", repeats, seen);
                let more = smallest_drop(&rates, repeats + 1, promise).unwrap().unwrap();
                prop_assert!(more <= seen);
                if repeats > 1 {
                    let fewer = smallest_drop(&rates, repeats - 1, promise).unwrap();
                    prop_assert!(fewer.is_none_or(|fewer| fewer > drop - 1e-9));
                }
            }
        }
    }
}
