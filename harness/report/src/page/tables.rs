//! Tables of the page.

use std::collections::BTreeMap;
use std::fmt::Write;

use clawrl_record::{AttemptSummary, JournalState, Run, escape_html, percent};

use super::charts::interval;
use crate::stats::{GroupStats, Row, RunStats, TaskStats};
use crate::words::{k_share, share};

/// Rows of a long table that are folded; the rest is in the JSON.
const MAX_ROWS: usize = 500;
/// Tables up to this length stand open, and as many failures of a longer one.
const OPEN_ROWS: usize = 20;
/// Attempts of a task that its row leads to one by one.
const MAX_LINKS: usize = 6;

const HEADINGS: &str = "<th>slots<th>finished<th>passed<th>rate<th>95 % interval<th><th>score<th>reward\
                        <th>faults<th>open</tr></thead><tbody>\n";

/// Suites, and families in them.
pub(super) fn suites(page: &mut String, figures: &RunStats) {
    page.push_str("<h2>Suites and families</h2>\n<div class=\"wide\"><table><thead><tr><th>suite / family");
    page.push_str(HEADINGS);
    for suite in &figures.suites {
        row(page, &format!("><td><b>{}</b>", escape_html(&suite.suite)), &suite.total);
        for (family, of_family) in &suite.families {
            row(page, &format!(" class=\"family\"><td>{}", escape_html(family)), of_family);
        }
    }
    if figures.suites.len() > 1 {
        row(page, "><td><b>total</b>", &figures.total);
    }
    page.push_str("</tbody></table></div>\n");
}

/// Success in k tries.
pub(super) fn at_k(page: &mut String, figures: &RunStats) {
    if figures.at_k.len() < 2 {
        return;
    }
    page.push_str(
        "<h2>Success in k tries</h2>\n<div class=\"wide\"><table><thead><tr><th>k<th>pass@k: one of k passes\
         <th>95 % interval<th>pass^k: all of k pass<th>95 % interval<th>tasks</tr></thead><tbody>\n",
    );
    for figure in &figures.at_k {
        let (one, all) = (k_share(&figure.at_least_one), k_share(&figure.all));
        // Writing to a string does not fail, here and below.
        let _ = writeln!(
            page,
            "<tr><td>{}<td>{}<td>{}<td>{}<td>{}<td>{}</tr>",
            figure.k, one.0, one.1, all.0, all.1, figure.tasks
        );
    }
    page.push_str("</tbody></table></div>\n");
}

/// Table of faults.
pub(super) fn faults(page: &mut String, figures: &RunStats) {
    if figures.faults.is_empty() {
        return;
    }
    page.push_str(
        "<h2>Faults</h2>\n<p class=\"key\">Excluded from all rates above. A fault closes a slot if no retry helped.</p>\n\
         <table><thead><tr><th>boundary and code<th>attempts<th>slots closed</tr></thead><tbody>\n",
    );
    for fault in &figures.faults {
        let what = escape_html(&format!("{}/{}", fault.boundary, fault.code));
        let _ =
            writeln!(page, "<tr><td class=\"fault\">{what}<td>{}<td>{}</tr>", fault.attempts, fault.slots);
    }
    page.push_str("</tbody></table>\n");
}

/// Tasks, those that failed or broke first. Each leads to its attempts.
pub(super) fn tasks(page: &mut String, figures: &RunStats, run: &Run) {
    let slots = run.state().map_or(&[][..], JournalState::slots);
    let mut decisive: BTreeMap<u32, Vec<&AttemptSummary>> = BTreeMap::new();
    for (slot, state) in run.plan().slots.iter().zip(slots) {
        if let Some(attempt) = state.closing().filter(|attempt| !attempt.passed()) {
            decisive.entry(slot.task.0).or_default().push(attempt);
        }
    }
    // In a run of one suite its name need not stand in every row.
    let suite = figures.suites.first().filter(|_| figures.suites.len() == 1);
    let suite = suite.map(|suite| format!("{}/", suite.suite)).unwrap_or_default();
    let mut line = |task: &TaskStats| {
        let index = task.index.0;
        let name = task.task.strip_prefix(&suite).unwrap_or(&task.task);
        let attempts = decisive.get_mut(&index).map(std::mem::take).unwrap_or_default();
        format!(
            " id=\"t{index}\"><td><a href=\"#attempts-of-{index}\">{}</a><td class=\"attempts\">{}",
            escape_html(name),
            links(attempts, index)
        )
    };
    let rows = figures.tasks.iter().map(|task| (line(task), &task.row)).collect();
    long(page, ("Tasks", "tasks"), "task<th class=\"attempts\">failed or faulted", rows);
}

/// Attempts that closed a slot without a pass, those that broke first.
fn links(mut attempts: Vec<&AttemptSummary>, task: u32) -> String {
    attempts.sort_by_key(|attempt| !attempt.faulted());
    let mut cell = String::new();
    for attempt in attempts.iter().take(MAX_LINKS) {
        let class = if attempt.faulted() { "fault" } else { "failed" };
        // Writing to a string does not fail.
        let _ = write!(cell, "<a class=\"{class}\" href=\"#{0}\">{0}</a> ", attempt.attempt);
    }
    if let Some(more) = attempts.len().checked_sub(MAX_LINKS).filter(|more| *more > 0) {
        let _ = write!(cell, "<a href=\"#attempts-of-{task}\">{more} more</a>");
    }
    cell
}

/// Groups, those that failed or broke first.
pub(super) fn groups(page: &mut String, figures: &RunStats) {
    let name = |group: &GroupStats| format!("><td>g{} {}", group.group, escape_html(&group.task));
    let rows = figures.groups.iter().map(|group| (name(group), &group.row)).collect();
    long(page, ("Groups", "groups"), "group and task", rows);
}

/// Rank of a row: failures first, then open rows, then passed ones; failures with the lowest success first.
fn standing(row: &Row) -> (u8, f64) {
    let closed = row.finished + row.faulted;
    match (row.passed < closed, row.open > 0) {
        (true, _) => (0, f64::from(row.passed) / f64::from(closed)),
        (false, true) => (1, 0.0),
        (false, false) => (2, 0.0),
    }
}

/// A table with failures first. The rest of a long table is folded.
fn long(page: &mut String, (title, things): (&str, &str), heading: &str, mut rows: Vec<(String, &Row)>) {
    if rows.is_empty() {
        return;
    }
    // Rows that stand alike stay in the plan's order.
    rows.sort_by(|(_, a), (_, b)| {
        let (a, b) = (standing(a), standing(b));
        a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
    });
    let failed = rows.iter().filter(|(_, row)| standing(row).0 == 0).count();
    let said = match failed {
        0 => format!("None of {} {things} failed or had a fault.", rows.len()),
        _ => format!(
            "{failed} of {} {things} failed or had a fault in some attempt; they come first.",
            rows.len()
        ),
    };
    let _ = writeln!(page, "<h2 id=\"{things}\">{title}</h2>\n<p class=\"key\">{said}</p>");
    let unfolded = if rows.len() <= OPEN_ROWS { rows.len() } else { failed.min(OPEN_ROWS) };
    let (first, rest) = rows.split_at(unfolded);
    table(page, heading, first);
    if rest.is_empty() {
        return;
    }
    let _ = writeln!(page, "<details><summary>{} more {things}</summary>", rest.len());
    table(page, heading, &rest[..rest.len().min(MAX_ROWS)]);
    if let Some(left) = rest.len().checked_sub(MAX_ROWS).filter(|left| *left > 0) {
        let _ =
            writeln!(page, "<p class=\"key\">{left} more rows are in <code>clawrl report --json</code>.</p>");
    }
    page.push_str("</details>\n");
}

/// Table rows from their first cells, each with the attributes of its first tag.
fn table(page: &mut String, heading: &str, rows: &[(String, &Row)]) {
    if rows.is_empty() {
        return;
    }
    let _ = writeln!(
        page,
        "<div class=\"wide\"><table><thead><tr><th>{heading}<th>passed<th>faults<th>open<th>rate<th>95 % interval\
         <th>score<th>reward</tr></thead><tbody>"
    );
    for (cells, row) in rows {
        let (value, reach) = share(row.rate.as_ref());
        let _ = writeln!(
            page,
            "<tr{cells}<td>{}/{}<td>{}<td>{}<td>{value}<td>{reach}<td>{}<td>{}</tr>",
            row.passed,
            row.slots,
            faulted(row),
            row.open,
            number(row.mean_score),
            number(row.mean_reward),
        );
    }
    page.push_str("</tbody></table></div>\n");
}

fn number(value: Option<f64>) -> String {
    value.map_or_else(|| "n/a".to_owned(), |value| format!("{value:.3}"))
}

fn faulted(row: &Row) -> String {
    if row.faulted > 0 { format!("<span class=\"fault\">{}</span>", row.faulted) } else { "0".to_owned() }
}

/// `cells`: the text between `<tr` and the numbers.
fn row(page: &mut String, cells: &str, row: &Row) {
    let (value, reach) = share(row.rate.as_ref());
    let picture = row.rate.as_ref().map(interval).unwrap_or_default();
    let faults = faulted(row);
    let _ = writeln!(
        page,
        "<tr{cells}<td>{}<td>{}<td>{}<td>{value}<td>{reach}<td>{picture}<td>{}<td>{}<td>{faults}<td>{}</tr>",
        row.slots,
        row.finished,
        row.passed,
        number(row.mean_score),
        number(row.mean_reward),
        row.open,
    );
}

/// Cost of the policy, if known.
pub(super) fn tokens(page: &mut String, figures: &RunStats) {
    let rows = crate::words::token_rows(figures);
    if rows.is_empty() {
        return;
    }
    page.push_str("<h2>Tokens and cost</h2>\n<div class=\"wide\"><table><thead><tr>");
    for heading in crate::words::TOKEN_HEADINGS {
        let _ = write!(page, "<th>{heading}");
    }
    page.push_str("</tr></thead><tbody>\n");
    for cells in rows {
        page.push_str("<tr>");
        for cell in cells {
            let _ = write!(page, "<td>{}", escape_html(&cell));
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody></table></div>\n");
    if let Some(note) = crate::words::token_note(figures) {
        let _ = writeln!(page, "<p class=\"key\">{}.</p>", escape_html(&note));
    }
}

/// The rate in figures, for the tile at the top.
pub(super) fn headline(rate: &clawrl_record::Rate) -> String {
    format!(
        "{} <span class=\"soft\">{} to {}</span>",
        percent(rate.value),
        percent(rate.low),
        percent(rate.high)
    )
}
