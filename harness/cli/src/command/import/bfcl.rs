//! `clawrl import bfcl`: rows of the Berkeley Function Calling Leaderboard.

use std::path::PathBuf;

use clawrl_import::{BfclOptions, Imported, import_bfcl};

use super::arguments::{Rows, Target};
use crate::failure::Failure;

#[derive(Debug, clap::Args)]
pub(super) struct Choices {
    /// Folder `bfcl_eval/data` of the package bfcl-eval, or one of its files.
    #[arg(long, value_name = "PATH")]
    data: PathBuf,
    /// A category, such as simple_python, parallel_multiple or live_irrelevance; may be repeated.
    #[arg(long = "category", value_name = "NAME")]
    categories: Vec<String>,
    #[command(flatten)]
    pub(super) target: Target,
    #[command(flatten)]
    rows: Rows,
    /// Maximum turns of an attempt, unless its oracle needs more.
    #[arg(long, value_name = "COUNT", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    max_turns: u32,
}

pub(super) fn run(choices: &Choices) -> Result<Imported, Failure> {
    Ok(import_bfcl(&BfclOptions {
        data: choices.data.clone(),
        categories: choices.categories.clone(),
        output: choices.target.output.clone(),
        choice: choices.rows.choice(),
        skip_unrepresentable: choices.rows.skip_unrepresentable,
        force: choices.target.force,
        max_turns: choices.max_turns,
    })?)
}
