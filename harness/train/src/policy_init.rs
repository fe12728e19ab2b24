//! `clawrl policy init`: a fresh policy from the text of suites.

use clawrl_config::{PlanOptions, resolve_plan};
use clawrl_core::{PolicySpec, RunId, Split};
use clawrl_torch::{Preset, PresetError, PresetRequest};

use super::corpus::corpus;
use super::libtorch::check_libtorch;
use clawrl_runtime::training::{InitRequest, ModelSize, TrainError};
use clawrl_runtime::{Progress, read_suites};

/// Writes a fresh policy of the preset `tiny`.
///
/// # Errors
/// Suites that cannot be read, a folder that is not empty or cannot be written.
pub fn init_policy(init: &InitRequest, progress: &dyn Progress) -> Result<ModelSize, TrainError> {
    check_libtorch()?;
    let suites = read_suites(&init.suites, progress)?;
    let run = RunId::new("policy-init").ok_or_else(|| TrainError::internal("a bad name of a run"))?;
    let host = clawrl_runtime::host::capacity::probe();
    // Held-out tasks must not be used for the tokenizer, either.
    let options = PlanOptions { split: Split::Train, ..PlanOptions::new(run, PolicySpec::Noop, host) };
    let plan = resolve_plan(&suites, &options)?;
    let texts = corpus(plan.tasks.iter().map(|task| &**task));
    let positions = init.positions;
    let request = PresetRequest { preset: Preset::Tiny, seed: init.seed, texts: &texts, positions };
    let summary = clawrl_torch::init_policy(&init.out, &request).map_err(|error| {
        let message = error.to_string();
        match error {
            PresetError::NotEmpty(_) => TrainError::refused(message),
            PresetError::Io { .. } => TrainError::storage(message),
            _ => TrainError::internal(message),
        }
    })?;
    Ok(ModelSize { parameters: summary.parameters as u64, vocab_size: summary.vocab_size as u64 })
}
