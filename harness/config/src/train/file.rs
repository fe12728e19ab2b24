//! The train file exactly as written. The doc comments are the descriptions in the JSON schema, so they speak to
//! authors of train files.

use schemars::JsonSchema;
use serde::Deserialize;

use super::curriculum::CurriculumFile;
use super::devices::DevicesFile;
use super::distillation::DistillationFile;
use super::gate::GateFile;
use super::importance::ImportanceFile;
use super::judging::JudgingFile;
use super::length::LengthFile;
use super::lora::LoraFile;
use super::overlong::OverlongKind;
use super::plan::{
    Advantage, Aggregation, Device, Dtype, KeptActivations, KlEstimator, Objective, Preset, Reward, Schedule,
    Surrogate,
};
use crate::bounds;
use crate::file::{Located, Text, present_or_default};

/// A ClawRL training: what is trained, on which tasks and how. Only what differs from the defaults is written.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "ClawRL train file")]
pub(crate) struct TrainFile {
    /// Version of this format: 1.
    #[schemars(range(min = 1, max = bounds::TRAIN_FORMAT))]
    pub(crate) format: Located<i64>,
    /// Name of the training: lower-case letters, digits and dashes.
    #[schemars(regex(pattern = "^[a-z0-9-]+$"))]
    pub(crate) train: Located<String>,
    /// Root of all seeds. Default: 0.
    #[schemars(range(min = 0, max = bounds::MAX_SEED))]
    pub(crate) seed: Option<Located<i64>>,
    /// Whether another run on the same machine gives the same bits: synchronous, no stale tokens, an engine whose
    /// replies do not depend on what else is in the batch. Slower. Default: false.
    pub(crate) reproducible: Option<Located<bool>>,
    /// What is trained.
    pub(crate) policy: Located<PolicyFile>,
    /// Tasks to train and to be evaluated on; which part a task belongs to follows from its family and instruction.
    #[schemars(length(min = 1))]
    pub(crate) suites: Located<Vec<TrainSuiteFile>>,
    /// A policy file, relative to this file: the model that judges by the suites' `answer_rubric`. Default: none.
    pub(crate) judge: Option<Located<String>>,
    /// Imitation of recorded demonstrations before anything else. Left out: none. Nothing below it: the defaults.
    #[serde(default, deserialize_with = "present_or_default")]
    pub(crate) warm_start: Option<WarmStartFile>,
    /// Reinforcement learning. Left out: none. Nothing below it: the defaults.
    #[serde(default, deserialize_with = "present_or_default")]
    pub(crate) rl: Option<RlFile>,
    /// Greedy attempts at tasks that nothing is learned from.
    #[serde(default)]
    pub(crate) evaluation: Option<EvaluationFile>,
    /// What is kept to go on from.
    #[serde(default)]
    pub(crate) checkpoint: Option<CheckpointFile>,
    /// What computes replies and updates.
    #[serde(default)]
    pub(crate) engine: Option<EngineFile>,
    /// How many GPUs there are for whom, with `engine: { device: cuda }` or `auto`.
    #[serde(default)]
    pub(crate) devices: Option<Located<DevicesFile>>,
    /// Attempts under way and retries.
    #[serde(default)]
    pub(crate) limits: Option<LimitsFile>,
}

/// What is trained: exactly one of the two.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Policy")]
pub(crate) struct PolicyFile {
    /// A new policy of this size, its tokenizer trained on the text of the suites.
    pub(crate) preset: Option<Preset>,
    /// Folder of a policy in the Hugging Face layout, relative to this file. It is not changed.
    pub(crate) path: Option<Located<String>>,
}

/// One suite of tasks.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "TrainSuite")]
pub(crate) struct TrainSuiteFile {
    /// A suite.yaml or its folder, relative to this file.
    pub(crate) path: Located<String>,
    /// Different tasks that each template of the suite makes, in place of its own `instances`; fewer where there
    /// are not as many. Default: as the suite says.
    #[schemars(range(min = 1, max = bounds::MAX_INSTANCES))]
    pub(crate) instances: Option<Located<i64>>,
    /// Its share of the groups, compared with the weights of the others, however many families it has. Default: as many as it
    /// has families to train on.
    #[schemars(range(min = 1, max = bounds::MAX_WEIGHT))]
    pub(crate) weight: Option<Located<i64>>,
}

/// Imitation of what an imperfect demonstrator does at tasks of the training part.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "WarmStart")]
pub(crate) struct WarmStartFile {
    /// Demonstrations to record, spread evenly over the families. Default: 2000.
    #[schemars(range(min = 1, max = bounds::MAX_DEMONSTRATIONS))]
    pub(crate) demonstrations: Option<Located<i64>>,
    /// How often the demonstrator plays the oracle; otherwise one of the task's mistakes. Default: 35.
    #[schemars(range(min = 0, max = 100))]
    pub(crate) oracle_percent: Option<Located<i64>>,
    /// Optimizer steps. Default: 400.
    #[schemars(range(min = 1, max = bounds::MAX_STEPS))]
    pub(crate) steps: Option<Located<i64>>,
    /// Demonstrations in a step. Default: 64.
    #[schemars(range(min = 1, max = bounds::MAX_BATCH))]
    pub(crate) batch: Option<Located<i64>>,
    /// Lists under `vars` of the suites in which one word is as good as another. Each time a demonstration is imitated
    /// their words trade places, so that the policy learns to copy them instead of learning them by heart. A
    /// demonstration never turns into one of a held-out instruction. Default: none.
    #[serde(default)]
    pub(crate) interchangeable: Vec<Text>,
    /// How often a demonstration is imitated with its own actions as a hint behind the opening message, so that a teacher
    /// heeds hints. Default: 30 where `rl` has a teacher, else 0.
    #[schemars(range(min = 0, max = 100))]
    pub(crate) hinted_percent: Option<Located<i64>>,
    /// Of those, how often behind the opening message of another demonstration, so that the hint has to be heeded.
    /// Default: 50.
    #[schemars(range(min = 0, max = 100))]
    pub(crate) contradicted_percent: Option<Located<i64>>,
    /// Steps in a row that may be skipped because their loss or gradient is not finite. Default: 3.
    #[schemars(range(min = 0, max = bounds::MAX_SKIPPED))]
    pub(crate) max_skipped_steps: Option<Located<i64>>,
    /// AdamW. Defaults here: `learning_rate: 0.002`, `beta2: 0.95`, `warm_up_steps: 20`, `final_fraction: 0.1`.
    pub(crate) optimizer: Option<OptimizerFile>,
}

/// AdamW with clipped gradients.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Optimizer")]
pub(crate) struct OptimizerFile {
    /// Highest step size. The defaults suit the preset `tiny`; larger policies need less, 1e-6 to 1e-5.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub(crate) learning_rate: Option<Located<f64>>,
    /// Decay of the first moment. Default: 0.9.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub(crate) beta1: Option<Located<f64>>,
    /// Decay of the second moment. Default: 0.99 in `rl`, 0.95 in `warm_start`.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub(crate) beta2: Option<Located<f64>>,
    /// Decoupled weight decay of matrices. Default: 0.
    #[schemars(range(min = 0.0, max = 10.0))]
    pub(crate) weight_decay: Option<Located<f64>>,
    /// What keeps the division finite. Default: 1e-8.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub(crate) epsilon: Option<Located<f64>>,
    /// Gradients of a larger norm are scaled to it. Default: 1.
    #[schemars(range(min = 0.0))]
    pub(crate) max_grad_norm: Option<Located<f64>>,
    /// Steps in which the step size rises from 0. Default: 0 in `rl`, 20 in `warm_start`.
    #[schemars(range(min = 0, max = bounds::MAX_STEPS))]
    pub(crate) warm_up_steps: Option<Located<i64>>,
    /// After the warm-up the step size falls along a cosine to this fraction of its highest, at the last step; 1
    /// keeps it. Default: 1 in `rl`, 0.1 in `warm_start`.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub(crate) final_fraction: Option<Located<f64>>,
}

/// Reinforcement learning from groups of attempts at the same task.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Rl")]
pub(crate) struct RlFile {
    /// Updates in all; each consumes one batch. Default: 50.
    #[schemars(range(min = 1, max = bounds::MAX_UPDATES))]
    pub(crate) updates: Option<Located<i64>>,
    /// Groups with a signal in a batch. Default: 16.
    #[schemars(range(min = 1, max = bounds::MAX_BATCH_GROUPS))]
    pub(crate) batch_groups: Option<Located<i64>>,
    /// Attempts at one task that share a baseline; two at least, unless the baseline runs along. Default: 8.
    #[schemars(range(min = 1, max = bounds::MAX_GROUP))]
    pub(crate) group_size: Option<Located<i64>>,
    /// How sampling and learning take turns. Default: asynchronous, or synchronous if `reproducible`.
    pub(crate) schedule: Option<Located<Schedule>>,
    /// Tokens that are older than this many updates when their batch begins are not trained on. Default: 4 if
    /// asynchronous, 1 if one step off, 0 if synchronous.
    #[schemars(range(min = 0, max = bounds::MAX_STALENESS))]
    pub(crate) max_staleness: Option<Located<i64>>,
    /// Groups that may be tried for each group of a batch, since groups whose members all get the same reward teach
    /// nothing and are replaced. Default: 4, and 1 where the baseline runs along.
    #[schemars(range(min = 1, max = bounds::MAX_BUDGET))]
    pub(crate) resample_budget: Option<Located<i64>>,
    /// Optimizer steps of an update, each on its share of the batch. Default: 2.
    #[schemars(range(min = 1, max = bounds::MAX_MINIBATCHES))]
    pub(crate) minibatches: Option<Located<i64>>,
    /// What an episode is worth. Default: passed.
    pub(crate) reward: Option<Reward>,
    /// A published objective: what `advantage`, `outcome_weight`, `distillation` and the keys of `loss` are where they are
    /// left out. Default: dapo.
    pub(crate) objective: Option<Objective>,
    /// How rewards of a group become advantages. Default: that of the objective.
    pub(crate) advantage: Option<Located<Advantage>>,
    /// Process rewards, of suites that give some or of `judging`: a turn's advantage is that of its episode, plus this many times how
    /// far its own reward stands out among those of the same turn in the group. Default: 0, the outcome alone.
    #[schemars(range(min = 0.0, max = bounds::MAX_PROCESS_WEIGHT))]
    pub(crate) process_weight: Option<Located<f64>>,
    /// What the advantage of the outcome, process rewards included, is multiplied by, beside a teacher. Default: 0 of `opd`, `opd_top_k`, `sdft` and
    /// `sdpo`, 1 of the others.
    #[schemars(range(min = 0.0, max = bounds::MAX_TERM_WEIGHT))]
    pub(crate) outcome_weight: Option<Located<f64>>,
    /// Judges of single turns, whose verdicts are process rewards where `process_weight` is above 0, and whose hints a teacher reads
    /// that has `hints: [judge]`. Default: none.
    pub(crate) judging: Option<Located<JudgingFile>>,
    /// A teacher with hints. Left out: that of the objective, if it has one. Nothing below it: the defaults.
    #[serde(default, deserialize_with = "present_or_default")]
    pub(crate) distillation: Option<DistillationFile>,
    /// Learns an adapter in place of the whole model. Nothing below it: the defaults.
    #[serde(default, deserialize_with = "present_or_default")]
    pub(crate) lora: Option<LoraFile>,
    /// The clipped policy gradient.
    pub(crate) loss: Option<LossFile>,
    /// AdamW. Defaults here: `learning_rate: 0.0005`, `beta2: 0.99`, `warm_up_steps: 0`, `final_fraction: 1`.
    pub(crate) optimizer: Option<OptimizerFile>,
    /// How replies are drawn.
    pub(crate) sampling: Option<SamplingFile>,
    /// Optimizer steps in a row whose loss or gradient is not finite and that are skipped, before the training is
    /// given up. Default: 3.
    #[schemars(range(min = 0, max = bounds::MAX_SKIPPED))]
    pub(crate) max_skipped_steps: Option<Located<i64>>,
    /// What becomes of replies that were cut at `max_new_tokens`, and of attempts that their number of turns or their time cut. Default: train.
    pub(crate) overlong: Option<Located<OverlongKind>>,
    /// Of `overlong: soft`: tokens before the limit of a reply in which its reward falls, by 1 at the limit. Default: a fifth of
    /// `max_new_tokens`.
    #[schemars(range(min = 1, max = bounds::MAX_NEW_TOKENS))]
    pub(crate) soft_tokens: Option<Located<i64>>,
    /// What attempts with long replies earn less, once replies have become longer. Left out: nothing.
    pub(crate) length: Option<LengthFile>,
    /// Which families the next groups are of. Left out: all take turns. Nothing below it: the defaults.
    #[serde(default, deserialize_with = "present_or_default")]
    pub(crate) curriculum: Option<CurriculumFile>,
    /// When the training is halted because the policy collapses.
    pub(crate) guards: Option<GuardsFile>,
    /// What a new version has to pass before it acts. Left out: nothing. Nothing below it: the defaults.
    #[serde(default, deserialize_with = "present_or_default")]
    pub(crate) gate: Option<GateFile>,
}

/// Signs that a policy collapses. After as many updates in a row as `updates` says, a checkpoint is written and the training halts.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Guards")]
pub(crate) struct GuardsFile {
    /// Least entropy, as a share of that of the first update. Default: 0.05.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub(crate) entropy: Option<Located<f64>>,
    /// Shortest mean reply, as a share of that of the first update. Default: 0.5.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub(crate) shortest: Option<Located<f64>>,
    /// Longest mean reply, as a multiple of that of the first update. Default: 2.
    #[schemars(range(min = 1.0))]
    pub(crate) longest: Option<Located<f64>>,
    /// Most runs of four tokens in a reply that may stand in it before, as a share. Default: 0.2.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub(crate) repetition: Option<Located<f64>>,
    /// Updates in a row that show a sign before it counts; 0 to watch nothing. Default: 3.
    #[schemars(range(min = 0, max = bounds::MAX_UPDATES))]
    pub(crate) updates: Option<Located<i64>>,
}

/// The policy gradient and its corrections. What is left out is as the objective has it.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Loss")]
pub(crate) struct LossFile {
    /// What stands for the policy's gain.
    pub(crate) surrogate: Option<Surrogate>,
    /// How far the ratio may fall below 1 and still carry a gradient. Of `token` 0.2, of `sequence` 0.0003.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub(crate) clip_low: Option<Located<f64>>,
    /// How far it may rise above 1. Of `token` 0.28, of `sequence` 0.0004.
    #[schemars(range(min = 0.0))]
    pub(crate) clip_high: Option<Located<f64>>,
    /// With a negative advantage the loss is at most this many times the advantage; null or left out for no such
    /// bound. Of `token` alone.
    #[schemars(range(min = 1.0))]
    pub(crate) dual_clip: Option<Located<f64>>,
    /// The most that a token weighs. Of `cispo` alone. Default: 5.
    #[schemars(range(min = 1.0))]
    pub(crate) cispo_cap: Option<Located<f64>>,
    /// How the difference between the policy that sampled and the one that learns is corrected. Of `token` any, of
    /// `sequence` one that all tokens of a segment share, of `cispo` none.
    pub(crate) importance: Option<Located<ImportanceFile>>,
    /// What the loss is a mean over.
    pub(crate) aggregation: Option<Aggregation>,
    /// What the distance to the policy that reinforcement learning began with costs; null or left out for nothing, and
    /// then no such policy is kept.
    pub(crate) kl: Option<KlFile>,
    /// What being undecided is worth, once the policy has become too sure; null or left out for nothing.
    pub(crate) entropy: Option<EntropyFile>,
}

/// A bonus for the entropy of trained tokens, which rises while the entropy is below its floor, and falls to 0 above it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Entropy")]
pub(crate) struct EntropyFile {
    /// The most that the entropy is multiplied by, reached within ten updates below the floor.
    #[schemars(range(min = 0.0))]
    pub(crate) coefficient: Located<f64>,
    /// Share of the first update's entropy below which the bonus rises. Default: 0.3.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub(crate) floor: Option<Located<f64>>,
}

/// The cost of a distance.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Kl")]
pub(crate) struct KlFile {
    /// What the estimate is multiplied by.
    #[schemars(range(min = 0.0))]
    pub(crate) coefficient: Located<f64>,
    /// How the divergence is estimated at a token. Default: k3.
    pub(crate) estimator: Option<KlEstimator>,
}

/// How replies are drawn. Nothing is cut off: what is trained on is drawn from the whole distribution.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Sampling")]
pub(crate) struct SamplingFile {
    /// In steps of 0.001. Default: 1.
    #[schemars(range(min = 0.001, max = bounds::MAX_TEMPERATURE))]
    pub(crate) temperature: Option<Located<f64>>,
    /// Tokens of a reply before it is cut. Default: 48.
    #[schemars(range(min = 1, max = bounds::MAX_NEW_TOKENS))]
    pub(crate) max_new_tokens: Option<Located<i64>>,
}

/// Greedy attempts at tasks of the held-out part: always before the first update and after the last.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Evaluation")]
pub(crate) struct EvaluationFile {
    /// Updates from one evaluation to the next; 0 for only before and after. Default: 25.
    #[schemars(range(min = 0, max = bounds::MAX_UPDATES))]
    pub(crate) every_updates: Option<Located<i64>>,
    /// Most held-out tasks, spread evenly over the families; each is tried once. Default: 600.
    #[schemars(range(min = 1, max = bounds::MAX_EVALUATION_TASKS))]
    pub(crate) max_tasks: Option<Located<i64>>,
    /// Held-out tasks that there must be; with fewer the training is refused. Default: 1.
    #[schemars(range(min = 1, max = bounds::MAX_EVALUATION_TASKS))]
    pub(crate) min_tasks: Option<Located<i64>>,
    /// Tokens of a reply before it is cut. Default: as in `rl: sampling:`.
    #[schemars(range(min = 1, max = bounds::MAX_NEW_TOKENS))]
    pub(crate) max_new_tokens: Option<Located<i64>>,
}

/// What is kept to go on from.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Checkpoint")]
pub(crate) struct CheckpointFile {
    /// Updates from one checkpoint to the next. One is always written at the end. Default: 5.
    #[schemars(range(min = 1, max = bounds::MAX_UPDATES))]
    pub(crate) every_updates: Option<Located<i64>>,
    /// Checkpoints whose weights are kept, beside those of version 0 and of the best evaluation. Default: 5.
    #[schemars(range(min = 1, max = bounds::MAX_KEPT))]
    pub(crate) keep_weights: Option<Located<i64>>,
    /// Of those, checkpoints that also keep the optimizer's moments, which a training goes on from. Default: 2.
    #[schemars(range(min = 1, max = bounds::MAX_KEPT))]
    pub(crate) keep_moments: Option<Located<i64>>,
}

/// What computes replies and updates.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Engine")]
pub(crate) struct EngineFile {
    /// Sequences that are decoded together. Default: 256.
    #[schemars(range(min = 1, max = bounds::MAX_ENGINE_BATCH))]
    pub(crate) max_batch: Option<Located<i64>>,
    /// Threads inside one operation of the engine. Default: 1.
    #[schemars(range(min = 1, max = bounds::MAX_THREADS))]
    pub(crate) threads: Option<Located<i64>>,
    /// Threads inside one operation of the learner. Default: as many as the engine's. Imitation, with nothing beside it,
    /// takes every core, unless the training is to be reproducible.
    #[schemars(range(min = 1, max = bounds::MAX_THREADS))]
    pub(crate) learner_threads: Option<Located<i64>>,
    /// Where it runs. Default: cpu.
    pub(crate) device: Option<Located<Device>>,
    /// Type of the weights that passes are made with. Master parameters, moments and gradients are fp32 all the same.
    /// Default: fp32.
    pub(crate) dtype: Option<Located<Dtype>>,
    /// What the learner keeps between forward and backward. Default: keep.
    pub(crate) activations: Option<Located<KeptActivations>>,
    /// Whether learner and engine take turns, the engine first, as where they share cores. Default: where they share a
    /// GPU.
    pub(crate) turns: Option<Located<bool>>,
}

/// Attempts under way and retries.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Limits")]
pub(crate) struct LimitsFile {
    /// Attempts under way at once. Default: what the machine comfortably holds.
    #[schemars(range(min = 1, max = bounds::MAX_CONCURRENCY))]
    pub(crate) concurrency: Option<Located<i64>>,
    /// Environments made ready before the first attempt. Default: 0.
    #[schemars(range(min = 0, max = bounds::MAX_CONCURRENCY))]
    pub(crate) prewarm: Option<Located<i64>>,
    /// Further attempts after a fault that a fresh environment may cure. Default: 2.
    #[schemars(range(min = 0, max = bounds::MAX_RETRIES))]
    pub(crate) max_retries: Option<Located<i64>>,
}
