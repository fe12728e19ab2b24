//! `clawrl show`: results of a run and its attempts.

use std::fs;
use std::path::{Path, PathBuf};

use clawrl_core::{AttemptId, AttemptRecord, Observation, Outcome, Role, SlotId};
use clawrl_record::{
    AttemptSummary, Ending, HeldOut, JudgedTurn, Run, RunSummary, best_of, blob_path, render_held_out,
    render_summary,
};
use clawrl_report::{cancel_text, end_word, ending_word, stop_text};
use clawrl_runtime::parse_run_name;
use clawrl_runtime::validation::call_text;
use serde::Serialize;

use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::output::{print, print_json};
use crate::results::ResultsArguments;
use crate::table::aligned;

/// Shows the results of a run and the steps of its attempts.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  clawrl show my-run --failed\n  clawrl show my-run --attempt s12.0 --cast s12.cast"
)]
pub(crate) struct Arguments {
    /// Name of the run.
    #[arg(value_parser = parse_run_name)]
    run: clawrl_core::RunId,
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    results: ResultsArguments,
    /// Write the attempt's terminal recording to this file (asciicast v2; `asciinema play FILE`).
    #[arg(long, value_name = "FILE", requires = "attempt")]
    cast: Option<PathBuf>,
    /// Print the same as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
#[group(multiple = false)]
struct Which {
    /// Show one attempt, turn by turn.
    #[arg(long, value_name = "ATTEMPT", value_parser = attempt_id)]
    attempt: Option<AttemptId>,
    /// List the attempts of one slot.
    #[arg(long, value_name = "SLOT", value_parser = slot_id)]
    slot: Option<SlotId>,
    /// List attempts that ended with a fault, and the causes.
    #[arg(long)]
    faulted: bool,
    /// List attempts that were graded and did not pass.
    #[arg(long)]
    failed: bool,
}

fn slot_id(text: &str) -> Result<SlotId, String> {
    let number = text.strip_prefix('s').unwrap_or(text).parse();
    number.map(SlotId).map_err(|_| "a slot is written s12".to_owned())
}

fn attempt_id(text: &str) -> Result<AttemptId, String> {
    let wrong = || "an attempt is written s12.0: slot 12, first try".to_owned();
    let (slot, number) = text.split_once('.').ok_or_else(wrong)?;
    Ok(AttemptId { slot: slot_id(slot).map_err(|_| wrong())?, number: number.parse().map_err(|_| wrong())? })
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<Exit, Failure> {
    let run = arguments.results.store()?.run(&arguments.run)?;
    let which = &arguments.which;
    if let Some(attempt) = which.attempt {
        return one(&run, attempt, arguments);
    }
    let wanted = |summary: &&AttemptSummary| {
        if let Some(slot) = which.slot {
            return summary.attempt.slot == slot;
        }
        (which.faulted && summary.faulted())
            || (which.failed && matches!(summary.ending, Ending::Finished { passed: false, .. }))
    };
    let attempts: Vec<&AttemptSummary> = run.attempts().filter(wanted).collect();
    let listed = which.slot.is_some() || which.faulted || which.failed;
    match (arguments.json, listed) {
        (true, true) => {
            print_json(&attempts.iter().map(|summary| row(&run, summary)).collect::<Result<Vec<_>, _>>()?)?
        }
        (true, false) => print_json(&Overview { summary: run.summary(), held_out: run.held_out()? })?,
        (false, true) => print(&listing(&run, &attempts)?)?,
        (false, false) => print(&overview(&run, &arguments.results)?)?,
    }
    Ok(Exit::Success)
}

/// Result of a run.
#[derive(Serialize)]
struct Overview {
    #[serde(flatten)]
    summary: RunSummary,
    /// Evaluations of a training.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    held_out: Vec<HeldOut>,
}

fn overview(run: &Run, results: &ResultsArguments) -> Result<String, Failure> {
    let summary = run.summary();
    let state = match (run.is_running(), summary.end) {
        (true, _) => "running now".to_owned(),
        (false, Some(end)) => end_word(end).to_owned(),
        (false, None) => "its process died".to_owned(),
    };
    let mut text =
        format!("run {}, policy {}, {state}\n\n{}", summary.run, summary.policy, render_summary(&summary));
    if let Ok(lock) = run.lock_file()
        && !lock.limits_not_set.is_empty()
    {
        text += "\nlimits that could not be set\n";
        for limit in &lock.limits_not_set {
            text += &format!("  {} ({})\n", limit.limit, limit.reason);
        }
    }
    if let Some(tail) = run.torn_tail() {
        text += &format!(
            "\nthe last {} bytes of the journal are incomplete; `--resume` removes them\n",
            tail.bytes
        );
    }
    let held_out = run.held_out()?;
    if !held_out.is_empty() {
        text += &format!("\nheld-out tasks, greedy\n{}", render_held_out(&held_out));
    }
    if let Some(best) = best_of(&held_out)
        && held_out.iter().rfind(|at| !at.given_up) != Some(best)
    {
        let (name, version, folder) = (&summary.run, best.version, results.repeated());
        text += &format!("to go back to the best: clawrl policy rollback {name} --to {version}{folder}\n");
    }
    Ok(text + &format!("\nresults  {}\n", run.dir().display()))
}

/// An attempt in a listing.
#[derive(Serialize)]
struct Row<'a> {
    attempt: String,
    task: &'a str,
    #[serde(flatten)]
    summary: &'a AttemptSummary,
    /// Text of the fault, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

fn row<'a>(run: &'a Run, summary: &'a AttemptSummary) -> Result<Row<'a>, Failure> {
    let message = match &summary.ending {
        Ending::Faulted { .. } => match run.trajectory(summary.attempt)?.outcome {
            Outcome::Faulted(fault) => Some(fault.message),
            Outcome::Finished { .. } | Outcome::Cancelled(_) => None,
        },
        Ending::Finished { .. } | Ending::Cancelled(_) => None,
    };
    Ok(Row {
        attempt: summary.attempt.to_string(),
        task: task_name(run, summary.attempt.slot),
        summary,
        message,
    })
}

fn listing(run: &Run, attempts: &[&AttemptSummary]) -> Result<String, Failure> {
    if attempts.is_empty() {
        return Ok("no such attempts\n".to_owned());
    }
    let mut rows = Vec::new();
    for summary in attempts {
        let row = row(run, summary)?;
        let ending = match (&summary.ending, row.message) {
            (_, Some(message)) => format!("{}: {message}", ending_word(&summary.ending)),
            (ending, None) => ending_word(ending),
        };
        rows.push([row.attempt, row.task.to_owned(), summary.turns.to_string(), ending]);
    }
    Ok(aligned(["attempt", "task", "turns", "ending"], [false, false, true, false], &rows))
}

fn task_name(run: &Run, slot: SlotId) -> &str {
    let plan = run.plan();
    plan.slots.get(slot.0 as usize).map_or("", |slot| plan.task_of(slot).id.0.as_str())
}

fn one(run: &Run, attempt: AttemptId, arguments: &Arguments) -> Result<Exit, Failure> {
    let record = run.trajectory(attempt)?;
    let judged = run.judgements(attempt)?;
    if let Some(path) = &arguments.cast {
        write_cast(&record, path)?;
    }
    if arguments.json {
        print_json(&Shown { record: &record, judged: &judged })?;
    } else {
        print(&told(run, &record, &judged))?;
    }
    Ok(Exit::Success)
}

/// An attempt with the judges' votes on its turns.
#[derive(Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    record: &'a AttemptRecord,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    judged: &'a [JudgedTurn],
}

fn write_cast(record: &AttemptRecord, path: &Path) -> Result<(), Failure> {
    let Some(cast) = &record.trajectory.cast else {
        let help = "runs with --no-cast record none, nor do attempts that got no terminal";
        let message = format!("attempt {} has no recording", record.attempt);
        return Err(Failure::with_help(Exit::Refused, message, help));
    };
    fs::write(path, cast)
        .map_err(|error| Failure::new(Exit::Results, format!("cannot write {}: {error}", path.display())))
}

fn told(run: &Run, record: &AttemptRecord, judged: &[JudgedTurn]) -> String {
    let mut text = format!("attempt {} at {}\n", record.attempt, task_name(run, record.attempt.slot));
    for message in &record.trajectory.prompt {
        text += &indented(role_word(message.role), &message.joined_text());
    }
    text += &pictures(&record.trajectory.reset);
    for (number, turn) in record.trajectory.turns.iter().enumerate() {
        let said = match turn.calls.as_slice() {
            [] => turn.reply.joined_text(),
            calls => calls.iter().map(call_text).collect::<Vec<_>>().join("\n"),
        };
        text += &indented(&format!("turn {}", number + 1), &said);
        text += &indented("saw", &turn.observation.joined_text());
        text += &pictures(&turn.observation);
        let of_turn = judged.iter().filter(|judged| usize::try_from(judged.turn) == Ok(number));
        text += &of_turn.map(said_of).collect::<String>();
    }
    match &record.outcome {
        Outcome::Finished { stop, grade, reward } => {
            let stop = stop_text(stop);
            text += &format!("\nended    {stop}, score {:.3}, reward {reward:.3}\n", grade.score);
            for check in &grade.checks {
                text += &format!("check    {:.2} {}: {}\n", check.score, check.label, check.message);
            }
        }
        // Indented, so that program output cannot pass for ours.
        Outcome::Faulted(fault) => text += &format!("\n{}\n", fault.to_string().replace('\n', "\n  ")),
        Outcome::Cancelled(reason) => text += &format!("\ncancelled: {}\n", cancel_text(*reason)),
    }
    text
}

fn role_word(role: Role) -> &'static str {
    match role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    }
}

/// Judges' votes on a turn.
fn said_of(judged: &JudgedTurn) -> String {
    let process = judged.process.as_ref().map(|judgement| indented("judged", &judgement.summary()));
    let hint = judged.hint.as_ref().map(|judgement| match judgement.hints().as_slice() {
        [] => indented("no hint", &judgement.summary()),
        hints => indented("hint", &hints.join("\n")),
    });
    process.into_iter().chain(hint).collect()
}

/// Paths of pictures, one per line.
fn pictures(observation: &Observation) -> String {
    let files = observation.all_pictures().filter_map(|picture| blob_path(&picture));
    files.map(|file| format!("picture  {file}\n")).collect()
}

fn indented(title: &str, text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let mut out = format!("\n{title:<8} {}\n", lines.first().copied().unwrap_or_default());
    for line in lines.iter().skip(1) {
        out += &format!("         {line}\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_are_read_as_they_are_shown() {
        let check = |text: &str, expected: Option<&str>| {
            assert_eq!(
                attempt_id(text).ok().map(|attempt| attempt.to_string()).as_deref(),
                expected,
                "{text}"
            );
        };
        check("s12.0", Some("s12.0"));
        check("12.3", Some("s12.3"));
        check("s12", None);
        check("x.0", None);
    }
}
