//! A comparison as text for terminals: at most 100 columns for usual names.
//!
//! T1. A function of the comparison and both records: no clock, no colour.

use clawrl_core::printable_line;
use clawrl_gates::Change;
use clawrl_record::{Run, aligned};

use super::columns::beside;
use super::compared::story;
use super::difference::DifferencePlace;
use super::error::CompareError;
use super::model::{Flip, MetricComparison, RunComparison, SuiteComparison, TaskComparison, Turned};
use super::story::{Story, TurnTexts};
use crate::render::{NONE, counted, counts, interval, signed, unsigned};

/// Shown turns of two attempts: one before the first difference, the others after it.
const TURNS_BEFORE: usize = 1;
const TURNS_AFTER: usize = 2;
/// Tasks of a list that are named.
const MAX_NAMES: usize = 10;
/// Rows of flipped tasks.
const MAX_ROWS: usize = 50;

/// Renders the text, every line with a newline, including both attempts of up to `flips` flipped tasks.
///
/// # Errors
/// [`CompareError::Record`] for a trajectory that cannot be read.
pub fn render_comparison(
    comparison: &RunComparison,
    baseline: &Run,
    candidate: &Run,
    most_flips: usize,
) -> Result<String, CompareError> {
    let mut text = String::new();
    for (side, run) in [("baseline ", &comparison.baseline), ("candidate", &comparison.candidate)] {
        text += &format!("{side}  {}, policy {}, {}\n", run.run, run.policy, run.state);
    }
    for note in &comparison.notes {
        text += &format!("  {note}\n");
    }
    text += &format!("\n{}", numbers(&comparison.suites));
    text += &format!("\n{}", flakiness(&comparison.tasks));
    text += &format!("\n{}", flips(comparison));
    for flip in comparison.flips.iter().take(most_flips) {
        text += &format!("\n{}", both(comparison, flip, baseline, candidate)?);
    }
    if let Some(more) = comparison.flips.len().checked_sub(most_flips).filter(|more| *more > 0) {
        text += &format!("\n{more} more flipped: --flips N shows them, --html FILE all of them\n");
    }
    Ok(text)
}

fn numbers(suites: &[SuiteComparison]) -> String {
    let headings = ["suite / metric", "tasks", "baseline", "candidate", "change", "95 % interval", ""];
    let mut rows = vec![headings.map(str::to_owned)];
    for suite in suites {
        let name = suite.suite.as_deref().unwrap_or("all suites");
        let mut head: [String; 7] = Default::default();
        (head[0], head[1]) = (printable_line(name, 40), suite.tasks.to_string());
        rows.push(head);
        rows.extend(suite.metrics.iter().map(row));
    }
    aligned(&rows)
}

fn row(metric: &MetricComparison) -> [String; 7] {
    let unit = metric.unit;
    [
        format!("  {}", metric.metric),
        metric.tasks.to_string(),
        unsigned(unit, metric.baseline),
        unsigned(unit, metric.candidate),
        signed(unit, metric.difference),
        metric.interval.map_or_else(|| NONE.to_owned(), |(low, high)| interval(unit, low, high)),
        word(metric).to_owned(),
    ]
}

/// Direction of a significant change; empty otherwise.
pub(super) fn word(metric: &MetricComparison) -> &'static str {
    match metric.turned {
        Some(Turned::Better) => "better",
        Some(Turned::Worse) => "worse",
        None => "",
    }
}

fn flakiness(tasks: &[TaskComparison]) -> String {
    let flaky: Vec<&TaskComparison> = tasks.iter().filter(|task| task.is_flaky()).collect();
    let mut text = format!("flaky      {} of {}\n", flaky.len(), counted(tasks.len() as u64, "task"));
    for task in flaky.iter().take(MAX_NAMES) {
        text += &format!(
            "  {}: {}, then {}\n",
            printable_line(&task.task, 60),
            counts(&task.baseline),
            counts(&task.candidate)
        );
    }
    if let Some(more) = flaky.len().checked_sub(MAX_NAMES).filter(|more| *more > 0) {
        text += &format!("  and {more} more\n");
    }
    text
}

fn flips(comparison: &RunComparison) -> String {
    if comparison.flips.is_empty() {
        return "flipped    no task\n".to_owned();
    }
    let count = |turned| comparison.flips.iter().filter(|flip| flip.turned == turned).count();
    let mut rows = vec![["  task", "before", "now", "", ""].map(str::to_owned)];
    for flip in comparison.flips.iter().take(MAX_ROWS) {
        let task = comparison.task(&flip.task);
        let of = |side: fn(&TaskComparison) -> String| task.map(side).unwrap_or_default();
        rows.push([
            format!("  {}", printable_line(&flip.task, 60)),
            of(|task| counts(&task.baseline)),
            of(|task| counts(&task.candidate)),
            task.map_or("", change_word).to_owned(),
            if flip.flaky { "flaky".to_owned() } else { String::new() },
        ]);
    }
    format!("flipped    {} worse, {} better\n{}", count(Turned::Worse), count(Turned::Better), aligned(&rows))
}

/// Kind of a flip.
pub(super) fn change_word(task: &TaskComparison) -> &'static str {
    match task.known.map(|known| known.change) {
        Some(Change::Broke) => "broke",
        Some(Change::Mended) => "mended",
        Some(Change::Kept) | None => "mostly",
    }
}

/// Both attempts of a flipped task, around their first difference.
fn both(
    comparison: &RunComparison,
    flip: &Flip,
    baseline: &Run,
    candidate: &Run,
) -> Result<String, CompareError> {
    let (before, after) = (story(baseline, flip.baseline)?, story(candidate, flip.candidate)?);
    let place = flip.difference.place;
    let mut text = format!("{}: {place}\n", printable_line(&flip.task, 90));
    let title = |run: &clawrl_core::RunId, attempt, story: &Story| {
        let checks = story.unmet.join("\n");
        format!("{run} {attempt}, {}\n{}\n{checks}", counted(story.turns.len() as u64, "turn"), story.end)
    };
    text += &beside(
        &title(&comparison.baseline.run, flip.baseline, &before),
        &title(&comparison.candidate.run, flip.candidate, &after),
    );
    if place == DifferencePlace::Asked {
        text += "  asked\n";
        text += &beside(&parted(&before.asked, &after.asked), &parted(&after.asked, &before.asked));
    }
    let turns = before.turns.len().max(after.turns.len());
    let parts = place.turn().map_or(0, |turn| turn as usize - 1);
    let (from, to) = (parts.saturating_sub(TURNS_BEFORE), (parts + 1 + TURNS_AFTER).min(turns));
    if from > 0 {
        text += &format!("  … {}, the same on both sides\n", counted(from as u64, "earlier turn"));
    }
    for at in from..to {
        let mark = if place.turn().is_some() && at == parts { "  <- here" } else { "" };
        text += &format!("  turn {}{mark}\n", at + 1);
        text += &beside(&turn(before.turns.get(at)), &turn(after.turns.get(at)));
    }
    if to < turns {
        text += &format!(
            "  … {} more: clawrl show {} --attempt {}; clawrl show {} --attempt {}\n",
            counted((turns - to) as u64, "turn"),
            comparison.baseline.run,
            flip.baseline,
            comparison.candidate.run,
            flip.candidate
        );
    }
    Ok(text)
}

fn turn(texts: Option<&TurnTexts>) -> String {
    texts.map_or_else(|| "(has ended)".to_owned(), |TurnTexts { did, saw }| format!("> {did}\n{saw}"))
}

/// A text from the line before the first that another has not at the same place.
fn parted(text: &str, other: &str) -> String {
    let same = text.lines().zip(other.lines()).take_while(|(one, other)| one == other).count();
    let from = same.saturating_sub(1);
    let mark = if from > 0 { "…\n" } else { "" };
    format!("{mark}{}", text.lines().skip(from).collect::<Vec<_>>().join("\n"))
}
