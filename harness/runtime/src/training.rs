//! Requests and outcomes of trainings: the interface between the command line, which does not need libtorch, and `clawrl-train`,
//! which is linked to it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clawrl_config::{ConfigError, TrainPlan};
use clawrl_core::RunId;
use clawrl_record::{HeldOut, PassRate, RecordError, RunStore};
use clawrl_scheduler::SetupError;
use serde::{Deserialize, Serialize};

use crate::error::{Reason, RuntimeError};
use crate::run_name::stamp;

/// Lock file in the folder of a training, held by the process that trains. Its content has no meaning.
pub const TRAINING_LOCK: &str = "training.lock";

/// Maximum length of a training's name: the longest suffix of a part has to fit behind it.
pub const MAX_TRAINING_NAME_CHARS: usize = 48;

/// Why a training, or an operation on a trained policy, failed.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    /// The request is invalid. Nothing was started.
    #[error("{0}")]
    Refused(Reason),
    /// The host lacks something that the training needs.
    #[error("{0}")]
    Unavailable(Reason),
    /// Results, checkpoints or policies cannot be read or written.
    #[error("{0}")]
    Storage(Reason),
    /// The training does not exist, is under way, or its name is taken.
    #[error("{0}")]
    NoSuchRun(Reason),
    /// The training was aborted: non-finite values, a collapsed policy, or no learning signal. Checkpoints are intact.
    #[error("{0}")]
    Aborted(Reason),
    /// A signal ended the training. It can be resumed.
    #[error("{0}")]
    Interrupted(Reason),
    /// A bug in ClawRL.
    #[error("{0}")]
    Internal(Reason),
    /// The runtime failed.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
}

crate::reason_constructors!(TrainError {
    refused => Refused,
    unavailable => Unavailable,
    storage => Storage,
    no_such_run => NoSuchRun,
    aborted => Aborted,
    interrupted => Interrupted,
    internal => Internal,
});

impl TrainError {
    /// Whether the request is invalid, and nothing was started.
    pub fn is_refused(&self) -> bool {
        matches!(
            self,
            Self::Refused(_)
                | Self::Runtime(
                    RuntimeError::Refused(_)
                        | RuntimeError::Config(_)
                        | RuntimeError::Record(RecordError::NoSuchAttempt { .. })
                )
        )
    }
}

impl From<ConfigError> for TrainError {
    fn from(error: ConfigError) -> Self {
        Self::Runtime(error.into())
    }
}

impl From<RecordError> for TrainError {
    fn from(error: RecordError) -> Self {
        Self::Runtime(error.into())
    }
}

impl From<SetupError> for TrainError {
    fn from(error: SetupError) -> Self {
        Self::Runtime(error.into())
    }
}

/// Whether a training starts or continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrainStart {
    /// A new training.
    New,
    /// Continues from the last checkpoint.
    Resume,
}

/// A training to start or resume, and the folder of its results.
#[derive(Debug, Clone)]
pub struct TrainRequest {
    /// The checked train file.
    pub plan: TrainPlan,
    /// Name of the training.
    pub run: RunId,
    /// Whether the caller chose the name. A generated name that is taken is replaced by the next free one.
    pub is_named: bool,
    /// The results folder.
    pub results: PathBuf,
    /// New, or resumed.
    pub start: TrainStart,
}

impl TrainRequest {
    /// Continues a training under its recorded plan.
    ///
    /// # Errors
    /// The run does not exist, is not a training, or has a plan that cannot be read.
    pub fn resume(run: &RunId, results: PathBuf, store: &RunStore) -> Result<Self, TrainError> {
        let kept = store.run(run)?.train()?.ok_or_else(|| {
            TrainError::refused(format!("run {run} is no training"))
                .with_help("`clawrl run --resume` goes on with other runs")
        })?;
        let plan = read_plan(run, kept)?;
        Ok(Self { plan, run: run.clone(), is_named: false, results, start: TrainStart::Resume })
    }
}

/// The recorded plan of a training.
///
/// # Errors
/// It cannot be read.
pub fn read_plan(run: &RunId, kept: serde_json::Value) -> Result<TrainPlan, TrainError> {
    serde_json::from_value(kept)
        .map_err(|error| TrainError::storage(format!("the train file of run {run} cannot be read: {error}")))
}

/// Refuses a training name that is too long.
///
/// # Errors
/// A name that leaves no room for the names of the training's parts.
pub fn check_training_name(run: &RunId) -> Result<(), TrainError> {
    if run.as_str().len() > MAX_TRAINING_NAME_CHARS {
        let message = format!("the name of a training has at most {MAX_TRAINING_NAME_CHARS} characters");
        return Err(TrainError::refused(message).with_help("choose a shorter one with --name"));
    }
    Ok(())
}

/// The generated name of a training. It leaves room for a number and for the names of the training's parts.
pub fn default_training_name(train: &str) -> String {
    format!("{}-{train}", stamp()).chars().take(MAX_TRAINING_NAME_CHARS - 4).collect()
}

/// Whether a process trains in the folder of a run now.
pub fn is_trained(folder: &Path) -> bool {
    let Ok(file) = std::fs::File::open(folder.join(TRAINING_LOCK)) else { return false };
    matches!(file.try_lock_shared(), Err(std::fs::TryLockError::WouldBlock))
}

/// The result of a training.
#[derive(Debug, Serialize, Deserialize)]
pub struct TrainOutcome {
    /// Name of the training.
    pub run: RunId,
    /// Number of updates.
    pub updates: u32,
    /// Held-out greedy success with its interval, by the number of updates before it.
    pub held_out: Vec<(u64, PassRate)>,
    /// The same evaluations by family.
    #[serde(skip)]
    pub evaluated: Vec<HeldOut>,
    /// The version with the best evaluation.
    pub best: Option<BestVersion>,
    /// A drop of held-out success, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fall: Option<String>,
    /// The HTML report.
    pub page: PathBuf,
    /// Model folder of the last policy.
    pub policy: PathBuf,
}

/// The version with the best evaluation.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BestVersion {
    /// Its number.
    pub version: u64,
    /// Updates before the evaluation.
    pub updates: u64,
    /// Greedy success on held-out tasks.
    pub success: PassRate,
    /// Model folder. `None` if it was deleted, as older programs did.
    pub policy: Option<PathBuf>,
}

/// The version that an aborted training can be rolled back to.
#[derive(Debug, Clone)]
pub struct WayBack {
    /// Its number.
    pub version: u64,
    /// Updates before its evaluation.
    pub updates: u64,
    /// Greedy success on held-out tasks.
    pub success: PassRate,
    /// Model folder.
    pub policy: PathBuf,
    /// The newest version, if it is another one.
    pub newest: Option<NewestVersion>,
}

/// The newest version of a training, where another one is the best.
#[derive(Debug, Clone, Copy)]
pub struct NewestVersion {
    /// Its number.
    pub version: u64,
    /// Whether it was evaluated.
    pub is_evaluated: bool,
}

/// One update of a training.
#[derive(Debug, Clone)]
pub struct UpdateProgress {
    /// Number of the update, from 1.
    pub update: u32,
    /// Planned updates.
    pub updates: u32,
    /// Share of graded attempts that passed.
    pub success_rate: Option<f64>,
    /// Mean reward; NaN if nothing was graded.
    pub reward_mean: f64,
    /// Mean entropy of the policy, nats a token.
    pub entropy_nats: f64,
    /// Mean staleness of the trained tokens, versions.
    pub staleness_mean: f64,
    /// Maximum staleness of the trained tokens, versions.
    pub staleness_max: u64,
    /// Groups with a reward variance.
    pub informative_groups: u64,
    /// All groups.
    pub groups: u64,
    /// Groups whose attempts all have the same reward.
    pub constant_groups: u64,
    /// Tokens sampled since the previous update.
    pub tokens: u64,
    /// Episodes ended since the previous update.
    pub episodes: u64,
    /// Time spent waiting for a batch.
    pub wait: Duration,
    /// Time spent learning.
    pub learn: Duration,
    /// Optimizer steps that were skipped because loss or gradient was not finite.
    pub skipped_steps: u32,
    /// Attempts in the skipped steps.
    pub culprits: Vec<String>,
}

/// A version of a training's policy.
#[derive(Debug, Clone, Serialize)]
pub struct PolicyVersion {
    /// Its number.
    pub version: u64,
    /// The version that it was made from.
    pub parent: Option<u64>,
    /// Updates made by then.
    pub updates: u32,
    /// The version that a rollback replaced by it.
    pub instead_of: Option<u64>,
    /// Why it never acted, if it was rejected.
    pub rejected: Option<String>,
    /// Greedy success on held-out tasks, if it was measured.
    pub held_out: Option<f64>,
    /// Whether no evaluation was better.
    pub best: bool,
    /// Mean entropy, nats a token.
    pub entropy_nats: Option<f64>,
    /// Mean length of replies, tokens.
    pub reply_tokens: Option<f64>,
    /// Mean reward.
    pub reward: Option<f64>,
    /// Whether its weights are kept.
    pub has_weights: bool,
    /// Whether the optimizer's moments are kept.
    pub has_moments: bool,
}

/// The versions of a training's policy.
#[derive(Debug, Clone)]
pub struct VersionList {
    /// All known versions, by number.
    pub versions: Vec<PolicyVersion>,
    /// Damaged checkpoints, one line each.
    pub damaged: Vec<String>,
}

/// The result of a rollback.
#[derive(Debug, Clone, Serialize)]
pub struct RollbackOutcome {
    /// The training.
    pub run: RunId,
    /// The new version.
    pub version: u64,
    /// The version that it equals.
    pub parent: u64,
    /// The version that it replaces.
    pub instead_of: u64,
    /// Model folder of the new version.
    pub policy: PathBuf,
    /// Planned updates that are left.
    #[serde(skip)]
    pub updates_left: u32,
}

/// The difference of two versions.
#[derive(Debug, Clone, Serialize)]
pub struct VersionDiff {
    /// Both versions.
    pub versions: [PolicyVersion; 2],
    /// Norm of the parameters' difference over the norm of the first version's parameters, by part of the model; `all` is the
    /// whole model.
    pub parameters: Vec<(String, f64)>,
}

/// A fresh policy with a tokenizer trained on the text of suites.
#[derive(Debug, Clone)]
pub struct InitRequest {
    /// The suites.
    pub suites: Vec<PathBuf>,
    /// A new or empty folder.
    pub out: PathBuf,
    /// Seed of the weights.
    pub seed: u64,
    /// Maximum tokens that the model reads, prompt and reply.
    pub positions: Option<u32>,
}

/// Size of a model that was written.
#[derive(Debug, Clone, Copy)]
pub struct ModelSize {
    /// Number of parameters.
    pub parameters: u64,
    /// Tokens in the vocabulary.
    pub vocab_size: u64,
}

/// An evaluation of personalisation by simulated users.
#[derive(Debug, Clone)]
pub struct PersonalRequest {
    /// Users of each persona, paired over the arms.
    pub seeds: u32,
    /// The first seed.
    pub first_seed: u64,
    /// Kinds of users.
    pub personas: Vec<Persona>,
    /// Ways to learn from users.
    pub arms: Vec<Arm>,
    /// Maximum sessions per user. Users who never adapt are censored at this value.
    pub sessions: u32,
    /// Percentage of complaints that state the preference.
    pub telling: u8,
    /// Held-out questions for each user and arm.
    pub held_out: u32,
    /// Imitation steps that make the policy.
    pub warm_start_steps: u32,
    /// Step size of the optimizer, instead of the arm's own.
    pub learning_rate: Option<f64>,
    /// Maximum divergence from the previous version, nats a token, instead of the arm's own.
    pub max_kl: Option<f64>,
    /// Samples of an update, instead of the arm's own.
    pub train_every_turns: Option<u32>,
    /// Users at the same time. `None`: the number of processors.
    pub jobs: Option<u32>,
    /// The results folder.
    pub results: PathBuf,
    /// Folder of the report. `None`: a new one in the results folder.
    pub out: Option<PathBuf>,
}

/// The result of an evaluation of personalisation.
#[derive(Debug, Clone)]
pub struct PersonalOutcome {
    /// Everything, as indented JSON.
    pub json: String,
    /// Headings of the table of arms.
    pub headings: [&'static str; 7],
    /// Rows of the table of arms.
    pub rows: Vec<[String; 7]>,
    /// One line for each comparison of two arms.
    pub comparisons: Vec<String>,
    /// The report.
    pub report: PathBuf,
}

/// A kind of simulated user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Persona {
    /// Wants plain answers.
    Student,
    /// Wants to know how the answer was found.
    Assistant,
    /// Wants a warm word.
    Teacher,
}

impl Persona {
    /// All personas.
    pub const ALL: [Self; 3] = [Self::Student, Self::Assistant, Self::Teacher];

    /// Name in arguments and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Student => "student",
            Self::Assistant => "assistant",
            Self::Teacher => "teacher",
        }
    }
}

/// A way to learn from users.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arm {
    /// Does not learn.
    None,
    /// Learns whether users were satisfied.
    Binary,
    /// Learns from what users said, read by a teacher as a hint.
    Opd,
    /// Learns from both.
    Combined,
    /// Writes what users said into the system prompt of later sessions.
    Memory,
}

impl Arm {
    /// All arms.
    pub const ALL: [Self; 5] = [Self::None, Self::Binary, Self::Opd, Self::Combined, Self::Memory];

    /// Name in arguments and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Binary => "binary",
            Self::Opd => "opd",
            Self::Combined => "combined",
            Self::Memory => "memory",
        }
    }
}
