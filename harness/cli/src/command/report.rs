//! `clawrl report`: an HTML report and statistics of a run.
//!
//! I1. The page is replaced atomically: it is written to a temporary file and renamed.

use std::fs;
use std::path::{Path, PathBuf};

use clawrl_report::{Options, Report, ReportError, csv_of_run, heading, junit_of_run, render_text, report};
use clawrl_runtime::parse_run_name;
use serde::Serialize;

use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::output::{print, print_json};
use crate::results::ResultsArguments;

/// Name of the report in the run's folder.
const PAGE: &str = "report.html";
/// Name in a training's folder, whose report.html describes the training.
const PAGE_OF_TRAINING: &str = "run-report.html";

/// Writes an HTML report of a run with all attempts, and prints its statistics.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  clawrl report my-run\n  clawrl report my-run --json > figures.json\n  \
                  clawrl report my-run --output my-run.html --atif trajectories --casts recordings\n  \
                  clawrl report my-run --junit junit.xml --csv slots.csv")]
pub(crate) struct Arguments {
    /// Name of the run.
    #[arg(value_parser = parse_run_name)]
    run: clawrl_core::RunId,
    #[command(flatten)]
    results: ResultsArguments,
    /// Write the page to this file [default: report.html in the run's folder; run-report.html for a training].
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Size limit for attempts in the page, in MiB. Terminal recordings are omitted first; the page lists omissions.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u64).range(0..=4096))]
    page_mib: u64,
    /// Write every attempt as an ATIF-v1.8 trajectory to this folder: s12.0.json and so on.
    #[arg(long, value_name = "DIR")]
    atif: Option<PathBuf>,
    /// Write every terminal recording to this folder: s12.0.cast and so on (asciicast v2).
    #[arg(long, value_name = "DIR")]
    casts: Option<PathBuf>,
    /// Write one JUnit XML test case per slot to this file.
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Write one CSV row per slot to this file.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Print the statistics of every task and group as JSON.
    #[arg(long)]
    json: bool,
}

/// Statistics and paths of the written files.
#[derive(Serialize)]
struct Answer<'a> {
    #[serde(flatten)]
    figures: &'a clawrl_report::RunStats,
    /// Displayed form, since JSON cannot represent a path that is not UTF-8.
    page: String,
    atif_files: u64,
    cast_files: u64,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let run = arguments.results.store()?.run(&arguments.run)?;
    let path = match &arguments.output {
        Some(path) => path.clone(),
        None => run.dir().join(if run.train()?.is_some() { PAGE_OF_TRAINING } else { PAGE }),
    };
    let options = Options {
        run_folder: way_to(run.dir(), path.parent().unwrap_or(Path::new(""))),
        page_bytes: arguments.page_mib << 20,
        atif: arguments.atif.clone(),
        casts: arguments.casts.clone(),
    };
    let made = report(&run, &heading(&run), &options)?;
    write_page(&path, &made.page, "--output")?;
    if let Some(path) = &arguments.junit {
        write_page(path, &junit_of_run(&run), "--junit")?;
    }
    if let Some(path) = &arguments.csv {
        write_page(path, &csv_of_run(&run), "--csv")?;
    }
    if arguments.json {
        let Report { figures, exported_atif, exported_casts, .. } = &made;
        let page = path.display().to_string();
        let answer = Answer { figures, page, atif_files: *exported_atif, cast_files: *exported_casts };
        print_json(&answer)?;
    } else {
        print(&(render_text(&made.figures) + &places(arguments, &made, &path)))?;
    }
    Ok(Exit::Success)
}

/// Relative link from the page's folder to the run's, ending with `/`, or empty. Empty also if there is none; links
/// then point beside the page.
fn way_to(run: &Path, page: &Path) -> String {
    let page = if page.as_os_str().is_empty() { Path::new(".") } else { page };
    let (Ok(run), Ok(page)) = (run.canonicalize(), page.canonicalize()) else { return String::new() };
    let common = run.components().zip(page.components()).take_while(|(run, page)| run == page).count();
    let up = page.components().skip(common).map(|_| "..".to_owned());
    let down = run.components().skip(common).map(|part| part.as_os_str().to_string_lossy().into_owned());
    up.chain(down).map(|part| part + "/").collect()
}

fn places(arguments: &Arguments, made: &Report, page: &Path) -> String {
    let mut text = format!("\npage     {}\n", page.display());
    if let Some(folder) = &arguments.atif {
        text += &format!("atif     {} files in {}\n", made.exported_atif, folder.display());
    }
    if let Some(folder) = &arguments.casts {
        text += &format!("casts    {} files in {}\n", made.exported_casts, folder.display());
    }
    for (name, path) in [("junit", &arguments.junit), ("csv", &arguments.csv)] {
        text += &path.as_ref().map_or_else(String::new, |path| format!("{name:<8} {}\n", path.display()));
    }
    text
}

/// Writes a page atomically (I1). `option` is the argument that chose the path.
pub(super) fn write_page(path: &Path, page: &str, option: &str) -> Result<(), Failure> {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".new");
    let beside = path.with_file_name(name);
    let written = fs::write(&beside, page).and_then(|()| fs::rename(&beside, path));
    written.map_err(|error| {
        // A partial page is useless.
        let _ = fs::remove_file(&beside);
        let message = format!("cannot write {}: {error}", path.display());
        Failure::with_help(Exit::Results, message, format!("choose another place with {option}"))
    })
}

impl From<ReportError> for Failure {
    fn from(error: ReportError) -> Self {
        match error {
            ReportError::Record(error) => error.into(),
            ReportError::NotJson { .. } => Self::new(Exit::Internal, error.to_string()),
            _ => Self::new(Exit::Results, error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_the_run_wherever_the_page_lies() {
        let place = tempfile::tempdir().unwrap();
        let folder = |name: &str| {
            let folder = place.path().join(name);
            fs::create_dir_all(&folder).unwrap();
            folder
        };
        let run = folder("results/runs/a");
        let check =
            |page: &Path, expected: &str| assert_eq!(way_to(&run, page), expected, "{}", page.display());
        check(&run, "");
        check(&folder("results/runs/a/pages"), "../");
        check(&folder("results/pages"), "../runs/a/");
        check(place.path(), "results/runs/a/");
        check(&place.path().join("nowhere"), "");
    }
}
