//! The token distribution of a row of logits.
//!
//! The arithmetic is the sampler's, so that sampling and scoring give a token the same log-probability. Units: nats.

use std::cmp::Ordering;

use super::audited::dispatch;
use super::kernels::Softmax;

/// Buffers for the distribution of a row of logits, reused from row to row.
#[derive(Debug, Default)]
pub(super) struct Distribution {
    weights: Vec<f32>,
    sums: Vec<f64>,
    inverse_temperature: f32,
    highest: f32,
    log_total: f64,
}

impl Distribution {
    /// Reads a row of logits; returns false if one of them is not finite.
    pub(super) fn of(&mut self, logits: &[f32], temperature: f32) -> bool {
        self.inverse_temperature = 1.0 / temperature;
        self.weights.resize(logits.len(), 0.0);
        let Self { weights, sums, inverse_temperature, .. } = self;
        self.highest = dispatch(Softmax { logits, inverse_temperature: *inverse_temperature, weights, sums });
        let total: f64 = self.sums.iter().sum();
        self.log_total = total.ln();
        // As in the sampler: a single NaN makes the sum NaN, an infinite logit at least one weight.
        total.is_finite() && total > 0.0
    }

    /// Log-probability of a token, by the arithmetic of [`super::sampling::Sampler`].
    pub(super) fn logprob(&self, logits: &[f32], id: u32) -> f32 {
        let below = f64::from(logits[id as usize]) - f64::from(self.highest);
        (below * f64::from(self.inverse_temperature) - self.log_total) as f32
    }

    /// The most probable tokens with their log-probabilities, in descending order; ties go to the lowest id.
    pub(super) fn most_probable(&self, logits: &[f32], most: usize) -> Vec<(u32, f32)> {
        if most == 0 {
            return Vec::new();
        }
        let higher = |a: &u32, b: &u32| -> Ordering {
            logits[*b as usize].total_cmp(&logits[*a as usize]).then(a.cmp(b))
        };
        let mut ids: Vec<u32> = (0..).take(logits.len()).collect();
        if most < ids.len() {
            ids.select_nth_unstable_by(most - 1, higher);
            ids.truncate(most);
        }
        ids.sort_unstable_by(higher);
        ids.into_iter().map(|id| (id, self.logprob(logits, id))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_probable_come_first_and_of_equals_the_lowest_id() {
        let mut distribution = Distribution::default();
        let logits = [0.5, 2.0, -1.0, 2.0, 1.0];
        assert!(distribution.of(&logits, 0.5));
        let most_probable = |most| -> Vec<u32> {
            distribution.most_probable(&logits, most).into_iter().map(|(id, _)| id).collect()
        };
        assert_eq!(most_probable(3), [1, 3, 4]);
        assert_eq!(most_probable(5), [1, 3, 4, 0, 2]);
        assert_eq!(most_probable(0), [0; 0]);
        let total: f64 = logits.iter().map(|logit| (f64::from(*logit) / 0.5).exp()).sum();
        let truth = 1.0 / 0.5 - total.ln();
        assert!((f64::from(distribution.logprob(&logits, 4)) - truth).abs() < 1e-6);
        assert_eq!(distribution.most_probable(&logits, 3)[2], (4, distribution.logprob(&logits, 4)));
        assert!(!distribution.of(&[0.0, f32::NAN], 1.0));
        assert!(!distribution.of(&[0.0, f32::INFINITY], 1.0));
    }
}
