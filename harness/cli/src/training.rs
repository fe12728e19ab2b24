//! Operations that need libtorch.

use std::path::Path;
use std::sync::Arc;

use clawrl_core::{Policy, RunId};
use clawrl_runtime::training::{
    InitRequest, ModelSize, PersonalOutcome, PersonalRequest, RollbackOutcome, TrainError, TrainOutcome,
    TrainRequest, VersionDiff, VersionList, WayBack,
};
use clawrl_runtime::{PolicyLoader, Progress, RuntimeError};
use clawrl_serve::{ChatModel, ChatModelLoader};

use crate::program::linked;

/// The operations of `clawrl-train`, on which this crate does not depend.
pub trait Training: PolicyLoader + ChatModelLoader {
    /// Trains.
    ///
    /// # Errors
    /// The reason why the training ended early.
    fn train(&self, request: TrainRequest, progress: Arc<dyn Progress>) -> Result<TrainOutcome, TrainError>;

    /// The version that an aborted training can be rolled back to.
    ///
    /// # Errors
    /// The record cannot be read.
    fn way_back(&self, run: &RunId, results: &Path) -> Result<Option<WayBack>, TrainError>;

    /// Writes a new policy.
    ///
    /// # Errors
    /// Suites cannot be read, or the folder cannot be written.
    fn init_policy(&self, request: &InitRequest, progress: &dyn Progress) -> Result<ModelSize, TrainError>;

    /// The versions of a training's policy.
    ///
    /// # Errors
    /// The training does not exist.
    fn list_versions(&self, run: &RunId, results: &Path) -> Result<VersionList, TrainError>;

    /// Rolls a training back to the version `to`.
    ///
    /// # Errors
    /// The training does not exist or is running, or the version is not stored.
    fn roll_back(
        &self,
        run: &RunId,
        to: u64,
        results: &Path,
        progress: &dyn Progress,
    ) -> Result<RollbackOutcome, TrainError>;

    /// Compares two versions.
    ///
    /// # Errors
    /// The training does not exist, or a version is not stored.
    fn diff_versions(
        &self,
        run: &RunId,
        versions: (u64, u64),
        results: &Path,
        progress: &dyn Progress,
    ) -> Result<VersionDiff, TrainError>;

    /// Merges an adapter into its model. Returns the number of parameters.
    ///
    /// # Errors
    /// `adapter` does not contain an adapter, or `out` cannot be written.
    fn merge_adapter(&self, adapter: &Path, out: &Path) -> Result<u64, TrainError>;

    /// Evaluates personalisation.
    ///
    /// # Errors
    /// The reason why the evaluation ended early.
    fn evaluate_personal(
        &self,
        request: &PersonalRequest,
        progress: &dyn Progress,
    ) -> Result<PersonalOutcome, TrainError>;
}

/// Loads models in this process; a program that is not linked to libtorch hands over to the one that is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LinkedModels;

impl PolicyLoader for LinkedModels {
    fn load_policy(
        &self,
        folder: &Path,
        temperature_milli: u32,
        max_new_tokens: u32,
    ) -> Result<Arc<dyn Policy>, RuntimeError> {
        linked()?.load_policy(folder, temperature_milli, max_new_tokens)
    }
}

impl ChatModelLoader for LinkedModels {
    fn load_chat_model(&self, folder: &Path, name: &str) -> Result<Box<dyn ChatModel>, TrainError> {
        linked()?.load_chat_model(folder, name)
    }
}
