//! `clawrl import swe`: rows of SWE-bench and similar data sets, and task repositories.

use std::path::PathBuf;

use clawrl_import::{Imported, SweOptions, import_swe};

use super::arguments::{Rows, Target};
use crate::failure::Failure;

#[derive(Debug, clap::Args)]
pub(super) struct Choices {
    /// File of rows (Parquet, JSON or JSONL), or folder of a task repository (with sweb.yaml).
    #[arg(value_name = "SOURCE")]
    source: PathBuf,
    #[command(flatten)]
    pub(super) target: Target,
    /// Import only this instance; may be repeated.
    #[arg(long = "task", value_name = "INSTANCE")]
    tasks: Vec<String>,
    /// Import only instances whose id contains this text.
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    #[command(flatten)]
    rows: Rows,
    /// Name of the images; {instance_id} is replaced by the id in lower case, {image_id} by the same with `_1776_` for `__`
    /// [default: the image of the row, else that of its data set].
    #[arg(long, value_name = "NAME")]
    image: Option<String>,
    /// Folder of the repository in the images [default: that of the data set].
    #[arg(long, value_name = "PATH")]
    workdir: Option<String>,
    /// Line of bash to run before the first command and before the tests; may be empty [default: that of the data set].
    #[arg(long, value_name = "LINE")]
    activate: Option<String>,
    /// Add the comments on an issue to its instruction.
    #[arg(long)]
    hints: bool,
    /// Maximum turns of an attempt.
    #[arg(long, value_name = "COUNT", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    max_turns: u32,
}

pub(super) fn run(choices: &Choices) -> Result<Imported, Failure> {
    Ok(import_swe(&SweOptions {
        source: choices.source.clone(),
        output: choices.target.output.clone(),
        choice: choices.rows.choice(),
        tasks: choices.tasks.clone(),
        filter: choices.filter.clone(),
        image: choices.image.clone(),
        workdir: choices.workdir.clone(),
        activate: choices.activate.clone(),
        hints: choices.hints,
        skip_unrepresentable: choices.rows.skip_unrepresentable,
        force: choices.target.force,
        max_turns: choices.max_turns,
    })?)
}
