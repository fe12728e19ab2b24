//! A training with every default filled in: all inputs of a training, except the suites' files, the host and external
//! services.
//!
//! I1. A plan that is stored as JSON and read back is equal, to the last bit of its numbers. I2. [`super::load_train`] never returns
//! a contradictory plan; plans that were edited by hand are not checked.
//!
//! Enumerations name computations of other crates; the caller maps them.

use std::path::PathBuf;

use clawrl_core::{PolicySpec, RemoteSpec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::curriculum::CurriculumPlan;
use super::devices::DeviceWish;
use super::distillation::DistillationPlan;
use super::gate::GatePlan;
use super::judging::JudgingPlan;
use super::length::LengthPlan;
use super::lora::LoraPlan;
use super::overlong::OverlongPlan;

/// Plan of a training: policy, tasks and settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TrainPlan {
    /// Version of the train format.
    pub format: u32,
    /// Name of the training.
    pub name: String,
    /// Absolute path of the train file.
    pub file: PathBuf,
    /// Root of all seeds.
    pub seed: u64,
    /// Whether runs on the same machine must be bit-identical.
    pub reproducible: bool,
    /// Policy to train.
    pub policy: PolicySource,
    /// Tasks, at least one suite.
    pub suites: Vec<TrainSuite>,
    /// The model that judges by rubrics, if a suite has rubrics.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge: Option<Box<RemoteSpec>>,
    /// Imitation before reinforcement learning, if any.
    pub warm_start: Option<WarmStartPlan>,
    /// Reinforcement learning, if any. A plan has at least one of the two stages.
    pub rl: Option<RlPlan>,
    /// Held-out tasks.
    pub evaluation: EvaluationPlan,
    /// Checkpoint settings.
    pub checkpoint: CheckpointPlan,
    /// Engine settings.
    pub engine: EnginePlan,
    /// Requested GPUs of each role.
    #[serde(default, skip_serializing_if = "DeviceWish::is_nothing")]
    pub devices: DeviceWish,
    /// Concurrent attempts.
    pub limits: TrainLimits,
}

/// Source of the policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PolicySource {
    /// A new one.
    Preset(Preset),
    /// Absolute path of a folder in the Hugging Face layout.
    Path(PathBuf),
}

/// Sizes of new policies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Preset {
    /// 0.6 million parameters.
    Tiny,
}

/// A suite, with its number of tasks and weight.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrainSuite {
    /// Absolute path of the suite file.
    pub path: PathBuf,
    /// Maximum number of different tasks of each template; `None` for the suite's number.
    pub instances: Option<u32>,
    /// Weight of the suite in sampling groups; `None` for the number of its families in the training part.
    #[serde(default)]
    pub weight: Option<u32>,
}

/// Imitation of demonstrations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WarmStartPlan {
    /// Demonstrations to record.
    pub demonstrations: u32,
    /// Percentage of demonstrations that use the oracle.
    pub oracle_percent: u8,
    /// Optimizer steps.
    pub steps: u32,
    /// Demonstrations in a step.
    pub batch: u32,
    /// Lists of the suites whose words trade places each time a demonstration is imitated.
    #[serde(default)]
    pub interchangeable: Vec<String>,
    /// Percentage of demonstrations that are imitated with their own actions as a hint.
    #[serde(default)]
    pub hinted_percent: u8,
    /// Percentage of these that are placed under the instruction of another demonstration.
    #[serde(default)]
    pub contradicted_percent: u8,
    /// Consecutive steps skipped for non-finite numbers after which the training stops.
    #[serde(default = "WarmStartPlan::max_skipped_steps")]
    pub max_skipped_steps: u32,
    /// AdamW.
    pub optimizer: OptimizerPlan,
}

impl WarmStartPlan {
    pub(crate) const fn max_skipped_steps() -> u32 {
        3
    }
}

/// AdamW with clipped gradients.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct OptimizerPlan {
    /// Highest step size.
    pub learning_rate: f64,
    /// Decay of the first moment.
    pub beta1: f64,
    /// Decay of the second moment.
    pub beta2: f64,
    /// Decoupled weight decay of matrices.
    pub weight_decay: f64,
    /// Constant that keeps the division finite.
    pub epsilon: f64,
    /// Gradients of a larger norm are scaled to it.
    pub max_grad_norm: f64,
    /// Steps in which the step size rises from 0.
    pub warm_up_steps: u32,
    /// Fraction of the highest step size at the last step, reached along a cosine; 1 keeps it.
    pub final_fraction: f64,
}

/// Reinforcement learning from groups.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RlPlan {
    /// Updates in all.
    pub updates: u32,
    /// Groups with a signal in a batch.
    pub batch_groups: u32,
    /// Attempts of a group.
    pub group_size: u32,
    /// Order of sampling and learning.
    pub schedule: Schedule,
    /// Maximum staleness of a trained token at the start of its batch, versions.
    pub max_staleness: u32,
    /// Groups tried for each group wanted.
    pub resample_budget: u32,
    /// Optimizer steps of an update.
    pub minibatches: u32,
    /// Reward of an episode.
    pub reward: Reward,
    /// From rewards to advantages.
    pub advantage: Advantage,
    /// Factor of process rewards; 0 if they do not count.
    #[serde(default)]
    pub process_weight: f64,
    /// Factor of the outcome's advantage; 0 if only a teacher is learned from.
    #[serde(default = "RlPlan::outcome_weight")]
    pub outcome_weight: f64,
    /// Judge of turns, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judging: Option<JudgingPlan>,
    /// Settings of learning from a teacher, if there is one.
    #[serde(default)]
    pub distillation: Option<DistillationPlan>,
    /// The trained adapter; `None` to train the whole model.
    #[serde(default)]
    pub lora: Option<LoraPlan>,
    /// The clipped policy gradient.
    pub loss: LossPlan,
    /// AdamW.
    pub optimizer: OptimizerPlan,
    /// Sampling settings.
    pub sampling: Sampling,
    /// Consecutive steps skipped for non-finite numbers after which the training stops.
    pub max_skipped_steps: u32,
    /// When the training is halted because the policy collapses.
    #[serde(default = "GuardPlan::none")]
    pub guards: GuardPlan,
    /// Treatment of truncated replies and attempts.
    #[serde(default)]
    pub overlong: OverlongPlan,
    /// Penalty of long replies, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub length: Option<LengthPlan>,
    /// Choice of families; `None` for round robin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub curriculum: Option<CurriculumPlan>,
    /// Acceptance checks of a version before it acts, if any.
    #[serde(default)]
    pub gate: Option<GatePlan>,
}

/// Signs that a policy collapses, compared with the first update.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct GuardPlan {
    /// Minimum entropy, as a share of the first.
    pub entropy: f64,
    /// Shortest mean reply, as a share of the first.
    pub shortest: f64,
    /// Longest mean reply, in the same unit.
    pub longest: f64,
    /// Maximum share of a reply that may repeat its own text.
    pub repetition: f64,
    /// Consecutive updates with a sign of collapse after which the training halts; 0 disables the guards.
    pub updates: u32,
}

impl GuardPlan {
    /// Default guards.
    pub(crate) const USUAL: Self =
        Self { entropy: 0.05, shortest: 0.5, longest: 2.0, repetition: 0.2, updates: 3 };

    /// For plans that were stored before guards existed.
    const fn none() -> Self {
        Self { updates: 0, ..Self::USUAL }
    }
}

impl RlPlan {
    const fn outcome_weight() -> f64 {
        1.0
    }

    /// Number of groups in the run plan: the maximum that the training may try, or more for a curriculum to choose from.
    #[must_use]
    pub fn groups(&self) -> u64 {
        let tried = u64::from(self.updates) * u64::from(self.batch_groups) * u64::from(self.resample_budget);
        if self.curriculum.is_some() { CurriculumPlan::SPARE * tried } else { tried }
    }
}

/// How sampling and learning take turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Schedule {
    /// A batch is sampled, then learned from, and so on: nothing is stale.
    Synchronous,
    /// The next batch is sampled while one is learned from: everything is one version old.
    OneStepOff,
    /// Both go on at their own pace, within `max_staleness`.
    Asynchronous,
}

/// What an episode is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Reward {
    /// 1 if every check passed, else 0.
    #[default]
    Passed,
    /// The suite's map of the score.
    Score,
}

/// How rewards of a group become advantages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Advantage {
    /// Less the mean, over the standard deviation.
    #[default]
    Grpo,
    /// Less the mean.
    DrGrpo,
    /// Less the mean of the others.
    LeaveOneOut,
    /// Less what was earned lately at tasks of the family.
    Running,
}

/// An objective as its paper has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Objective {
    /// A symmetric clip of 0.2, and every episode counts the same.
    Grpo,
    /// No standard deviation, and a constant denominator.
    DrGrpo,
    /// GRPO with a higher bound above, and every token counts the same.
    #[default]
    Dapo,
    /// Ratios of segments.
    Gspo,
    /// Bounded weights instead of clipped ratios: no token is without a gradient.
    Cispo,
    /// DAPO with a baseline that runs along for each family, so that no group teaches nothing.
    Binary,
    /// A teacher with hints alone, asked about the sampled tokens.
    Opd,
    /// The same, asked about the policy's most probable tokens.
    OpdTopK,
    /// A teacher that reads a demonstration.
    Sdft,
    /// A teacher that reads what a sibling did that passed, or what the checks said.
    Sdpo,
    /// DAPO, and a teacher that reads what a sibling did that passed.
    Combined,
}

/// What stands for the policy's gain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Surrogate {
    /// The ratio of the token, clipped.
    #[default]
    Token,
    /// The ratio of the segment, the geometric mean of its tokens', clipped.
    Sequence,
    /// The log-probability, weighed with the bounded ratio to the policy that sampled.
    Cispo,
}

/// An estimate of the divergence from a reference at one token. q is the difference of log-probabilities, reference less
/// policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum KlEstimator {
    /// e^q - 1 - q.
    #[default]
    K3,
    /// q^2 / 2.
    K2,
}

/// The cost of the distance to the policy that reinforcement learning began with.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct KlPlan {
    /// Factor of the estimate.
    pub coefficient: f64,
    /// The estimate.
    pub estimator: KlEstimator,
}

/// A bonus for being undecided.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct EntropyPlan {
    /// Maximum factor of the entropy.
    pub coefficient: f64,
    /// Share of the first update's entropy below which it rises.
    pub floor: f64,
}

/// The policy gradient.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LossPlan {
    /// Surrogate objective.
    #[serde(default)]
    pub surrogate: Surrogate,
    /// Maximum distance of a ratio below 1. Unused by [`Surrogate::Cispo`].
    pub clip_low: f64,
    /// Maximum distance of a ratio above 1. Unused by [`Surrogate::Cispo`].
    pub clip_high: f64,
    /// Bound of the loss at negative advantages, as a multiple of them. Used by [`Surrogate::Token`] only.
    pub dual_clip: Option<f64>,
    /// Maximum weight of a token. Used by [`Surrogate::Cispo`] only.
    #[serde(default = "LossPlan::cispo_cap")]
    pub cispo_cap: f64,
    /// Correction for the policy that sampled.
    pub importance: Importance,
    /// Aggregation of the loss.
    pub aggregation: Aggregation,
    /// KL penalty, if any.
    #[serde(default)]
    pub kl: Option<KlPlan>,
    /// Entropy bonus, if any.
    #[serde(default)]
    pub entropy: Option<EntropyPlan>,
}

impl LossPlan {
    const fn cispo_cap() -> f64 {
        5.0
    }

    /// Clip of a surrogate, below and above.
    pub(crate) const fn clip(surrogate: Surrogate) -> (f64, f64) {
        match surrogate {
            Surrogate::Token | Surrogate::Cispo => (0.2, 0.28),
            Surrogate::Sequence => (3e-4, 4e-4),
        }
    }
}

impl Default for LossPlan {
    fn default() -> Self {
        Objective::default().loss()
    }
}

impl Objective {
    /// Default conversion of a group's rewards to advantages.
    #[must_use]
    pub fn advantage(self) -> Advantage {
        match self {
            Self::DrGrpo => Advantage::DrGrpo,
            Self::Binary => Advantage::Running,
            _ => Advantage::Grpo,
        }
    }

    /// Default loss of the objective.
    #[must_use]
    pub fn loss(self) -> LossPlan {
        let (clip_low, clip_high) = LossPlan::clip(Surrogate::Token);
        let dapo = LossPlan {
            surrogate: Surrogate::Token,
            clip_low,
            clip_high,
            dual_clip: None,
            cispo_cap: LossPlan::cispo_cap(),
            importance: Importance::default(),
            aggregation: Aggregation::TokenMean,
            kl: None,
            entropy: None,
        };
        match self {
            Self::Grpo => LossPlan { clip_high: clip_low, aggregation: Aggregation::EpisodeMean, ..dapo },
            Self::DrGrpo => LossPlan { clip_high: clip_low, aggregation: Aggregation::Constant, ..dapo },
            Self::Dapo
            | Self::Binary
            | Self::Opd
            | Self::OpdTopK
            | Self::Sdft
            | Self::Sdpo
            | Self::Combined => dapo,
            Self::Gspo => {
                let (clip_low, clip_high) = LossPlan::clip(Surrogate::Sequence);
                LossPlan {
                    surrogate: Surrogate::Sequence,
                    clip_low,
                    clip_high,
                    importance: Importance::Geometric(2.0),
                    aggregation: Aggregation::EpisodeMean,
                    ..dapo
                }
            }
            Self::Cispo => LossPlan { surrogate: Surrogate::Cispo, importance: Importance::None, ..dapo },
        }
    }
}

/// Correction for the policy that sampled; numbers are caps.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Importance {
    /// None.
    None,
    /// Ratio of the token.
    Token(f64),
    /// Product of the segment's ratios.
    Sequence(f64),
    /// Geometric mean of the segment's ratios.
    Geometric(f64),
    /// Ratio of the token inside an interval, nothing outside.
    IcePop(IcePop),
}

impl Default for Importance {
    fn default() -> Self {
        Self::Token(2.0)
    }
}

/// Ends of the ratios that count.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct IcePop {
    /// Below 1.
    pub low: f64,
    /// Above 1.
    pub high: f64,
}

/// What the loss is a mean over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Aggregation {
    /// All trained tokens of a step.
    #[default]
    TokenMean,
    /// Episodes, each the mean of its tokens.
    EpisodeMean,
    /// Episodes, each the sum of its tokens over the most that one may have: the turns of a task times the tokens of a
    /// reply.
    Constant,
}

/// Sampling settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sampling {
    /// Temperature in thousandths.
    pub temperature_milli: u32,
    /// Tokens of a reply before it is cut.
    pub max_new_tokens: u32,
}

impl Sampling {
    /// The policy of a run that draws replies so from the model in this folder.
    #[must_use]
    pub fn spec(self, path: PathBuf) -> PolicySpec {
        let Self { temperature_milli, max_new_tokens } = self;
        PolicySpec::Torch { path, temperature_milli, max_new_tokens }
    }
}

/// Greedy attempts at held-out tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvaluationPlan {
    /// Updates from one to the next; 0 for only before and after.
    pub every_updates: u32,
    /// Maximum number of tasks.
    pub max_tasks: u32,
    /// Fewest tasks.
    pub min_tasks: u32,
    /// Tokens of a reply before it is cut.
    pub max_new_tokens: u32,
}

impl EvaluationPlan {
    /// Sampling settings of evaluations: greedy.
    #[must_use]
    pub fn sampling(&self) -> Sampling {
        Sampling { temperature_milli: 0, max_new_tokens: self.max_new_tokens }
    }

    /// Whether there is an evaluation after this update. Update 0 is the state before the first update.
    #[must_use]
    pub fn is_due(&self, update: u32, updates: u32) -> bool {
        update == 0
            || update == updates
            || (self.every_updates > 0 && update.is_multiple_of(self.every_updates))
    }
}

/// Checkpoint settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointPlan {
    /// Updates from one to the next.
    pub every_updates: u32,
    /// Checkpoints whose weights are kept.
    pub keep_weights: u32,
    /// Number of kept checkpoints with optimizer moments.
    pub keep_moments: u32,
}

/// Engine settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnginePlan {
    /// Sequences decoded together.
    pub max_batch: u32,
    /// Threads inside one operation of the engine.
    pub threads: u32,
    /// Threads of one operation of the learner; `None` for the number of the engine.
    #[serde(default)]
    pub learner_threads: Option<u32>,
    /// Device of the computation.
    pub device: Device,
    /// Whether a reply must not depend on the rest of the batch.
    pub batch_invariant: bool,
    /// Type of the weights in forward and backward passes.
    #[serde(default)]
    pub dtype: Dtype,
    /// Activations that the learner keeps between forward and backward pass.
    #[serde(default)]
    pub activations: KeptActivations,
    /// Whether learner and engine take turns; `None`: if they share a GPU.
    #[serde(default)]
    pub turns: Option<bool>,
}

impl EnginePlan {
    /// Threads inside one operation of the learner.
    #[must_use]
    pub fn of_learner(&self) -> u32 {
        self.learner_threads.unwrap_or(self.threads)
    }
}

/// Where tensors live.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Device {
    /// The processor.
    #[default]
    Cpu,
    /// GPUs.
    Cuda,
    /// GPUs where there are some, else the processor.
    Auto,
}

/// Type of the weights that passes are made with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Dtype {
    /// 32 bits.
    #[default]
    Fp32,
    /// 16 bits with the exponent of fp32.
    Bf16,
}

/// What the learner keeps between forward and backward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum KeptActivations {
    /// Everything inside the layers.
    #[default]
    Keep,
    /// The inputs of the layers; the rest is computed again, to the same bits, at a quarter more time.
    Recompute,
}

/// Concurrent attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrainLimits {
    /// Concurrent attempts; `None` for the comfortable number of the host.
    pub concurrency: Option<u32>,
    /// Environments prepared before the first attempt.
    pub prewarm: u32,
    /// Further attempts after a fault whose retry is sound.
    pub max_retries: u32,
}
