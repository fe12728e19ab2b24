//! `clawrl clean`: deletes runs and leftovers of dead processes.
//!
//! I1. Everything deleted was listed and confirmed before. I2. A running run is never deleted.

use std::io::{BufRead, IsTerminal};
use std::time::Duration;

use clawrl_core::RunId;
use clawrl_record::{RunInfo, RunState, RunStore};
use clawrl_runtime::{host::engine, parse_run_name};
use clawrl_sandbox::{CgroupHost, sweep_orphans};
use serde::Serialize;

use super::ls;
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::log::Log;
use crate::output::{print, print_json};
use crate::results::ResultsArguments;

/// Deletes runs, or cleans up after dead processes.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  clawrl clean --older-than 7d\n  clawrl clean my-run --yes\n  clawrl clean --orphans"
)]
pub(crate) struct Arguments {
    /// Runs to delete.
    #[arg(value_name = "RUN", value_parser = parse_run_name)]
    runs: Vec<RunId>,
    /// Delete runs that began longer ago than this, such as 90s, 30m, 12h, 7d or 4w.
    #[arg(long, value_name = "TIME", value_parser = age, conflicts_with_all = ["runs", "all"])]
    older_than: Option<Duration>,
    /// Delete every run that is not in progress.
    #[arg(long, conflicts_with = "runs")]
    all: bool,
    /// Do not ask for confirmation.
    #[arg(long)]
    yes: bool,
    /// Kill leftover processes and remove control groups and containers of runs whose process is dead.
    #[arg(long)]
    orphans: bool,
    #[command(flatten)]
    results: ResultsArguments,
    /// Print the deleted items as JSON.
    #[arg(long)]
    json: bool,
}

fn age(text: &str) -> Result<Duration, String> {
    let wrong = || "write a number and a unit: 90s, 30m, 12h, 7d or 4w".to_owned();
    let unit = text.chars().next_back().ok_or_else(wrong)?;
    let number: u64 = text.strip_suffix(unit).and_then(|number| number.parse().ok()).ok_or_else(wrong)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        'w' => 604_800,
        _ => return Err(wrong()),
    };
    number.checked_mul(seconds).map(Duration::from_secs).ok_or_else(wrong)
}

/// Result for `--json`.
#[derive(Debug, Default, Serialize)]
struct Cleaned {
    runs: Vec<RunId>,
    processes: u32,
    control_groups: u32,
    containers: u32,
    leftovers: Vec<String>,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments, log: &Log) -> Result<Exit, Failure> {
    let by_choice = !arguments.runs.is_empty() || arguments.all || arguments.older_than.is_some();
    if !by_choice && !arguments.orphans {
        let help = "name runs, or say --older-than 7d, --all or --orphans; `clawrl ls` lists the runs";
        return Err(Failure::with_help(Exit::Refused, "nothing was said about what to delete", help));
    }
    let mut cleaned = Cleaned::default();
    if arguments.orphans {
        let report = sweep_orphans(&CgroupHost::detect());
        (cleaned.processes, cleaned.control_groups) = (report.processes, report.cgroups);
        cleaned.leftovers = report.leftovers.iter().map(|path| path.display().to_string()).collect();
        // Without a container engine there are no leftover containers.
        if let Ok(report) = engine::sweep() {
            cleaned.containers = report.containers;
            cleaned.leftovers.extend(report.leftovers);
        }
    }
    if by_choice {
        let store = arguments.results.store()?;
        let chosen = chosen(arguments, &store)?;
        if !chosen.is_empty() && agreed(arguments, &chosen, log)? {
            for info in &chosen {
                store.remove_run(&info.run)?;
                cleaned.runs.push(info.run.clone());
            }
        }
    }
    tell(&cleaned, arguments)?;
    Ok(if cleaned.leftovers.is_empty() { Exit::Success } else { Exit::Internal })
}

fn chosen(arguments: &Arguments, store: &RunStore) -> Result<Vec<RunInfo>, Failure> {
    if !arguments.runs.is_empty() {
        let mut infos = Vec::new();
        for run in &arguments.runs {
            // A named run that does not exist is an error; a damaged one can be deleted.
            if let Err(missing @ clawrl_record::RecordError::NoSuchRun { .. }) = store.run(run) {
                return Err(missing.into());
            }
            infos.push(store.info(run));
        }
        return Ok(infos);
    }
    let now = u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap_or(0);
    let old = |info: &RunInfo| match (arguments.older_than, info.started_ms) {
        (None, _) => true,
        (Some(age), Some(started)) => u128::from(now.saturating_sub(started)) >= age.as_millis(),
        // The age of an unreadable run is unknown.
        (Some(_), None) => false,
    };
    // Runs that this user cannot read belong to another user.
    let stays = |info: &RunInfo| matches!(info.state, RunState::Running | RunState::Unreadable);
    Ok(store.list()?.into_iter().filter(|info| !stays(info) && old(info)).collect())
}

fn agreed(arguments: &Arguments, chosen: &[RunInfo], log: &Log) -> Result<bool, Failure> {
    if arguments.yes {
        return Ok(true);
    }
    log.write(&ls::listing(&chosen.iter().collect::<Vec<_>>()));
    if !std::io::stdin().is_terminal() {
        let message = format!("{} would be deleted, and nobody is there to ask", counted(chosen.len()));
        return Err(Failure::with_help(Exit::Refused, message, "say --yes"));
    }
    log.write(&format!("delete {}? [y/N] ", counted(chosen.len())));
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    Ok(read.is_ok() && matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn counted(runs: usize) -> String {
    if runs == 1 { "1 run".to_owned() } else { format!("{runs} runs") }
}

fn tell(cleaned: &Cleaned, arguments: &Arguments) -> Result<(), Failure> {
    if arguments.json {
        return print_json(cleaned);
    }
    let mut text = String::new();
    if arguments.orphans {
        text += &format!(
            "{} processes ended, {} control groups removed, {} containers removed\n",
            cleaned.processes, cleaned.control_groups, cleaned.containers
        );
    }
    for leftover in &cleaned.leftovers {
        text += &format!("cannot remove {leftover}\n");
    }
    if !(cleaned.runs.is_empty() && arguments.orphans) {
        text += &format!("{} deleted\n", counted(cleaned.runs.len()));
    }
    print(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_units() {
        let check = |text: &str, expected: Option<u64>| {
            assert_eq!(age(text).ok().map(|age| age.as_secs()), expected, "{text}");
        };
        check("90s", Some(90));
        check("7d", Some(604_800));
        check("0h", Some(0));
        check("7", None);
        check("d", None);
        check("", None);
        check("-1d", None);
        check("99999999999999999999w", None);
        check("1µ", None);
    }
}
