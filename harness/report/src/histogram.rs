//! Durations in buckets that are equal for every run, so that two pages are easy to compare.
//!
//! There are [`PER_DECADE`] buckets per factor of ten, from 1 us on; the last one holds everything above
//! 1,000 s. Percentiles use the nearest rank of the durations themselves, not the buckets.
//!
//! Units: microseconds.

use serde::Serialize;

/// Buckets for a factor of ten.
pub const PER_DECADE: u32 = 4;
/// From 1 us to 1,000 s, and one bucket above.
pub const BUCKETS: usize = 9 * PER_DECADE as usize + 1;

/// Distribution of a duration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Histogram {
    /// Number of durations.
    pub count: u64,
    /// Half take no longer.
    pub p50_us: u64,
    /// 90 % take no longer.
    pub p90_us: u64,
    /// 95 % take no longer.
    pub p95_us: u64,
    /// 99 % take no longer.
    pub p99_us: u64,
    /// The longest.
    pub max_us: u64,
    /// All together.
    pub sum_us: u64,
    /// Counts; bucket `i` holds durations below its [`upper_us`] and not below that of the previous bucket.
    pub buckets: Vec<u64>,
}

/// The first duration that is too long for a bucket.
#[must_use]
pub fn upper_us(bucket: usize) -> f64 {
    10f64.powf((bucket as f64 + 1.0) / f64::from(PER_DECADE))
}

impl Histogram {
    /// The distribution of these durations; `None` without any.
    #[must_use]
    pub fn of(mut durations_us: Vec<u64>) -> Option<Self> {
        durations_us.sort_unstable();
        let max_us = *durations_us.last()?;
        let count = durations_us.len();
        let rank = |percent: usize| durations_us[(count * percent).div_ceil(100) - 1];
        let mut buckets = vec![0; BUCKETS];
        let (mut bucket, mut upper) = (0, upper_us(0));
        for &duration in &durations_us {
            while bucket + 1 < BUCKETS && duration as f64 >= upper {
                bucket += 1;
                upper = upper_us(bucket);
            }
            buckets[bucket] += 1;
        }
        Some(Self {
            count: count as u64,
            p50_us: rank(50),
            p90_us: rank(90),
            p95_us: rank(95),
            p99_us: rank(99),
            max_us,
            sum_us: durations_us.iter().fold(0, |sum: u64, &duration| sum.saturating_add(duration)),
            buckets,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn nothing_has_no_histogram() {
        assert_eq!(Histogram::of(Vec::new()), None);
    }

    #[test]
    fn ends_are_where_they_are_said_to_be() {
        let bucket = |duration: u64| {
            Histogram::of(vec![duration]).unwrap().buckets.iter().position(|&count| count == 1).unwrap()
        };
        assert_eq!([bucket(0), bucket(1), bucket(2), bucket(9), bucket(10)], [0, 0, 1, 3, 4]);
        assert_eq!([bucket(999), bucket(1_000)], [11, 12]);
        assert_eq!([bucket(999_999_999), bucket(1_000_000_000), bucket(u64::MAX)], [35, 36, 36]);
    }

    proptest! {
        #[test]
        fn every_duration_is_in_one_bucket(durations in proptest::collection::vec(any::<u64>(), 1..200)) {
            let histogram = Histogram::of(durations.clone()).unwrap();
            prop_assert_eq!(histogram.buckets.iter().sum::<u64>(), durations.len() as u64);
            let percentiles = [
                histogram.p50_us,
                histogram.p90_us,
                histogram.p95_us,
                histogram.p99_us,
                histogram.max_us,
            ];
            prop_assert!(percentiles.is_sorted());
            prop_assert!(percentiles.iter().all(|one| durations.contains(one)));
        }
    }
}
