//! The tiny policy that every arm starts from: trained once from scratch and stored in the results folder.
//!
//! I1. The policy is a function of the seed, the steps and the code in this folder; other values give another folder. I2. The
//! folder appears complete or not at all.
//!
//! Cancellation: none; a killed process leaves a folder `.making`, which the next process replaces.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clawrl_config::{OptimizerPlan, WarmStartPlan};
use clawrl_core::{AttemptId, SlotId, SplitMix64, derive_seed, stable_hash};
use clawrl_learn::{Learner, Objective, Segment, TrainBatch, TrainSample};
use clawrl_torch::{
    Alone, Chat, Checkpoints, Context, ConversationState, Device, EngineHandle, LearnerSetup, ModelFiles,
    Preset, PresetRequest, Retention, TorchLearner, Unpublished, demonstrated_tokens, init_policy,
    load_params, save_params,
};
use serde_json::{Map, Value};

use super::super::chat::{Model, messages};
use super::super::hints::HINT_MARK;
use super::super::learning::gave_up;
use super::super::settings;
use super::super::setup::unusable;
use super::taught::{SftExample, taught};
use super::world::WORDS;
use super::{style, user};
use clawrl_runtime::training::TrainError;

/// Increase whenever the same seed and steps make another policy.
const EDITION: u64 = 2;
/// Conversations per step.
const BATCH: u32 = 64;
/// Steps between two reports of the loss.
const TOLD_EVERY: u32 = 100;

/// Settings of the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Making {
    pub(super) seed: u64,
    /// Number of imitation steps.
    pub(super) steps: u32,
}

impl Making {
    fn folder_name(self) -> String {
        let Self { seed, steps } = self;
        let digest = stable_hash(format!("{EDITION} {seed} {steps} {:?}", texts()).as_bytes());
        format!("policy-{digest:016x}")
    }
}

/// The policy's folder in `folder`. Trains the policy if the folder does not exist.
///
/// # Errors
/// The disk cannot be written, or the learner failed.
pub(super) fn policy(folder: &Path, making: Making, say: &dyn Fn(&str)) -> Result<PathBuf, TrainError> {
    let place = folder.join(making.folder_name());
    if place.is_dir() {
        return Ok(place);
    }
    let unwritable = |error: std::io::Error| {
        TrainError::storage(format!("{} cannot be written: {error}", place.display()))
    };
    let staging = place.with_extension("making");
    if staging.exists() {
        fs::remove_dir_all(&staging).map_err(unwritable)?;
    }
    fs::create_dir_all(folder).map_err(unwritable)?;
    let request = PresetRequest { preset: Preset::Tiny, seed: making.seed, texts: &texts(), positions: None };
    init_policy(&staging, &request).map_err(|error| TrainError::storage(error.to_string()))?;
    let files = ModelFiles::of(&staging);
    imitate(&files, making, say)?;
    fs::rename(&staging, &place).map_err(unwritable)?;
    Ok(place)
}

/// Loads the policy in a folder for the learner and the renderer.
///
/// # Errors
/// The folder does not contain a policy.
pub(super) fn model(folder: &Path, engine: EngineHandle) -> Result<Model, TrainError> {
    let files = ModelFiles::of(folder);
    let params = load_params(&files, Device::Cpu).map_err(unusable)?;
    let chat = Chat::load(&files).map_err(|error| TrainError::storage(error.to_string()))?;
    let mark = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Model { params, files, folder: folder.to_owned(), first: None, mark, engine, chat: Arc::new(chat) })
}

/// Texts that the policy reads and writes, for its tokenizer.
fn texts() -> Vec<String> {
    let questions = ["First: Last: After".to_owned(), HINT_MARK.to_owned(), WORDS.join(" ")];
    questions.into_iter().chain(user::texts()).chain(style::texts()).collect()
}

fn imitate(files: &ModelFiles, making: Making, say: &dyn Fn(&str)) -> Result<(), TrainError> {
    let chat = Chat::load(files).map_err(|error| TrainError::internal(error.to_string()))?;
    let optimizer = OptimizerPlan {
        learning_rate: 2e-3,
        beta1: 0.9,
        beta2: 0.95,
        weight_decay: 0.1,
        epsilon: 1e-8,
        max_grad_norm: 1.0,
        warm_up_steps: 20,
        final_fraction: 0.1,
    };
    let plan = WarmStartPlan {
        demonstrations: making.steps * BATCH,
        oracle_percent: 100,
        steps: making.steps,
        batch: BATCH,
        interchangeable: Vec::new(),
        max_skipped_steps: 3,
        hinted_percent: 0,
        contradicted_percent: 0,
        optimizer,
    };
    let mut learner = TorchLearner::new(LearnerSetup {
        config: settings::imitator(&plan),
        params: load_params(files, Device::Cpu).map_err(unusable)?,
        base: None,
        version: 0,
        reference: None,
        publisher: Box::new(Unpublished),
        collective: Box::new(Alone),
        checkpoints: Checkpoints::new(
            &files.config().with_file_name("checkpoints"),
            Retention { weights: 1, moments: 1 },
        ),
        model: files,
    })
    .map_err(unusable)?;
    let mut random = SplitMix64::new(derive_seed(making.seed, "personal-policy", &[]));
    for step in 1..=making.steps {
        let samples: Result<Vec<TrainSample>, TrainError> =
            (0..BATCH).map(|episode| sample(&chat, &taught(&mut random), episode)).collect();
        let batch =
            TrainBatch { objective: Objective::Imitation, samples: samples?, groups: Vec::new(), seed: 0 };
        let report = learner.update(&batch).map_err(|error| gave_up(&error))?;
        if step.is_multiple_of(TOLD_EVERY) || step == making.steps {
            say(&format!("imitation {step:>5}/{}  loss {:.3} nats a token", making.steps, report.loss));
        }
    }
    save_params(files, learner.params()).map_err(unusable)
}

/// A training sample with the conversation as context and its last reply as sampled tokens.
fn sample(chat: &Chat, taught: &SftExample, episode: u32) -> Result<TrainSample, TrainError> {
    let unsayable = |why: String| TrainError::internal(format!("what is taught cannot be said: {why}"));
    let mut segment = Segment::default();
    segment.push_context(&prompt(chat, &taught.messages).map_err(unsayable)?);
    let said = demonstrated_tokens(chat, &taught.reply).map_err(|error| unsayable(error.to_string()))?;
    for (&id, &logprob) in said.ids.iter().zip(&said.logprobs) {
        segment.push_sampled(0, id, logprob, 0, 1.0);
    }
    Ok(TrainSample {
        attempt: AttemptId { slot: SlotId(episode), number: 0 },
        advantages: vec![0.0; segment.len()],
        segment,
        episode,
        teacher: Vec::new(),
        candidates: Vec::new(),
    })
}

/// The prompt tokens of a request's messages.
///
/// # Errors
/// A description of the content that the policy cannot read.
pub(super) fn prompt(chat: &Chat, written: &[Value]) -> Result<Vec<u32>, String> {
    let body: Map<String, Value> =
        [("messages".to_owned(), Value::Array(written.to_vec()))].into_iter().collect();
    let shown = messages(&body).map_err(|error| error.to_string())?;
    let mut conversation = ConversationState::default();
    let ids = conversation.prompt(chat, Context { messages: &shown, tools: &[] });
    ids.map(<[u32]>::to_vec).map_err(|error| error.to_string())
}
