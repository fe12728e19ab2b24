//! `clawrl import jsonl`: questions with answers.

use std::path::PathBuf;

use clawrl_import::{Imported, JsonlOptions, RowChoice, import_jsonl};

use crate::failure::Failure;

#[derive(Debug, clap::Args)]
pub(super) struct Choices {
    /// Files with one JSON object a line.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The suite's folder, which is made; the suite is called like it.
    #[arg(long, value_name = "DIR")]
    pub(super) output: PathBuf,
    /// Key of the question; dots lead inside [default: found by looking at the first row].
    #[arg(long, value_name = "KEY")]
    question_key: Option<String>,
    /// Key of the answer [default: found by looking at the first row].
    #[arg(long, value_name = "KEY")]
    answer_key: Option<String>,
    /// Key of a row's id [default: found by looking at the first row, else the line's number].
    #[arg(long, value_name = "KEY")]
    id_key: Option<String>,
    /// Import only the first rows.
    #[arg(long, value_name = "COUNT", conflicts_with = "sample", value_parser = positive)]
    limit: Option<usize>,
    /// Import only so many rows, drawn by the seed.
    #[arg(long, value_name = "COUNT", value_parser = positive)]
    sample: Option<usize>,
    /// Seed of --sample.
    #[arg(long, value_name = "SEED", default_value_t = 0, requires = "sample")]
    seed: u64,
    /// Largest difference of a numeric answer that passes [default: half of its last decimal place].
    #[arg(long, value_name = "DIFFERENCE", value_parser = tolerance)]
    tolerance: Option<f64>,
    /// Leave rows out whose answer cannot be represented, and list them, instead of refusing all.
    #[arg(long)]
    skip_unrepresentable: bool,
    /// Most turns of an attempt.
    #[arg(long, value_name = "COUNT", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=10_000))]
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
    Ok(import_jsonl(&JsonlOptions {
        files: choices.files.clone(),
        output: choices.output.clone(),
        question_key: choices.question_key.clone(),
        answer_key: choices.answer_key.clone(),
        id_key: choices.id_key.clone(),
        choice,
        tolerance: choices.tolerance,
        skip_unrepresentable: choices.skip_unrepresentable,
        force: choices.force,
        max_turns: choices.max_turns,
    })?)
}

pub(super) fn positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("write a number from 1 on".to_owned()),
        Ok(number) => Ok(number),
    }
}

fn tolerance(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && number >= 0.0 => Ok(number),
        _ => Err("write a number, 0 or more".to_owned()),
    }
}
