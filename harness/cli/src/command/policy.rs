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
pub(crate) struct Init {
    /// Suites whose text the tokenizer is trained on: a suite.yaml, its folder, or the name of a folder under ./tasks.
    #[arg(value_name = "SUITE", required = true)]
    pub(crate) suites: Vec<PathBuf>,
    /// Shape of the model.
    #[arg(long, value_name = "PRESET", value_enum)]
    pub(crate) preset: PresetChoice,
    /// A new or an empty folder.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// Decides the weights.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum PresetChoice {
    /// Half a million parameters: learns short terminal tasks on two CPU cores.
    Tiny,
}

/// Does it.
pub(crate) fn run(arguments: &Arguments, log: &Log) -> Result<Exit, Failure> {
    match &arguments.verb {
        Verb::Init(init) => crate::training::init_policy(init, log),
    }
}
