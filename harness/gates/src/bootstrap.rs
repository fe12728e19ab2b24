//! A confidence interval of the mean over tasks by bootstrap: BCa.
//!
//! BCa instead of the studentised bootstrap, because the latter divides by the spread of each sample, and samples of passes and fails often
//! have none. The interval is for display; verdicts use [`crate::resampling`], whose tests keep their error at every suite size.
//!
//! I1. The interval lies between the smallest and the largest difference. I2. Equal seeds give equal numbers. I3. If all differences are
//! equal, the interval is that one value.
//!
//! Shapes: one difference per task. Units: those of the differences. Pure; nothing to cancel.
//! Source: Efron, Better bootstrap confidence intervals (1987); ties in the bias count half and quantiles are
//! linear between samples, as in `scipy.stats.bootstrap`. Deviations: if the levels cannot be computed, the interval is the percentile one.

use clawrl_core::SplitMix64;

use crate::distribution::{lower_tail, upper_point};
use crate::outcomes::mean;

const DRAWS: usize = 9_999;

/// The two-sided interval of the mean of these differences at confidence `level`; `None` without differences.
#[must_use]
pub fn bootstrap(differences: &[f64], level: f64, seed: u64) -> Option<(f64, f64)> {
    let mut random = SplitMix64::new(seed);
    let count = differences.len();
    let one = |_: usize| {
        let drawn = (0..count).map(|_| differences[random.below(count as u64) as usize]);
        drawn.sum::<f64>() / count as f64
    };
    let means = if count == 0 { Vec::new() } else { (0..DRAWS).map(one).collect() };
    bca(differences, means, level)
}

/// The interval from given bootstrap means.
#[must_use]
pub fn bca(differences: &[f64], mut means: Vec<f64>, level: f64) -> Option<(f64, f64)> {
    let first = *differences.first()?;
    if differences.iter().all(|difference| *difference == first) {
        return Some((first, first));
    }
    means.sort_by(f64::total_cmp);
    let seen = mean(differences);
    let below = means.partition_point(|mean| *mean < seen) + means.partition_point(|mean| *mean <= seen);
    let bias = -upper_point(below as f64 / (2 * means.len()) as f64);
    // For the mean, the deviations of the jackknife are those of the differences, up to a factor that cancels.
    let power = |exponent: i32| differences.iter().map(|d| (d - seen).powi(exponent)).sum::<f64>();
    let acceleration = power(3) / (6.0 * power(2).powf(1.5));
    let adjusted = |tail: f64| {
        let z = bias - upper_point(tail);
        let level = lower_tail(bias + z / (1.0 - acceleration * z));
        if level.is_finite() { level } else { tail }
    };
    let tail = (1.0 - level) / 2.0;
    Some((quantile(&means, adjusted(tail))?, quantile(&means, adjusted(1.0 - tail))?))
}

fn quantile(ascending: &[f64], level: f64) -> Option<f64> {
    let place = level * ascending.len().checked_sub(1)? as f64;
    let (low, high) = (ascending.get(place.floor() as usize)?, ascending.get(place.ceil() as usize)?);
    Some(low + (high - low) * place.fract())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn intervals_of_little() {
        let check = |differences: &[f64], expected| assert_eq!(bootstrap(differences, 0.9, 1), expected);
        check(&[], None);
        check(&[0.25], Some((0.25, 0.25)));
        check(&[0.0; 30], Some((0.0, 0.0)));
    }

    #[test]
    fn as_wide_as_the_spread_says() {
        let differences: Vec<f64> = (0..100).map(|task| f64::from(task % 10) / 10.0).collect();
        let (low, high) = bootstrap(&differences, 0.95, 1).unwrap();
        // The standard error of the mean is sqrt(0.0825 / 100) = 0.0287.
        assert!(
            (low - (0.45 - 0.0563)).abs() < 0.004 && (high - (0.45 + 0.0563)).abs() < 0.004,
            "{low} {high}"
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        /// I1, I2.
        #[test]
        fn interval_lies_within_the_data(differences in prop::collection::vec(-1.0f64..1.0, 1..30), seed: u64) {
            let (low, high) = bootstrap(&differences, 0.9, seed).unwrap();
            let ends = differences.iter().fold((1.0f64, -1.0f64), |(a, b), d| (a.min(*d), b.max(*d)));
            prop_assert!(ends.0 - 1e-12 <= low && low <= high && high <= ends.1 + 1e-12);
            prop_assert_eq!(bootstrap(&differences, 0.9, seed), Some((low, high)));
        }
    }
}
