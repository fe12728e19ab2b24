//! Sources of the variance of a difference: attempts within a task, and tasks that the candidate changes by unequal amounts.
//!
//! With b and c attempts of a task on the two sides, the variance of its difference is `effect + within_b / b + within_c / c`. More
//! repeats make the second and third part small, and more tasks all of them.
//!
//! I1. No part is negative. I2. Attempts that are all the same are not taken for certain: a share is drawn towards one half by half an
//! attempt each way.
//!
//! Units: squares of the metric's. Pure; nothing to cancel.
//! Source: the variance of means of strata (Cochran, Sampling Techniques, 1977, chapter 5); the effect by moments, as DerSimonian and Laird
//! (1986), with equal weights; half an attempt each way is the prior of Jeffreys (1946). Deviations: none.

use crate::outcomes::{Direction, Kind, Paired, mean};

/// The spread of differences over the tasks of a suite.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// Tasks.
    pub tasks: usize,
    /// Mean harm over tasks.
    pub harm: f64,
    /// Variance of the mean harm that comes from attempts, were the tasks all there are.
    pub from_attempts: f64,
    /// Variance of the harms that were seen, from task to task.
    pub seen: f64,
    /// Variance of the true harm from task to task.
    pub between_tasks: f64,
}

impl Spread {
    /// The spread of these outcomes.
    #[must_use]
    pub fn of(paired: &Paired, direction: Direction) -> Self {
        let harms = paired.harms(direction);
        let tasks = harms.len();
        let pooled = pooled_variance(paired);
        let of = |values: &[f64]| match paired.kind() {
            Kind::PassFail => share_variance(mean(values) * values.len() as f64, values.len() as f64),
            Kind::Share | Kind::Number => sample_variance(values).unwrap_or(pooled),
        };
        let noise = |values: &[f64]| of(values) / values.len() as f64;
        let sum: f64 = paired.tasks().iter().map(|task| noise(&task.baseline) + noise(&task.candidate)).sum();
        let count = tasks as f64;
        let seen = sample_variance(&harms).unwrap_or(0.0);
        Self {
            tasks,
            harm: mean(&harms),
            from_attempts: sum / (count * count),
            seen,
            between_tasks: (seen - sum / count).max(0.0),
        }
    }

    /// Standard errors by which the harm exceeds `tau`, for the given tasks; the z of an interim analysis of [`crate::InterimPlan`].
    /// `None` if attempts do not vary.
    #[must_use]
    pub fn z(&self, tau: f64) -> Option<f64> {
        (self.from_attempts > 0.0).then(|| (self.harm - tau) / self.from_attempts.sqrt())
    }

    /// The parts of the variance of the mean harm that repeats do and do not reduce, as far as the tasks show: a few equal
    /// attempts do not justify the maximum noise.
    #[must_use]
    pub fn parts(&self) -> (f64, f64) {
        let tasks = self.tasks as f64;
        (self.from_attempts.min(self.seen / tasks), self.between_tasks / tasks)
    }
}

/// Expected variance of one attempt, given passes and attempts.
pub(crate) fn share_variance(passes: f64, attempts: f64) -> f64 {
    let share = (passes + 0.5) / (attempts + 1.0);
    share * (1.0 - share)
}

/// Sample variance; `None` for fewer than two values.
pub(crate) fn sample_variance(values: &[f64]) -> Option<f64> {
    let centre = mean(values);
    let squares: f64 = values.iter().map(|value| (value - centre).powi(2)).sum();
    (values.len() > 1).then(|| squares / (values.len() - 1) as f64)
}

/// Over all tasks and sides with two attempts or more, for those with one; 0 without any.
fn pooled_variance(paired: &Paired) -> f64 {
    let sides = paired.tasks().iter().flat_map(|task| [&task.baseline, &task.candidate]);
    let known: Vec<f64> = sides.filter_map(|values| sample_variance(values)).collect();
    if known.is_empty() { 0.0 } else { mean(&known) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcomes::{Attempts, Completeness, Side};

    fn side(tasks: &[&[f64]]) -> Side {
        let of = |values: &&[f64]| Attempts::of(values.to_vec());
        tasks.iter().enumerate().map(|(at, values)| (format!("{at:02}"), of(values))).collect()
    }

    fn check(baseline: &[&[f64]], candidate: &[&[f64]], kind: Kind, expected: [f64; 3]) {
        let paired = Paired::new(&side(baseline), &side(candidate), kind, Completeness::default()).unwrap();
        let found = Spread::of(&paired, Direction::Higher);
        let found = [found.harm, found.from_attempts, found.between_tasks];
        let close = found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12);
        assert!(close, "{found:?} is not {expected:?}");
    }

    #[test]
    fn spreads_by_hand() {
        // Variances of the four samples: 0.5, 0.5, 2, 0; each over two attempts, of two tasks.
        check(&[&[1.0, 2.0], &[0.0, 2.0]], &[&[0.0, 1.0], &[1.0, 1.0]], Kind::Number, [0.5, 1.5 / 4.0, 0.0]);
        // Harms of 0, 0 and 3, without noise: their variance is 3.
        let same: &[f64] = &[1.0, 1.0];
        check(&[same, same, &[4.0, 4.0]], &[same; 3], Kind::Number, [1.0, 0.0, 3.0]);
        // One attempt per side that passed: a share of 3/4 is expected.
        check(&[&[1.0]], &[&[1.0]], Kind::PassFail, [0.0, 2.0 * 3.0 / 16.0, 0.0]);
    }

    #[test]
    fn repeats_reduce_their_part_of_the_variance() {
        let spread = Spread { tasks: 4, harm: 0.3, from_attempts: 0.03, seen: 0.16, between_tasks: 0.04 };
        assert_eq!(spread.parts(), (0.03, 0.01));
        assert_eq!(Spread { seen: 0.0, between_tasks: 0.0, ..spread }.parts(), (0.0, 0.0));
        assert!((spread.z(0.0).unwrap() - 3f64.sqrt()).abs() < 1e-12);
        assert_eq!(Spread { from_attempts: 0.0, ..spread }.z(0.0), None);
    }
}
