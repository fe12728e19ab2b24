//! Connects the command line to `clawrl-train`; neither depends on the other.

use std::path::Path;
use std::sync::Arc;

use clawrl_cli::Training;
use clawrl_core::{Policy, RunId};
use clawrl_runtime::training::{
    InitRequest, ModelSize, PersonalOutcome, PersonalRequest, RollbackOutcome, TrainError, TrainOutcome,
    TrainRequest, VersionDiff, VersionList, WayBack,
};
use clawrl_runtime::{PolicyLoader, Progress, RuntimeError};
use clawrl_serve::{ChatModel, ChatModelLoader};
use clawrl_train::{Libtorch, Trainer};

/// The operations of `clawrl-train`.
pub(crate) struct Linked;

impl PolicyLoader for Linked {
    fn load_policy(
        &self,
        folder: &Path,
        temperature_milli: u32,
        max_new_tokens: u32,
    ) -> Result<Arc<dyn Policy>, RuntimeError> {
        Libtorch.load_policy(folder, temperature_milli, max_new_tokens)
    }
}

impl ChatModelLoader for Linked {
    fn load_chat_model(&self, folder: &Path, name: &str) -> Result<Box<dyn ChatModel>, TrainError> {
        Libtorch.load_chat_model(folder, name)
    }
}

impl Training for Linked {
    fn train(&self, request: TrainRequest, progress: Arc<dyn Progress>) -> Result<TrainOutcome, TrainError> {
        Trainer::plan(request, progress)?.run()
    }

    fn way_back(&self, run: &RunId, results: &Path) -> Result<Option<WayBack>, TrainError> {
        clawrl_train::way_back(run, results)
    }

    fn init_policy(&self, request: &InitRequest, progress: &dyn Progress) -> Result<ModelSize, TrainError> {
        clawrl_train::init_policy(request, progress)
    }

    fn list_versions(&self, run: &RunId, results: &Path) -> Result<VersionList, TrainError> {
        clawrl_train::list_versions(run, results)
    }

    fn roll_back(
        &self,
        run: &RunId,
        to: u64,
        results: &Path,
        progress: &dyn Progress,
    ) -> Result<RollbackOutcome, TrainError> {
        clawrl_train::roll_back(run, to, results, progress)
    }

    fn diff_versions(
        &self,
        run: &RunId,
        versions: (u64, u64),
        results: &Path,
        progress: &dyn Progress,
    ) -> Result<VersionDiff, TrainError> {
        clawrl_train::diff_versions(run, versions, results, progress)
    }

    fn merge_adapter(&self, adapter: &Path, out: &Path) -> Result<u64, TrainError> {
        clawrl_train::merge_adapter(adapter, out)
    }

    fn evaluate_personal(
        &self,
        request: &PersonalRequest,
        progress: &dyn Progress,
    ) -> Result<PersonalOutcome, TrainError> {
        clawrl_train::evaluate_personal(request, progress)
    }
}
