//! The learner on libtorch.
//!
//! I1. A step whose loss or gradient is not finite changes nothing: parameters and moments are as before, the samples
//! that cause it are found and named. I2. The version rises by one with each update, whether or not a step was made.
//! I3. With the same parameters, batch and number of threads the result is bit-identical. I4. Normalisers are those of
//! the whole optimizer step, over all ranks, known before its first micro-batch.
//!
//! Lives on one OS thread; nothing cancels a call.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;

use clawrl_learn::{
    Aggregation, Balance, LearnError, Learner, Objective, PolicyLoss, StepTotals, TrainBatch, TrainSample,
    UpdateReport, micro_batches, split_minibatches, token_weights,
};
use tch::Device;

use super::backward::{Activations, Gradients};
use super::checkpoint::{Checkpoint, Checkpoints, State};
use super::collective::Collective;
use super::direct::{Crew, Piece, pieces};
use super::micro_batch::MicroBatch;
use super::optimizer::{Optimizer, OptimizerConfig};
use super::publisher::Publisher;
use super::step::{Deriving, Step, Sums};
use crate::error::TorchError;
use crate::model::{ModelFiles, Params, Rope};

/// Bounds of a piece's rows, for a crew. With fewer, products of matrices are slow, and a group's prompt is computed more
/// than once; with more, a core's caches overflow. Bits depend on the pieces, so they are a function of the samples alone.
const PIECE_ROWS: RangeInclusive<usize> = 256..=1024;

/// Pieces that a batch should have between these bounds, so that no thread of a crew waits long for another.
const WANTED_PIECES: usize = 8;

/// Most samples named as the cause of one skipped step.
const NAMED_CULPRITS: usize = 4;

/// Settings of a learner.
#[derive(Debug, Clone, PartialEq)]
pub struct LearnerConfig {
    /// How log-probabilities become a loss.
    pub loss: PolicyLoss,
    /// How gradients become a step.
    pub optimizer: OptimizerConfig,
    /// Optimizer steps for each batch.
    pub minibatches: NonZeroU32,
    /// Most tokens that go through the model together; a longer sample goes alone.
    pub micro_batch_tokens: NonZeroU32,
    /// What is kept between forward and backward.
    pub activations: Activations,
    /// Steps in a row that may be skipped; one more is an error.
    pub max_skipped_steps: u32,
}

/// What a learner is made from.
pub struct LearnerSetup<'a> {
    /// Settings.
    pub config: LearnerConfig,
    /// Parameters to start from; they become the learner's own.
    pub params: Params,
    /// Version of these parameters.
    pub version: u64,
    /// Where published weights go.
    pub publisher: Box<dyn Publisher>,
    /// Other ranks.
    pub collective: Box<dyn Collective>,
    /// Where checkpoints go.
    pub checkpoints: Checkpoints,
    /// The folder whose tokenizer and template go into checkpoints.
    pub model_folder: &'a Path,
}

/// See the module.
pub struct TorchLearner {
    config: LearnerConfig,
    params: Params,
    version: u64,
    publisher: Box<dyn Publisher>,
    collective: Box<dyn Collective>,
    checkpoints: Checkpoints,
    model: ModelFiles,
    optimizer: Optimizer,
    gradients: Gradients,
    rope: Rope,
    /// For a small model on the CPU, whose passes it makes.
    crew: Option<Crew>,
    device: Device,
    skipped_in_a_row: u32,
}

impl std::fmt::Debug for TorchLearner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TorchLearner").field("version", &self.version).finish_non_exhaustive()
    }
}

impl TorchLearner {
    /// A learner with fresh moments.
    ///
    /// # Errors
    /// [`TorchError`] when there is no memory for gradients and moments.
    pub fn new(setup: LearnerSetup<'_>) -> Result<Self, TorchError> {
        let layout = setup.params.layout();
        let device = setup.params.flat().device();
        let rope = Rope::new(layout.config(), device)?;
        Ok(Self {
            optimizer: Optimizer::new(setup.config.optimizer, layout, device)?,
            gradients: Gradients::zeros(Arc::clone(layout), device)?,
            crew: Crew::of(&setup.params, &rope, setup.config.activations)?,
            rope,
            config: setup.config,
            params: setup.params,
            version: setup.version,
            publisher: setup.publisher,
            collective: setup.collective,
            checkpoints: setup.checkpoints,
            model: ModelFiles::of(setup.model_folder),
            device,
            skipped_in_a_row: 0,
        })
    }

    /// Goes on from a checkpoint. Moments that are no longer there begin at zero.
    ///
    /// # Errors
    /// [`TorchError::Model`] when the checkpoint is of another model.
    pub fn restore(&mut self, checkpoint: Checkpoint) -> Result<(), TorchError> {
        if checkpoint.params.layout() != self.params.layout() {
            let folder = checkpoint.folder.display();
            return Err(TorchError::Model(format!("checkpoint {folder} is of a model of another shape")));
        }
        if let Some((first, second)) = checkpoint.moments {
            self.optimizer.first = first;
            self.optimizer.second = second;
            self.optimizer.steps = checkpoint.optimizer_steps;
        }
        self.params = checkpoint.params;
        self.version = checkpoint.version;
        Ok(())
    }

    /// The parameters.
    #[must_use]
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// The settings.
    #[must_use]
    pub fn config(&self) -> &LearnerConfig {
        &self.config
    }

    /// Loss and gradients of a whole batch as one step, which is not made.
    ///
    /// # Errors
    /// [`TorchError`] from libtorch.
    pub fn gradients_of(&self, batch: &TrainBatch) -> Result<(f64, Params), TorchError> {
        let chosen: Vec<usize> = (0..batch.samples.len()).collect();
        let step =
            Step { objective: batch.objective, samples: &batch.samples, chosen: &chosen, proximal: None };
        let sums = self.accumulate(step)?;
        Ok((sums.loss, self.gradients.params.copy()?))
    }

    /// One optimizer step on gradients that come from elsewhere, in the layout of the parameters.
    ///
    /// # Errors
    /// [`TorchError`] from libtorch.
    pub fn step_on(&mut self, gradients: &Params) -> Result<(), TorchError> {
        self.gradients.params.flat().shallow_clone().f_copy_(gradients.flat())?;
        let norm = Optimizer::norm(&self.gradients)?;
        self.optimizer.step(&self.params, &self.gradients, norm)
    }

    /// The gradients of one step, left in the buffer, and the sums.
    fn accumulate(&self, step: Step<'_>) -> Result<Sums, TorchError> {
        self.gradients.zero()?;
        let chosen: Vec<&TrainSample> = step.chosen.iter().map(|&index| &step.samples[index]).collect();
        let totals = self.over_all_ranks(StepTotals::of(&chosen))?;
        let aggregation = match step.objective {
            Objective::PolicyGradient => self.config.loss.aggregation,
            Objective::Imitation => Aggregation::TokenMean,
        };
        let weights = token_weights(aggregation, totals, &chosen);
        let weights_of: HashMap<usize, Vec<f64>> = step.chosen.iter().copied().zip(weights).collect();
        let deriving = Deriving { step, loss: &self.config.loss, weights_of: &weights_of };
        let mut sums = Sums::default();
        if let Some(crew) = &self.crew {
            let pieces = self.pieces(step.samples, step.chosen);
            let derive = |piece: &Piece<'_>, scores| deriving.derive(&piece.indices, piece.tokens, &scores);
            for of_piece in crew.descend(&self.params, &pieces, &self.gradients, derive)? {
                sums.add(&of_piece);
            }
        } else {
            for indices in micro_batches(step.samples, step.chosen, self.config.micro_batch_tokens) {
                let Some(batch) = self.pack(step.samples, &indices)? else { continue };
                let derive = |scores| {
                    let (derivatives, of_batch) = deriving.derive(&indices, batch.tokens, &scores);
                    sums.add(&of_batch);
                    derivatives
                };
                batch.descend(&self.params, self.config.activations, &self.gradients, derive)?;
            }
        }
        self.collective.sum(&mut self.gradients.params.flat().shallow_clone())?;
        let mut loss = [sums.loss];
        self.collective.sum_numbers(&mut loss)?;
        sums.loss = loss[0];
        Ok(sums)
    }

    fn over_all_ranks(&self, totals: StepTotals) -> Result<StepTotals, TorchError> {
        let mut numbers = [totals.tokens as f64, totals.episodes as f64];
        self.collective.sum_numbers(&mut numbers)?;
        // Counts of tokens are far below the 2^53 that fp64 holds exactly.
        Ok(StepTotals { tokens: numbers[0] as u64, episodes: numbers[1] as u64 })
    }

    fn pack<'s>(
        &self,
        samples: &'s [TrainSample],
        indices: &[usize],
    ) -> Result<Option<MicroBatch<'s>>, TorchError> {
        let members: Vec<&TrainSample> = indices.iter().map(|&index| &samples[index]).collect();
        MicroBatch::pack(&self.params, &self.rope, &members, self.device)
    }

    fn pieces<'s>(&self, samples: &'s [TrainSample], chosen: &[usize]) -> Vec<Piece<'s>> {
        let most = usize::try_from(self.config.micro_batch_tokens.get()).unwrap_or(usize::MAX);
        let tokens: usize = chosen.iter().map(|&index| samples[index].segment.len()).sum();
        let wanted = (tokens / WANTED_PIECES).clamp(*PIECE_ROWS.start(), *PIECE_ROWS.end());
        pieces(samples, chosen, most.min(wanted))
    }

    /// Log-probabilities of all samples under the present parameters, shape T each.
    fn proximal(&self, samples: &[TrainSample]) -> Result<Vec<Vec<f32>>, TorchError> {
        let mut logprobs: Vec<Vec<f32>> =
            samples.iter().map(|sample| vec![0.0; sample.segment.len()]).collect();
        let all: Vec<usize> = (0..samples.len()).collect();
        if let Some(crew) = &self.crew {
            let pieces = self.pieces(samples, &all);
            for (piece, scores) in pieces.iter().zip(crew.score(&self.params, &pieces)?) {
                for (&index, scored) in piece.indices.iter().zip(scores.logprobs) {
                    logprobs[index] = scored;
                }
            }
            return Ok(logprobs);
        }
        for indices in micro_batches(samples, &all, self.config.micro_batch_tokens) {
            let Some(batch) = self.pack(samples, &indices)? else { continue };
            for (&index, scored) in indices.iter().zip(batch.score(&self.params)?.logprobs) {
                logprobs[index] = scored;
            }
        }
        Ok(logprobs)
    }

    /// Names the samples whose own loss or gradient is not finite.
    fn culprits(&self, step: Step<'_>) -> Result<Vec<String>, TorchError> {
        let mut names = Vec::new();
        for index in step.chosen {
            let sums = self.accumulate(Step { chosen: std::slice::from_ref(index), ..step })?;
            if !(sums.loss.is_finite() && Optimizer::norm(&self.gradients)?.is_finite()) {
                names.push(step.samples[*index].attempt.to_string());
                if names.len() == NAMED_CULPRITS {
                    break;
                }
            }
        }
        if names.is_empty() {
            names.push(format!("none of {} alone", step.chosen.len()));
        }
        Ok(names)
    }

    fn try_update(&mut self, batch: &TrainBatch) -> Result<UpdateReport, UpdateFailure> {
        let mut report = UpdateReport { version: self.version + 1, ..UpdateReport::default() };
        let steps =
            split_minibatches(&batch.samples, self.config.minibatches, Balance::default(), batch.seed);
        // With one step the present log-probabilities are the proximal ones, and no forward pass is spent on them.
        let proximal = match batch.objective {
            Objective::PolicyGradient if steps.len() > 1 => Some(self.proximal(&batch.samples)?),
            _ => None,
        };
        let mut total = Sums::default();
        for chosen in &steps {
            let (objective, samples, proximal) = (batch.objective, &batch.samples, proximal.as_deref());
            let step = Step { objective, samples, chosen, proximal };
            let sums = self.accumulate(step)?;
            let norm = Optimizer::norm(&self.gradients)?;
            if sums.loss.is_finite() && norm.is_finite() {
                self.optimizer.step(&self.params, &self.gradients, norm)?;
                self.skipped_in_a_row = 0;
                report.steps += 1;
                report.loss += sums.loss;
                report.grad_norm += norm;
                total.add(&sums);
                continue;
            }
            let culprits = self.culprits(step)?;
            report.skipped += 1;
            self.skipped_in_a_row += 1;
            if self.skipped_in_a_row > self.config.max_skipped_steps {
                let steps = self.skipped_in_a_row;
                return Err(UpdateFailure::NotFinite { steps, culprits: culprits.join(", ") });
            }
            report.culprits.extend(culprits);
        }
        let mean = |sum: f64, count: u64| if count == 0 { 0.0 } else { sum / count as f64 };
        report.loss = mean(report.loss, u64::from(report.steps));
        report.grad_norm = mean(report.grad_norm, u64::from(report.steps));
        report.entropy = mean(total.entropy, total.trained);
        report.behaviour_gap = total.figures.behaviour_gap();
        report.clip_fraction = total.figures.clip_fraction();
        report.dropped_segments = total.figures.dropped_segments;
        report.trained_tokens = total.trained;
        report.forward_tokens = total.forward;
        self.version += 1;
        Ok(report)
    }
}

enum UpdateFailure {
    Torch(TorchError),
    NotFinite { steps: u32, culprits: String },
}

impl From<TorchError> for UpdateFailure {
    fn from(error: TorchError) -> Self {
        Self::Torch(error)
    }
}

impl Learner for TorchLearner {
    fn version(&self) -> u64 {
        self.version
    }

    fn update(&mut self, batch: &TrainBatch) -> Result<UpdateReport, LearnError> {
        self.try_update(batch).map_err(|failure| match failure {
            UpdateFailure::Torch(error) => LearnError::Backend(error.to_string()),
            UpdateFailure::NotFinite { steps, culprits } => LearnError::NotFinite { steps, culprits },
        })
    }

    fn publish(&mut self) -> Result<(), LearnError> {
        self.publisher
            .publish(self.version, &self.params)
            .map_err(|error| LearnError::Backend(error.to_string()))
    }

    fn checkpoint(&mut self, progress: &str) -> Result<(), LearnError> {
        let state = State {
            version: self.version,
            optimizer_steps: self.optimizer.steps,
            first: &self.optimizer.first,
            second: &self.optimizer.second,
            progress,
        };
        let written = self.checkpoints.write(&self.model, &self.params, &state);
        written.map(|_| ()).map_err(|error| LearnError::Checkpoint(error.to_string()))
    }
}
