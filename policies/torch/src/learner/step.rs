//! What one optimizer step descends on, and what is counted on the way.

use std::collections::HashMap;

use clawrl_learn::{LossFigures, Objective, PolicyLoss, Terms, TrainSample, imitation, policy_gradient};

use super::micro_batch::Scores;

/// Sums over the trained tokens of a step, or of an update.
#[derive(Debug, Default)]
pub(super) struct Sums {
    pub(super) loss: f64,
    pub(super) entropy: f64,
    pub(super) figures: LossFigures,
    pub(super) trained: u64,
    pub(super) forward: u64,
}

impl Sums {
    pub(super) fn add(&mut self, other: &Self) {
        self.loss += other.loss;
        self.entropy += other.entropy;
        self.figures += other.figures;
        self.trained += other.trained;
        self.forward += other.forward;
    }
}

/// What one optimizer step descends on.
#[derive(Clone, Copy)]
pub(super) struct Step<'a> {
    pub(super) objective: Objective,
    pub(super) samples: &'a [TrainSample],
    /// Positions of the samples of this step.
    pub(super) chosen: &'a [usize],
    /// Log-probabilities of all samples at the start of the batch, where they are not the present ones.
    pub(super) proximal: Option<&'a [Vec<f32>]>,
}

/// From log-probabilities to the loss and its derivatives.
pub(super) struct Deriving<'a> {
    pub(super) step: Step<'a>,
    pub(super) loss: &'a PolicyLoss,
    /// Weights of the tokens of each sample.
    pub(super) weights_of: &'a HashMap<usize, Vec<f64>>,
}

impl Deriving<'_> {
    /// The loss's derivatives by the log-probabilities of these samples, and their sums. `forward` counts their tokens.
    pub(super) fn derive(&self, indices: &[usize], forward: u64, scores: &Scores) -> (Vec<Vec<f32>>, Sums) {
        let mut sums = Sums { forward, ..Sums::default() };
        let scored = indices.iter().zip(&scores.logprobs).zip(&scores.entropies);
        let derivatives = scored
            .map(|((&index, current), entropies)| {
                let TrainSample { segment, advantages, .. } = &self.step.samples[index];
                let weights = self.weights_of.get(&index).map_or(&[][..], Vec::as_slice);
                let loss = match self.step.objective {
                    Objective::Imitation => imitation(current, &segment.mask, weights),
                    Objective::PolicyGradient => {
                        let proximal = self.step.proximal.map_or(current, |proximal| &proximal[index]);
                        let terms = Terms {
                            current,
                            proximal,
                            behaviour: &segment.behaviour,
                            advantages,
                            mask: &segment.mask,
                            weights,
                        };
                        policy_gradient(self.loss, terms)
                    }
                };
                let trained = masked(&segment.mask, current);
                // A segment without numbers is dropped from the loss, which must not hide it.
                sums.loss += if trained.clone().all(f32::is_finite) { loss.loss } else { f64::NAN };
                sums.trained += trained.count() as u64;
                sums.entropy += masked(&segment.mask, entropies).map(f64::from).sum::<f64>();
                sums.figures += loss.figures;
                loss.d_current
            })
            .collect();
        (derivatives, sums)
    }
}

fn masked<'a>(mask: &'a [bool], values: &'a [f32]) -> impl Iterator<Item = f32> + Clone + 'a {
    mask.iter().zip(values).filter(|&(&trained, _)| trained).map(|(_, &value)| value)
}
