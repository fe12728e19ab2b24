//! `clawrl ls`: list runs.

use clawrl_record::{RunInfo, RunState};

use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::output::{print, print_json};
use crate::results::ResultsArguments;
use crate::table::aligned;

/// Lists runs, the latest first.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  clawrl ls --json")]
pub(crate) struct Arguments {
    #[command(flatten)]
    results: ResultsArguments,
    /// Print them as JSON.
    #[arg(long)]
    json: bool,
}

/// Does it.
pub(crate) fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let runs = arguments.results.store()?.list()?;
    if arguments.json {
        print_json(&runs)?;
    } else if runs.is_empty() {
        print(&format!("no runs in {}\n", arguments.results.dir().display()))?;
    } else {
        print(&listing(&runs))?;
    }
    Ok(Exit::Success)
}

/// The runs as a table, with what is wrong with them below.
pub(super) fn listing(runs: &[RunInfo]) -> String {
    let rows: Vec<[String; 8]> = runs.iter().map(row).collect();
    let headings = ["run", "started (UTC)", "state", "policy", "suites", "closed", "passed", "faulted"];
    let mut text = aligned(headings, [false, false, false, false, false, true, true, true], &rows);
    for info in runs {
        for what in info.problem.iter().chain(&info.fall) {
            text += &format!("{}: {what}\n", info.run);
        }
    }
    text
}

fn row(info: &RunInfo) -> [String; 8] {
    let policy = info.policy.as_ref().map_or("?", super::policy_name);
    let state = match info.state {
        RunState::Running => "running",
        RunState::Finished => "finished",
        RunState::Interrupted => "interrupted",
        RunState::Damaged => "damaged",
    };
    [
        info.run.to_string(),
        info.started_ms.map_or("?".to_owned(), time),
        state.to_owned(),
        policy.to_owned(),
        info.suites.join(", "),
        format!("{}/{}", info.closed, info.slots),
        info.passed.to_string(),
        info.faulted.to_string(),
    ]
}

fn time(ms: u64) -> String {
    let at = i64::try_from(ms).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    at.map_or("?".to_owned(), |at| at.strftime("%Y-%m-%d %H:%M:%S").to_string())
}
