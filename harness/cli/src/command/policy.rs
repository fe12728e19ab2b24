//! `clawrl policy`: make policies.

use std::path::PathBuf;

use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::log::Log;

/// Makes policies.
#[derive(Debug, clap::Args)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "Example:\n  clawrl policy init --preset tiny --out my-policy tasks/terminal-basics"
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    Init(Init),
}

/// Makes a fresh policy in the format of Hugging Face: its tokenizer is trained on the text of suites, its weights are
/// drawn from a seed. Nothing is downloaded.
#[derive(Debug, clap::Args)]
struct Init {
    /// Suites whose text the tokenizer is trained on: a suite.yaml, its folder, or the name of a folder under ./tasks.
    #[arg(value_name = "SUITE", required = true)]
    suites: Vec<PathBuf>,
    /// Shape of the model.
    #[arg(long, value_name = "PRESET", value_enum)]
    preset: PresetChoice,
    /// A new or an empty folder.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Decides the weights.
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum PresetChoice {
    /// Half a million parameters: learns short terminal tasks on two CPU cores.
    Tiny,
}

/// Does it.
#[cfg(feature = "torch")]
pub(crate) fn run(arguments: &Arguments, log: &Log) -> Result<Exit, Failure> {
    use clawrl_config::{PlanOptions, resolve_plan};
    use clawrl_core::{PolicySpec, RunId, Split};
    use clawrl_torch::{Preset, PresetError, PresetRequest, init_policy};

    let Verb::Init(init) = &arguments.verb;
    let PresetChoice::Tiny = init.preset;
    let suites = crate::plan_request::read_suites(&init.suites, log)?;
    let run = RunId::new("policy-init").ok_or_else(|| Failure::new(Exit::Internal, "a bad name of a run"))?;
    let host = crate::host::capacity::probe();
    // What is held out is not to be looked at, by a tokenizer neither.
    let options = PlanOptions { split: Split::Train, ..PlanOptions::new(run, PolicySpec::Noop, host) };
    let plan = resolve_plan(&suites, &options)?;
    let texts = crate::training::corpus(plan.tasks.iter().map(|task| &**task));
    let request = PresetRequest { preset: Preset::Tiny, seed: init.seed, texts: &texts };
    let summary = init_policy(&init.out, &request).map_err(|error| {
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

/// Says that this build cannot.
#[cfg(not(feature = "torch"))]
pub(crate) fn run(arguments: &Arguments, _log: &Log) -> Result<Exit, Failure> {
    let Verb::Init(Init { suites, preset, out, seed }) = &arguments.verb;
    let _ = (suites, preset, out, seed);
    Err(super::without_torch())
}
