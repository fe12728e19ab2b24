//! The normal distribution, and the parts of the binomial distribution that exact tests need.
//!
//! I1. Tails are computed from their own side, so that small tails keep their precision. I2. [`upper_point`] inverts [`upper_tail`] up to
//! the last bits.
//!
//! Units: probabilities in [0, 1]. Pure; nothing to cancel.
//! Source: Abramowitz and Stegun (1964), 7.1.6 (series of erf) below [`SERIES_BELOW`], 7.1.14 (continued fraction of erfc) from there
//! on; Lanczos (1964) for the logarithm of the gamma function, with the nine coefficients of Godfrey for g = 7; Dowell and Jarratt (1971) for roots,
//! the "Illinois" rule. Deviations: none.

use std::f64::consts::{FRAC_1_SQRT_2, PI};

/// Below it the series of erf has positive terms and few of them; above it the fraction converges within 60 steps.
const SERIES_BELOW: f64 = 2.5;
const FRACTION_STEPS: u32 = 60;
/// Beyond it a tail is below the smallest number there is.
const MAX_BOUNDARY: f64 = 38.5;

/// The probability that a standard normal variable is above `z`.
pub(crate) fn upper_tail(z: f64) -> f64 {
    let x = z.abs() * FRAC_1_SQRT_2;
    let tail = if x < SERIES_BELOW { 0.5 * (1.0 - error_function(x)) } else { 0.5 * complement(x) };
    if z >= 0.0 { tail } else { 1.0 - tail }
}

/// The probability of a smaller value.
pub(crate) fn lower_tail(z: f64) -> f64 {
    upper_tail(-z)
}

/// The density at `z`.
pub(crate) fn density(z: f64) -> f64 {
    (-0.5 * z * z).exp() / (2.0 * PI).sqrt()
}

/// The value that a standard normal variable is above with this probability; infinite at 0 and 1.
pub(crate) fn upper_point(probability: f64) -> f64 {
    if probability > 0.5 {
        return -upper_point(1.0 - probability);
    }
    if probability <= 0.0 {
        return f64::INFINITY;
    }
    falling_root(0.0, MAX_BOUNDARY, |z| upper_tail(z) - probability)
}

/// The root of a function that falls from `low` to `high`, to the precision of floats, or relative to the
/// width if the root is close to zero; an end of the range if there is no root in it.
///
/// Regula falsi that halves the value of a stationary end ("Illinois"), with bisection as fallback: at most twice the steps of bisection.
pub(crate) fn falling_root(mut low: f64, mut high: f64, of: impl Fn(f64) -> f64) -> f64 {
    let (mut at_low, mut at_high) = (of(low), of(high));
    if at_low <= 0.0 {
        return low;
    }
    if at_high > 0.0 {
        return high;
    }
    let mut allowed = high - low;
    let smallest = f64::EPSILON * allowed;
    let mut low_moved = None;
    loop {
        let middle = f64::midpoint(low, high);
        let shortest = (2.0 * f64::EPSILON * middle.abs()).max(smallest);
        if high - low <= 2.0 * shortest {
            return middle;
        }
        let crossing = low + (high - low) * at_low / (at_low - at_high);
        let is_slow = high - low > allowed || !crossing.is_finite();
        // Slightly inside: if the crossing is the root, the next evaluation on its other side ends the search.
        let guess = if is_slow { middle } else { crossing.clamp(low + shortest, high - shortest) };
        let value = of(guess);
        let moves_low = value > 0.0;
        if moves_low {
            (low, at_low) = (guess, value);
        } else {
            (high, at_high) = (guess, value);
        }
        if low_moved == Some(moves_low) {
            let stays = if moves_low { &mut at_high } else { &mut at_low };
            *stays /= 2.0;
        }
        low_moved = Some(moves_low);
        allowed *= std::f64::consts::FRAC_1_SQRT_2;
    }
}

fn error_function(x: f64) -> f64 {
    let (mut term, mut sum, mut odd) = (x, x, 1.0);
    while term > sum * 1e-17 {
        odd += 2.0;
        term *= 2.0 * x * x / odd;
        sum += term;
    }
    2.0 / PI.sqrt() * (-x * x).exp() * sum
}

fn complement(x: f64) -> f64 {
    // x + (1/2)/(x + 1/(x + (3/2)/(x + ...))), from its far end.
    let fraction = (1..=FRACTION_STEPS).rev().fold(x, |below, step| x + 0.5 * f64::from(step) / below);
    (-x * x).exp() / PI.sqrt() / fraction
}

/// The logarithm of the gamma function of a positive number.
pub(crate) fn ln_gamma(x: f64) -> f64 {
    const FIRST: f64 = 0.999_999_999_999_809_9;
    const COEFFICIENTS: [f64; 8] = [
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    let x = x - 1.0;
    let series = COEFFICIENTS.iter().zip(1u32..).fold(FIRST, |sum, (c, at)| sum + c / (x + f64::from(at)));
    let shifted = x + 7.5;
    0.5 * (2.0 * PI).ln() + (x + 0.5) * shifted.ln() - shifted + series.ln()
}

/// The logarithm of the beta function of two positive numbers.
pub(crate) fn ln_beta(a: f64, b: f64) -> f64 {
    ln_gamma(a) + ln_gamma(b) - ln_gamma(a + b)
}

/// The probability of exactly `hits` of `trials`, each with probability `p`.
pub(crate) fn binomial(hits: u64, trials: u64, p: f64) -> f64 {
    if hits > trials {
        return 0.0;
    }
    if p <= 0.0 || p >= 1.0 {
        let certain = if p <= 0.0 { 0 } else { trials };
        return f64::from(u8::from(hits == certain));
    }
    let (k, n) = (hits as f64, trials as f64);
    let ways = ln_gamma(n + 1.0) - ln_gamma(k + 1.0) - ln_gamma(n - k + 1.0);
    (ways + k * p.ln() + (n - k) * (-p).ln_1p()).exp()
}

/// The probability of at least `hits` of `trials`.
pub(crate) fn at_least(hits: u64, trials: u64, p: f64) -> f64 {
    summed(hits..=trials, trials, p)
}

/// The probability of at most `hits` of `trials`.
pub(crate) fn at_most(hits: u64, trials: u64, p: f64) -> f64 {
    summed(0..=hits.min(trials), trials, p)
}

fn summed(range: std::ops::RangeInclusive<u64>, trials: u64, p: f64) -> f64 {
    range.map(|hits| binomial(hits, trials, p)).sum::<f64>().min(1.0)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn tails_of_the_tables() {
        let check = |z: f64, expected: f64| {
            let found = upper_tail(z);
            assert!((found / expected - 1.0).abs() < 1e-11, "{z}: {found:e} is not {expected:e}");
        };
        // scipy.stats.norm.sf.
        check(0.0, 0.5);
        check(1.0, 0.158_655_253_931_457_05);
        check(1.959_963_984_540_054, 0.025);
        check(-1.0, 0.841_344_746_068_542_9);
        check(5.0, 2.866_515_718_791_945e-7);
        check(10.0, 7.619_853_024_160_593e-24);
    }

    #[test]
    fn factorials() {
        let check = |n: u32, expected: f64| {
            let found = ln_gamma(f64::from(n) + 1.0);
            assert!((found - expected.ln()).abs() < 1e-13 * expected.ln().max(1.0), "{n}!: {found}");
        };
        check(0, 1.0);
        check(1, 1.0);
        check(5, 120.0);
        check(20, 2_432_902_008_176_640_000.0);
        assert!((ln_gamma(0.5) - 0.5 * PI.ln()).abs() < 1e-14);
    }

    #[test]
    fn certain_trials() {
        let check = |hits, trials, p, expected: f64| assert_eq!(binomial(hits, trials, p), expected);
        check(0, 3, 0.0, 1.0);
        check(1, 3, 0.0, 0.0);
        check(3, 3, 1.0, 1.0);
        check(4, 3, 0.5, 0.0);
    }

    #[test]
    fn roots_are_found_in_few_steps() {
        let check = |low: f64, high: f64, most: u32, expected: f64, of: &dyn Fn(f64) -> f64| {
            let steps = Cell::new(0);
            let found = falling_root(low, high, |x| {
                steps.set(steps.get() + 1);
                of(x)
            });
            assert!((found - expected).abs() <= 1e-14 * expected.abs().max(1.0), "{found} is not {expected}");
            assert!(steps.get() <= most, "{} steps", steps.get());
        };
        check(0.0, 4.0, 4, 1.0, &|x| 1.0 - x);
        check(0.0, 4.0, 14, 2f64.sqrt(), &|x| 2.0 - x * x);
        check(0.0, 38.5, 20, 1.0, &|x| (-x).exp() - (-1f64).exp());
        // A step function has no slope to follow.
        check(0.0, 1.0, 105, 0.3, &|x| if x < 0.3 { 1.0 } else { -1e-9 });
        check(-1.0, 1.5, 110, 0.0, &|x| -x.powi(3));
        check(2.0, 4.0, 2, 2.0, &|x| 1.0 - x);
        check(-4.0, 0.5, 2, 0.5, &|x| 1.0 - x);
    }

    proptest! {
        /// I2.
        #[test]
        fn points_invert_tails(probability in 1e-12f64..1.0) {
            prop_assert!((upper_tail(upper_point(probability)) - probability).abs() < 1e-13);
        }

        #[test]
        fn both_tails_make_one(hits in 0u64..200, trials in 1u64..200, p in 0.0f64..=1.0) {
            prop_assume!(hits < trials);
            let sum = at_most(hits, trials, p) + at_least(hits + 1, trials, p);
            prop_assert!((sum - 1.0).abs() < 1e-11, "{}", sum);
        }
    }
}
