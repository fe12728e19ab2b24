//! Statistics as text for terminals: at most 100 columns for usual names.
//!
//! I1. A function of the statistics: no clock, no time zone, no colour.

use std::fmt::Write;

use clawrl_record::{PassRate, SUITE_HEADINGS, aligned, duration, rate_cells};

use crate::stats::{Row, RunStats};
use crate::words::{TOKEN_HEADINGS, counted, interval_words, k_share, share, token_note, token_rows};

/// The text, each line ended by a newline.
#[must_use]
pub fn render_text(figures: &RunStats) -> String {
    let mut text = format!("run {}, policy {}, {}\n", figures.run, figures.policy, figures.state);
    for warning in &figures.warnings {
        text += &format!("  {warning}\n");
    }
    let total = &figures.total;
    match &total.rate {
        Some(rate) => {
            let (value, interval) = share(Some(rate));
            // Writing to a string does not fail, here and below.
            let _ = write!(text, "\npass rate  {value}, {interval}\n           {}\n", interval_words(rate));
        }
        None => text.push_str("\npass rate  n/a: no episode finished\n"),
    }
    let _ = writeln!(
        text,
        "excluded   {} lost to faults, {} open; {}, {} cancelled, {} lost",
        counted(u64::from(total.faulted), "slot", "slots"),
        total.open,
        counted(u64::from(total.faulted_attempts), "faulted attempt", "faulted attempts"),
        total.cancelled_attempts,
        total.lost_attempts,
    );
    let _ = writeln!(
        text,
        "{} in {}, {}",
        counted(total.turns, "turn", "turns"),
        counted(u64::from(total.attempts), "attempt", "attempts"),
        duration(figures.wall_ms.saturating_mul(1_000)),
    );
    for table in [at_k(figures), suites(figures), faults(figures), phases(figures), tokens(figures)] {
        if !table.is_empty() {
            let _ = write!(text, "\n{table}");
        }
    }
    text
}

fn at_k(figures: &RunStats) -> String {
    if figures.at_k.len() < 2 {
        return String::new();
    }
    let mut rows =
        vec![["k", "pass@k", "95 % interval", "pass^k", "95 % interval", "tasks"].map(str::to_owned)];
    rows.extend(figures.at_k.iter().map(|figure| {
        let (one, all) = (k_share(&figure.at_least_one), k_share(&figure.all));
        [figure.k.to_string(), one.0, one.1, all.0, all.1, figure.tasks.to_string()]
    }));
    aligned(&rows)
}

fn suites(figures: &RunStats) -> String {
    let mut rows = vec![SUITE_HEADINGS.map(str::to_owned)];
    for suite in &figures.suites {
        rows.push(row(suite.suite.clone(), &suite.total));
        rows.extend(suite.families.iter().map(|(family, of_family)| row(format!("  {family}"), of_family)));
    }
    if figures.suites.len() > 1 {
        rows.push(row("total".to_owned(), &figures.total));
    }
    aligned(&rows)
}

fn row(name: String, row: &Row) -> [String; 9] {
    let [value, interval] = rate_cells(row.rate.as_ref().map(PassRate::from));
    [
        name,
        row.slots.to_string(),
        row.finished.to_string(),
        row.passed.to_string(),
        value,
        interval,
        row.mean_reward.map_or_else(|| "n/a".to_owned(), |reward| format!("{reward:.3}")),
        row.faulted.to_string(),
        row.open.to_string(),
    ]
}

fn faults(figures: &RunStats) -> String {
    if figures.faults.is_empty() {
        return String::new();
    }
    let mut rows = vec![["fault", "attempts", "slots"].map(str::to_owned)];
    rows.extend(figures.faults.iter().map(|fault| {
        [format!("{}/{}", fault.boundary, fault.code), fault.attempts.to_string(), fault.slots.to_string()]
    }));
    aligned(&rows)
}

fn phases(figures: &RunStats) -> String {
    if figures.phases.is_empty() {
        return String::new();
    }
    let mut rows = vec![["phase", "p50", "p95", "p99", "max", "total"].map(str::to_owned)];
    rows.extend(figures.phases.iter().map(|phase| {
        let of = &phase.durations;
        let name = match phase.per {
            crate::stats::Per::Attempt => phase.phase.to_owned(),
            crate::stats::Per::Turn => format!("{} (per turn)", phase.phase),
        };
        [
            name,
            duration(of.p50_us),
            duration(of.p95_us),
            duration(of.p99_us),
            duration(of.max_us),
            duration(of.sum_us),
        ]
    }));
    aligned(&rows)
}

fn tokens(figures: &RunStats) -> String {
    let rows = token_rows(figures);
    if rows.is_empty() {
        return String::new();
    }
    let headings = [TOKEN_HEADINGS.map(str::to_owned)];
    let table = aligned(&headings.into_iter().chain(rows).collect::<Vec<_>>());
    table + &token_note(figures).map_or_else(String::new, |note| format!("{note}\n"))
}
