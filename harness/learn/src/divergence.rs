//! The penalty at one sampled token for the distance to a reference policy.
//!
//! I1. A term is never negative, and 0 only where both policies agree. I2. Neither a term nor its derivative is larger than what
//! its bounds allow: q within ±20, a term of k3 at most 10. Beyond a bound the derivative is 0.
//!
//! q = ref - n, in nats. Pure; nothing to cancel.
//! Source: k2 and k3 of Schulman, "Approximating KL divergence" (2020), as costs: GRPO, arXiv 2402.03300, equation 4. The bounds
//! are those of OpenClaw-RL, 2603.10165. Deviations: none.

use crate::loss_config::KlEstimator;

/// Bound of |q|.
const MOST_Q: f64 = 20.0;

/// Bound of a term of k3, which grows as fast as the ratio.
const MOST_K3: f64 = 10.0;

/// The cost at one token.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct KlTerm {
    pub(crate) value: f64,
    /// Derivative by n.
    pub(crate) derivative: f64,
}

pub(crate) fn kl_term(estimator: KlEstimator, q: f64) -> KlTerm {
    let bounded = q.clamp(-MOST_Q, MOST_Q);
    let (value, derivative, most) = match estimator {
        KlEstimator::K3 => (bounded.exp_m1() - bounded, -bounded.exp_m1(), MOST_K3),
        KlEstimator::K2 => (bounded * bounded / 2.0, -bounded, f64::INFINITY),
    };
    // NaN stays NaN, so that the checks for non-finite values find it.
    let value = if value > most { most } else { value };
    let moves = q.is_nan() || (q.abs() < MOST_Q && value < most);
    KlTerm { value, derivative: if moves { derivative } else { 0.0 } }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn by_hand() {
        let check = |estimator, q, value: f64, derivative: f64| {
            let term = kl_term(estimator, q);
            let close = (term.value - value).abs() < 1e-12 && (term.derivative - derivative).abs() < 1e-12;
            assert!(close, "{estimator:?} at {q}: {term:?}");
        };
        let e = std::f64::consts::E;
        check(KlEstimator::K3, 1.0, e - 2.0, 1.0 - e);
        check(KlEstimator::K3, -1.0, 1.0 / e, 1.0 - 1.0 / e);
        check(KlEstimator::K2, -3.0, 4.5, 3.0);
        for estimator in [KlEstimator::K3, KlEstimator::K2] {
            check(estimator, 0.0, 0.0, 0.0);
            let none = kl_term(estimator, f64::NAN);
            assert!(none.value.is_nan() && none.derivative.is_nan());
        }
        check(KlEstimator::K3, 15.0, MOST_K3, 0.0);
        check(KlEstimator::K3, 500.0, MOST_K3, 0.0);
        check(KlEstimator::K2, 15.0, 112.5, -15.0);
        check(KlEstimator::K2, 500.0, 200.0, 0.0);
        check(KlEstimator::K2, -30.0, 200.0, 0.0);
    }

    proptest! {
        #[test]
        fn i1_and_the_derivative(q in -3.0..2.0f64, k2 in any::<bool>()) {
            let estimator = if k2 { KlEstimator::K2 } else { KlEstimator::K3 };
            let (step, term) = (1e-5, kl_term(estimator, q));
            prop_assert!(term.value >= 0.0 && (term.value > 0.0 || q.abs() < 1e-6));
            // n rises where q falls.
            let numeric = (kl_term(estimator, q - step).value - kl_term(estimator, q + step).value) / (2.0 * step);
            prop_assert!((numeric - term.derivative).abs() < 1e-6 * (1.0 + numeric.abs()));
        }
    }
}
