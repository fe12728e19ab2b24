//! A Brownian motion that stops at the first analysis outside a region: probabilities by analysis and side.
//!
//! I1. The probabilities of leaving and staying add up to the former total, with an integration error below 1e-7. I2. Nothing leaves at an infinite boundary.
//!
//! Units: the motion is z times the square root of the information fraction, so its variance at the end is 1. Pure; nothing to cancel.
//! Source: Armitage, McPherson and Rowe (1969), the recursion of densities; integrals by Simpson's rule. Deviations: none.

use crate::distribution::{density, lower_tail, upper_tail};

/// Standard deviations at which the density is truncated; the omitted probability is 1e-15.
const REACH: f64 = 8.0;
/// Intervals of a grid, at least, and those of the next step's standard deviation.
const INTERVALS: f64 = 300.0;
const PER_STEP: f64 = 6.0;

/// Density of the motion that has not stopped: points with their probabilities.
#[derive(Debug, Clone)]
pub(crate) struct Motion {
    points: Vec<(f64, f64)>,
    time: f64,
    drift: f64,
}

/// The motion on its way to the next look.
pub(crate) struct Step<'a> {
    from: &'a Motion,
    time: f64,
    deviation: f64,
    shift: f64,
}

impl Motion {
    /// The motion at its start, with its total drift.
    pub(crate) fn new(drift: f64) -> Self {
        Self { points: vec![(0.0, 1.0)], time: 0.0, drift }
    }

    /// To a later time.
    pub(crate) fn step(&self, time: f64) -> Step<'_> {
        let passed = time - self.time;
        Step { from: self, time, deviation: passed.sqrt(), shift: self.drift * passed }
    }
}

impl Step<'_> {
    /// The probability to be above `level` then.
    pub(crate) fn above(&self, level: f64) -> f64 {
        self.summed(|from| upper_tail((level - from - self.shift) / self.deviation))
    }

    /// To be below.
    pub(crate) fn below(&self, level: f64) -> f64 {
        self.summed(|from| lower_tail((level - from - self.shift) / self.deviation))
    }

    /// The part that stays between two levels, on a grid for a next step as short as `next`.
    pub(crate) fn between(&self, low: f64, high: f64, next: f64) -> Motion {
        let (centre, reach) = (self.from.drift * self.time, REACH * self.time.sqrt());
        let (low, high) = (low.max(centre - reach), high.min(centre + reach));
        let mut points = Vec::new();
        if low < high {
            let intervals = INTERVALS.max((high - low) / next.sqrt() * PER_STEP);
            // Simpson's rule needs an even number of intervals.
            let intervals = 2 * (intervals / 2.0).ceil() as usize;
            let width = (high - low) / intervals as f64;
            let point = |at: usize| {
                let place = low + width * at as f64;
                let weight = match at {
                    _ if at == 0 || at == intervals => 1.0,
                    _ if at % 2 == 1 => 4.0,
                    _ => 2.0,
                };
                let around = self.summed(|from| density((place - from - self.shift) / self.deviation))
                    / self.deviation;
                (place, around * weight * width / 3.0)
            };
            points = (0..=intervals).map(point).collect();
        }
        Motion { points, time: self.time, drift: self.from.drift }
    }

    fn summed(&self, of: impl Fn(f64) -> f64) -> f64 {
        self.from.points.iter().map(|(place, around)| around * of(*place)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_boundaries_it_is_normal() {
        let mut motion = Motion::new(0.7);
        for time in [0.2, 0.25, 0.6] {
            motion = motion.step(time).between(f64::NEG_INFINITY, f64::INFINITY, 0.05);
        }
        for level in [-2.0, 0.0, 0.7, 3.0] {
            let found = motion.step(1.0).above(level);
            assert!((found - upper_tail(level - 0.7)).abs() < 1e-8, "{level}: {found}");
        }
    }

    /// I1, I2.
    #[test]
    fn nothing_gets_lost() {
        let start = Motion::new(1.0);
        let step = start.step(0.4);
        let stays = step.between(-0.3, 1.1, 0.3);
        let gone = step.below(-0.3) + step.above(1.1);
        let left = stays.step(0.7);
        assert!((left.below(0.2) + left.above(0.2) + gone - 1.0).abs() < 1e-7);
        assert_eq!(left.above(f64::INFINITY), 0.0);
        assert_eq!(step.between(1.0, 0.5, 0.3).step(0.7).above(0.0), 0.0);
    }
}
