//! The output matrix: log-probabilities of chosen tokens and entropies, forward and backward.
//!
//! Each logit is exponentiated once, in place, and kept for the backward pass. If a piece has too many logits to keep, they
//! are recomputed.
//!
//! I1. Log-probabilities are over the full vocabulary, of `logits / T`.
//!
//! Shapes: M predictions, V vocabulary.

use crate::engine::audited::{Arithmetic, Kernel};
use crate::engine::kernels::{LANES, exp, largest, total};

/// Number of exponentials that are summed in fp32; these sums are added in fp64.
const CHUNK: usize = 256;

/// Result of one prediction.
#[derive(Debug, Clone, Copy)]
pub(super) struct Predicted {
    /// Log-probability of the target.
    pub(super) logprob: f32,
    /// Nats.
    pub(super) entropy: f32,
    /// Sum of the exponentials.
    pub(super) sum: f32,
}

/// Replaces the logits of one prediction by `exp((logit - max) / T)`.
pub(super) struct Predict<'a> {
    /// V.
    pub(super) logits: &'a mut [f32],
    /// Below V.
    pub(super) target: usize,
    /// T.
    pub(super) temperature: f32,
}

impl Kernel for Predict<'_> {
    type Output = Predicted;

    #[inline(always)]
    fn run<A: Arithmetic>(self) -> Predicted {
        let inverse = 1.0 / self.temperature;
        let highest = largest(self.logits);
        let chosen = (self.logits[self.target] - highest) * inverse;
        let (mut sum, mut weighted) = (0.0f64, 0.0f64);
        for logits in self.logits.chunks_mut(CHUNK) {
            let (wide, rest) = logits.as_chunks_mut::<LANES>();
            let (mut sums, mut weighteds) = ([0.0; LANES], [0.0; LANES]);
            for logits in wide {
                for (logit, (sum, weighted)) in logits.iter_mut().zip(sums.iter_mut().zip(&mut weighteds)) {
                    let scaled = (*logit - highest) * inverse;
                    *logit = exp::<A>(scaled);
                    *sum += *logit;
                    *weighted = A::mul_add(*logit, scaled, *weighted);
                }
            }
            sum += f64::from(total(&sums));
            weighted += f64::from(total(&weighteds));
            for logit in rest {
                let scaled = (*logit - highest) * inverse;
                *logit = exp::<A>(scaled);
                sum += f64::from(*logit);
                weighted += f64::from(*logit * scaled);
            }
        }
        let log_sum = sum.ln();
        Predicted {
            logprob: (f64::from(chosen) - log_sum) as f32,
            entropy: (log_sum - weighted / sum) as f32,
            sum: sum as f32,
        }
    }
}

/// Replaces the exponentials of one prediction by the derivative of the loss with respect to its logits, for the target and
/// the entropy:
/// `(derivative * onehot - total * softmax - by_entropy * softmax (log softmax + H)) / T`.
pub(super) struct PredictBack<'a> {
    /// V.
    pub(super) exponentials: &'a mut [f32],
    /// Below V.
    pub(super) target: usize,
    /// T.
    pub(super) temperature: f32,
    /// Sum of the exponentials.
    pub(super) sum: f32,
    /// Derivative of the loss with respect to the log-probability.
    pub(super) derivative: f32,
    /// Sum of the derivatives of the loss with respect to all log-probabilities of the prediction, the target's included.
    pub(super) total: f32,
    /// Derivative of the loss with respect to the entropy, and the entropy; `None` if the loss does not depend on it.
    pub(super) entropy: Option<(f32, f32)>,
}

impl Kernel for PredictBack<'_> {
    type Output = ();

    #[inline(always)]
    fn run<A: Arithmetic>(self) {
        let scale = self.derivative / self.temperature;
        let factor = -self.total / self.temperature / self.sum;
        if let Some((by_entropy, entropy)) = self.entropy {
            let (scale, shift) = (by_entropy / self.temperature / self.sum, entropy - self.sum.ln());
            for value in self.exponentials.iter_mut() {
                // A probability that underflows to 0 contributes nothing.
                let log = if *value > 0.0 { value.ln() } else { 0.0 };
                *value *= factor - scale * (log + shift);
            }
        } else {
            for value in self.exponentials.iter_mut() {
                *value *= factor;
            }
        }
        self.exponentials[self.target] += scale;
    }
}

/// Indices of the `most` largest logits of one prediction in descending order; ties go to the lower index.
pub(super) fn largest_logits(logits: &[f32], most: usize) -> Vec<u32> {
    let mut found: Vec<usize> = Vec::with_capacity(most + 1);
    for (place, &logit) in logits.iter().enumerate() {
        if found.len() == most && found.last().is_none_or(|&last| logits[last] >= logit) {
            continue;
        }
        let at = found.partition_point(|&other| logits[other] >= logit);
        found.insert(at, place);
        found.truncate(most);
    }
    found.into_iter().map(|place| place as u32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::audited::dispatch;

    #[test]
    fn the_largest_come_first() {
        let check =
            |logits: &[f32], most, expected: &[u32]| assert_eq!(largest_logits(logits, most), expected);
        check(&[0.5, 2.0, -1.0, 2.0, 1.0], 3, &[1, 3, 4]);
        check(&[1.0, 1.0, 1.0], 2, &[0, 1]);
        check(&[3.0, 4.0], 5, &[1, 0]);
        check(&[3.0], 0, &[]);
    }

    #[test]
    fn a_prediction_is_the_formula_and_its_derivative() {
        check_derivative(0.0);
        check_derivative(0.8);
    }

    fn check_derivative(by_entropy: f64) {
        let logits: Vec<f32> = (0..700).map(|index| (index as f32 * 0.7).sin() * 5.0).collect();
        let (target, temperature, derivative) = (123, 0.7f64, -1.5f64);
        let scaled: Vec<f64> = logits.iter().map(|&logit| f64::from(logit) / temperature).collect();
        let log_sum = scaled.iter().map(|z| z.exp()).sum::<f64>().ln();
        let entropy: f64 = scaled.iter().map(|z| (log_sum - z) * (z - log_sum).exp()).sum();
        let mut row = logits.clone();
        let temperature_32 = temperature as f32;
        let got = dispatch(Predict { logits: &mut row, target, temperature: temperature_32 });
        assert!((f64::from(got.logprob) - (scaled[target] - log_sum)).abs() < 1e-5, "{got:?}");
        assert!((f64::from(got.entropy) - entropy).abs() < 1e-5, "{got:?} {entropy}");
        dispatch(PredictBack {
            exponentials: &mut row,
            target,
            temperature: temperature_32,
            sum: got.sum,
            derivative: derivative as f32,
            total: derivative as f32,
            entropy: (by_entropy > 0.0).then_some((by_entropy as f32, got.entropy)),
        });
        for (index, (&got, z)) in row.iter().zip(&scaled).enumerate() {
            let hot = f64::from(u8::from(index == target));
            let (log, share) = (z - log_sum, (z - log_sum).exp());
            let of_entropy = -by_entropy * share * (log + entropy);
            let expected = ((hot - share) * derivative + of_entropy) / temperature;
            assert!((f64::from(got) - expected).abs() < 1e-6, "{index}: {got} {expected}");
        }
    }
}
