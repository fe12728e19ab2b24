//! The samples of one optimizer step, and its counters.

use std::collections::HashMap;

use clawrl_learn::{
    CandidateLoss, Candidates, DistillationForm, LossFigures, Objective, PolicyLoss, SegmentLoss, Surrogate,
    Terms, TrainSample, entropy_loss, imitation, policy_gradient, top_k,
};

use super::beforehand::Beforehand;
use super::micro_batch::{Derivatives, Scores};

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

/// The samples of one optimizer step.
#[derive(Clone, Copy)]
pub(super) struct Step<'a> {
    pub(super) objective: Objective,
    pub(super) samples: &'a [TrainSample],
    /// Indices of the samples of this step.
    pub(super) chosen: &'a [usize],
    pub(super) beforehand: &'a Beforehand,
}

/// Computes the loss and its derivatives from log-probabilities.
pub(super) struct Deriving<'a> {
    pub(super) step: Step<'a>,
    pub(super) loss: &'a PolicyLoss,
    /// Weights of the tokens of each sample.
    pub(super) weights_of: &'a HashMap<usize, Vec<f64>>,
    /// Coefficient of the entropy bonus.
    pub(super) entropy: f64,
}

impl Deriving<'_> {
    /// Derivatives of the loss with respect to the log-probabilities of these samples, and their sums. `forward` is the
    /// number of tokens.
    pub(super) fn derive(
        &self,
        indices: &[usize],
        forward: u64,
        scores: &Scores,
    ) -> (Vec<Derivatives>, Sums) {
        let mut sums = Sums { forward, ..Sums::default() };
        let derivatives = indices
            .iter()
            .enumerate()
            .map(|(at, &index)| {
                let (current, mask) = (&scores.logprobs[at], &self.step.samples[index].segment.mask);
                let (mut loss, mut by_candidates) = (self.of_sampled(index, current), Vec::new());
                if let Some(current) =
                    scores.candidates.get(at).filter(|_| loss.figures.dropped_segments == 0)
                    && let Some(of_candidates) = self.of_candidates(index, current)
                {
                    loss.loss += of_candidates.loss;
                    loss.figures.teacher_square += of_candidates.square;
                    by_candidates = of_candidates.d_current;
                }
                let mut by_entropies = Vec::new();
                if self.entropy > 0.0 && loss.figures.dropped_segments == 0 {
                    let bonus = entropy_loss(self.entropy, &scores.entropies[at], mask, self.weights(index));
                    loss.loss += bonus.loss;
                    by_entropies = bonus.by_entropy;
                }
                let trained = masked(mask, current);
                // The loss drops a segment that is not finite; the sum must still show it.
                sums.loss += if trained.clone().all(f32::is_finite) { loss.loss } else { f64::NAN };
                sums.trained += trained.count() as u64;
                sums.entropy += masked(mask, &scores.entropies[at]).map(f64::from).sum::<f64>();
                sums.figures += loss.figures;
                Derivatives { by_sampled: loss.d_current, by_candidates, by_entropies }
            })
            .collect();
        (derivatives, sums)
    }

    fn of_sampled(&self, index: usize, current: &[f32]) -> SegmentLoss {
        let TrainSample { segment, advantages, .. } = &self.step.samples[index];
        let weights = self.weights(index);
        match self.step.objective {
            Objective::Imitation => imitation(current, &segment.mask, weights),
            Objective::PolicyGradient => {
                let Beforehand { proximal, reference, teacher, .. } = self.step.beforehand;
                let terms = Terms {
                    current,
                    proximal: proximal.as_ref().map_or(current, |proximal| &proximal[index]),
                    behaviour: &segment.behaviour,
                    advantages,
                    mask: &segment.mask,
                    weights,
                    reference: reference.as_ref().map(|reference| &*reference[index]),
                    teacher: teacher.as_ref().map(|teacher| &*teacher[index]),
                };
                policy_gradient(self.loss, terms)
            }
        }
    }

    /// The term of the teacher's log-probabilities of the candidates; `None` if the loss does not learn from candidates.
    fn of_candidates(&self, index: usize, current: &[Vec<f32>]) -> Option<CandidateLoss> {
        let scores = self.step.beforehand.candidates.as_ref()?;
        let distillation = self.loss.distillation?;
        let DistillationForm::TopK { weight, .. } = distillation.form else { return None };
        let Surrogate::Token { clip, .. } = self.loss.surrogate else { return None };
        let rows: Vec<Option<Candidates<'_>>> = current
            .iter()
            .zip(&scores.proximal[index])
            .zip(&scores.teacher[index])
            .map(|((current, proximal), teacher)| {
                (!teacher.is_empty()).then_some(Candidates { current, proximal, teacher })
            })
            .collect();
        Some(top_k(&distillation, weight, clip, &rows, self.weights(index)))
    }

    fn weights(&self, index: usize) -> &[f64] {
        self.weights_of.get(&index).map_or(&[], Vec::as_slice)
    }
}

fn masked<'a>(mask: &'a [bool], values: &'a [f32]) -> impl Iterator<Item = f32> + Clone + 'a {
    mask.iter().zip(values).filter(|&(&trained, _)| trained).map(|(_, &value)| value)
}
