//! Renders assessments as GitHub annotations: one line each, printed to the log of a job.
//!
//! A1. One line per gate, then one per part that does not pass and is not a reason of the gate, worst first; at most [`MAX_ANNOTATIONS`] of a kind, because GitHub shows
//! no more per step, and the rest is counted. A2. Fails are errors, inconclusive results warnings, passes notices.
//!
//! Pure; nothing to cancel.
//! Source: workflow commands for GitHub Actions, "Setting an error message".

use super::escape::{command_data, command_property};
use super::part::{Part, parts};
use crate::assessment::{Assessment, Outcome};

/// Annotations of one kind that GitHub shows of a step.
const MAX_ANNOTATIONS: usize = 10;

struct Line {
    outcome: Outcome,
    title: String,
    said: String,
}

/// The lines, each with its end.
#[must_use]
pub fn annotations(gates: &[Assessment]) -> String {
    let of_gate = |gate: &Assessment| {
        let reasons = gate.reasons.join("\n");
        let said = if reasons.is_empty() { sentences(gate) } else { reasons };
        Line { outcome: gate.outcome, title: format!("{}: {}", gate.gate, gate.outcome.name()), said }
    };
    let mut lines: Vec<Line> = gates.iter().map(of_gate).collect();
    for gate in gates {
        let is_new = |part: &Part<'_>| part.outcome != Outcome::Pass && !gate.reasons.contains(&part.said);
        let worse = parts(gate).into_iter().filter(is_new);
        lines.extend(worse.map(|part| Line {
            outcome: part.outcome,
            title: format!("{} / {}", gate.gate, part.name),
            said: part.said,
        }));
    }
    // The order within an outcome is kept.
    lines.sort_by_key(|line| std::cmp::Reverse(line.outcome));
    let mut text = String::new();
    for outcome in [Outcome::Fail, Outcome::Inconclusive, Outcome::Pass] {
        let of_kind: Vec<&Line> = lines.iter().filter(|line| line.outcome == outcome).collect();
        let shown = if of_kind.len() > MAX_ANNOTATIONS { MAX_ANNOTATIONS - 1 } else { of_kind.len() };
        of_kind.iter().take(shown).for_each(|line| push(&mut text, outcome, &line.title, &line.said));
        if shown < of_kind.len() {
            let said = format!("{} more are in the report", of_kind.len() - shown);
            push(&mut text, outcome, "clawrl ci", &said);
        }
    }
    text
}

fn sentences(gate: &Assessment) -> String {
    let metrics = gate.metrics.iter().map(|metric| metric.sentence.as_str());
    let tasks = gate.each_task.iter().map(|tasks| tasks.sentence.as_str());
    metrics.chain(tasks).collect::<Vec<_>>().join("\n")
}

fn push(text: &mut String, outcome: Outcome, title: &str, said: &str) {
    let command = match outcome {
        Outcome::Fail => "error",
        Outcome::Inconclusive => "warning",
        Outcome::Pass => "notice",
    };
    *text += &format!("::{command} title={}::{}\n", command_property(title), command_data(said));
}
