//! `clawrl import jsonl`: questions with answers.

use std::path::PathBuf;

use clawrl_import::{Imported, JsonlOptions, import_jsonl};

use super::arguments::{Rows, Target};
use crate::failure::Failure;

#[derive(Debug, clap::Args)]
pub(super) struct Choices {
    /// Files with one JSON object per line.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    pub(super) target: Target,
    /// Key of the question; dots separate nested keys [default: found from the first row].
    #[arg(long, value_name = "KEY")]
    question_key: Option<String>,
    /// Key of the answer [default: found from the first row].
    #[arg(long, value_name = "KEY")]
    answer_key: Option<String>,
    /// Key of a row's id [default: found from the first row, else the line number].
    #[arg(long, value_name = "KEY")]
    id_key: Option<String>,
    #[command(flatten)]
    rows: Rows,
    /// Largest error of a numeric answer that passes [default: half of its last decimal place].
    #[arg(long, value_name = "DIFFERENCE", value_parser = tolerance)]
    tolerance: Option<f64>,
    /// Maximum turns of an attempt.
    #[arg(long, value_name = "COUNT", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    max_turns: u32,
}

pub(super) fn run(choices: &Choices) -> Result<Imported, Failure> {
    Ok(import_jsonl(&JsonlOptions {
        files: choices.files.clone(),
        output: choices.target.output.clone(),
        question_key: choices.question_key.clone(),
        answer_key: choices.answer_key.clone(),
        id_key: choices.id_key.clone(),
        choice: choices.rows.choice(),
        tolerance: choices.tolerance,
        skip_unrepresentable: choices.rows.skip_unrepresentable,
        force: choices.target.force,
        max_turns: choices.max_turns,
    })?)
}

fn tolerance(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && number >= 0.0 => Ok(number),
        _ => Err("write a number of at least 0".to_owned()),
    }
}
