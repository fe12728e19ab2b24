//! `clawrl policy init`: a fresh policy from the text of suites.

use clawrl_config::{PlanOptions, resolve_plan};
use clawrl_core::{PolicySpec, RunId, Split};
use clawrl_torch::{Preset, PresetError, PresetRequest};

use super::corpus::corpus;
use super::libtorch::check_libtorch;
use clawrl_cli::command::policy::{Init, PresetChoice};
use clawrl_cli::exit_code::Exit;
use clawrl_cli::failure::Failure;
use clawrl_cli::log::Log;

/// Does it.
pub(crate) fn init_policy(init: &Init, log: &Log) -> Result<Exit, Failure> {
    check_libtorch()?;
    let PresetChoice::Tiny = init.preset;
    let suites = clawrl_cli::plan_request::read_suites(&init.suites, log)?;
    let run = RunId::new("policy-init").ok_or_else(|| Failure::new(Exit::Internal, "a bad name of a run"))?;
    let host = clawrl_cli::host::capacity::probe();
    // What is held out is not to be looked at, by a tokenizer neither.
    let options = PlanOptions { split: Split::Train, ..PlanOptions::new(run, PolicySpec::Noop, host) };
    let plan = resolve_plan(&suites, &options)?;
    let texts = corpus(plan.tasks.iter().map(|task| &**task));
    let positions = init.positions;
    let request = PresetRequest { preset: Preset::Tiny, seed: init.seed, texts: &texts, positions };
    let summary = clawrl_torch::init_policy(&init.out, &request).map_err(|error| {
        let exit = match error {
            PresetError::NotEmpty(_) => Exit::Refused,
            PresetError::Io { .. } => Exit::Results,
            _ => Exit::Internal,
        };
        Failure::new(exit, error.to_string())
    })?;
    log.note(format_args!(
        "{}: {} parameters, vocabulary of {}",
        init.out.display(),
        summary.parameters,
        summary.vocab_size
    ));
    Ok(Exit::Success)
}
