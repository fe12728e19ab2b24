//! Flaky tasks, and tasks whose results changed.
//!
//! I1. A task is flaky if one agent both passed and failed it: observed, not estimated. For tasks with one outcome, the interval bounds the
//! rate of the other outcome. I2. A task broke if the baseline always passed and the candidate never did, and was
//! fixed in the opposite case; anything between is a probability about rates. I3. Neither the order of attempts nor that
//! of tasks matters.
//!
//! Units: rates and probabilities in [0, 1]. Pure; nothing to cancel.
//! Source: the interval of Clopper and Pearson (1934); the probability that one rate is below another, under uniform priors, as a finite
//! sum of beta functions (Miller, Formulas for Bayesian A/B testing, 2014). Deviations: none.

use serde::{Deserialize, Serialize};

use crate::distribution::ln_beta;
use crate::exact::{clopper_pearson, share_below};
use crate::outcomes::{Kind, Paired, PairedTask};

/// Attempts of one agent at one task.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Flakiness {
    /// Passed and did not.
    Flaky {
        /// Share of attempts that passed.
        rate: f64,
        /// Lower end of the interval of the rate.
        low: f64,
        /// Upper end.
        high: f64,
    },
    /// Every attempt passed.
    Passes {
        /// The largest rate of failures that would often show none.
        failures_below: f64,
    },
    /// No attempt passed.
    Fails {
        /// The largest rate of passes that would often show none.
        passes_below: f64,
    },
}

/// Change of a task from baseline to candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// From always passing to never.
    Broke,
    /// From never passing to always.
    Mended,
    /// Neither.
    Kept,
}

/// Report on one task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskReport {
    /// Name of the task.
    pub task: String,
    /// Attempts of the baseline.
    pub baseline: Flakiness,
    /// Attempts of the candidate.
    pub candidate: Flakiness,
    /// Change between the two.
    pub change: Change,
    /// Probability that the candidate's rate is below the baseline's.
    pub probably_worse: f64,
}

/// Reports on all tasks, with intervals at confidence `level`; `None` if the metric is not pass/fail.
#[must_use]
pub fn tasks(paired: &Paired, level: f64) -> Option<Vec<TaskReport>> {
    let report = |task: &PairedTask| {
        let (before, after) = (counts(&task.baseline), counts(&task.candidate));
        let (baseline, candidate) = (flakiness(before, level), flakiness(after, level));
        let change = match (baseline, candidate) {
            (Flakiness::Passes { .. }, Flakiness::Fails { .. }) => Change::Broke,
            (Flakiness::Fails { .. }, Flakiness::Passes { .. }) => Change::Mended,
            _ => Change::Kept,
        };
        let probably_worse = probability_below(after, before);
        TaskReport { task: task.name.clone(), baseline, candidate, change, probably_worse }
    };
    (paired.kind() == Kind::PassFail).then(|| paired.tasks().iter().map(report).collect())
}

impl Flakiness {
    /// Whether the agent both passed and failed.
    #[must_use]
    pub fn is_flaky(self) -> bool {
        matches!(self, Self::Flaky { .. })
    }
}

/// Passes and attempts of one task.
#[derive(Clone, Copy)]
struct Counts {
    passes: u64,
    attempts: u64,
}

fn counts(values: &[f64]) -> Counts {
    let passes = values.iter().filter(|value| **value > 0.0).count() as u64;
    Counts { passes, attempts: values.len() as u64 }
}

fn flakiness(Counts { passes, attempts }: Counts, level: f64) -> Flakiness {
    match passes {
        0 => Flakiness::Fails { passes_below: share_below(0, attempts, 1.0 - level) },
        _ if passes == attempts => {
            Flakiness::Passes { failures_below: share_below(0, attempts, 1.0 - level) }
        }
        _ => {
            let (low, high) = clopper_pearson(passes, attempts, level);
            Flakiness::Flaky { rate: passes as f64 / attempts as f64, low, high }
        }
    }
}

/// The probability that the first rate is below the second, both uniform before anything was seen.
fn probability_below(first: Counts, second: Counts) -> f64 {
    let shape = |counts: Counts| (counts.passes as f64 + 1.0, (counts.attempts - counts.passes) as f64 + 1.0);
    let ((a, b), (_, d)) = (shape(first), shape(second));
    let term = |at: u64| {
        let at = at as f64;
        (ln_beta(a + at, b + d) - (d + at).ln() - ln_beta(1.0 + at, d) - ln_beta(a, b)).exp()
    };
    (0..=second.passes).map(term).sum::<f64>().min(1.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn of(passes: u64, attempts: u64) -> Counts {
        Counts { passes, attempts }
    }

    #[test]
    fn both_outcomes_are_flaky() {
        let check = |counts, flaky: bool| {
            let found = flakiness(counts, 0.95);
            assert_eq!(found.is_flaky(), flaky, "{found:?}");
        };
        check(of(0, 1), false);
        check(of(1, 1), false);
        check(of(1, 2), true);
        check(of(0, 50), false);
        check(of(49, 50), true);
        let Flakiness::Passes { failures_below } = flakiness(of(10, 10), 0.95) else { panic!("it passed") };
        assert!((failures_below - (1.0 - 0.05f64.powf(0.1))).abs() < 1e-12);
    }

    #[test]
    fn probabilities_by_hand() {
        let check = |first, second, expected: f64| {
            let found = probability_below(first, second);
            assert!((found - expected).abs() < 1e-12, "{found} is not {expected}");
        };
        check(of(0, 0), of(0, 0), 0.5);
        // P(X < Y) of densities 2(1-x) and 2y: 1 - E((1-Y)^2) = 1 - 1/6.
        check(of(0, 1), of(1, 1), 5.0 / 6.0);
        check(of(1, 1), of(0, 1), 1.0 / 6.0);
        check(of(3, 7), of(3, 7), 0.5);
    }

    proptest! {
        /// I3.
        #[test]
        fn one_of_both_is_below(a in 0u64..30, b in 0u64..30, c in 0u64..30, d in 0u64..30) {
            let (first, second) = (of(a, a + b), of(c, c + d));
            let sum = probability_below(first, second) + probability_below(second, first);
            prop_assert!((sum - 1.0).abs() < 1e-9, "{}", sum);
        }
    }
}
