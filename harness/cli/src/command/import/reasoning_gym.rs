//! `clawrl import reasoning-gym`: data sets that a library generates.

use std::path::{Path, PathBuf};

use clawrl_import::{
    Imported, ReasoningGymDataset, ReasoningGymOptions, import_reasoning_gym, list_reasoning_gym,
};

use super::arguments::positive;
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::output::print;

#[derive(Debug, clap::Args)]
pub(super) struct Choices {
    /// Data sets by their names in the library, optionally with settings.
    #[arg(required_unless_present = "list", value_name = "DATASET[:KEY=VALUE,...]", value_parser = ReasoningGymDataset::parse)]
    datasets: Vec<ReasoningGymDataset>,
    /// List all data sets of the library: whether each can be imported, and how its answers are compared.
    #[arg(long, conflicts_with_all = ["datasets", "output"])]
    pub(super) list: bool,
    /// Entries of each data set.
    #[arg(long, value_name = "COUNT", default_value_t = 100, value_parser = positive)]
    size: usize,
    /// Seed of the entries.
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    seed: u64,
    /// Python with the package reasoning-gym.
    #[arg(long, value_name = "PROGRAM", default_value = "python3")]
    python: PathBuf,
    /// Folder of the new suite, which is created; its name becomes the suite's name.
    #[arg(long, value_name = "DIR", required_unless_present = "list")]
    pub(super) output: Option<PathBuf>,
    /// Maximum turns of an attempt.
    #[arg(long, value_name = "COUNT", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    max_turns: u32,
    /// Replace a suite that an earlier import wrote.
    #[arg(long)]
    force: bool,
}

pub(super) fn run(choices: &Choices, output: &Path) -> Result<Imported, Failure> {
    Ok(import_reasoning_gym(&ReasoningGymOptions {
        datasets: choices.datasets.clone(),
        size: choices.size,
        seed: choices.seed,
        python: choices.python.clone(),
        output: output.to_owned(),
        force: choices.force,
        max_turns: choices.max_turns,
    })?)
}

pub(super) fn list(choices: &Choices) -> Result<Exit, Failure> {
    let sets = list_reasoning_gym(&choices.python)?;
    let count = sets.iter().filter(|set| set.imported).count();
    let width = sets.iter().map(|set| set.name.len()).max().unwrap_or_default();
    let mut text = String::new();
    for set in &sets {
        let word = if set.imported { "yes" } else { "no " };
        text.push_str(&format!("{:width$}  {word}  {}\n", set.name, set.words));
    }
    text.push_str(&format!("{count} of {} can be imported\n", sets.len()));
    print(&text)?;
    Ok(Exit::Success)
}
