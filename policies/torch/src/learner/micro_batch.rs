//! Samples that go through the model together.
//!
//! I1. Every trained token of a sample is predicted by exactly one row, the one before it. I2. What is computed for a
//! sample does not depend on which samples it is packed with, to rounding.
//!
//! Shapes: R rows, M rows that predict a trained token, in order of sample and position.

use std::ops::Range;

use clawrl_learn::TrainSample;
use tch::{Device, Tensor};

use super::backward::{Activations, Gradients, Pass, hidden_only};
use super::head::Head;
use crate::error::TorchError;
use crate::model::{PackedRows, Params, Rope};

/// Packed samples with what is predicted.
#[derive(Debug)]
pub(crate) struct MicroBatch<'a> {
    rows: PackedRows,
    predicting: Tensor,
    targets: Tensor,
    temperatures: Tensor,
    /// For each sample, its part of the M predictions and the positions within the sample that they are for.
    parts: Vec<Part<'a>>,
    /// All tokens.
    pub(crate) tokens: u64,
}

/// A sample's part of the predictions.
#[derive(Debug)]
pub(super) struct Part<'a> {
    pub(super) sample: &'a TrainSample,
    /// Which of all predictions are its own.
    pub(super) predictions: Range<usize>,
    /// Positions within the sample that they are for.
    pub(super) positions: Vec<usize>,
}

/// Log-probabilities and entropies of trained tokens, by sample; shape T each, 0 where nothing is trained.
#[derive(Debug)]
pub(crate) struct Scores {
    pub(crate) logprobs: Vec<Vec<f32>>,
    pub(crate) entropies: Vec<Vec<f32>>,
}

impl<'a> MicroBatch<'a> {
    /// Packs samples; `None` when nothing in them is trained.
    pub(crate) fn pack(
        params: &Params,
        rope: &Rope,
        samples: &[&'a TrainSample],
        device: Device,
    ) -> Result<Option<Self>, TorchError> {
        let segments: Vec<&[u32]> = samples.iter().map(|sample| sample.segment.ids.as_slice()).collect();
        let rows = PackedRows::new(params.layout().config(), rope, &segments, device)?;
        let (mut predicting, mut targets, mut temperatures) = (Vec::new(), Vec::new(), Vec::new());
        let mut parts = Vec::with_capacity(samples.len());
        let mut start = 0usize;
        for &sample in samples {
            let segment = &sample.segment;
            // The first token is predicted by nothing, whatever its mask says.
            let positions: Vec<usize> = (1..segment.len()).filter(|&at| segment.mask[at]).collect();
            let first = predicting.len();
            for &at in &positions {
                predicting.push((start + at - 1) as i64);
                targets.push(i64::from(segment.ids[at]));
                temperatures.push(segment.temperatures[at]);
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
            targets: tensor(&targets)?,
            temperatures: Tensor::f_from_slice(&temperatures)?.f_to_device(device)?,
            parts,
            tokens: start as u64,
        }))
    }

    /// Log-probabilities and entropies, nothing to go back.
    pub(crate) fn score(&self, params: &Params) -> Result<Scores, TorchError> {
        let hidden_md = hidden_only(params, &self.rows, &self.predicting)?;
        let weight_vd = params.head()?;
        let head = Head::forward(&weight_vd, &hidden_md, &self.targets, &self.temperatures, false)?;
        Ok(by_sample(&self.parts, &head.logprobs, &head.entropies))
    }

    /// Forward, the loss's derivatives by each log-probability from `derive`, backward. `derive` gets the scores and
    /// gives the derivatives of each sample, shape T.
    pub(crate) fn descend(
        &self,
        params: &Params,
        activations: Activations,
        gradients: &Gradients,
        derive: impl FnOnce(Scores) -> Vec<Vec<f32>>,
    ) -> Result<(), TorchError> {
        let pass = Pass::forward(params, &self.rows, &self.predicting, activations)?;
        let (hidden_md, weight_vd) = (pass.hidden()?, params.head()?);
        let head = Head::forward(&weight_vd, &hidden_md, &self.targets, &self.temperatures, true)?;
        let derivatives = derive(by_sample(&self.parts, &head.logprobs, &head.entropies));
        let mut packed = Vec::with_capacity(head.logprobs.len());
        for (part, derivatives) in self.parts.iter().zip(&derivatives) {
            packed.extend(part.positions.iter().map(|&at| derivatives[at]));
        }
        let hidden_grad_md = head.backward(&packed, gradients)?;
        pass.backward(&hidden_grad_md, gradients)
    }
}

/// Values of all predictions, as scores of the samples that they are for.
pub(super) fn by_sample(parts: &[Part<'_>], logprobs: &[f32], entropies: &[f32]) -> Scores {
    let spread = |part: &Part<'_>, values: &[f32]| {
        let mut spread = vec![0.0; part.sample.segment.len()];
        for (&at, &value) in part.positions.iter().zip(&values[part.predictions.clone()]) {
            spread[at] = value;
        }
        spread
    };
    Scores {
        logprobs: parts.iter().map(|part| spread(part, logprobs)).collect(),
        entropies: parts.iter().map(|part| spread(part, entropies)).collect(),
    }
}
