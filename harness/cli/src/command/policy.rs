//! `clawrl policy`: make policies, and look at the versions of one that is trained.

use std::path::PathBuf;

use clawrl_core::RunId;

use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::log::Log;
use crate::program::training;
use crate::results::{ResultsArguments, run_name};

/// Makes policies, tells the versions of one that is trained, and goes back to one of them.
#[derive(Debug, clap::Args)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "Examples:\n  clawrl policy init --preset tiny --out my-policy tasks/terminal-basics\n  \
                  clawrl policy versions my-training\n  clawrl policy rollback my-training --to 15"
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    Init(Init),
    Versions(Versions),
    Rollback(Rollback),
    Diff(Diff),
    Merge(Merge),
}

/// Lists the versions of a training's policy: which followed from which, what was measured, what is kept.
#[derive(Debug, clap::Args)]
pub struct Versions {
    /// The training.
    #[arg(value_name = "RUN", value_parser = run_name)]
    pub run: RunId,
    #[command(flatten)]
    /// The results folder.
    pub results: ResultsArguments,
    /// Print them as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Goes back to a version that is kept, with weights and moments, in a training that is not under way.
///
/// What it goes back to becomes a new version; `clawrl train --resume` goes on from there, with other groups than those it
/// consumed already.
#[derive(Debug, clap::Args)]
pub struct Rollback {
    /// The training.
    #[arg(value_name = "RUN", value_parser = run_name)]
    pub run: RunId,
    /// The version to go back to.
    #[arg(long, value_name = "VERSION")]
    pub to: u64,
    #[command(flatten)]
    /// The results folder.
    pub results: ResultsArguments,
    /// Print what it came to as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Compares two versions that are kept: what was measured of them, and how far their parameters are apart.
#[derive(Debug, clap::Args)]
pub struct Diff {
    /// The training.
    #[arg(value_name = "RUN", value_parser = run_name)]
    pub run: RunId,
    /// One version.
    #[arg(value_name = "VERSION")]
    pub first: u64,
    /// The other one.
    #[arg(value_name = "VERSION")]
    pub second: u64,
    #[command(flatten)]
    /// The results folder.
    pub results: ResultsArguments,
    /// Print it as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Writes an adapter and the model that it is for as one model, in fp32, for programs that serve no adapters.
///
/// Nothing here needs it: `clawrl run` and `clawrl train` take the adapter's folder as it is.
#[derive(Debug, clap::Args)]
pub struct Merge {
    /// Folder of an adapter: of a version, such as results/runs/RUN/checkpoints/000050/model, or one that PEFT saved.
    #[arg(value_name = "ADAPTER")]
    pub adapter: PathBuf,
    /// A new or an empty folder.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
}

/// Makes a fresh policy in the format of Hugging Face: its tokenizer is trained on the text of suites, its weights are
/// drawn from a seed. Nothing is downloaded.
#[derive(Debug, clap::Args)]
pub struct Init {
    /// Suites whose text the tokenizer is trained on: a suite.yaml, its folder, or the name of a folder under ./tasks.
    #[arg(value_name = "SUITE", required = true)]
    pub suites: Vec<PathBuf>,
    /// Shape of the model.
    #[arg(long, value_name = "PRESET", value_enum)]
    pub preset: PresetChoice,
    /// A new or an empty folder.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Decides the weights.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Most tokens that the model reads at once, prompt and reply; agents of chat send 20,000 and more [default: 2048].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(64..=1_048_576))]
    pub positions: Option<u32>,
}

/// Shape of a fresh model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum PresetChoice {
    /// Half a million parameters: learns short terminal tasks on two CPU cores.
    Tiny,
}

/// Does it.
pub(crate) fn run(arguments: &Arguments, log: &Log) -> Result<Exit, Failure> {
    match &arguments.verb {
        Verb::Init(init) => training().init_policy(init, log),
        Verb::Versions(versions) => training().list_versions(versions, log),
        Verb::Rollback(rollback) => training().roll_back(rollback, log),
        Verb::Diff(diff) => training().diff_versions(diff, log),
        Verb::Merge(merge) => training().merge_adapter(merge, log),
    }
}
