//! A run's summary as a table for terminals: plain text, aligned, at most 80 columns if names have up to 17 characters.

use std::fmt::Write;

use clawrl_core::UsageTotal;

use crate::{Counts, LostTurns, PassRate, PhasePercentiles, RunSummary};

/// Columns of a table of suites and families.
pub const SUITE_HEADINGS: [&str; 9] =
    ["suite / family", "slots", "done", "passed", "rate %", "95 % CI", "reward", "faults", "open"];

/// The table, each line ended by a newline.
#[must_use]
pub fn render_summary(summary: &RunSummary) -> String {
    let mut rows = vec![SUITE_HEADINGS.map(str::to_owned)];
    for suite in &summary.suites {
        rows.push(row(suite.suite.clone(), &suite.total));
        rows.extend(suite.families.iter().map(|(family, counts)| row(format!("  {family}"), counts)));
    }
    if summary.suites.len() > 1 {
        rows.push(row("total".to_owned(), &summary.total));
    }
    let mut text = aligned(&rows);
    let total = &summary.total;
    // Writing to a string does not fail, here and below.
    let _ = write!(text, "\n{} turns in {}", total.turns, duration(summary.wall_ms.saturating_mul(1000)));
    let rare = [
        ("retries", total.retries),
        ("cancelled", total.cancelled_attempts),
        ("lost", total.lost_attempts),
        ("resumed", summary.resumes),
    ];
    for (name, count) in rare.into_iter().filter(|(_, count)| *count > 0) {
        let _ = write!(text, ", {name} {count}");
    }
    text.push('\n');
    text += &lost_turns_line(total);
    if let Some(usage) = &total.usage {
        let _ = writeln!(text, "{}", usage_text(usage));
    }
    if let Some(usage) = &total.judge_usage {
        let _ = writeln!(text, "judge: {}", usage_text(usage));
    }
    if let Some(phases) = &summary.phases {
        let phase = |name: &str, times: PhasePercentiles| {
            [name.to_owned(), duration(times.p50_us), duration(times.p95_us)]
        };
        let rows = [
            ["phase".to_owned(), "p50".to_owned(), "p95".to_owned()],
            phase("lease", phases.lease),
            phase("setup", phases.setup),
            phase("policy", phases.policy),
            phase("step", phases.step),
            phase("grade", phases.grade),
            phase("close", phases.close),
        ];
        let _ = write!(text, "\n{}", aligned(&rows));
    }
    if !summary.faults.is_empty() {
        let mut rows = vec![["fault".to_owned(), "attempts".to_owned(), "slots".to_owned()]];
        rows.extend(summary.faults.iter().map(|fault| {
            [
                format!("{}/{}", fault.boundary, fault.code),
                fault.attempts.to_string(),
                fault.slots.to_string(),
            ]
        }));
        let _ = write!(text, "\n{}", aligned(&rows));
    }
    text
}

/// Number of turns that did nothing, by reason; empty if there were none.
fn lost_turns_line(total: &Counts) -> String {
    let LostTurns { malformed, unfinished } = total.lost_turns;
    let reasons =
        [(malformed, "had no valid action"), (unfinished, "left a command running (C-c interrupts it)")];
    let counts =
        reasons.iter().filter(|(count, _)| *count > 0).map(|(count, reason)| format!("{count} {reason}"));
    match counts.collect::<Vec<_>>().join(", ") {
        none if none.is_empty() => none,
        counts => format!("lost turns: {counts}\n"),
    }
}

/// A rate and its interval in the columns of [`SUITE_HEADINGS`].
#[must_use]
pub fn rate_cells(rate: Option<PassRate>) -> [String; 2] {
    rate.map_or_else(
        || ["n/a".to_owned(), "n/a".to_owned()],
        |PassRate { value, low, high }| {
            [bare_percent(value), format!("{}-{}", bare_percent(low), bare_percent(high))]
        },
    )
}

fn row(name: String, counts: &Counts) -> [String; 9] {
    let [rate, interval] = rate_cells(counts.pass_rate);
    [
        name,
        counts.slots.to_string(),
        counts.finished.to_string(),
        counts.passed.to_string(),
        rate,
        interval,
        counts.mean_reward.map_or_else(|| "n/a".to_owned(), |reward| format!("{reward:.3}")),
        counts.faulted.to_string(),
        counts.open.to_string(),
    ]
}

/// Tokens and money, in one line.
#[must_use]
pub fn usage_text(usage: &UsageTotal) -> String {
    let mut text = format!(
        "tokens {} in ({} cached), {} out",
        grouped(usage.input_tokens),
        grouped(usage.cached_tokens),
        grouped(usage.output_tokens)
    );
    if usage.estimated_replies > 0 {
        text += &format!(" ({} of {} replies estimated)", usage.estimated_replies, usage.replies);
    }
    if let Some(nano) = usage.cost_nano_usd {
        text += &format!("; cost {:.4} USD", nano as f64 / 1e9);
    }
    if usage.retries > 0 {
        text += &format!("; requests retried {}", usage.retries);
    }
    text
}

/// A number in groups of three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A share in percent: one decimal, and never rounded up to 100 % or down to 0 %.
#[must_use]
pub fn percent(share: f64) -> String {
    format!("{} %", bare_percent(share))
}

/// The percentage without its sign, for columns whose heading has it.
fn bare_percent(share: f64) -> String {
    let tenths = (share * 1000.0).round();
    let tenths = if share < 1.0 { tenths.min(999.0) } else { tenths };
    let tenths = if share > 0.0 { tenths.max(1.0) } else { tenths };
    format!("{:.1}", tenths / 10.0)
}

/// A duration in three digits with a fitting unit.
#[must_use]
pub fn duration(micros: u64) -> String {
    match micros {
        0..1_000 => format!("{micros} us"),
        1_000..1_000_000 => format!("{:.1} ms", micros as f64 / 1e3),
        1_000_000..600_000_000 => format!("{:.1} s", micros as f64 / 1e6),
        _ => format!("{:.1} min", micros as f64 / 60e6),
    }
}

/// A table: first column to the left, the others to the right, two spaces between, each line ended by a newline.
#[must_use]
pub fn aligned<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    let mut text = String::new();
    for row in rows {
        let cells: Vec<String> = row
            .iter()
            .zip(widths)
            .enumerate()
            .map(|(column, (cell, width))| match column {
                0 => format!("{cell:<width$}"),
                _ => format!("{cell:>width$}"),
            })
            .collect();
        let _ = writeln!(text, "{}", cells.join("  ").trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_never_claim_too_much() {
        let check = |share, expected: &str| assert_eq!(percent(share), expected);
        check(0.0, "0.0 %");
        check(1e-9, "0.1 %");
        check(0.5, "50.0 %");
        check(0.9999, "99.9 %");
        check(1.0, "100.0 %");
    }

    #[test]
    fn usage_in_a_line() {
        let mut usage = UsageTotal {
            replies: 4,
            estimated_replies: 1,
            input_tokens: 1_234_567,
            cached_tokens: 0,
            output_tokens: 999,
            cost_nano_usd: Some(12_345_678),
            retries: 2,
        };
        let expected = "tokens 1,234,567 in (0 cached), 999 out (1 of 4 replies estimated); \
                        cost 0.0123 USD; requests retried 2";
        assert_eq!(usage_text(&usage), expected);
        usage = UsageTotal { estimated_replies: 0, cost_nano_usd: None, ..usage };
        assert!(usage_text(&usage).ends_with("999 out; requests retried 2"));
    }

    #[test]
    fn times_have_fitting_units() {
        let check = |micros, expected: &str| assert_eq!(duration(micros), expected);
        check(0, "0 us");
        check(999, "999 us");
        check(1_500, "1.5 ms");
        check(12_300_000, "12.3 s");
        check(6_000_000_000, "100.0 min");
    }
}
