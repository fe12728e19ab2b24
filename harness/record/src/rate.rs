//! Pass rates with 95 % intervals, over episodes clustered by task.
//!
//! Episodes of one task resemble each other, so an interval that treats them as independent is too narrow. With n
//! episodes, of which a share p passed, in G tasks:
//!
//! - Variance, robust to any dependence within a task: `V = G/(G-1) * sum_g (sum_{i in g} (x_i - p))^2 / n^2`.
//! - Effective episodes: `m = p(1-p)/V * (z/t)^2`, where t is the quantile for G-1 degrees of freedom and z the normal
//!   quantile; at most n.
//! - The interval is Wilson's at p with m in place of n. It stays within [0, 1], contains p, and is not empty if
//!   every episode passed.
//!
//! If V is 0, because every task has the same share of passes, the dependence cannot be estimated.
//! Then m is G, one episode per task, if all episodes passed or none did, and n otherwise. If every task has one
//! episode, nothing is clustered, and a single task says nothing about others: then the interval is Wilson's
//! over the n episodes, and [`Method`] says so.
//!
//! R1. Faults are not episodes (I2 of the architecture): the caller excludes them. R2. A rate without episodes is
//! `None`. R3. The interval contains the rate and lies in [0, 1]. R4. Neither the order of tasks nor that of episodes
//! matters.
//!
//! Source: V: Liang and Zeger (1986), of a mean, as Miller, "Adding Error Bars to Evals" (2024), has it for evaluations,
//! times G/(G-1), as statsmodels and Stata have it. G-1 degrees of freedom: Cameron and Miller (2015), on few clusters.
//! Effective size: Korn and Graubard (1998); in Wilson's interval: Dean and Pagano (2015). Deviations: (1) the
//! quantiles' ratio is relative to the normal one, because Wilson's interval uses the normal quantile. (2) m is at most n, so
//! that a variance that is small by chance never makes the interval narrower than that of independent episodes.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::quantile::{NORMAL, student};

/// A share of episodes with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Rate {
    /// Episodes that passed.
    pub passed: u32,
    /// Episodes that finished.
    pub episodes: u32,
    /// Tasks they belong to.
    pub tasks: u32,
    /// `passed / episodes`.
    pub value: f64,
    /// Lower end of the 95 % interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Method of the interval.
    pub method: Method,
    /// Square root of V; `None` with a single task.
    pub standard_error: Option<f64>,
    /// m of the module's documentation: how many independent episodes say as much.
    pub effective_episodes: f64,
}

/// Method of an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Wilson's at the effective number of episodes, robust to dependence within tasks.
    ClusteredByTask,
    /// Wilson's: every task has one episode.
    OneEpisodeATask,
    /// Wilson's: there is one task, and the interval is about that task alone.
    OneTask,
}

impl Method {
    /// Description for tables.
    #[must_use]
    pub fn description(self) -> &'static str {
        match self {
            Self::ClusteredByTask => "clustered by task",
            Self::OneEpisodeATask => "Wilson, one episode per task",
            Self::OneTask => "Wilson, a single task",
        }
    }
}

/// Passed and finished episodes of one task.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tries {
    /// Episodes that passed.
    pub passed: u32,
    /// Episodes that finished.
    pub episodes: u32,
}

/// Tries by task, on the way to a rate.
#[derive(Debug, Clone, Default)]
pub struct Clusters {
    tries: BTreeMap<u32, Tries>,
}

impl Clusters {
    /// Counts an episode of a task.
    pub fn add(&mut self, task: u32, passed: bool) {
        let tries = self.tries.entry(task).or_default();
        tries.episodes += 1;
        tries.passed += u32::from(passed);
    }

    /// Counts of each task that has any.
    pub fn tries(&self) -> impl Iterator<Item = Tries> {
        self.tries.values().copied()
    }

    /// The rate of all of them; `None` out of nothing.
    #[must_use]
    pub fn rate(&self) -> Option<Rate> {
        let tries: Vec<Tries> = self.tries().collect();
        rate(&tries)
    }
}

/// The rate of these tasks, each with at least one episode; `None` out of nothing.
#[must_use]
pub fn rate(tasks: &[Tries]) -> Option<Rate> {
    let sum = |of: fn(&Tries) -> u32| tasks.iter().map(|tries| u64::from(of(tries))).sum::<u64>();
    let (passed, episodes) = (sum(|tries| tries.passed), sum(|tries| tries.episodes));
    if episodes == 0 {
        return None;
    }
    let (n, count) = (episodes as f64, tasks.len() as f64);
    let value = passed as f64 / n;
    let method = match tasks.len() {
        1 => Method::OneTask,
        _ if tasks.iter().all(|tries| tries.episodes == 1) => Method::OneEpisodeATask,
        _ => Method::ClusteredByTask,
    };
    let variance = (tasks.len() > 1).then(|| variance(tasks, value, n));
    let effective = match (method, variance) {
        (Method::ClusteredByTask, Some(variance)) if variance > 0.0 => {
            let quantile = student(u32::try_from(tasks.len() - 1).unwrap_or(u32::MAX));
            (value * (1.0 - value) / variance * (NORMAL / quantile).powi(2)).min(n)
        }
        (Method::ClusteredByTask, _) if passed == 0 || passed == episodes => count,
        _ => n,
    };
    let (low, high) = wilson(value, effective);
    let narrow = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    Some(Rate {
        passed: narrow(passed),
        episodes: narrow(episodes),
        tasks: narrow(tasks.len() as u64),
        value,
        low,
        high,
        method,
        standard_error: variance.map(f64::sqrt),
        effective_episodes: effective,
    })
}

fn variance(tasks: &[Tries], value: f64, n: f64) -> f64 {
    let count = tasks.len() as f64;
    let residual = |tries: &Tries| f64::from(tries.passed) - value * f64::from(tries.episodes);
    // Rounding errors of a zero difference would count as dependence.
    let noise = 1e-12 * n;
    let squares: f64 =
        tasks.iter().map(residual).filter(|left| left.abs() > noise).map(|left| left * left).sum();
    count / (count - 1.0) * squares / (n * n)
}

/// Wilson's score interval at 95 %, over `n` episodes, which need not be a whole number.
pub(crate) fn wilson(value: f64, n: f64) -> (f64, f64) {
    const Z: f64 = NORMAL;
    let centre = value + Z * Z / (2.0 * n);
    let spread = Z * (value * (1.0 - value) / n + Z * Z / (4.0 * n * n)).sqrt();
    let scale = 1.0 + Z * Z / n;
    // Rounding must not move the ends past the rate.
    (((centre - spread) / scale).clamp(0.0, value), ((centre + spread) / scale).clamp(value, 1.0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tries(pairs: &[(u32, u32)]) -> Vec<Tries> {
        pairs.iter().map(|&(passed, episodes)| Tries { passed, episodes }).collect()
    }

    #[test]
    fn r2_nothing_has_no_rate() {
        assert_eq!(rate(&[]), None);
        assert_eq!(Clusters::default().rate(), None);
    }

    #[test]
    fn members_that_agree_count_as_one() {
        let of = |pairs: &[(u32, u32)]| rate(&tries(pairs)).unwrap();
        let (agreeing, mixed) =
            (of(&[(8, 8), (0, 8), (8, 8), (0, 8)]), of(&[(4, 8), (4, 8), (4, 8), (4, 8)]));
        assert!(agreeing.effective_episodes < 4.0, "{agreeing:?}");
        assert_eq!(mixed.effective_episodes, 32.0);
        assert!(agreeing.high - agreeing.low > 2.0 * (mixed.high - mixed.low));
    }

    #[test]
    fn unanimity_is_as_strong_as_its_tasks_are_many() {
        let check = |pairs: &[(u32, u32)], effective: f64, method| {
            let rate = rate(&tries(pairs)).unwrap();
            assert_eq!((rate.effective_episodes, rate.method), (effective, method), "{pairs:?}");
        };
        check(&[(8, 8), (8, 8), (8, 8)], 3.0, Method::ClusteredByTask);
        check(&[(0, 3), (0, 4)], 2.0, Method::ClusteredByTask);
        check(&[(1, 1), (1, 1)], 2.0, Method::OneEpisodeATask);
        check(&[(8, 8)], 8.0, Method::OneTask);
    }

    fn any_tasks() -> impl Strategy<Value = Vec<Tries>> {
        let one = (1u32..20)
            .prop_flat_map(|episodes| (0..=episodes).prop_map(move |passed| Tries { passed, episodes }));
        proptest::collection::vec(one, 1..40)
    }

    proptest! {
        #[test]
        fn r3_the_interval_holds_the_rate(tasks in any_tasks()) {
            let rate = rate(&tasks).unwrap();
            let ends = [0.0, rate.low, rate.value, rate.high, 1.0];
            prop_assert!(ends.is_sorted() && rate.low < rate.high, "{rate:?}");
        }

        #[test]
        fn r4_the_order_does_not_matter(mut tasks in any_tasks()) {
            let forward = rate(&tasks).unwrap();
            tasks.reverse();
            let backward = rate(&tasks).unwrap();
            prop_assert!((forward.low - backward.low).abs() < 1e-12, "{forward:?} {backward:?}");
        }

        #[test]
        fn more_episodes_of_the_same_never_widen(tasks in any_tasks(), times in 2u32..5) {
            let more: Vec<Tries> = tasks
                .iter()
                .map(|tries| Tries { passed: tries.passed * times, episodes: tries.episodes * times })
                .collect();
            let (few, many) = (rate(&tasks).unwrap(), rate(&more).unwrap());
            // With one episode per task, a second episode is the first to show how episodes of a task correlate.
            prop_assume!(few.method == many.method);
            prop_assert!(many.high - many.low <= few.high - few.low + 1e-12);
        }
    }
}
