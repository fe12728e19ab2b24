//! `clawrl ls`: lists runs.

use clawrl_core::RunId;
use clawrl_record::RunInfo;
use clawrl_report::{part_of, policy_and_model, state_word, time};
use serde::Serialize;

use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::output::{print, print_json};
use crate::results::ResultsArguments;
use crate::table::aligned;

/// Lists runs, newest first.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  clawrl ls --json")]
pub(crate) struct Arguments {
    #[command(flatten)]
    results: ResultsArguments,
    /// Also list demonstrations and evaluations of trainings; --json always does.
    #[arg(long)]
    all: bool,
    /// Print the runs as JSON.
    #[arg(long)]
    json: bool,
}

/// A run and its training, if any.
#[derive(Debug, Serialize)]
struct Listed<'a> {
    #[serde(flatten)]
    info: &'a RunInfo,
    #[serde(skip_serializing_if = "Option::is_none")]
    part_of: Option<&'a RunId>,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let runs = arguments.results.store()?.list()?;
    let listed: Vec<Listed<'_>> =
        runs.iter().map(|info| Listed { info, part_of: part_of(info, &runs) }).collect();
    if arguments.json {
        print_json(&listed)?;
        return Ok(Exit::Success);
    }
    if runs.is_empty() {
        print(&format!("no runs in {}\n", arguments.results.dir().display()))?;
        return Ok(Exit::Success);
    }
    let is_shown = |listed: &&Listed<'_>| arguments.all || listed.part_of.is_none();
    let shown: Vec<&RunInfo> = listed.iter().filter(is_shown).map(|listed| listed.info).collect();
    let mut text = listing(&shown);
    let more = match runs.len() - shown.len() {
        0 => String::new(),
        1 => "1 run of a training is".to_owned(),
        more => format!("{more} runs of trainings are"),
    };
    if !more.is_empty() {
        text += &format!("{more} left out: demonstrations and evaluations; `clawrl ls --all` lists them\n");
    }
    print(&text)?;
    Ok(Exit::Success)
}

/// A table of runs with their problems below.
pub(super) fn listing(runs: &[&RunInfo]) -> String {
    let rows: Vec<[String; 9]> = runs.iter().map(|info| row(info)).collect();
    let headings = ["run", "began (UTC)", "state", "policy", "suites", "closed", "passed", "faulted", "size"];
    let right = [false, false, false, false, false, true, true, true, true];
    let mut text = aligned(headings, right, &rows);
    for info in runs {
        for what in info.problem.iter().chain(&info.fall) {
            text += &format!("{}: {what}\n", info.run);
        }
    }
    text
}

fn row(info: &RunInfo) -> [String; 9] {
    let state = state_word(info.state);
    let unknown = || "?".to_owned();
    [
        info.run.to_string(),
        info.started_ms.map_or_else(unknown, time),
        state.to_owned(),
        info.policy.as_ref().map_or_else(unknown, policy_and_model),
        info.suites.join(", "),
        format!("{}/{}", info.closed, info.slots),
        info.passed.to_string(),
        info.faulted.to_string(),
        info.size_bytes.map_or_else(unknown, size),
    ]
}

/// A size in a fitting unit.
fn size(bytes: u64) -> String {
    match bytes {
        0..1_024 => format!("{bytes} B"),
        1_024..1_048_576 => format!("{} KiB", bytes >> 10),
        1_048_576..10_737_418_240 => format!("{} MiB", bytes >> 20),
        _ => format!("{} GiB", bytes >> 30),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_fitting_units() {
        let check = |bytes, expected: &str| assert_eq!(size(bytes), expected);
        check(0, "0 B");
        check(1_023, "1023 B");
        check(5 << 10, "5 KiB");
        check(9_999 << 20, "9999 MiB");
        check(10 << 30, "10 GiB");
    }
}
