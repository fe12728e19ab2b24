//! Success in k tries: pass@k, at least one of k passes, and pass^k, all of k pass.
//!
//! Of a task with n episodes, c of which passed: `pass@k = 1 - C(n-c, k) / C(n, k)` and `pass^k = C(c, k) / C(n, k)`,
//! both unbiased, because they average over all choices of k of the n. The value of a run is the mean over the
//! tasks with at least k episodes, whose number is listed with it. Its interval is the mean plus and minus
//! Student's quantile times the standard error over those tasks, clamped to [0, 1]; there is none for fewer than two
//! tasks, or if all tasks agree.
//!
//! K1. pass^k <= pass@k, equal at k = 1. K2. Over the same tasks pass@k never falls with k, pass^k never rises.
//!
//! Source: pass@k: Chen et al. (2021), equation 1, as a product, so that nothing overflows. pass^k: Yao et al.,
//! "tau-bench" (2024). Deviations: none.

use clawrl_record::{Tries, student};
use serde::Serialize;

/// Success in `k` tries.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct AtK {
    /// Number of tries.
    pub k: u32,
    /// Tasks with at least `k` episodes.
    pub tasks: u32,
    /// The chance that at least one of `k` passes.
    pub at_least_one: Mean,
    /// The chance that all of `k` pass.
    pub all: Mean,
}

/// A mean over tasks.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Mean {
    /// The mean.
    pub value: f64,
    /// Both ends of its 95 % interval, if there is one.
    pub interval: Option<(f64, f64)>,
}

/// Figures for k = 1, 2, 4, 8 and so on, up to the greatest number of episodes that a task has, and for that number.
#[must_use]
pub fn at_k(tasks: &[Tries]) -> Vec<AtK> {
    let most = tasks.iter().map(|tries| tries.episodes).max().unwrap_or(0);
    let mut steps: Vec<u32> =
        std::iter::successors(Some(1u32), |k| k.checked_mul(2)).take_while(|&k| k < most).collect();
    steps.extend((most > 0).then_some(most));
    steps.into_iter().map(|k| success_in(tasks, k)).collect()
}

/// Figures for one k. Over no task at all the means are not numbers.
#[must_use]
pub fn success_in(tasks: &[Tries], k: u32) -> AtK {
    let enough: Vec<Tries> = tasks.iter().copied().filter(|tries| tries.episodes >= k).collect();
    let over = |estimate: fn(Tries, u32) -> f64| {
        mean(&enough.iter().map(|&tries| estimate(tries, k)).collect::<Vec<_>>())
    };
    AtK {
        k,
        tasks: u32::try_from(enough.len()).unwrap_or(u32::MAX),
        at_least_one: over(pass_at_k),
        all: over(pass_hat_k),
    }
}

/// 1 - C(n-c, k) / C(n, k).
fn pass_at_k(tries: Tries, k: u32) -> f64 {
    let failed = tries.episodes - tries.passed;
    if failed < k {
        return 1.0;
    }
    let kept = (failed + 1..=tries.episodes).map(|number| 1.0 - f64::from(k) / f64::from(number));
    1.0 - kept.product::<f64>()
}

/// C(c, k) / C(n, k).
fn pass_hat_k(tries: Tries, k: u32) -> f64 {
    if tries.passed < k {
        return 0.0;
    }
    (0..k).map(|drawn| f64::from(tries.passed - drawn) / f64::from(tries.episodes - drawn)).product()
}

fn mean(values: &[f64]) -> Mean {
    let count = values.len() as f64;
    let value = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|one| (one - value).powi(2)).sum();
    let interval = (values.len() > 1 && squares > 1e-24).then(|| {
        let error = (squares / (count - 1.0) / count).sqrt();
        let reach = student(u32::try_from(values.len() - 1).unwrap_or(u32::MAX)) * error;
        ((value - reach).max(0.0), (value + reach).min(1.0))
    });
    Mean { value, interval }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn steps(episodes: &[u32]) -> Vec<u32> {
        let tasks: Vec<Tries> = episodes.iter().map(|&episodes| Tries { passed: 0, episodes }).collect();
        at_k(&tasks).iter().map(|figure| figure.k).collect()
    }

    #[test]
    fn k_doubles_up_to_the_repeats() {
        assert_eq!(steps(&[]), [0u32; 0]);
        assert_eq!(steps(&[1, 1]), [1]);
        assert_eq!(steps(&[8, 3]), [1, 2, 4, 8]);
        assert_eq!(steps(&[5]), [1, 2, 4, 5]);
    }

    #[test]
    fn tasks_with_too_few_episodes_are_excluded() {
        let tasks = [Tries { passed: 1, episodes: 1 }, Tries { passed: 1, episodes: 4 }];
        let two = at_k(&tasks)[1];
        assert_eq!((two.k, two.tasks, two.at_least_one.value), (2, 1, 0.5));
        assert_eq!((two.all.value, two.all.interval), (0.0, None));
    }

    proptest! {
        #[test]
        fn k1_and_k2(episodes in 1u32..40, share in 0.0..=1.0f64) {
            let passed = (f64::from(episodes) * share) as u32;
            let figures = at_k(&[Tries { passed, episodes }]);
            prop_assert!((figures[0].at_least_one.value - figures[0].all.value).abs() < 1e-12);
            for figure in &figures {
                prop_assert!(figure.all.value <= figure.at_least_one.value + 1e-12);
            }
            prop_assert!(figures.is_sorted_by(|a, b| a.at_least_one.value <= b.at_least_one.value + 1e-12));
            prop_assert!(figures.is_sorted_by(|a, b| a.all.value + 1e-12 >= b.all.value));
        }
    }
}
