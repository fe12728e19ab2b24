//! What only a program that is linked to libtorch can do.
//!
//! This library has the interface alone, so that it builds and starts without libtorch. `clawrl-train` implements it for
//! `clawrl-torch`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clawrl_config::ChatPlan;
use clawrl_core::Policy;
use clawrl_gateway::{Backend, RecorderHandle, Trainer};
use tokio::runtime::Handle;

use crate::command::eval::Personal;
use crate::command::policy::{Diff, Init, Merge, Rollback, Versions};
use crate::command::train::Arguments;
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::log::Log;

/// Commands and policies that need libtorch.
pub trait Training: Send + Sync {
    /// `clawrl train`.
    ///
    /// # Errors
    /// What ended the training early.
    fn train(&self, arguments: &Arguments, log: &Log) -> Result<Exit, Failure>;

    /// `clawrl policy init`.
    ///
    /// # Errors
    /// Suites that cannot be read, or a folder that cannot be written.
    fn init_policy(&self, init: &Init, log: &Log) -> Result<Exit, Failure>;

    /// `clawrl policy versions`.
    ///
    /// # Errors
    /// No such training.
    fn list_versions(&self, versions: &Versions, log: &Log) -> Result<Exit, Failure>;

    /// `clawrl policy rollback`.
    ///
    /// # Errors
    /// No such training, a version that is not kept, or a training that is under way.
    fn roll_back(&self, rollback: &Rollback, log: &Log) -> Result<Exit, Failure>;

    /// `clawrl policy diff`.
    ///
    /// # Errors
    /// No such training, or versions that are not kept.
    fn diff_versions(&self, diff: &Diff, log: &Log) -> Result<Exit, Failure>;

    /// `clawrl policy merge`.
    ///
    /// # Errors
    /// A folder that holds no adapter, or one that cannot be written.
    fn merge_adapter(&self, merge: &Merge, log: &Log) -> Result<Exit, Failure>;

    /// `clawrl eval personal`.
    ///
    /// # Errors
    /// What ended the evaluation early.
    fn evaluate_personal(&self, personal: &Personal, log: &Log) -> Result<Exit, Failure>;

    /// The policy in a folder: a model's or an adapter's. Sampled at `temperature_milli` thousandths of the temperature
    /// (0: greedily), at most `max_new_tokens` tokens a reply.
    ///
    /// # Errors
    /// A folder that holds no model, or one that cannot be run here.
    fn policy(
        &self,
        folder: &Path,
        temperature_milli: u32,
        max_new_tokens: u32,
    ) -> Result<Arc<dyn Policy>, Failure>;

    /// The model in a folder, for chat under the name `name`.
    ///
    /// # Errors
    /// A folder that holds no model, or one that cannot be run here.
    fn chat_model(&self, folder: &Path, name: &str) -> Result<Box<dyn ChatModel>, Failure>;
}

/// Tells a line to whoever runs the program.
pub type Announce = Arc<dyn Fn(&str) + Send + Sync>;

/// A model in this process that answers chat, and may learn from it.
pub trait ChatModel {
    /// What answers.
    fn backend(&self) -> Arc<dyn Backend>;

    /// Learns from what `recorder` records, until the trainer is dropped. Adapters of earlier learning in `folder` answer
    /// when this returns. Versions that answer from then on are announced, and so is learning that pauses by itself.
    ///
    /// # Errors
    /// Adapters that cannot be read or are of another policy, or a ledger that cannot be written.
    fn into_trainer(
        self: Box<Self>,
        plan: &ChatPlan,
        folder: PathBuf,
        announce: Announce,
        recorder: RecorderHandle,
        runtime: Handle,
    ) -> Result<Arc<dyn Trainer>, Failure>;
}
