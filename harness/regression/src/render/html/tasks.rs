//! The table of tasks, before and after.

use std::collections::BTreeMap;

use clawrl_gates::Change;

use super::chart;
use super::frame::{Frame, text};
use crate::assessment::{Assessment, TaskChange};
use crate::render::part::{fallen, rate};
use crate::render::words::{counted, counts};

/// Rows that the page shows; the rest is in the JSON.
const MAX_ROWS: usize = 500;
/// Number of rows up to which the table of all tasks is unfolded.
const OPEN_ROWS: usize = 20;

/// Tasks that pass less often, unfolded; and all tasks, folded if there are many.
pub(super) fn table(page: &mut Frame, gate: &Assessment) {
    let worse = fallen(gate);
    if !worse.is_empty() {
        page.add(format_args!("<h3>Passes less often: {}</h3>\n", counted(worse.len() as u64, "task")));
        rows(page, &worse);
    }
    if gate.tasks.is_empty() {
        return;
    }
    page.add(format_args!(
        "<p class=\"key\"><code>clawrl show {} --slot SLOT</code> shows the attempts to look at.</p>\n",
        text(gate.run.as_str())
    ));
    by_suite(page, gate);
    let open = if gate.tasks.len() <= OPEN_ROWS { " open" } else { "" };
    page.add(format_args!(
        "<details{open}><summary>All {}</summary>\n",
        counted(gate.tasks.len() as u64, "task")
    ));
    rows(page, &gate.tasks.iter().collect::<Vec<_>>());
    page.push("</details>\n");
}

fn rows(page: &mut Frame, tasks: &[&TaskChange]) {
    page.push(
        "<div class=\"wide\"><table class=\"names\"><thead><tr><th>task<th>family<th>before<th>now\
         <th>none to all<th><th>look at</tr></thead><tbody>\n",
    );
    for task in tasks.iter().take(MAX_ROWS) {
        let look = task.sample.map_or_else(String::new, |slot| slot.to_string());
        page.add(format_args!(
            "<tr><td title=\"{name}\">{name}<td>{}<td>{}<td>{}<td>{}<td>{}<td><code>{look}</code></tr>\n",
            text(&task.family),
            counts(&task.baseline),
            counts(&task.candidate),
            chart::change(rate(&task.baseline), rate(&task.candidate)),
            words(task),
            name = text(&task.task),
        ));
    }
    page.push("</tbody></table></div>\n");
    if let Some(left) = tasks.len().checked_sub(MAX_ROWS).filter(|left| *left > 0) {
        page.add(format_args!("<p class=\"key\">{left} more rows are in the JSON.</p>\n"));
    }
}

/// The change of a task, and whether it is flaky.
fn words(task: &TaskChange) -> String {
    let change = match task.change {
        Change::Broke => "<span class=\"failed\">broke</span>",
        Change::Mended => "<span class=\"passed\">mended</span>",
        Change::Kept => "",
    };
    match (change, task.flaky) {
        (change, false) => change.to_owned(),
        ("", true) => "<span class=\"fault\">flaky</span>".to_owned(),
        (change, true) => format!("{change}, <span class=\"fault\">flaky</span>"),
    }
}

/// Number of tasks per template that pass less often, if there are several templates.
fn by_suite(page: &mut Frame, gate: &Assessment) {
    #[derive(Default)]
    struct Sums {
        tasks: u64,
        fell: u64,
        rose: u64,
        flaky: u64,
    }
    let mut sums: BTreeMap<(&str, &str), Sums> = BTreeMap::new();
    for task in &gate.tasks {
        let of = sums.entry((&task.suite, &task.family)).or_default();
        of.tasks += 1;
        of.flaky += u64::from(task.flaky);
        if let (Some(before), Some(after)) = (rate(&task.baseline), rate(&task.candidate)) {
            of.fell += u64::from(after < before);
            of.rose += u64::from(after > before);
        }
    }
    // If every template has one task, this repeats the table of tasks.
    if sums.len() < 2 || sums.len() == gate.tasks.len() {
        return;
    }
    page.push(
        "<h3>Families</h3>\n<div class=\"wide\"><table><thead><tr><th>suite / family<th>tasks<th>pass less often\
         <th>more often<th>flaky</tr></thead><tbody>\n",
    );
    for ((suite, family), Sums { tasks, fell, rose, flaky }) in sums.into_iter().take(MAX_ROWS) {
        page.add(format_args!(
            "<tr><td>{} / {}<td>{tasks}<td>{fell}<td>{rose}<td>{flaky}</tr>\n",
            text(suite),
            text(family)
        ));
    }
    page.push("</tbody></table></div>\n");
}
