//! Tables of the page.

use std::fmt::Write;

use clawrl_record::{escape_html, percent};

use super::charts::interval;
use crate::figures::{Figures, Row};
use crate::words::{k_share, share};

/// Rows of a long table that the page shows; the rest is in the JSON.
const MOST_ROWS: usize = 500;
/// Tables up to this length stand open.
const OPEN_ROWS: usize = 20;

const HEADINGS: &str = "<th>slots<th>finished<th>passed<th>rate<th>95 % interval<th><th>score<th>reward\
                        <th>faults<th>open</tr></thead><tbody>\n";

/// Suites, and families in them.
pub(super) fn suites(page: &mut String, figures: &Figures) {
    page.push_str("<h2>Suites and families</h2>\n<div class=\"wide\"><table><thead><tr><th>suite / family");
    page.push_str(HEADINGS);
    for suite in &figures.suites {
        row(page, "", &format!("<b>{}</b>", escape_html(&suite.suite)), &suite.total);
        for (family, of_family) in &suite.families {
            row(page, " class=\"family\"", &escape_html(family), of_family);
        }
    }
    if figures.suites.len() > 1 {
        row(page, "", "<b>total</b>", &figures.total);
    }
    page.push_str("</tbody></table></div>\n");
}

/// Success in k tries.
pub(super) fn at_k(page: &mut String, figures: &Figures) {
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

/// What broke.
pub(super) fn faults(page: &mut String, figures: &Figures) {
    if figures.faults.is_empty() {
        return;
    }
    page.push_str(
        "<h2>Faults</h2>\n<p class=\"key\">In no denominator above. A fault closes a slot when no retry helped.</p>\n\
         <table><thead><tr><th>where and what<th>attempts<th>slots closed</tr></thead><tbody>\n",
    );
    for fault in &figures.faults {
        let what = escape_html(&format!("{}/{}", fault.boundary, fault.code));
        let _ =
            writeln!(page, "<tr><td class=\"fault\">{what}<td>{}<td>{}</tr>", fault.attempts, fault.slots);
    }
    page.push_str("</tbody></table>\n");
}

/// Tasks, the least successful first.
pub(super) fn tasks(page: &mut String, figures: &Figures) {
    let mut rows: Vec<(String, &Row)> =
        figures.tasks.iter().map(|task| (escape_html(&task.task), &task.row)).collect();
    long(page, "Tasks", "task", &mut rows);
}

/// Groups, the least successful first.
pub(super) fn groups(page: &mut String, figures: &Figures) {
    let name =
        |group: &crate::figures::GroupFigures| format!("g{} {}", group.group, escape_html(&group.task));
    let mut rows: Vec<(String, &Row)> =
        figures.groups.iter().map(|group| (name(group), &group.row)).collect();
    long(page, "Groups", "group and task", &mut rows);
}

fn long(page: &mut String, title: &str, heading: &str, rows: &mut [(String, &Row)]) {
    if rows.is_empty() {
        return;
    }
    let rate = |row: &Row| row.rate.map_or(2.0, |rate| rate.value);
    rows.sort_by(|a, b| rate(a.1).total_cmp(&rate(b.1)));
    let open = if rows.len() <= OPEN_ROWS { " open" } else { "" };
    let _ = write!(
        page,
        "<h2>{title}</h2>\n<details{open}><summary>{} rows, the least successful first</summary>\
         <div class=\"wide\"><table><thead><tr><th>{heading}",
        rows.len()
    );
    page.push_str(HEADINGS);
    for (name, of_row) in rows.iter().take(MOST_ROWS) {
        row(page, "", name, of_row);
    }
    page.push_str("</tbody></table></div>\n");
    if let Some(left) = rows.len().checked_sub(MOST_ROWS).filter(|left| *left > 0) {
        let _ =
            writeln!(page, "<p class=\"key\">{left} more rows are in <code>clawrl report --json</code>.</p>");
    }
    page.push_str("</details>\n");
}

fn row(page: &mut String, class: &str, name: &str, row: &Row) {
    let (value, reach) = share(row.rate.as_ref());
    let picture = row.rate.as_ref().map(interval).unwrap_or_default();
    let number = |value: Option<f64>| value.map_or_else(|| "n/a".to_owned(), |value| format!("{value:.3}"));
    let faults = if row.faulted > 0 {
        format!("<span class=\"fault\">{}</span>", row.faulted)
    } else {
        "0".to_owned()
    };
    let _ = writeln!(
        page,
        "<tr{class}><td>{name}<td>{}<td>{}<td>{}<td>{value}<td>{reach}<td>{picture}<td>{}<td>{}<td>{faults}<td>{}</tr>",
        row.slots,
        row.finished,
        row.passed,
        number(row.mean_score),
        number(row.mean_reward),
        row.open,
    );
}

/// What the policy cost, where it is known.
pub(super) fn tokens(page: &mut String, figures: &Figures) {
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
