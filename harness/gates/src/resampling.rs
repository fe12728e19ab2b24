//! Tests and intervals of a mean over tasks: sign flips, which are equivalent to subsample means.
//!
//! Flip the signs of `d - tau`, for the differences d of n tasks, in all 2^n ways. The share of ways whose mean is at least
//! the observed one is the p-value against "the mean is tau or less". A way counts if and only if the mean of d over the flipped
//! tasks is at most tau. So the p-values for all tau are shares of the means of all subsets of tasks, with the empty subset
//! always counted, and the ends of an interval are quantiles of these means.
//!
//! I1. p is in (0, 1]: the observation is one of the ways. I2. It falls with the harm and rises with tau. I3. Bound and test agree:
//! `p_above(tau) <= alpha` if and only if `lower(alpha) > tau`, except for ties in the last bits, which are not evidence.
//! I4. The order of tasks does not matter for the exact test; for draws, up to Monte Carlo error. I5. Equal seeds give equal
//! numbers.
//!
//! The test is exact if a task's difference is as probable as its opposite, as for tau 0 and the same agent with equally
//! many attempts on both sides. Otherwise it holds asymptotically, as Student's test does.
//!
//! Shapes: one difference per task. Units: those of the differences. Pure; nothing to cancel.
//! Source: Fisher (1935), section 21; Hartigan, Using subsample values as typical values (1969), for the subsets; Phipson and Smyth
//! (2010) for adding one to the draws. Deviations: none.

use clawrl_core::SplitMix64;

/// Number of tasks up to which every subset is evaluated: 65,536 subsets.
pub const EXACT_TASKS: usize = 16;
/// Number of sampled subsets if there are more tasks. The standard error of a p-value of 5 % is 0.15 points.
const DRAWS: usize = 19_999;
/// Differences of means that rounding may make, as a share of the largest difference.
const ROUNDING: f64 = 1e-12;

/// The means of subsets of tasks.
#[derive(Debug, Clone, PartialEq)]
pub struct SubsetMeans {
    /// Means of non-empty subsets, ascending.
    means: Vec<f64>,
    /// Number of evaluated subsets, including the empty one and, for draws, the observed one.
    all: usize,
    slack: f64,
    is_exact: bool,
}

impl SubsetMeans {
    /// Means of these differences; drawn with the seed if there are more than [`EXACT_TASKS`].
    #[must_use]
    pub fn new(differences: &[f64], seed: u64) -> Self {
        let is_exact = differences.len() <= EXACT_TASKS;
        let mut means = if is_exact { every_subset(differences) } else { drawn(differences, seed) };
        means.sort_by(f64::total_cmp);
        let largest = differences.iter().fold(0.0f64, |most, d| most.max(d.abs()));
        let all = if is_exact { 1 << differences.len() } else { DRAWS + 1 };
        Self { means, all, slack: largest * ROUNDING, is_exact }
    }

    /// Whether all subsets were evaluated.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.is_exact
    }

    /// The p-value against "the mean is `tau` or less"; 1 without tasks.
    #[must_use]
    pub fn p_above(&self, tau: f64) -> f64 {
        let at_most = self.means.partition_point(|mean| *mean <= tau + self.slack);
        (self.all - self.means.len() + at_most) as f64 / self.all as f64
    }

    /// The p-value against "the mean is `delta` or more".
    #[must_use]
    pub fn p_below(&self, delta: f64) -> f64 {
        let less = self.means.partition_point(|mean| *mean < delta - self.slack);
        (self.all - less) as f64 / self.all as f64
    }

    /// The lower bound of the mean at level `alpha`; minus infinity if there are too few tasks for that level.
    #[must_use]
    pub fn lower(&self, alpha: f64) -> f64 {
        let place = self.allowed(alpha).and_then(|allowed| self.means.get(allowed));
        place.map_or(f64::NEG_INFINITY, |mean| *mean)
    }

    /// The upper bound; infinity if there are too few tasks.
    #[must_use]
    pub fn upper(&self, alpha: f64) -> f64 {
        let place = self.allowed(alpha).and_then(|allowed| self.means.iter().nth_back(allowed));
        place.map_or(f64::INFINITY, |mean| *mean)
    }

    /// Number of means that may be beyond a bound, besides those that always count.
    fn allowed(&self, alpha: f64) -> Option<usize> {
        let always = self.all - self.means.len();
        // A share like 0.05 of 20 is 1, regardless of rounding in its last bit.
        let most = (alpha * self.all as f64 * (1.0 + 1e-12)).floor() as usize;
        most.checked_sub(always)
    }
}

/// The p-value of the sign-flip test against "the mean of these differences is `tau` or less".
#[must_use]
pub fn sign_flip(differences: &[f64], tau: f64, seed: u64) -> f64 {
    SubsetMeans::new(differences, seed).p_above(tau)
}

fn every_subset(differences: &[f64]) -> Vec<f64> {
    let mut sums = vec![(0.0, 0u32)];
    for difference in differences {
        let with: Vec<(f64, u32)> = sums.iter().map(|(sum, size)| (sum + difference, size + 1)).collect();
        sums.extend(with);
    }
    sums.into_iter().skip(1).map(|(sum, size)| sum / f64::from(size)).collect()
}

fn drawn(differences: &[f64], seed: u64) -> Vec<f64> {
    let mut random = SplitMix64::new(seed);
    let one = |_| {
        let (mut sum, mut size) = (0.0, 0u32);
        for part in differences.chunks(64) {
            let bits = random.next_u64();
            for (_, difference) in part.iter().enumerate().filter(|(at, _)| bits >> at & 1 == 1) {
                (sum, size) = (sum + difference, size + 1);
            }
        }
        (size > 0).then(|| sum / f64::from(size))
    };
    (0..DRAWS).filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(differences: &[f64], tau: f64, above: f64, below: f64) {
        let means = SubsetMeans::new(differences, 1);
        let found = (means.p_above(tau), means.p_below(tau));
        assert_eq!(found, (above, below), "{differences:?} against {tau}");
    }

    #[test]
    fn flips_by_hand() {
        check(&[], 0.0, 1.0, 1.0);
        check(&[1.0], 0.0, 0.5, 1.0);
        check(&[1.0, 1.0], 0.0, 0.25, 1.0);
        check(&[1.0, -1.0], 0.0, 0.75, 0.75);
        check(&[0.0; 5], 0.0, 1.0, 1.0);
        check(&[0.0; 5], 0.1, 1.0, 1.0 / 32.0);
        // Means of subsets: 1, 2, 3, 1.5, 2, 2.5, 2.
        check(&[1.0, 2.0, 3.0], 1.5, 3.0 / 8.0, 1.0 - 1.0 / 8.0);
    }

    #[test]
    fn bounds_by_hand() {
        let means = SubsetMeans::new(&[1.0, 2.0, 3.0], 1);
        assert_eq!(means.lower(1.0 / 8.0), 1.0);
        assert_eq!(means.lower(2.0 / 8.0), 1.5);
        assert_eq!(means.upper(1.0 / 8.0), 3.0);
        assert_eq!(means.upper(3.0 / 8.0), 2.0);
        assert_eq!((means.lower(0.12), means.upper(0.12)), (f64::NEG_INFINITY, f64::INFINITY));
    }

    proptest! {
        /// I1, I2, I3, I4.
        #[test]
        fn tests_and_bounds_agree(
            differences in prop::collection::vec(-1.0f64..1.0, 1..9),
            tau in -1.0f64..1.0,
            alpha in 0.01f64..0.5,
        ) {
            let means = SubsetMeans::new(&differences, 0);
            let p = means.p_above(tau);
            prop_assert!(p > 0.0 && p <= 1.0);
            prop_assert_eq!(p <= alpha, means.lower(alpha) > tau);
            prop_assert_eq!(means.p_below(tau) <= alpha, means.upper(alpha) < tau);
            prop_assert!(means.p_above(tau + 0.1) >= p);
            let backwards: Vec<f64> = differences.iter().rev().copied().collect();
            prop_assert_eq!(SubsetMeans::new(&backwards, 0).p_above(tau), p);
            let mirrored: Vec<f64> = differences.iter().map(|d| -d).collect();
            prop_assert_eq!(SubsetMeans::new(&mirrored, 0).p_below(-tau), p);
        }

        /// I4, I5.
        #[test]
        fn draws_are_close_to_all(differences in prop::collection::vec(-1.0f64..1.0, EXACT_TASKS), seed: u64) {
            let exact = SubsetMeans::new(&differences, seed).p_above(0.0);
            let draws = drawn(&differences, seed);
            let found = draws.iter().filter(|mean| **mean <= 0.0).count() as f64 / draws.len() as f64;
            // Five standard errors of the widest.
            prop_assert!((found - exact).abs() < 5.0 * 0.5 / (DRAWS as f64).sqrt());
            prop_assert_eq!(drawn(&differences, seed), draws);
        }
    }
}
