//! Means with intervals over seeds.
//!
//! I1. The bootstrap resamples seeds with all their users: users of a seed share questions and draws, so they are not
//! independent. I2. The result is a function of the values.
//!
//! Units: those of the values; ratios have none. Pure; nothing to cancel.
//! Source: the percentile bootstrap (Efron and Tibshirani, An Introduction to the Bootstrap, chapter 13). Deviations: none.

use clawrl_core::SplitMix64;
use serde::Serialize;

/// Number of bootstrap samples.
const DRAWN: usize = 10_000;

/// A value and its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Estimate {
    pub(super) value: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

pub(super) fn mean(of_seeds: &[f64]) -> Option<Estimate> {
    let pairs: Vec<(f64, f64)> = of_seeds.iter().map(|figure| (*figure, 1.0)).collect();
    ratio(&pairs)
}

/// The ratio of two sums over seeds; `None` without seeds, or if the second sum is 0.
pub(super) fn ratio(of_seeds: &[(f64, f64)]) -> Option<Estimate> {
    let of = |pairs: &mut dyn Iterator<Item = (f64, f64)>| {
        let (first, second) = pairs.fold((0.0, 0.0), |(a, b), (first, second)| (a + first, b + second));
        first / second
    };
    let value = of(&mut of_seeds.iter().copied());
    if !value.is_finite() {
        return None;
    }
    let mut random = SplitMix64::new(0);
    let count = of_seeds.len();
    let mut drawn: Vec<f64> = (0..DRAWN)
        .map(|_| of(&mut (0..count).map(|_| of_seeds[random.below(count as u64) as usize])))
        .filter(|value| value.is_finite())
        .collect();
    drawn.sort_by(f64::total_cmp);
    let at = |share: f64| drawn.get((share * (drawn.len() - 1) as f64).round() as usize).copied();
    Some(Estimate { value, low: at(0.025)?, high: at(0.975)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_hold_the_mean_and_are_as_wide_as_the_spread_says() {
        assert_eq!(mean(&[]), None);
        assert_eq!(mean(&[3.0; 5]), Some(Estimate { value: 3.0, low: 3.0, high: 3.0 }));
        let figures: Vec<f64> = (0..20).map(f64::from).collect();
        let Estimate { value, low, high } = mean(&figures).unwrap();
        // Standard error of the mean, by the bootstrap: sqrt(33.25 / 20) = 1.29.
        assert_eq!(value, 9.5);
        assert!((low - (9.5 - 2.53)).abs() < 0.2 && (high - (9.5 + 2.53)).abs() < 0.2, "{low} {high}");
    }

    #[test]
    fn ratios_are_of_sums() {
        assert_eq!(ratio(&[(1.0, 0.0)]), None);
        let Estimate { value, low, high } = ratio(&[(1.0, 2.0), (3.0, 2.0)]).unwrap();
        assert_eq!((value, low, high), (1.0, 0.5, 1.5));
    }
}
