//! An adaptive entropy bonus: it grows while the entropy of the policy is low, and shrinks otherwise.
//!
//! I1. The bonus is between 0 and its coefficient. It is 0 until the entropy has fallen below its floor, a share of that of the first
//! update; it rises by a tenth of the coefficient with each update that is below, and falls as fast with each that is not.
//! I2. The loss gains minus the bonus times the mean of the entropies, with the weights of the loss; `by_entropy` is the
//! exact derivative by each entropy. I3. An update without trained tokens does not change the bonus.
//!
//! Shapes: T each. Units: nats. Pure; nothing to cancel.
//! Source: adaptive entropy control, Skywork-OR1, arXiv 2505.22312. Deviations: the target is a share of the first update's entropy, the
//! coefficient has an upper bound, and above the target it falls step by step instead of being left out at once.

use serde::{Deserialize, Serialize};

use crate::ramp::Ramp;

/// Settings of the bonus.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EntropyBonus {
    /// Maximum factor on the entropy of a token; above 0.
    pub coefficient: f64,
    /// Share of the first update's entropy below which the bonus rises; above 0 and at most 1.
    pub floor: f64,
}

/// The current state of the bonus: part of the checkpoint of a learner.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EntropyControl(Ramp);

impl EntropyControl {
    /// Whether no update was measured yet.
    #[must_use]
    pub fn is_new(&self) -> bool {
        self.0.first().is_none()
    }

    /// Factor on the entropies in the next update.
    #[must_use]
    pub fn coefficient(&self, bonus: EntropyBonus) -> f64 {
        self.0.strength(bonus.coefficient)
    }

    /// Records an update whose trained tokens had this mean entropy.
    pub fn after(&mut self, bonus: EntropyBonus, entropy: f64) {
        self.0.after(entropy, |entropy, first| entropy < bonus.floor * first);
    }
}

/// The loss terms that the bonus adds to a segment.
#[derive(Debug, Clone, PartialEq)]
pub struct EntropyLoss {
    /// The segment's share of the aggregated loss.
    pub loss: f64,
    /// Derivative of the loss by each entropy.
    pub by_entropy: Vec<f32>,
}

/// The bonus of a segment: `weights` are those of [`crate::token_weights`].
#[must_use]
pub fn entropy_loss(coefficient: f64, entropies: &[f32], mask: &[bool], weights: &[f64]) -> EntropyLoss {
    let mut found = EntropyLoss { loss: 0.0, by_entropy: vec![0.0; entropies.len()] };
    for (at, (&entropy, &weight)) in entropies.iter().zip(weights).enumerate() {
        if mask.get(at).copied().unwrap_or(false) {
            found.loss -= coefficient * weight * f64::from(entropy);
            found.by_entropy[at] = (-coefficient * weight) as f32;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BONUS: EntropyBonus = EntropyBonus { coefficient: 0.02, floor: 0.3 };

    fn check(entropies: &[f64], expected: &[f64]) {
        let mut control = EntropyControl::default();
        for (entropy, expected) in entropies.iter().zip(expected) {
            control.after(BONUS, *entropy);
            assert!((control.coefficient(BONUS) - expected).abs() < 1e-12, "{entropies:?}: {control:?}");
        }
    }

    #[test]
    fn i1_it_comes_and_goes() {
        check(&[1.0, 0.31, 0.3, 0.29, 0.2, 0.4, 0.4, 0.4], &[0.0, 0.0, 0.0, 0.002, 0.004, 0.002, 0.0, 0.0]);
        let mut low = vec![0.1; 13];
        low[0] = 1.0;
        let rises: Vec<f64> = (0..13).map(|at| 0.002 * f64::from(at.min(10))).collect();
        check(&low, &rises);
        // The share is relative to the first update.
        check(&[1.0, 9.0, 0.4], &[0.0, 0.0, 0.0]);
    }

    #[test]
    fn as_written() {
        let mut control = EntropyControl::default();
        assert!(control.is_new());
        control.after(BONUS, 0.7);
        control.after(BONUS, 0.1);
        let text = serde_json::to_string(&control).unwrap();
        assert_eq!(text, r#"{"first":0.7,"steps":1}"#);
        assert_eq!(serde_json::from_str::<EntropyControl>(&text).unwrap(), control);
    }

    #[test]
    fn i2_by_hand() {
        let found = entropy_loss(0.1, &[9.0, 2.0, 3.0], &[false, true, true], &[0.0, 0.5, 0.25]);
        assert!((found.loss + 0.1 * (0.5 * 2.0 + 0.25 * 3.0)).abs() < 1e-12, "{found:?}");
        assert_eq!(found.by_entropy, [0.0, -0.05, -0.025]);
    }

    proptest! {
        #[test]
        fn i2_the_derivative_is_that_of_the_loss(entropies in prop::collection::vec(0.0..5.0f32, 1..8), at: prop::sample::Index) {
            let (at, weights, mask) = (at.index(entropies.len()), vec![0.25; entropies.len()], vec![true; entropies.len()]);
            let loss = |by: f32| {
                let mut moved = entropies.clone();
                moved[at] += by;
                entropy_loss(0.3, &moved, &mask, &weights).loss
            };
            let exact = f64::from(entropy_loss(0.3, &entropies, &mask, &weights).by_entropy[at]);
            prop_assert!(((loss(0.5) - loss(-0.5)) - exact).abs() < 1e-6);
        }
    }
}
