//! Models that this process runs, and their trainers.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clawrl_config::ChatPlan;
use clawrl_gateway::{Backend, RecorderHandle, Trainer};
use clawrl_runtime::training::TrainError;
use tokio::runtime::Handle;

/// Loads models for chat.
pub trait ChatModelLoader {
    /// The model in a folder, served under `name`.
    ///
    /// # Errors
    /// The folder does not hold a model, or this host cannot run it.
    fn load_chat_model(&self, folder: &Path, name: &str) -> Result<Box<dyn ChatModel>, TrainError>;
}

/// Receives one line for each event of learning.
pub type Announce = Arc<dyn Fn(&str) + Send + Sync>;

/// A model in this process that answers chat, and may learn from it.
pub trait ChatModel {
    /// The part that answers requests.
    fn backend(&self) -> Arc<dyn Backend>;

    /// Starts a trainer that learns from what `recorder` records, until it is dropped. Adapters of earlier learning in `folder`
    /// answer when this returns. New versions and pauses are announced.
    ///
    /// # Errors
    /// Adapters that cannot be read or belong to another policy; a ledger that cannot be written.
    fn into_trainer(
        self: Box<Self>,
        plan: &ChatPlan,
        folder: PathBuf,
        announce: Announce,
        recorder: RecorderHandle,
        runtime: Handle,
    ) -> Result<Arc<dyn Trainer>, TrainError>;
}
