//! Imitation: the negative log-likelihood of trained tokens, which is supervised fine-tuning on demonstrations.
//!
//! I1. The derivative by a trained token's log-probability is minus its weight; other tokens contribute nothing.
//!
//! L = -sum w_t n_t, with the weights of [`crate::token_weights`]. Shapes: every column is T. Units: nats. Pure;
//! nothing to cancel.

use crate::loss::{LossFigures, SegmentLoss};

/// The loss of one segment.
///
/// # Panics
/// If the columns differ in length, which is an error of the caller.
#[must_use]
pub fn imitation(current: &[f32], mask: &[bool], weights: &[f64]) -> SegmentLoss {
    assert!(
        mask.len() == current.len() && weights.len() == current.len(),
        "columns of one segment differ in length"
    );
    let mut result =
        SegmentLoss { loss: 0.0, d_current: vec![0.0; current.len()], figures: LossFigures::default() };
    for token in (0..current.len()).filter(|&token| mask[token]) {
        result.loss -= weights[token] * f64::from(current[token]);
        result.d_current[token] = -weights[token] as f32;
        result.figures.tokens += 1;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn i1_trained_tokens_only() {
        let result = imitation(&[f32::NAN, -1.0, -3.0], &[false, true, true], &[0.0, 0.25, 0.75]);
        assert_eq!((result.loss, result.figures.tokens), (2.5, 2));
        assert_eq!(result.d_current, [0.0, -0.25, -0.75]);
    }
}
