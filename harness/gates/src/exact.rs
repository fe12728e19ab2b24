//! Exact tests of counts, and intervals of shares.
//!
//! I1. Every p-value is in [0, 1], and under the null hypothesis P(p <= alpha) <= alpha. I2. The
//! interval of Clopper and Pearson contains the observed share; that of Wilson lies in [0, 1].
//!
//! Units: counts of tasks or attempts; probabilities in [0, 1]. Errors: none; without trials p is 1 and the interval is
//! all of [0, 1]. Pure; nothing to cancel.
//! Source: Clopper and Pearson (1934); Wilson (1927); McNemar (1947) in its exact form, which is the sign test. The two-sided
//! binomial test sums all outcomes at most as probable as the observed one, as `scipy.stats.binomtest` does, with its slack of 1e-7 for
//! ties. Deviations: none.

use crate::distribution::{at_least, at_most, binomial, falling_root, upper_point};

/// The alternative hypothesis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alternative {
    /// More than under the null hypothesis.
    Greater,
    /// Less.
    Less,
    /// Either.
    TwoSided,
}

/// By how much probabilities may differ and still be a tie, relatively.
const TIE: f64 = 1e-7;

/// The p-value of `hits` in `trials` where each has probability `p` under the null hypothesis.
#[must_use]
pub fn binomial_test(hits: u64, trials: u64, p: f64, alternative: Alternative) -> f64 {
    match alternative {
        _ if trials == 0 => 1.0,
        Alternative::Greater => at_least(hits, trials, p),
        Alternative::Less => at_most(hits, trials, p),
        Alternative::TwoSided => {
            let most = binomial(hits, trials, p) * (1.0 + TIE);
            let as_rare = (0..=trials).map(|other| binomial(other, trials, p)).filter(|other| *other <= most);
            as_rare.sum::<f64>().min(1.0)
        }
    }
}

/// McNemar's exact test of tasks that were decided differently: how probable it is that they fall at least as unevenly.
#[must_use]
pub fn mcnemar(worse: u64, better: u64) -> f64 {
    let few = worse.min(better);
    (2.0 * at_most(few, worse + better, 0.5)).min(1.0)
}

/// The one-sided sign test: how probable it is that as many of the tasks that changed became worse, if each might as well have become
/// better.
#[must_use]
pub fn sign_test(worse: u64, better: u64) -> f64 {
    binomial_test(worse, worse + better, 0.5, Alternative::Greater)
}

/// The interval of Clopper and Pearson for a share, two-sided, at confidence `level`.
#[must_use]
pub fn clopper_pearson(hits: u64, trials: u64, level: f64) -> (f64, f64) {
    let tail = (1.0 - level) / 2.0;
    (share_above(hits, trials, tail), share_below(hits, trials, tail))
}

/// The share that is exceeded with confidence `1 - tail`: the lower end alone.
pub(crate) fn share_above(hits: u64, trials: u64, tail: f64) -> f64 {
    if hits == 0 { 0.0 } else { falling_root(0.0, 1.0, |p| tail - at_least(hits, trials, p)) }
}

/// The upper end alone.
pub(crate) fn share_below(hits: u64, trials: u64, tail: f64) -> f64 {
    if hits >= trials { 1.0 } else { falling_root(0.0, 1.0, |p| at_most(hits, trials, p) - tail) }
}

/// Wilson's interval for a share, two-sided, at confidence `level`.
#[must_use]
pub fn wilson(hits: u64, trials: u64, level: f64) -> (f64, f64) {
    if trials == 0 {
        return (0.0, 1.0);
    }
    let (n, share) = (trials as f64, hits as f64 / trials as f64);
    let z = upper_point((1.0 - level) / 2.0);
    let scale = 1.0 + z * z / n;
    let centre = (share + z * z / (2.0 * n)) / scale;
    let half = z * (share * (1.0 - share) / n + z * z / (4.0 * n * n)).sqrt() / scale;
    ((centre - half).max(0.0), (centre + half).min(1.0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn changed_tasks_by_hand() {
        let check = |worse, better, one_sided: f64, both: f64| {
            let found = (sign_test(worse, better), mcnemar(worse, better));
            let close = (found.0 - one_sided).abs() < 1e-12 && (found.1 - both).abs() < 1e-12;
            assert!(close, "{worse} worse, {better} better: {found:?}");
        };
        check(0, 0, 1.0, 1.0);
        check(5, 0, 1.0 / 32.0, 2.0 / 32.0);
        check(0, 5, 1.0, 2.0 / 32.0);
        check(3, 1, 5.0 / 16.0, 10.0 / 16.0);
        check(2, 2, 11.0 / 16.0, 1.0);
    }

    #[test]
    fn nothing_tried_says_nothing() {
        assert_eq!(binomial_test(0, 0, 0.3, Alternative::TwoSided), 1.0);
        assert_eq!(clopper_pearson(0, 0, 0.95), (0.0, 1.0));
        assert_eq!(wilson(0, 0, 0.95), (0.0, 1.0));
    }

    #[test]
    fn no_failure_in_n_leaves_about_three_in_n() {
        let upper = share_below(0, 100, 0.05);
        assert!((upper - (1.0 - 0.05f64.powf(0.01))).abs() < 1e-12, "{upper}");
    }

    proptest! {
        /// I1.
        #[test]
        fn p_values_are_probabilities(hits in 0u64..60, more in 0u64..60, p in 0.0f64..=1.0) {
            let trials = hits + more;
            for alternative in [Alternative::Greater, Alternative::Less, Alternative::TwoSided] {
                let found = binomial_test(hits, trials, p, alternative);
                prop_assert!((0.0..=1.0).contains(&found));
                let other_way = match alternative {
                    Alternative::Greater => Alternative::Less,
                    Alternative::Less => Alternative::Greater,
                    Alternative::TwoSided => Alternative::TwoSided,
                };
                prop_assert!((binomial_test(more, trials, 1.0 - p, other_way) - found).abs() < 1e-9);
            }
            prop_assert_eq!(mcnemar(hits, more), mcnemar(more, hits));
            prop_assert!(sign_test(hits + 1, more) <= sign_test(hits, more + 1) + 1e-12);
        }

        /// I2.
        #[test]
        fn intervals_hold_the_share(hits in 0u64..60, more in 0u64..60, level in 0.5f64..0.999) {
            prop_assume!(hits + more > 0);
            let share = hits as f64 / (hits + more) as f64;
            let (low, high) = clopper_pearson(hits, hits + more, level);
            prop_assert!(low <= share && share <= high, "{} {} {}", low, share, high);
            let (low, high) = wilson(hits, hits + more, level);
            prop_assert!(0.0 <= low && low <= high && high <= 1.0);
        }
    }
}
