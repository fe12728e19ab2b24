//! Assessments as Markdown for pull requests and step summaries of GitHub.
//!
//! M1. The text has at most [`MARKDOWN_BYTES`], because GitHub refuses comments beyond 65,536 characters. Omitted parts are counted, and no table
//! or fold is cut in the middle. M2. The verdicts of all gates come first, then the tasks that became worse, then folded details. M3. Names
//! and sentences are escaped.
//!
//! Pure; nothing to cancel.

use super::escape::{markdown_name, markdown_text};
use super::json::worst;
use super::part::fallen;
use super::words::{MetricRow, counted, counts};
use crate::assessment::{Assessment, InterimResult, Outcome, TaskChange};

/// Maximum bytes, and so maximum characters.
pub const MARKDOWN_BYTES: usize = 60_000;
/// Characters of a sentence.
const MAX_SENTENCE: usize = 400;
/// Maximum number of reasons before the numbers; the report contains all.
const MAX_REASONS: usize = 20;
/// Tasks of a gate that are named before the fold.
const NAMED_TASKS: usize = 20;
/// Bytes reserved for the note about omitted parts.
const NOTE_BYTES: usize = 200;

/// Renders all gates.
#[must_use]
pub fn markdown(gates: &[Assessment]) -> String {
    let mut page = Page::new(MARKDOWN_BYTES - NOTE_BYTES);
    page.push(&headline(gates));
    // The verdicts of all gates come first, so that the details of one gate never crowd out the verdict of another.
    let mut left = LeftOut::default();
    // The reasons of one gate never crowd out another gate.
    let most = page.room / (2 * gates.len().max(1));
    let shown = gates.iter().take_while(|gate| page.push(&verdict(gate, most))).count();
    left.gates = gates.len() - shown;
    let gates = &gates[..shown];
    for gate in gates {
        let worse: Vec<String> = fallen(gate).into_iter().map(task_row).collect();
        if !worse.is_empty() {
            let (named, folded) = worse.split_at(worse.len().min(NAMED_TASKS));
            let title = format!(
                "\n**{} passes less often at** ({}):\n\n",
                markdown_name(&gate.gate),
                counted(worse.len() as u64, "task")
            );
            left.tasks += page.table(&title, TASK_HEAD, named, "");
            if !folded.is_empty() {
                let open = fold(&format!("{} more", folded.len()));
                left.tasks += page.table(&open, TASK_HEAD, folded, FOLD_END);
            }
        }
    }
    for gate in gates {
        details(&mut page, gate, &mut left);
    }
    page.finish(&left)
}

fn mark(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Pass => "✅",
        Outcome::Inconclusive => "⚠️",
        Outcome::Fail => "❌",
    }
}

fn headline(gates: &[Assessment]) -> String {
    let of = |outcome: Outcome| gates.iter().filter(|gate| gate.outcome == outcome).count();
    let outcome = worst(gates);
    let rest = match (gates.len(), outcome) {
        (0, _) => "no gates were judged".to_owned(),
        (1, _) => outcome.name().to_owned(),
        (all, Outcome::Pass) => format!("all {all} gates pass"),
        (all, worst) => format!(
            "{} of {all} gates {}",
            of(worst),
            if worst == Outcome::Fail { "fail" } else { "are inconclusive" }
        ),
    };
    format!("## {} Agent quality: {rest}\n", mark(outcome))
}

/// One gate: its verdict, reasons and numbers. Reasons take about `most` bytes.
fn verdict(gate: &Assessment, most: usize) -> String {
    let mut text =
        format!("\n### {} {}: {}\n\n", mark(gate.outcome), markdown_name(&gate.gate), gate.outcome.name());
    let mut told = 0;
    for reason in &gate.reasons {
        if told >= MAX_REASONS || text.len() > most {
            text += &format!("- and {} more\n", gate.reasons.len() - told);
            break;
        }
        text += &format!("- {}\n", markdown_text(reason, MAX_SENTENCE));
        told += 1;
    }
    if told > 0 {
        text.push('\n');
    }
    text + &metrics(gate)
}

fn metrics(gate: &Assessment) -> String {
    if gate.metrics.is_empty() {
        return String::new();
    }
    let mut text =
        "| metric | baseline | candidate | worse by | interval | tolerance | min_effect | verdict |\n\
                    | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |\n"
            .to_owned();
    for metric in &gate.metrics {
        let row = MetricRow::of(metric);
        let outcome = metric.outcome();
        text += &format!(
            "| {} | {} | {} | {} | {} | {} | {} | {} {} |\n",
            markdown_name(&metric.name),
            row.baseline,
            row.candidate,
            row.worse_by,
            row.interval,
            row.tolerated,
            row.min_effect,
            mark(outcome),
            outcome.name(),
        );
    }
    text
}

const TASK_HEAD: &str = "| task | before | now | flaky | look at |\n| --- | --- | --- | --- | --- |\n";

fn task_row(task: &TaskChange) -> String {
    let look = task.sample.map_or_else(String::new, |slot| slot.to_string());
    format!(
        "| {} | {} | {} | {} | {look} |\n",
        markdown_name(&task.task),
        counts(&task.baseline),
        counts(&task.candidate),
        if task.flaky { "flaky" } else { "" },
    )
}

fn fold(title: &str) -> String {
    format!("\n<details><summary>{title}</summary>\n\n")
}

const FOLD_END: &str = "\n</details>\n";

fn details(page: &mut Page, gate: &Assessment, left: &mut LeftOut) {
    let name = markdown_name(&gate.gate);
    let mut text = fold(&format!("{name}: explanations"));
    let sentences = gate.metrics.iter().map(|metric| &metric.sentence);
    for sentence in sentences.chain(gate.each_task.iter().map(|tasks| &tasks.sentence)) {
        text += &format!("- {}\n", markdown_text(sentence, MAX_SENTENCE));
    }
    // Run names contain neither blanks nor Markdown syntax.
    text += &format!("- `clawrl show {} --slot SLOT` shows the attempts to look at\n", gate.run);
    text += &format!("- {}\n", basis(gate));
    text += FOLD_END;
    if !page.push(&text) {
        left.explanations += 1;
    }
    if !gate.interim_analyses.is_empty() {
        let rows: Vec<String> = gate.interim_analyses.iter().map(interim_row).collect();
        let open = fold(&format!("{name}: {} interim analyses", rows.len()));
        left.interim_analyses += page.table(&open, INTERIM_HEAD, &rows, FOLD_END);
    }
    let rows: Vec<String> = gate.tasks.iter().map(task_row).collect();
    if !rows.is_empty() {
        let open = fold(&format!("{name}: all {}", counted(rows.len() as u64, "task")));
        left.tasks += page.table(&open, TASK_HEAD, &rows, FOLD_END);
    }
}

/// Run, baseline and cost of the gate, in a line of Markdown.
fn basis(gate: &Assessment) -> String {
    let budget = &gate.budget;
    let cost = budget.cost_usd.map_or_else(String::new, |usd| format!(", {usd:.2} USD"));
    format!(
        "run `{}` against the baseline `{}`; {} in {:.1} minutes{cost}",
        gate.run,
        gate.baseline.run,
        counted(u64::from(budget.attempts), "attempt"),
        budget.minutes,
    )
}

const INTERIM_HEAD: &str = "| repeats | information | z | |\n| ---: | ---: | ---: | --- |\n";

fn interim_row(look: &InterimResult) -> String {
    format!(
        "| {} | {:.0} % | {} | {} |\n",
        look.repeats,
        100.0 * look.fraction,
        look.z.map_or_else(|| "n/a".to_owned(), |z| format!("{z:.2}")),
        markdown_text(&look.said, MAX_SENTENCE),
    )
}

/// Text with a size limit.
struct Page {
    text: String,
    room: usize,
}

impl Page {
    fn new(room: usize) -> Self {
        Self { text: String::new(), room }
    }

    /// Adds the whole text, or nothing and returns false.
    fn push(&mut self, text: &str) -> bool {
        let fits = self.text.len() + text.len() <= self.room;
        if fits {
            self.text.push_str(text);
        }
        fits
    }

    /// Adds as many rows as fit between `open` and `close`; returns the number of omitted rows.
    fn table(&mut self, open: &str, head: &str, rows: &[String], close: &str) -> usize {
        let mut table = format!("{open}{head}");
        let mut taken = 0;
        for row in rows {
            if self.text.len() + table.len() + row.len() + close.len() > self.room {
                break;
            }
            table += row;
            taken += 1;
        }
        if taken > 0 {
            self.text += &table;
            self.text += close;
        }
        rows.len() - taken
    }

    fn finish(mut self, left: &LeftOut) -> String {
        let LeftOut { gates, explanations, interim_analyses, tasks } = *left;
        let counts: Vec<String> = [
            (gates, "gate"),
            (explanations, "explanation"),
            (interim_analyses, "interim table"),
            (tasks, "row"),
        ]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| counted(count as u64, what))
        .collect();
        if !counts.is_empty() {
            // Within NOTE_BYTES.
            self.text += &format!("\n{} left out: the report has them.\n", counts.join(", "));
        }
        self.text
    }
}

/// Numbers of omitted parts.
#[derive(Default)]
struct LeftOut {
    gates: usize,
    explanations: usize,
    interim_analyses: usize,
    /// Rows of tables of tasks.
    tasks: usize,
}
