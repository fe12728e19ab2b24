//! Weights of a softmax, with their sums.
//!
//! Sums are over [`CHUNK`] weights in fp32 and over chunks in fp64, so they are accurate for any vocabulary, and a search
//! in the distribution skips whole chunks.

use super::lanes::{LANES, exp, largest, total};
use crate::engine::audited::{Arithmetic, Kernel};

/// Number of weights that are summed in fp32.
const CHUNK: usize = 256;

/// `weights = exp((logits - max) * inverse_temperature)`; returns the largest logit.
pub(in crate::engine) struct Softmax<'a> {
    /// V.
    pub(in crate::engine) logits: &'a [f32],
    /// 1 / T.
    pub(in crate::engine) inverse_temperature: f32,
    /// V.
    pub(in crate::engine) weights: &'a mut [f32],
    /// Output: sums of [`Softmax::CHUNK`] neighbouring weights each.
    pub(in crate::engine) sums: &'a mut Vec<f64>,
}

impl Softmax<'_> {
    /// Number of weights in one sum.
    pub(in crate::engine) const CHUNK: usize = CHUNK;
}

impl Kernel for Softmax<'_> {
    type Output = f32;

    #[inline(always)]
    fn run<A: Arithmetic>(self) -> f32 {
        let highest = largest(self.logits);
        self.sums.clear();
        for (logits, weights) in self.logits.chunks(CHUNK).zip(self.weights.chunks_mut(CHUNK)) {
            let (wide_logits, rest_logits) = logits.as_chunks::<LANES>();
            let (wide_weights, rest_weights) = weights.as_chunks_mut::<LANES>();
            let mut sums = [0.0; LANES];
            for (logits, weights) in wide_logits.iter().zip(wide_weights) {
                for ((weight, &logit), sum) in weights.iter_mut().zip(logits).zip(&mut sums) {
                    *weight = exp::<A>((logit - highest) * self.inverse_temperature);
                    *sum += *weight;
                }
            }
            let mut sum = f64::from(total(&sums));
            for (weight, &logit) in rest_weights.iter_mut().zip(rest_logits) {
                *weight = exp::<A>((logit - highest) * self.inverse_temperature);
                sum += f64::from(*weight);
            }
            self.sums.push(sum);
        }
        highest
    }
}
