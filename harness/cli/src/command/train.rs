//! `clawrl train`: train a policy, or go on with a training.

use std::path::PathBuf;

use clawrl_config::TrainSetting;
use clawrl_core::RunId;

use super::removed;
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::log::Log;
use crate::program::training;
use crate::results::{ResultsArguments, run_name};

/// Trains a policy in the environments of suites: imitation first, then reinforcement learning.
///
/// On Ctrl-C, what runs is finished and a checkpoint is written; `--resume` goes on.
#[derive(Debug, clap::Args)]
#[command(
    arg = removed::profile(),
    override_usage = "clawrl train [OPTIONS] TRAIN.yaml\n       clawrl train --resume RUN",
    after_help = "Examples:\n  clawrl train policies/presets/terminal-tiny.yaml\n  \
                  clawrl train policies/presets/terminal-tiny.yaml --seed 1,2,3 --set rl.updates=50\n  \
                  clawrl train --resume my-training"
)]
pub struct Arguments {
    /// The train file.
    #[arg(value_name = "TRAIN.yaml", required_unless_present = "resume", conflicts_with = "resume")]
    pub file: Option<PathBuf>,
    /// Go on with this training, under its own plan.
    #[arg(long, value_name = "RUN", value_parser = run_name)]
    pub resume: Option<RunId>,
    /// Name of the training [default: date, time and the train file's name].
    #[arg(long, value_name = "RUN", value_parser = run_name, conflicts_with = "resume")]
    pub name: Option<RunId>,
    /// Root of all seeds, instead of the train file's; of several (1,2,3), one training each, one after the other.
    #[arg(long = "seed", value_name = "N", value_delimiter = ',', conflicts_with = "resume")]
    pub seeds: Vec<u64>,
    /// Another value of a key of the train file: `rl.updates=10`, `suites.0.instances=50`. May be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE", conflicts_with = "resume")]
    pub settings: Vec<TrainSetting>,
    #[command(flatten)]
    /// The results folder.
    pub results: ResultsArguments,
    /// Print what it came to as JSON.
    #[arg(long)]
    pub json: bool,
    /// No progress and no notes; warnings and errors only.
    #[arg(long)]
    pub quiet: bool,
}

/// Does it.
pub(crate) fn run(arguments: &Arguments, log: &Log) -> Result<Exit, Failure> {
    training().train(arguments, log)
}
