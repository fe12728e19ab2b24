//! The learner on libtorch.
//!
//! I1. A step whose loss or gradient is not finite is skipped: parameters and moments do not change, and the samples that
//! cause it are reported. I2. The version rises by one with each update, even if no step was made.
//! I3. With the same parameters, batch and number of threads the result is bit-identical. I4. Normalisers are those of
//! the whole optimizer step, over all ranks, known before its first micro-batch. I5. Parameters, moments, gradients and averages are
//! fp32; with [`Dtype::Bf16`] passes use a copy of the parameters that is rounded again for each step.
//!
//! The learner lives on one OS thread; calls cannot be cancelled.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::ops::RangeInclusive;
use std::sync::Arc;

use clawrl_learn::{
    Aggregation, Balance, DistillationForm, EntropyControl, LearnError, Learner, Objective, PolicyLoss,
    StepTotals, TrainBatch, TrainSample, UpdateReport, micro_batches, split_minibatches, token_weights,
};
use clawrl_torch_shim::allow_tf32;
use tch::Device;

use super::accepted::Accepted;
use super::backward::{Activations, Gradients};
use super::checkpoint::{Checkpoint, Checkpoints, State};
use super::collective::Collective;
use super::direct::{Crew, Piece, pieces};
use super::micro_batch::{MicroBatch, Scores};
use super::optimizer::{Optimizer, OptimizerConfig};
use super::publisher::Publisher;
use super::step::{Deriving, Step, Sums};
use super::targets::{TargetPolicies, Teacher};
use crate::error::TorchError;
use crate::model::{Adapted, Dtype, ModelFiles, Params, Rope};
use crate::turns::Turns;

/// Limits of a piece's rows for the thread pool. With fewer rows, matrix products are slow and a group's prompt is computed
/// more than once; with more rows, a core's caches overflow. The bits depend on the pieces, so the pieces are a function of
/// the samples alone.
const PIECE_ROWS: RangeInclusive<usize> = 256..=1024;

/// Wanted number of pieces of a batch within these limits, so that no thread of the pool waits long for another.
const WANTED_PIECES: usize = 8;

/// Maximum number of samples named as the cause of one skipped step.
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
    /// Maximum number of tokens in a micro-batch; a longer sample forms its own.
    pub micro_batch_tokens: NonZeroU32,
    /// Activations to keep between forward and backward.
    pub activations: Activations,
    /// Maximum number of consecutive skipped steps; one more is an error.
    pub max_skipped_steps: u32,
    /// Teacher for the tokens of [`TrainSample::teacher`]; required by [`PolicyLoss::distillation`].
    pub teacher: Option<Teacher>,
    /// Type of the weights in passes.
    pub dtype: Dtype,
}

/// The base model of an adapter, which does not change.
#[derive(Debug)]
pub struct Base {
    /// Its parameters.
    pub params: Params,
    /// Path of the base model, relative to a checkpoint's adapter folder.
    pub found: String,
}

/// Parts of a new learner.
pub struct LearnerSetup<'a> {
    /// Settings.
    pub config: LearnerConfig,
    /// Initial parameters, which the learner takes over; an adapter's if there is a base.
    pub params: Params,
    /// The base model of an adapter.
    pub base: Option<Base>,
    /// Version of these parameters.
    pub version: u64,
    /// Parameters of the reference, if [`PolicyLoss::kl`] or a frozen teacher needs one; of the same kind as `params`.
    pub reference: Option<Params>,
    /// Destinations of published weights.
    pub publisher: Box<dyn Publisher>,
    /// Communication with the other ranks.
    pub collective: Box<dyn Collective>,
    /// Checkpoint store.
    pub checkpoints: Checkpoints,
    /// Model files whose tokenizer and template are copied to checkpoints.
    pub model: &'a ModelFiles,
}

/// See the module.
pub struct TorchLearner {
    pub(super) config: LearnerConfig,
    pub(super) params: Params,
    base: Option<Base>,
    version: u64,
    /// The version of these parameters: an earlier one if later versions were rejected.
    pub(super) parameters_of: u64,
    pub(super) accepted: Option<Accepted>,
    /// State of the entropy bonus.
    pub(super) entropy: EntropyControl,
    publisher: Box<dyn Publisher>,
    collective: Box<dyn Collective>,
    checkpoints: Checkpoints,
    model: ModelFiles,
    pub(super) optimizer: Optimizer,
    gradients: Gradients,
    rope: Rope,
    /// Thread pool for the passes of a small model on the CPU.
    crew: Option<Crew>,
    pub(super) targets: TargetPolicies,
    device: Device,
    turns: Turns,
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
    /// [`TorchError`] if memory for gradients and moments is exhausted, or a base, a reference or a teacher is missing.
    pub fn new(setup: LearnerSetup<'_>) -> Result<Self, TorchError> {
        let layout = setup.params.layout();
        let device = setup.params.flat().device();
        let rope = Rope::new(layout.config(), device)?;
        let LearnerConfig { loss, teacher, .. } = &setup.config;
        loss.check().map_err(|error| TorchError::Model(error.to_string()))?;
        let missing = |what: &str| Err(TorchError::Model(what.to_owned()));
        if loss.kl.is_some() && setup.reference.is_none() {
            return missing("a cost of the distance to a reference needs its parameters");
        }
        if loss.distillation.is_some() != teacher.is_some() {
            return missing("a teacher and what is learned from it go together");
        }
        let candidates =
            loss.distillation.is_some_and(|taught| matches!(taught.form, DistillationForm::TopK { .. }));
        if *teacher == Some(Teacher::Elsewhere) && candidates {
            return missing("a teacher elsewhere is asked about sampled tokens alone");
        }
        match (&setup.base, layout.lora()) {
            (None, None) => {}
            (Some(Base { params, .. }), Some(_))
                if params.layout().lora().is_none() && params.layout().config() == layout.config() => {}
            (None, Some(_)) => return missing("an adapter needs the model that it is for"),
            _ => return missing("the base is no model that these parameters are an adapter for"),
        }
        let dtype = setup.config.dtype;
        if device.is_cuda() {
            // TF32 does not round bf16 weights, which have 7 bits of fraction. The setting is global, but fp32 and bf16
            // learners never share a process.
            allow_tf32(dtype == Dtype::Bf16);
        }
        // Untrained parameters are only used for passes, so they are kept in the type of passes.
        let frozen = |params: Params| params.on(device, dtype);
        let reference = setup.reference.map(frozen).transpose()?;
        let base = match setup.base {
            Some(Base { params, found }) => Some(Base { params: frozen(params)?, found }),
            None => None,
        };
        // The thread pool computes only gradients of a whole model in fp32.
        let crew = match base {
            None if dtype == Dtype::Bf16 => None,
            None => Crew::of(&setup.params, &rope, setup.config.activations)?,
            Some(_) => None,
        };
        let targets = TargetPolicies::new(*teacher, reference, &setup.params)?;
        Ok(Self {
            targets,
            optimizer: Optimizer::new(setup.config.optimizer, layout, device)?,
            gradients: Gradients::zeros(Arc::clone(layout), device)?,
            crew,
            rope,
            config: setup.config,
            params: setup.params,
            base,
            version: setup.version,
            parameters_of: setup.version,
            accepted: None,
            entropy: EntropyControl::default(),
            publisher: setup.publisher,
            collective: setup.collective,
            checkpoints: setup.checkpoints,
            model: setup.model.clone(),
            device,
            turns: Turns::default(),
            skipped_in_a_row: 0,
        })
    }

    /// Shares the device with an engine from now on.
    pub fn take_turns(&mut self, turns: Turns) {
        if let Some(crew) = &mut self.crew {
            crew.turns = turns.clone();
        }
        self.turns = turns;
    }

    /// Restores a checkpoint. Deleted moments start at zero, and the learning rate warms up again.
    ///
    /// # Errors
    /// [`TorchError::Model`] if the checkpoint is of another model.
    pub fn restore(&mut self, checkpoint: Checkpoint) -> Result<(), TorchError> {
        // A policy's files may have another type than its checkpoints.
        let (kept, own) = (checkpoint.params.layout(), self.params.layout());
        if (kept.specs(), kept.lora()) != (own.specs(), own.lora()) {
            let folder = checkpoint.folder.display();
            return Err(TorchError::Model(format!("checkpoint {folder} is of a model of another shape")));
        }
        // Copies into the existing tensors, because a GPU may not have memory for both copies.
        if let Some((first, second)) = &checkpoint.moments {
            self.optimizer.first.overwrite(first)?;
            self.optimizer.second.overwrite(second)?;
            self.optimizer.steps = checkpoint.optimizer_steps;
            self.optimizer.moments_since = checkpoint.moments_since;
        } else {
            self.optimizer.go_on_without_moments(checkpoint.optimizer_steps)?;
        }
        self.targets.restore(checkpoint.teacher.as_ref().unwrap_or(&checkpoint.params))?;
        self.params.overwrite(&checkpoint.params)?;
        self.version = checkpoint.version;
        self.parameters_of = checkpoint.version;
        self.entropy = checkpoint.entropy;
        Ok(())
    }

    /// The parameters.
    #[must_use]
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// The base model of the trained adapter.
    #[must_use]
    pub fn base(&self) -> Option<&Params> {
        self.base.as_ref().map(|base| &base.params)
    }

    /// The trained parameters, combined with the base if there is one.
    fn adapted<'a>(&'a self, params: &'a Params) -> Adapted<'a> {
        match &self.base {
            Some(base) => Adapted { model: &base.params, adapter: Some(params) },
            None => Adapted::whole(params),
        }
    }

    /// Parameters in the type of passes: the same, or rounded.
    fn rounded(&self, params: &Params) -> Result<Params, TorchError> {
        params.on(self.device, self.config.dtype)
    }

    /// The settings.
    #[must_use]
    pub fn config(&self) -> &LearnerConfig {
        &self.config
    }

    /// Loss and gradients of a whole batch as one step, without making the step.
    ///
    /// # Errors
    /// [`TorchError`] from libtorch.
    pub fn gradients_of(&self, batch: &TrainBatch) -> Result<(f64, Params), TorchError> {
        let chosen: Vec<usize> = (0..batch.samples.len()).collect();
        let beforehand = self.beforehand(batch, false)?;
        let (objective, samples) = (batch.objective, beforehand.samples(batch));
        let step = Step { objective, samples, chosen: &chosen, beforehand: &beforehand };
        let sums = self.accumulate(step)?;
        Ok((sums.loss, self.gradients.params.copy()?))
    }

    /// One optimizer step on given gradients, in the layout of the parameters.
    ///
    /// # Errors
    /// [`TorchError`] from libtorch.
    pub fn step_on(&mut self, gradients: &Params) -> Result<(), TorchError> {
        self.gradients.params.flat().shallow_clone().f_copy_(gradients.flat())?;
        let norm = self.gradients.params.norm()?;
        self.optimizer.step(&self.params, &self.gradients, norm)
    }

    /// Computes the gradients of one step into the buffer, and the sums.
    fn accumulate(&self, step: Step<'_>) -> Result<Sums, TorchError> {
        self.gradients.zero()?;
        let chosen: Vec<&TrainSample> = step.chosen.iter().map(|&index| &step.samples[index]).collect();
        let totals = self.over_all_ranks(StepTotals::of(&chosen))?;
        let loss = self.config.loss.at(self.version);
        let aggregation = match step.objective {
            Objective::PolicyGradient => loss.aggregation,
            Objective::Imitation => Aggregation::TokenMean,
        };
        let weights = token_weights(aggregation, totals, &chosen);
        let weights_of: HashMap<usize, Vec<f64>> = step.chosen.iter().copied().zip(weights).collect();
        let entropy = match step.objective {
            Objective::PolicyGradient => self.entropy_coefficient(),
            Objective::Imitation => 0.0,
        };
        let deriving = Deriving { step, loss: &loss, weights_of: &weights_of, entropy };
        let mut sums = Sums::default();
        if let Some(crew) = &self.crew {
            let pieces = self.pieces(step.samples, step.chosen);
            let derive = |piece: &Piece<'_>, scores| deriving.derive(&piece.indices, piece.tokens, &scores);
            for of_piece in crew.descend(&self.params, &pieces, &self.gradients, derive)? {
                sums.add(&of_piece);
            }
        } else {
            let rounded = self.rounded(&self.params)?;
            for indices in micro_batches(step.samples, step.chosen, self.config.micro_batch_tokens) {
                let Some(batch) = self.pack(step.samples, &indices)? else { continue };
                let derive = |scores| {
                    let (derivatives, of_batch) = deriving.derive(&indices, batch.tokens, &scores);
                    sums.add(&of_batch);
                    derivatives
                };
                batch.descend(
                    self.adapted(&rounded),
                    self.config.activations,
                    &self.gradients,
                    &self.turns,
                    derive,
                )?;
            }
        }
        self.collective.sum(&mut self.gradients.params.flat().shallow_clone())?;
        let mut loss = [sums.loss];
        self.collective.sum_numbers(&mut loss)?;
        sums.loss = loss[0];
        Ok(sums)
    }

    /// The present coefficient of the entropy bonus.
    fn entropy_coefficient(&self) -> f64 {
        self.config.loss.entropy.map_or(0.0, |bonus| self.entropy.coefficient(bonus))
    }

    fn over_all_ranks(&self, totals: StepTotals) -> Result<StepTotals, TorchError> {
        let mut numbers = [totals.tokens as f64, totals.episodes as f64];
        self.collective.sum_numbers(&mut numbers)?;
        // Token counts are far below 2^53, so fp64 holds them exactly.
        Ok(StepTotals { tokens: numbers[0] as u64, episodes: numbers[1] as u64 })
    }

    fn pack<'s>(
        &self,
        samples: &'s [TrainSample],
        indices: &[usize],
    ) -> Result<Option<MicroBatch<'s>>, TorchError> {
        let members: Vec<&TrainSample> = indices.iter().map(|&index| &samples[index]).collect();
        MicroBatch::pack(self.params.layout().config(), &self.rope, &members, self.device)
    }

    fn pieces<'s>(&self, samples: &'s [TrainSample], chosen: &[usize]) -> Vec<Piece<'s>> {
        let most = usize::try_from(self.config.micro_batch_tokens.get()).unwrap_or(usize::MAX);
        let tokens: usize = chosen.iter().map(|&index| samples[index].segment.len()).sum();
        let wanted = (tokens / WANTED_PIECES).clamp(*PIECE_ROWS.start(), *PIECE_ROWS.end());
        pieces(samples, chosen, most.min(wanted))
    }

    /// Scores all samples with the given parameters.
    pub(super) fn score(&self, params: &Params, samples: &[TrainSample]) -> Result<Scores, TorchError> {
        let rows = |sample: &TrainSample| vec![0.0; sample.segment.len()];
        let mut all = Scores {
            logprobs: samples.iter().map(rows).collect(),
            entropies: samples.iter().map(rows).collect(),
            candidates: samples.iter().map(|sample| vec![Vec::new(); sample.candidates.len()]).collect(),
        };
        let mut keep = |indices: &[usize], scores: Scores| {
            let mut candidates = scores.candidates.into_iter();
            let rows = scores.logprobs.into_iter().zip(scores.entropies);
            for (&index, (logprobs, entropies)) in indices.iter().zip(rows) {
                (all.logprobs[index], all.entropies[index]) = (logprobs, entropies);
                if let Some(candidates) = candidates.next() {
                    all.candidates[index] = candidates;
                }
            }
        };
        let chosen: Vec<usize> = (0..samples.len()).collect();
        if let Some(crew) = &self.crew {
            let pieces = self.pieces(samples, &chosen);
            for (piece, scores) in pieces.iter().zip(crew.score(params, &pieces)?) {
                keep(&piece.indices, scores);
            }
        } else {
            let rounded = self.rounded(params)?;
            for indices in micro_batches(samples, &chosen, self.config.micro_batch_tokens) {
                if let Some(batch) = self.pack(samples, &indices)? {
                    keep(&indices, batch.score(self.adapted(&rounded), &self.turns)?);
                }
            }
        }
        Ok(all)
    }

    /// The `most` most probable tokens at each trained position of all samples, under the given parameters (T rows each).
    pub(super) fn most_probable(
        &self,
        params: &Params,
        samples: &[TrainSample],
        most: usize,
    ) -> Result<Vec<Vec<Vec<u32>>>, TorchError> {
        let mut all: Vec<Vec<Vec<u32>>> =
            samples.iter().map(|sample| vec![Vec::new(); sample.segment.len()]).collect();
        let chosen: Vec<usize> = (0..samples.len()).collect();
        let mut keep = |indices: &[usize], found: Vec<Vec<Vec<u32>>>| {
            for (&index, rows) in indices.iter().zip(found) {
                all[index] = rows;
            }
        };
        if let Some(crew) = &self.crew {
            let pieces = self.pieces(samples, &chosen);
            for (piece, found) in pieces.iter().zip(crew.most_probable(params, &pieces, most)?) {
                keep(&piece.indices, found);
            }
        } else {
            let rounded = self.rounded(params)?;
            for indices in micro_batches(samples, &chosen, self.config.micro_batch_tokens) {
                if let Some(batch) = self.pack(samples, &indices)? {
                    keep(&indices, batch.most_probable(self.adapted(&rounded), most, &self.turns)?);
                }
            }
        }
        Ok(all)
    }

    /// Names of the samples whose own loss or gradient is not finite.
    fn culprits(&self, step: Step<'_>) -> Result<Vec<String>, TorchError> {
        let mut names = Vec::new();
        for index in step.chosen {
            let sums = self.accumulate(Step { chosen: std::slice::from_ref(index), ..step })?;
            if !(sums.loss.is_finite() && self.gradients.params.norm()?.is_finite()) {
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
        let beforehand = self.beforehand(batch, steps.len() > 1)?;
        let mut total = Sums::default();
        for chosen in &steps {
            let (objective, samples) = (batch.objective, beforehand.samples(batch));
            let step = Step { objective, samples, chosen, beforehand: &beforehand };
            let sums = self.accumulate(step)?;
            let norm = self.gradients.params.norm()?;
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
        report.kl = total.figures.kl_mean();
        (report.outcome_rms, report.teacher_rms) = total.figures.advantage_rms();
        report.dropped_segments = total.figures.dropped_segments;
        report.trained_tokens = total.trained;
        report.forward_tokens = total.forward;
        report.entropy_coefficient = self.entropy_coefficient();
        if let Some(bonus) = self.config.loss.entropy.filter(|_| total.trained > 0) {
            self.entropy.after(bonus, report.entropy);
        }
        self.version += 1;
        self.parameters_of = self.version;
        // The average is updated here, before the checkpoint and the publication, so that a checkpoint includes every version.
        self.targets.follow(&self.params)?;
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
        let published = self.publisher.publish(self.parameters_of, &self.params);
        published.map_err(|error| LearnError::Backend(error.to_string()))
    }

    fn checkpoint(&mut self, progress: &str) -> Result<(), LearnError> {
        let state = State {
            version: self.version,
            optimizer_steps: self.optimizer.steps,
            moments_since: self.optimizer.moments_since,
            first: &self.optimizer.first,
            second: &self.optimizer.second,
            teacher: self.targets.following(),
            base: self.base.as_ref().map(|base| base.found.as_str()),
            entropy: self.entropy,
            progress,
        };
        let written = self.checkpoints.write(&self.model, &self.params, &state);
        written.map(|_| ()).map_err(|error| LearnError::Checkpoint(error.to_string()))
    }
}
