//! `clawrl import bfcl`: rows of the Berkeley Function Calling Leaderboard.

use std::path::PathBuf;

use clawrl_import::{BfclOptions, Imported, RowChoice, import_bfcl};

use super::jsonl::positive;
use crate::failure::Failure;

#[derive(Debug, clap::Args)]
pub(super) struct Choices {
    /// BFCL's folder `bfcl_eval/data`, as in the package bfcl-eval, or one of its files.
    #[arg(long, value_name = "PATH")]
    data: PathBuf,
    /// A category, such as simple_python, parallel_multiple or live_irrelevance; may be repeated.
    #[arg(long = "category", value_name = "NAME")]
    categories: Vec<String>,
    /// The suite's folder, which is made; the suite is called like it.
    #[arg(long, value_name = "DIR")]
    pub(super) output: PathBuf,
    /// Import only the first rows of each category.
    #[arg(long, value_name = "COUNT", conflicts_with = "sample", value_parser = positive)]
    limit: Option<usize>,
    /// Import only so many rows of each category, drawn by the seed.
    #[arg(long, value_name = "COUNT", value_parser = positive)]
    sample: Option<usize>,
    /// Seed of --sample.
    #[arg(long, value_name = "SEED", default_value_t = 0, requires = "sample")]
    seed: u64,
    /// Leave rows out that cannot be represented, and list them, instead of refusing all.
    #[arg(long)]
    skip_unrepresentable: bool,
    /// Most turns of an attempt, if its oracle does not need more.
    #[arg(long, value_name = "COUNT", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    max_turns: u32,
    /// Replace a suite that was imported before.
    #[arg(long)]
    force: bool,
}

pub(super) fn run(choices: &Choices) -> Result<Imported, Failure> {
    let choice = match (choices.limit, choices.sample) {
        (Some(most), _) => RowChoice::First(most),
        (None, Some(count)) => RowChoice::Some { count, seed: choices.seed },
        (None, None) => RowChoice::All,
    };
    Ok(import_bfcl(&BfclOptions {
        data: choices.data.clone(),
        categories: choices.categories.clone(),
        output: choices.output.clone(),
        choice,
        skip_unrepresentable: choices.skip_unrepresentable,
        force: choices.force,
        max_turns: choices.max_turns,
    })?)
}
