//! The durations of one phase, in bounded memory.
//!
//! I1. Count, sum and longest are of all durations. I2. Up to [`KEPT`] durations are kept as they are; of more, each has the
//! same chance to be among those that are kept.
//!
//! Units: microseconds.
//! Source: Vitter 1985, "Random Sampling with a Reservoir", algorithm R. Deviations: none.

use std::time::Duration;

use clawrl_core::SplitMix64;
use clawrl_report::Histogram;

/// Durations of a phase that are kept: enough for a sound 99th percentile, 8 MB.
const KEPT: usize = 1_000_000;

#[derive(Debug)]
pub(super) struct Durations {
    count: u64,
    sum_us: u64,
    max_us: u64,
    kept_us: Vec<u64>,
    most: usize,
    random: SplitMix64,
}

/// What is told of a phase.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Figures {
    /// How many durations there were.
    pub(super) count: u64,
    /// All together.
    pub(super) sum_us: u64,
    /// The longest.
    pub(super) max_us: u64,
    /// Of those that were kept.
    pub(super) kept: Histogram,
}

impl Default for Durations {
    fn default() -> Self {
        Self::keeping(KEPT)
    }
}

impl Durations {
    fn keeping(most: usize) -> Self {
        // Which ones are kept has nothing to do with a run's seed.
        let random = SplitMix64::new(0);
        Self { count: 0, sum_us: 0, max_us: 0, kept_us: Vec::new(), most, random }
    }

    pub(super) fn push(&mut self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.count += 1;
        self.sum_us = self.sum_us.saturating_add(micros);
        self.max_us = self.max_us.max(micros);
        if self.kept_us.len() < self.most {
            self.kept_us.push(micros);
            return;
        }
        let drawn = self.random.below(self.count);
        if let Some(place) = usize::try_from(drawn).ok().and_then(|at| self.kept_us.get_mut(at)) {
            *place = micros;
        }
    }

    /// `None` of nothing.
    pub(super) fn figures(&self) -> Option<Figures> {
        let kept = Histogram::of(self.kept_us.clone())?;
        Some(Figures { count: self.count, sum_us: self.sum_us, max_us: self.max_us, kept })
    }
}

impl Figures {
    /// Mean of all.
    pub(super) fn mean_us(&self) -> u64 {
        self.sum_us / self.count.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(most: usize, durations: impl Iterator<Item = u64>) -> Option<Figures> {
        let mut all = Durations::keeping(most);
        durations.for_each(|micros| all.push(Duration::from_micros(micros)));
        all.figures()
    }

    #[test]
    fn few_durations_are_told_as_they_are() {
        assert_eq!(check(10, std::iter::empty()), None);
        let figures = check(10, 1..=4).unwrap();
        assert_eq!((figures.count, figures.sum_us, figures.max_us, figures.mean_us()), (4, 10, 4, 2));
        assert_eq!((figures.kept.count, figures.kept.p50_us, figures.kept.p90_us), (4, 2, 4));
    }

    #[test]
    fn many_durations_are_represented_by_some() {
        let figures = check(1_000, 0..100_000).unwrap();
        assert_eq!((figures.count, figures.max_us, figures.kept.count), (100_000, 99_999, 1_000));
        // The median of 1,000 of them has a standard error of 1.6 %.
        assert!((40_000..60_000).contains(&figures.kept.p50_us), "{}", figures.kept.p50_us);
    }
}
