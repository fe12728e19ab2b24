//! An exact test of whether attempts at one task pass less often than before.
//!
//! The design fixes the numbers of attempts, but not the total number of passes. The test is therefore unconditional: the
//! p-value is the largest probability, over all pairs of rates with a drop of at most the tolerance, of outcomes as
//! unfavourable as the observed one. Fisher's conditional test fixes the total number of passes, which the design does
//! not: it is valid, but seldom rejects with few attempts, and has no form for a tolerated drop.
//!
//! Outcomes are ordered by Fisher's p-value, which falls with the passes before and rises with those after. So the maximum is at a drop of
//! exactly the tolerance, and only one rate remains to search for.
//!
//! I1. Under the null hypothesis P(p <= alpha) <= alpha. I2. Without a tolerance the p-value is at most
//! Fisher's. I3. It falls with the passes before, and rises with the passes after and with the tolerance. I4. A drop within the tolerance
//! is not evidence: p is 1.
//!
//! Units: counts of attempts; probabilities in [0, 1]. Pure; nothing to cancel.
//! Source: Barnard (1947) for the unconditional test; Boschloo (1970) for the order by Fisher's p-value. Deviations: the maximum is
//! searched on a grid of rates and refined around its best point, to a relative error below 1e-6; drops within the tolerance are not computed
//! (I4).

use crate::distribution::ln_gamma;
use crate::power::TaskRate;

/// By how much probabilities may differ and still be a tie, relatively.
const TIE: f64 = 1e-7;
/// Terms of a sum below this share of it change nothing.
const NEGLIGIBLE: f64 = 1e-18;
/// Points of the grid, besides those for each standard deviation of a rate.
const MIN_POINTS: usize = 64;
const POINTS_A_DEVIATION: f64 = 8.0;
/// Steps of the search around the best point; each leaves 0.618 of the width.
const STEPS: u32 = 32;

/// The p-value against "the pass rate `after` is below `before` by at most `tolerance`"; 1 if a side has no attempts.
#[must_use]
pub fn lower_rate(before: TaskRate, after: TaskRate, tolerance: f64) -> f64 {
    let share = |side: TaskRate| f64::from(side.passes) / f64::from(side.attempts);
    let fell = share(before) - share(after);
    // NaN without attempts.
    if fell.is_nan() || fell <= tolerance + TIE {
        return 1.0;
    }
    Pair::new(before.attempts as usize, after.attempts as usize)
        .p_value((before.passes as usize, after.passes as usize), tolerance)
}

/// Numbers of attempts before and after.
struct Pair {
    before: usize,
    after: usize,
    /// Logarithms of factorials.
    factorials: Vec<f64>,
}

impl Pair {
    fn new(before: usize, after: usize) -> Self {
        let factorials = (0..=before + after).map(|n| ln_gamma(n as f64 + 1.0)).collect();
        Self { before, after, factorials }
    }

    fn p_value(&self, (passes_before, passes_after): (usize, usize), tolerance: f64) -> f64 {
        let most = self.fisher(passes_before, passes_after) * (1.0 + TIE);
        // For each number of passes before, how many numbers of passes after, from 0 on, are as unfavourable.
        let mut fewer = 0;
        let as_rare: Vec<usize> = (0..=self.before)
            .map(|before| {
                while fewer <= self.after && self.fisher(before, fewer) <= most {
                    fewer += 1;
                }
                fewer
            })
            .collect();
        // Angles whose squared sine is the rate: steps are equally wide for rare and frequent outcomes.
        let probability = |angle: f64| {
            let rate = tolerance + (1.0 - tolerance) * angle.sin().powi(2);
            self.probability(&as_rare, rate, (rate - tolerance).max(0.0))
        };
        let deviations = ((self.before + self.after) as f64).sqrt();
        let points = MIN_POINTS + (POINTS_A_DEVIATION * deviations) as usize;
        let angle = |point: usize| std::f64::consts::FRAC_PI_2 * point as f64 / points as f64;
        let (at, best) = (0..=points)
            .map(|point| (point, probability(angle(point))))
            .fold((0, 0.0), |best, next| if next.1 > best.1 { next } else { best });
        let around = (angle(at.saturating_sub(1)), angle((at + 1).min(points)));
        largest_between(around, probability).max(best).min(1.0)
    }

    /// Fisher's p-value: the probability of as few passes after, or fewer, given all passes.
    fn fisher(&self, before: usize, after: usize) -> f64 {
        let passes = before + after;
        let ln = self.ways(self.after, after) + self.ways(self.before, before)
            - self.ways(self.before + self.after, passes);
        let (mut term, mut sum) = (ln.exp(), 0.0);
        let fewest = passes.saturating_sub(self.before);
        for fewer in (fewest..=after).rev() {
            sum += term;
            let (k, n) = (fewer as f64, (passes - fewer) as f64);
            term *= k * (self.before as f64 - n) / ((self.after as f64 - k + 1.0) * (n + 1.0));
            if term < NEGLIGIBLE * sum {
                break;
            }
        }
        sum.min(1.0)
    }

    /// Probability of outcomes as unfavourable, at these rates.
    fn probability(&self, as_rare: &[usize], rate_before: f64, rate_after: f64) -> f64 {
        let mut below = Vec::with_capacity(self.after + 2);
        let mut sum = 0.0;
        below.push(sum);
        for passes in 0..=self.after {
            sum += self.binomial(self.after, passes, rate_after);
            below.push(sum);
        }
        let terms = as_rare.iter().enumerate().filter(|(_, fewer)| **fewer > 0);
        terms.map(|(passes, fewer)| self.binomial(self.before, passes, rate_before) * below[*fewer]).sum()
    }

    fn binomial(&self, attempts: usize, passes: usize, rate: f64) -> f64 {
        if rate <= 0.0 || rate >= 1.0 {
            let certain = if rate <= 0.0 { 0 } else { attempts };
            return f64::from(u8::from(passes == certain));
        }
        let (hits, misses) = (passes as f64, (attempts - passes) as f64);
        (self.ways(attempts, passes) + hits * rate.ln() + misses * (-rate).ln_1p()).exp()
    }

    /// The logarithm of the binomial coefficient.
    fn ways(&self, all: usize, chosen: usize) -> f64 {
        self.factorials[all] - self.factorials[chosen] - self.factorials[all - chosen]
    }
}

/// The largest value of a function that has one peak in this range, by golden section.
fn largest_between((mut low, mut high): (f64, f64), of: impl Fn(f64) -> f64) -> f64 {
    const GOLDEN: f64 = 0.618_033_988_749_894_8;
    let mut largest = 0.0f64;
    for _ in 0..STEPS {
        let (left, right) = (high - GOLDEN * (high - low), low + GOLDEN * (high - low));
        let (at_left, at_right) = (of(left), of(right));
        largest = largest.max(at_left).max(at_right);
        if at_left < at_right {
            low = left;
        } else {
            high = right;
        }
    }
    largest
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(passes: u32, attempts: u32) -> TaskRate {
        TaskRate { passes, attempts }
    }

    #[test]
    fn drops_by_hand() {
        let check = |before, after, expected: f64| {
            let found = lower_rate(before, after, 0.0);
            assert!((found - expected).abs() < 1e-9, "{after:?} after {before:?}: {found} is not {expected}");
        };
        // The largest p^b (1 - p)^c.
        check(of(1, 1), of(0, 1), 0.25);
        check(of(8, 8), of(0, 8), 0.5f64.powi(16));
        check(of(8, 8), of(0, 2), 0.8f64.powi(8) * 0.04);
        // 8 of 8 to 0, and the two next: (p^8 q^8)(1 + 8 p/q + 8 q/p) is largest at one half.
        check(of(8, 8), of(1, 8), 17.0 * 0.5f64.powi(16));
        check(of(4, 8), of(4, 8), 1.0);
        check(of(3, 8), of(4, 8), 1.0);
        check(of(0, 0), of(0, 8), 1.0);
        check(of(8, 8), of(0, 0), 1.0);
    }

    #[test]
    fn a_drop_that_is_tolerated_is_no_evidence() {
        let check = |before, after, tolerance, expected: f64| {
            let found = lower_rate(before, after, tolerance);
            assert!((found - expected).abs() < 1e-9, "{after:?} after {before:?}: {found} is not {expected}");
        };
        check(of(10, 10), of(9, 10), 0.1, 1.0);
        // p (1 - (p - 0.2)) is largest at 0.6.
        check(of(1, 1), of(0, 1), 0.2, 0.36);
        check(of(8, 8), of(0, 8), 0.02, 0.51f64.powi(16));
    }

    #[test]
    fn many_attempts_are_counted_in_time() {
        let found = lower_rate(of(9_000, 10_000), of(8_700, 10_000), 0.0);
        // Six and a half standard errors.
        assert!(found > 1e-12 && found < 1e-9, "{found}");
    }

    /// P(p <= alpha) at these rates.
    fn rejected(before: u32, after: u32, tolerance: f64, alpha: f64, rates: (f64, f64)) -> f64 {
        let pair = Pair::new(before as usize, after as usize);
        let mut sum = 0.0;
        for first in 0..=before {
            for second in 0..=after {
                if lower_rate(of(first, before), of(second, after), tolerance) <= alpha {
                    sum += pair.binomial(before as usize, first as usize, rates.0)
                        * pair.binomial(after as usize, second as usize, rates.1);
                }
            }
        }
        sum
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        /// I1.
        #[test]
        fn unchanged_task_is_rarely_reported(
            before in 1u32..9,
            after in 1u32..9,
            tolerance in prop::sample::select(vec![0.0, 0.05, 0.2]),
            alpha in prop::sample::select(vec![0.001, 0.01, 0.05]),
            rate in 0.0f64..=1.0,
        ) {
            let rate = tolerance + (1.0 - tolerance) * rate;
            let found = rejected(before, after, tolerance, alpha, (rate, rate - tolerance));
            prop_assert!(found <= alpha * (1.0 + 1e-6), "{} at {}", found, rate);
        }

        /// I2, I3.
        #[test]
        fn p_values_are_ordered(
            before in (1u32..14).prop_flat_map(|attempts| (0..=attempts, Just(attempts))),
            after in (1u32..14).prop_flat_map(|attempts| (0..=attempts, Just(attempts))),
            tolerance in 0.0f64..0.3,
        ) {
            let (first, second) = (of(before.0, before.1), of(after.0, after.1));
            let p = lower_rate(first, second, tolerance);
            prop_assert!(p > 0.0 && p <= 1.0);
            let plain = lower_rate(first, second, 0.0);
            let fisher = Pair::new(before.1 as usize, after.1 as usize).fisher(before.0 as usize, after.0 as usize);
            prop_assert!(plain == 1.0 || plain <= fisher * (1.0 + 1e-6), "{} is above {}", plain, fisher);
            prop_assert!(plain <= p * (1.0 + 1e-6));
            if after.0 < after.1 {
                let better = of(after.0 + 1, after.1);
                prop_assert!(lower_rate(first, better, tolerance) >= p * (1.0 - 1e-6));
            }
            if before.0 < before.1 {
                let better = of(before.0 + 1, before.1);
                prop_assert!(lower_rate(better, second, tolerance) <= p * (1.0 + 1e-6));
            }
        }
    }
}
