//! Samples that go through the model together.
//!
//! I1. Exactly one row, the one before it, predicts each trained token of a sample. I2. The result for a sample does not
//! depend on the other samples of the pack, up to rounding.
//!
//! Shapes: R rows, M rows that each predict a trained token, in order of sample and position.

use std::ops::Range;

use clawrl_learn::TrainSample;
use tch::{Device, Tensor};

use super::backward::{Activations, Gradients, Pass, head_of, hidden_only};
use super::head::{Asked, Head, Keep, most_probable};
use crate::error::TorchError;
use crate::model::{Adapted, ModelConfig, PackedRows, Rope};
use crate::turns::Turns;

/// Packed samples with their predictions.
#[derive(Debug)]
pub(crate) struct MicroBatch<'a> {
    rows: PackedRows,
    predicting: Tensor,
    targets: Tensor,
    temperatures: Tensor,
    candidates: CandidateRows,
    /// For each sample, its part of the M predictions and their positions in the sample.
    parts: Vec<Part<'a>>,
    /// All tokens.
    pub(crate) tokens: u64,
}

/// A sample's part of the predictions.
#[derive(Debug)]
pub(super) struct Part<'a> {
    pub(super) sample: &'a TrainSample,
    /// The sample's range of the predictions.
    pub(super) predictions: Range<usize>,
    /// Positions of the predicted tokens in the sample.
    pub(super) positions: Vec<usize>,
}

/// Candidates of each prediction, padded to the longest row.
#[derive(Debug)]
struct CandidateRows {
    /// M x K, i64, padded with the sampled token; `None` if K is 0.
    ids_mk: Option<Tensor>,
    /// Number of real candidates in each row.
    lengths: Vec<usize>,
    /// K.
    width: usize,
}

/// Scores of predictions (M each).
#[derive(Debug, Default)]
pub(crate) struct Predictions {
    pub(crate) logprobs: Vec<f32>,
    pub(crate) entropies: Vec<f32>,
    /// Log-probabilities of each prediction's candidates; empty if there are no candidates.
    pub(crate) candidates: Vec<Vec<f32>>,
}

/// Log-probabilities and entropies of trained tokens, by sample; shape T each, 0 at untrained tokens.
#[derive(Debug)]
pub(crate) struct Scores {
    pub(crate) logprobs: Vec<Vec<f32>>,
    pub(crate) entropies: Vec<Vec<f32>>,
    /// Log-probabilities of the candidates at each position; empty if there are no candidates.
    pub(crate) candidates: Vec<Vec<Vec<f32>>>,
}

/// Derivatives of the loss with respect to the log-probabilities and entropies of a sample (T) or of predictions (M).
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Derivatives {
    /// For the sampled tokens.
    pub(crate) by_sampled: Vec<f32>,
    /// For the candidates; empty if there are none.
    pub(crate) by_candidates: Vec<Vec<f32>>,
    /// For the entropies; empty without an entropy bonus.
    pub(crate) by_entropies: Vec<f32>,
}

impl CandidateRows {
    fn new(rows: &[&[u32]], targets: &[i64], device: Device) -> Result<Self, TorchError> {
        let lengths: Vec<usize> = rows.iter().map(|row| row.len()).collect();
        let width = lengths.iter().copied().max().unwrap_or_default();
        let mut ids = Vec::with_capacity(width * rows.len());
        for (row, &target) in rows.iter().zip(targets) {
            let filled = row.iter().map(|&id| i64::from(id)).chain(std::iter::repeat(target));
            ids.extend(filled.take(width));
        }
        let ids_mk = if width == 0 {
            None
        } else {
            Some(Tensor::f_from_slice(&ids)?.f_view([rows.len() as i64, width as i64])?.f_to_device(device)?)
        };
        Ok(Self { ids_mk, lengths, width })
    }

    /// Values of all columns (M x K) as rows.
    fn rows(&self, values: &[f32]) -> Vec<Vec<f32>> {
        if self.width == 0 {
            return Vec::new();
        }
        let rows = values.chunks_exact(self.width).zip(&self.lengths);
        rows.map(|(row, &length)| row[..length].to_vec()).collect()
    }

    /// Rows as values of all columns; 0 in the padding.
    fn columns(&self, rows: &[Vec<f32>]) -> Vec<f32> {
        let mut values = vec![0.0; self.width * self.lengths.len()];
        if self.width > 0 {
            for (values, row) in values.chunks_exact_mut(self.width).zip(rows) {
                values[..row.len()].copy_from_slice(row);
            }
        }
        values
    }
}

impl<'a> MicroBatch<'a> {
    /// Packs samples; `None` if they have no trained token.
    pub(crate) fn pack(
        config: &ModelConfig,
        rope: &Rope,
        samples: &[&'a TrainSample],
        device: Device,
    ) -> Result<Option<Self>, TorchError> {
        let segments: Vec<&[u32]> = samples.iter().map(|sample| sample.segment.ids.as_slice()).collect();
        let rows = PackedRows::new(config, rope, &segments, device)?;
        let (mut predicting, mut targets, mut temperatures) = (Vec::new(), Vec::new(), Vec::new());
        let mut candidates = Vec::new();
        let mut parts = Vec::with_capacity(samples.len());
        let mut start = 0usize;
        for &sample in samples {
            let segment = &sample.segment;
            // Nothing predicts the first token, regardless of its mask.
            let positions: Vec<usize> = (1..segment.len()).filter(|&at| segment.mask[at]).collect();
            let first = predicting.len();
            for &at in &positions {
                predicting.push((start + at - 1) as i64);
                targets.push(i64::from(segment.ids[at]));
                temperatures.push(segment.temperatures[at]);
                candidates.push(sample.candidates_at(at));
            }
            parts.push(Part { sample, predictions: first..predicting.len(), positions });
            start += segment.len();
        }
        if predicting.is_empty() {
            return Ok(None);
        }
        let tensor = |values: &[i64]| Tensor::f_from_slice(values)?.f_to_device(device);
        Ok(Some(Self {
            rows,
            predicting: tensor(&predicting)?,
            candidates: CandidateRows::new(&candidates, &targets, device)?,
            targets: tensor(&targets)?,
            temperatures: Tensor::f_from_slice(&temperatures)?.f_to_device(device)?,
            parts,
            tokens: start as u64,
        }))
    }

    /// Scores the samples without a backward pass.
    pub(crate) fn score(&self, adapted: Adapted<'_>, turns: &Turns) -> Result<Scores, TorchError> {
        let mut turn = turns.learn();
        let hidden_md = hidden_only(adapted, &self.rows, &self.predicting, &mut turn)?;
        let weight_vd = head_of(adapted.model)?;
        let head = Head::forward(&weight_vd, &hidden_md, self.asked(), Keep::Nothing)?;
        Ok(by_sample(&self.parts, &self.found(&head)))
    }

    /// The `most` most probable tokens at each position, by sample (T rows; none without trained tokens).
    pub(crate) fn most_probable(
        &self,
        adapted: Adapted<'_>,
        most: usize,
        turns: &Turns,
    ) -> Result<Vec<Vec<Vec<u32>>>, TorchError> {
        let mut turn = turns.learn();
        let hidden_md = hidden_only(adapted, &self.rows, &self.predicting, &mut turn)?;
        let rows = most_probable(&head_of(adapted.model)?, &hidden_md, most)?;
        Ok(self.parts.iter().map(|part| spread(part, &rows)).collect())
    }

    /// Runs forward, calls `derive` for the derivatives of the loss with respect to each log-probability, and runs
    /// backward. `derive` takes the scores and returns the derivatives of each sample.
    pub(crate) fn descend(
        &self,
        adapted: Adapted<'_>,
        activations: Activations,
        gradients: &Gradients,
        turns: &Turns,
        derive: impl FnOnce(Scores) -> Vec<Derivatives>,
    ) -> Result<(), TorchError> {
        let mut turn = turns.learn();
        let pass = Pass::forward(adapted, &self.rows, &self.predicting, activations, &mut turn)?;
        let (hidden_md, weight_vd) = (pass.hidden()?, head_of(adapted.model)?);
        let head = Head::forward(&weight_vd, &hidden_md, self.asked(), Keep::LogSoftmax)?;
        turn.pause();
        let derivatives = of_predictions(&self.parts, &derive(by_sample(&self.parts, &self.found(&head))));
        let by_candidates = self.candidates.columns(&derivatives.by_candidates);
        let Derivatives { by_sampled, by_entropies, .. } = &derivatives;
        let hidden_grad_md = head.backward(by_sampled, &by_candidates, by_entropies, gradients)?;
        pass.backward(&hidden_grad_md, gradients, &mut turn)
    }

    fn asked(&self) -> Asked<'_> {
        Asked {
            targets_m: &self.targets,
            temperatures_m: &self.temperatures,
            candidates_mk: self.candidates.ids_mk.as_ref(),
        }
    }

    fn found(&self, head: &Head<'_>) -> Predictions {
        Predictions {
            logprobs: head.logprobs.clone(),
            entropies: head.entropies.clone(),
            candidates: self.candidates.rows(&head.candidates),
        }
    }
}

/// Converts the scores of all predictions to scores by sample.
pub(super) fn by_sample(parts: &[Part<'_>], found: &Predictions) -> Scores {
    let candidates = if found.candidates.is_empty() { &[][..] } else { parts };
    Scores {
        logprobs: parts.iter().map(|part| spread(part, &found.logprobs)).collect(),
        entropies: parts.iter().map(|part| spread(part, &found.entropies)).collect(),
        candidates: candidates.iter().map(|part| spread(part, &found.candidates)).collect(),
    }
}

/// Spreads the values of a sample's predictions over its positions (T).
pub(super) fn spread<T: Clone + Default>(part: &Part<'_>, values: &[T]) -> Vec<T> {
    let mut spread = vec![T::default(); part.sample.segment.len()];
    for (&at, value) in part.positions.iter().zip(&values[part.predictions.clone()]) {
        spread[at] = value.clone();
    }
    spread
}

/// Converts derivatives by sample to derivatives of all predictions.
pub(super) fn of_predictions(parts: &[Part<'_>], by_sample: &[Derivatives]) -> Derivatives {
    let mut packed = Derivatives::default();
    let with_candidates = by_sample.iter().any(|derivatives| !derivatives.by_candidates.is_empty());
    let with_entropies = by_sample.iter().any(|derivatives| !derivatives.by_entropies.is_empty());
    for (part, derivatives) in parts.iter().zip(by_sample) {
        for &at in &part.positions {
            if with_entropies {
                packed.by_entropies.push(derivatives.by_entropies.get(at).copied().unwrap_or_default());
            }
            packed.by_sampled.push(derivatives.by_sampled[at]);
            if with_candidates {
                packed.by_candidates.push(derivatives.by_candidates.get(at).cloned().unwrap_or_default());
            }
        }
    }
    packed
}
