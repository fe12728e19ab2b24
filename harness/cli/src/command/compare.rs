//! `clawrl compare`: two runs side by side.
//!
//! I1. The result of the comparison does not affect the exit code, which is [`Exit::Success`]. I2. The page is replaced
//! atomically.

use std::path::PathBuf;

use clawrl_core::RunId;
use clawrl_regression::{CompareError, RunComparison, compare, comparison_page, render_comparison};
use clawrl_report::heading;
use clawrl_runtime::parse_run_name;
use serde::Serialize;

use super::report::write_page;
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::output::{print, print_json};
use crate::results::ResultsArguments;

/// Compares two runs: results by suite with intervals, tasks that flipped, and where their attempts diverge.
///
/// Always exits with 0. Use `clawrl ci` to fail a pipeline.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  clawrl compare last-week today\n  clawrl compare last-week today --html \
                        compared.html\n  clawrl compare last-week today --json > compared.json"
)]
pub(crate) struct Arguments {
    /// Run to compare with.
    #[arg(value_name = "BASELINE", value_parser = parse_run_name)]
    baseline: RunId,
    /// Run to compare.
    #[arg(value_name = "CANDIDATE", value_parser = parse_run_name)]
    candidate: RunId,
    #[command(flatten)]
    results: ResultsArguments,
    /// Write an HTML page with both attempts of every flipped task to this file.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Size limit for attempts in the page, in MiB; the page lists omissions.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u64).range(0..=1024))]
    page_mib: u64,
    /// Print both attempts of this many flipped tasks at most, around the turn where they diverge.
    #[arg(long, value_name = "N", default_value_t = 3)]
    flips: usize,
    /// Print the comparison of every task as JSON.
    #[arg(long)]
    json: bool,
}

/// The comparison and the path of its page.
#[derive(Serialize)]
struct Answer<'a> {
    #[serde(flatten)]
    comparison: &'a RunComparison,
    #[serde(skip_serializing_if = "Option::is_none")]
    page: Option<String>,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let store = arguments.results.store()?;
    let (baseline, candidate) = (store.run(&arguments.baseline)?, store.run(&arguments.candidate)?);
    let comparison = compare((&baseline, heading(&baseline)), (&candidate, heading(&candidate)))?;
    let page = arguments.html.as_ref();
    if let Some(path) = page {
        write_page(
            path,
            &comparison_page(&comparison, &baseline, &candidate, arguments.page_mib << 20)?,
            "--html",
        )?;
    }
    if arguments.json {
        let page = page.map(|path| path.display().to_string());
        print_json(&Answer { comparison: &comparison, page })?;
    } else {
        let mut text = render_comparison(&comparison, &baseline, &candidate, arguments.flips)?;
        text += &page.map_or_else(String::new, |path| format!("\npage       {}\n", path.display()));
        print(&text)?;
    }
    Ok(Exit::Success)
}

impl From<CompareError> for Failure {
    fn from(error: CompareError) -> Self {
        let text = error.to_string();
        match error {
            CompareError::Record(error) => error.into(),
            CompareError::NoCommonTasks { .. } => Self::with_help(
                Exit::Refused,
                text,
                "compare runs of the same suites: `clawrl ls` lists runs",
            ),
            CompareError::NothingGraded { run, .. } => {
                Self::with_help(Exit::Refused, text, format!("`clawrl show {run}` says what became of them"))
            }
            _ => Self::new(Exit::Refused, text),
        }
    }
}
