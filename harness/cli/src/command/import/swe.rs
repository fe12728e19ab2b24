//! `clawrl import swe`: rows of SWE-bench and of data sets like it, and task repositories.

use std::path::PathBuf;

use clawrl_import::{Imported, RowChoice, SweOptions, import_swe};

use super::jsonl::positive;
use crate::failure::Failure;

#[derive(Debug, clap::Args)]
pub(super) struct Choices {
    /// A file of rows, Parquet, JSON or JSONL, or the folder of a task repository (with sweb.yaml).
    #[arg(value_name = "SOURCE")]
    source: PathBuf,
    /// The suite's folder, which is made; the suite is called like it.
    #[arg(long, alias = "out", value_name = "DIR")]
    pub(super) output: PathBuf,
    /// Import only this instance; may be repeated.
    #[arg(long = "task", value_name = "INSTANCE")]
    tasks: Vec<String>,
    /// Import only instances whose id has this in it.
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// Import only the first rows.
    #[arg(long, value_name = "COUNT", conflicts_with = "sample", value_parser = positive)]
    limit: Option<usize>,
    /// Import only so many rows, drawn by the seed.
    #[arg(long, value_name = "COUNT", value_parser = positive)]
    sample: Option<usize>,
    /// Seed of --sample.
    #[arg(long, value_name = "SEED", default_value_t = 0, requires = "sample")]
    seed: u64,
    /// Name of the images: {instance_id} stands for the id in lower case, {image_id} for the same with `_1776_` for `__`
    /// [default: what a row says, else the image of its data set].
    #[arg(long, value_name = "NAME")]
    image: Option<String>,
    /// Folder of the repository in the images [default: that of the data set].
    #[arg(long, value_name = "PATH")]
    workdir: Option<String>,
    /// Line of bash before the first command and before the tests; '' is none [default: that of the data set].
    #[arg(long, value_name = "LINE")]
    activate: Option<String>,
    /// Add what was said about an issue to its instruction.
    #[arg(long)]
    hints: bool,
    /// Leave rows out that cannot be represented, and list them, instead of refusing all.
    #[arg(long)]
    skip_unrepresentable: bool,
    /// Most turns of an attempt.
    #[arg(long, value_name = "COUNT", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
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
    Ok(import_swe(&SweOptions {
        source: choices.source.clone(),
        output: choices.output.clone(),
        choice,
        tasks: choices.tasks.clone(),
        filter: choices.filter.clone(),
        image: choices.image.clone(),
        workdir: choices.workdir.clone(),
        activate: choices.activate.clone(),
        hints: choices.hints,
        skip_unrepresentable: choices.skip_unrepresentable,
        force: choices.force,
        max_turns: choices.max_turns,
    })?)
}
