//! Positions of ticks on an axis.
//!
//! T1. Ticks are multiples of 1, 2 or 5 times a power of ten, at equal distances, in ascending order. T2. The first tick is not above the
//! lower end of the data, the last not below the upper end. T3. There are at least two ticks and at most the requested number.

/// Smaller magnitudes count as zero, because quotients of such numbers lose precision.
const MIN_MAGNITUDE: f64 = 1e-290;
/// Larger magnitudes are not drawn, because ticks beyond them could be infinite.
const MAX_MAGNITUDE: f64 = 1e300;
/// Ends that differ by less than this share of their magnitude are one value, because digits cannot distinguish them.
const SAME: f64 = 1e-9;

/// Ticks of an axis for the values from `low` to `high`, in either order: at most `most`, or up to three if `most` is smaller. Equal
/// ends are one value, placed inside the axis. There are no ticks if an end is not finite, or 1e300 or more from zero.
#[must_use]
pub fn ticks(low: f64, high: f64, most: u16) -> Vec<f64> {
    if !(low.abs() < MAX_MAGNITUDE && high.abs() < MAX_MAGNITUDE) {
        return Vec::new();
    }
    let (low, high) = (low.min(high), low.max(high));
    let span = high - low;
    let size = low.abs().max(high.abs());
    let (low, high) = if span > MIN_MAGNITUDE && span > size * SAME {
        (low, high)
    } else if size > MIN_MAGNITUDE {
        (low - size / 10.0, high + size / 10.0)
    } else {
        (0.0, 1.0)
    };
    // On both sides of zero there are three at least.
    let most = i64::from(most.max(3));
    let mut power = ((high - low) / most as f64).log10().floor() as i32;
    loop {
        for factor in [1, 2, 5] {
            // A division by a power of ten gives the nearest number to the decimal one; a multiplication by a negative power does not.
            let value = |at: i64| match power {
                0.. => (at * factor) as f64 * 10f64.powi(power),
                _ => (at * factor) as f64 / 10f64.powi(-power),
            };
            let step = value(1);
            let (first, last) = ((low / step).floor() as i64, (high / step).ceil() as i64);
            if last - first < most {
                return (first..=last).map(value).collect();
            }
        }
        power += 1;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(low: f64, high: f64, most: u16, expected: &[f64]) {
        assert_eq!(ticks(low, high, most), expected, "{low} to {high}");
    }

    #[test]
    fn ticks_are_round_numbers_around_the_data() {
        check(0.0, 1.0, 6, &[0.0, 0.2, 0.4, 0.6, 0.8, 1.0]);
        check(0.0, 1.0, 5, &[0.0, 0.5, 1.0]);
        check(0.0, 0.83, 6, &[0.0, 0.2, 0.4, 0.6, 0.8, 1.0]);
        check(-0.13, 0.42, 5, &[-0.2, 0.0, 0.2, 0.4, 0.6]);
        check(12_000.0, 98_765.0, 5, &[0.0, 50_000.0, 100_000.0]);
        check(1e-6, 3e-6, 5, &[1e-6, 1.5e-6, 2e-6, 2.5e-6, 3e-6]);
        check(0.0, 7.0, 8, &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
        check(3.0, 43.0, 6, &[0.0, 10.0, 20.0, 30.0, 40.0, 50.0]);
    }

    #[test]
    fn ends_in_the_wrong_order_are_put_right() {
        assert_eq!(ticks(4.0, 3.0, 5), ticks(3.0, 4.0, 5));
    }

    #[test]
    fn equal_ends_stand_inside_of_the_axis() {
        check(0.0, 0.0, 5, &[0.0, 0.5, 1.0]);
        check(-0.0, 1e-300, 5, &[0.0, 0.5, 1.0]);
        check(8.0, 8.0, 5, &[7.0, 7.5, 8.0, 8.5, 9.0]);
        check(-2.0, -2.0, 3, &[-2.2, -2.0, -1.8]);
        let (first, last) = (1e15, 1e15 + 1.0);
        let around = ticks(first, last, 5);
        assert!(around[0] < first && around[around.len() - 1] > last, "{around:?}");
    }

    #[test]
    fn without_finite_ends_there_are_no_ticks() {
        for odd in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            check(odd, 1.0, 5, &[]);
            check(1.0, odd, 5, &[]);
            check(odd, odd, 5, &[]);
        }
        check(0.0, f64::MAX, 5, &[]);
    }

    proptest! {
        #[test]
        fn t1_t2_t3_hold_of_any_range(one in any::<f64>(), other in any::<f64>(), most in 0u16..40) {
            let ticks = ticks(one, other, most);
            let (low, high) = (one.min(other), one.max(other));
            if !(one.abs() < MAX_MAGNITUDE && other.abs() < MAX_MAGNITUDE) {
                prop_assert_eq!(ticks, Vec::<f64>::new());
                return Ok(());
            }
            prop_assert!((2..=usize::from(most.max(3))).contains(&ticks.len()), "{:?}", ticks);
            let slack = low.abs().max(high.abs()) * SAME + MIN_MAGNITUDE;
            prop_assert!(ticks[0] <= low + slack && ticks[ticks.len() - 1] >= high - slack, "{:?}", ticks);
            let step = ticks[1] - ticks[0];
            prop_assert!(step > 0.0);
            let factor = step / 10f64.powf(step.log10().floor());
            let is_round = [1.0, 2.0, 5.0, 10.0].iter().any(|round| (factor / round - 1.0).abs() < 1e-3);
            prop_assert!(is_round || step < 1e-280, "{:?}", ticks);
        }
    }
}
