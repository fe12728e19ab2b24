//! The end of a run: summary, open slots and exit code.

use std::path::PathBuf;

use clawrl_core::SlotId;
use clawrl_record::{LimitNotSet, Run, RunSummary, RunWriter, render_summary};
use clawrl_runtime::{Ended, is_used_up, recorded_end};
use clawrl_scheduler::{RunEnd, RunError, RunReport};
use serde::Serialize;

use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::log::Log;
use crate::output::{print, print_json};

/// Maximum open slots listed by name.
const OPEN_LISTED: usize = 8;

/// Context for reporting the end of a run.
#[derive(Debug)]
pub(super) struct Account {
    /// The command that resumes the run.
    pub(super) resume: String,
    /// Folder of its results.
    pub(super) dir: PathBuf,
    /// Word for its environments, such as `sandboxes`.
    pub(super) environments: &'static str,
    /// Cost limit, US dollars.
    pub(super) max_cost_usd: Option<f64>,
    /// Whether to print JSON.
    pub(super) json: bool,
}

/// The summary for `--json`.
#[derive(Serialize)]
struct Conclusion<'a> {
    summary: &'a RunSummary,
    dir: &'a PathBuf,
    exit_code: u8,
    open_slots: Vec<SlotId>,
    peak_environments: u32,
    limits_not_set: &'a [LimitNotSet],
    leftovers: &'a [String],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    policy_notes: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cost_limit: Option<CostNote>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resume: Option<&'a str>,
}

/// Cost and limit of a run.
#[derive(Debug, Clone, Copy, Serialize)]
struct CostNote {
    most_usd: f64,
    spent_usd: f64,
    /// Whether the limit ended the run.
    ended_the_run: bool,
}

impl CostNote {
    fn of(summary: &RunSummary, most_usd: f64, open: bool) -> Self {
        let usages = [&summary.total.usage, &summary.total.judge_usage];
        let nano =
            usages.into_iter().flatten().filter_map(|usage| usage.cost_nano_usd).fold(0, u64::saturating_add);
        Self { most_usd, spent_usd: nano as f64 / 1e9, ended_the_run: open && is_used_up(nano, most_usd) }
    }

    fn words(self) -> String {
        let Self { most_usd, spent_usd, ended_the_run } = self;
        let reached = if ended_the_run { ": reached, so that no further attempt was started" } else { "" };
        format!("cost limit  {spent_usd:.4} of {most_usd} USD spent{reached}\n")
    }
}

/// Journals the end, prints the summary, and decides the exit code.
pub(super) fn conclude(
    ended: Ended,
    writer: RunWriter,
    account: &Account,
    log: &Log,
) -> Result<Exit, Failure> {
    let Ended { report, error, limits_not_set, policy_notes } = ended;
    let summary = match writer.finish(recorded_end(report.end)) {
        Ok(summary) => summary,
        // The scheduler's error came first and is more specific.
        Err(unfinished) => return Err(unrecorded(error, unfinished.into(), account)),
    };
    let open = !report.left_open.is_empty();
    let cost = account.max_cost_usd.map(|most_usd| CostNote::of(&summary, most_usd, open));
    let exit = match exit_of(&report, error.as_ref(), summary.total.faulted) {
        // Slots are open although nothing failed.
        Exit::Success | Exit::Faulted if report.end == RunEnd::DemandClosed && open => Exit::Interrupted,
        exit => exit,
    };
    if account.json {
        print_json(&Conclusion {
            summary: &summary,
            dir: &account.dir,
            exit_code: exit.code(),
            open_slots: report.left_open.clone(),
            peak_environments: report.peak_environments,
            limits_not_set: &limits_not_set,
            leftovers: &report.leftovers,
            policy_notes,
            cost_limit: cost,
            resume: open.then_some(account.resume.as_str()),
        })?;
    } else {
        print(&format!(
            "\n{}\n{}",
            render_summary(&summary),
            cost.map_or_else(String::new, CostNote::words)
                + &closing_lines(&report, account, &limits_not_set, &policy_notes, summary.total.faulted)
        ))?;
    }
    if report.lost_executors > 0 {
        log.warn(format_args!("{} attempts were still busy and were given up", report.lost_executors));
    }
    for leftover in &report.leftovers {
        log.warn(format_args!("left behind: {leftover}"));
    }
    match error {
        None => Ok(exit),
        Some(error) => {
            let help = format!("what was recorded is valid; `{}` goes on", account.resume);
            Err(Failure::with_help(exit, error.to_string(), help))
        }
    }
}

/// Prints the summary of a finished run.
pub(super) fn tell_finished(run: &Run, json: bool) -> Result<Exit, Failure> {
    let summary = run.summary();
    if json {
        print_json(&summary)?;
    } else {
        print(&format!("\n{}\nresults     {}\n", render_summary(&summary), run.dir().display()))?;
    }
    Ok(if summary.total.faulted > 0 { Exit::Faulted } else { Exit::Success })
}

fn unrecorded(error: Option<RunError>, unfinished: Failure, account: &Account) -> Failure {
    let message = match error {
        Some(RunError::Sink { source, .. }) => source.to_string(),
        Some(harness @ RunError::Harness { .. }) => format!("{harness}; and {unfinished}"),
        None => unfinished.to_string(),
    };
    let help = format!("what was recorded before is valid; `{}` goes on", account.resume);
    Failure::with_help(Exit::Results, message, help)
}

/// The gravest reason wins: internal errors, then lost records, interruptions, and faults.
pub(super) fn exit_of(report: &RunReport, error: Option<&RunError>, faulted: u32) -> Exit {
    match (error, report.end) {
        (Some(RunError::Harness { .. }), _) | (_, RunEnd::HarnessFault) => Exit::Internal,
        (Some(RunError::Sink { .. }), _) | (_, RunEnd::SinkFailed) => Exit::Results,
        _ if !report.leftovers.is_empty() => Exit::Internal,
        (None, RunEnd::Drained | RunEnd::Cancelled) => Exit::Interrupted,
        (None, RunEnd::TooManyFaults) => Exit::Faulted,
        (None, RunEnd::Completed | RunEnd::DemandClosed) if faulted > 0 => Exit::Faulted,
        (None, RunEnd::Completed | RunEnd::DemandClosed) => Exit::Success,
    }
}

fn closing_lines(
    report: &RunReport,
    account: &Account,
    limits_not_set: &[LimitNotSet],
    policy_notes: &[String],
    faulted: u32,
) -> String {
    let mut text = format!(
        "{:<11} {} at once at most, {} left behind\n",
        account.environments,
        report.peak_environments,
        report.leftovers.len()
    );
    if !limits_not_set.is_empty() {
        let limits: Vec<&str> = limits_not_set.iter().map(|limit| limit.limit.as_str()).collect();
        text += &format!("not limited {}\n", limits.join("; "));
    }
    for note in policy_notes {
        text += &format!("policy      {note}\n");
    }
    if !report.left_open.is_empty() {
        let listed: Vec<String> = report.left_open.iter().take(OPEN_LISTED).map(SlotId::to_string).collect();
        let more = report.left_open.len().saturating_sub(OPEN_LISTED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        text += &format!("open        {}{more}\n", listed.join(", "));
        text += &format!("go on with  {}\n", account.resume);
    } else if faulted > 0 {
        text += &format!("try again   {} --retry-faulted\n", account.resume);
    }
    text + &format!("results     {}\n", account.dir.display())
}
