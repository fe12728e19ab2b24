//! The table, and the verdict on each target.

use clap::ValueEnum;

use super::{Arguments, Load, Row, Side};
use crate::table::{Sample, render};

/// Targets.
const CPU_AT_MOST: f64 = 2.0;
const ADDED_MS_AT_MOST: f64 = 5.0;
/// Maximum relative difference of the sides' answer sizes; only digits of numbers differ.
const ANSWERS_DIFFER: f64 = 0.01;
/// If requests of `rate` wait longer for a connection, there are too few connections.
const LATE_MS: f64 = 1.0;

const COLUMNS: [&str; 14] = [
    "load",
    "body",
    "side",
    "requests/s",
    "CPU, us",
    "load CPU, us",
    "first p50, ms",
    "first p99",
    "whole p50",
    "whole p99",
    "gap p50",
    "gap p99",
    "commits/s",
    "KiB/turn",
];

/// Rows of one load and one body size.
#[derive(Clone, Copy)]
struct Case<'a> {
    rows: &'a [Row],
    load: Load,
    body: u32,
}

impl<'a> Case<'a> {
    fn of(self, side: Side) -> impl Iterator<Item = &'a Row> {
        let Self { rows, load, body } = self;
        rows.iter().filter(move |row| row.load == load && row.body == body && row.side == side)
    }

    fn sample(self, side: Side, value: impl Fn(&Row) -> f64) -> Sample {
        Sample::new(self.of(side).map(value).collect())
    }

    /// Combines the gateway's row with the stub's row of the same round.
    fn compared(self, with: impl Fn(&Row, &Row) -> f64) -> Sample {
        let other = |ours: &Row| self.of(Side::Stub).find(|row| row.round == ours.round);
        let pairs = self.of(Side::Gateway).filter_map(|ours| Some(with(ours, other(ours)?)));
        Sample::new(pairs.collect())
    }
}

/// The table, with a line for each target.
pub(super) fn table(arguments: &Arguments, rows: &[Row]) -> String {
    let mut lines = vec![COLUMNS.map(str::to_owned).to_vec()];
    let mut verdicts = Vec::new();
    for &load in &arguments.loads {
        for &body in &arguments.bodies {
            let case = Case { rows, load, body };
            lines.extend(arguments.sides.iter().map(|&side| line(case, side)));
            verdicts.extend(compared(case));
        }
    }
    verdicts.push(faults(rows));
    verdicts.push(disk(rows));
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    format!(
        "median (min-max) of {} rounds; {} streams, {} tokens per answer; full: {} requests; rate: {} requests, {} per \
         second, {} us per token; {cores} cores, shared with the load\n\n{}\n{}",
        arguments.rounds,
        arguments.streams,
        arguments.tokens,
        arguments.requests,
        arguments.rate_requests,
        arguments.rate,
        arguments.token_micros,
        render(&lines),
        verdicts.join("\n"),
    )
}

fn line(case: Case<'_>, side: Side) -> Vec<String> {
    let summary = |value: fn(&Row) -> f64| case.sample(side, value).summary();
    let median = |value: fn(&Row) -> f64| format!("{:.2}", case.sample(side, value).median());
    // The stub has no ledger.
    let of_ledger = |value: fn(&Row) -> Option<f64>| {
        let known: Vec<f64> = case.of(side).filter_map(value).collect();
        if known.is_empty() { "-".to_owned() } else { format!("{:.1}", Sample::new(known).median()) }
    };
    vec![
        name(case.load),
        format!("{:.0}", case.sample(side, |row| row.body_bytes).median()),
        name(side),
        format!("{:.0}", case.sample(side, |row| row.requests_per_s).median()),
        summary(|row| row.cpu_us),
        format!("{:.0}", case.sample(side, |row| row.load_cpu_us).median()),
        median(|row| row.first_ms.p50),
        median(|row| row.first_ms.p99),
        median(|row| row.whole_ms.p50),
        summary(|row| row.whole_ms.p99),
        median(|row| row.gap_ms.p50),
        median(|row| row.gap_ms.p99),
        of_ledger(|row| row.commits_per_s),
        of_ledger(|row| row.disk_bytes_per_turn.map(|bytes| bytes / 1024.0)),
    ]
}

/// One line per target of this load.
fn compared(case: Case<'_>) -> Vec<String> {
    let cpu = case.compared(|ours, stub| ours.cpu_us / stub.cpu_us);
    if cpu.median().is_nan() {
        return Vec::new();
    }
    let what = format!("{} {}", name(case.load), case.body);
    let added = case.compared(|ours, stub| ours.whole_ms.p99 - stub.whole_ms.p99);
    let mut lines = vec![
        format!(
            "{what}: {} times the stub's CPU per request, at most {CPU_AT_MOST}: {}",
            cpu.summary(),
            verdict(cpu.median() <= CPU_AT_MOST)
        ),
        match case.load {
            Load::Rate => format!(
                "{what}: added p99 {} ms, at most {ADDED_MS_AT_MOST}: {}",
                added.summary(),
                verdict(added.median() <= ADDED_MS_AT_MOST)
            ),
            Load::Full => {
                format!("{what}: added p99 {} ms, dominated by waiting for cores: no target", added.summary())
            }
        },
    ];
    let answers = case.compared(|ours, stub| ours.answer_bytes / stub.answer_bytes).median();
    if (answers - 1.0).abs() > ANSWERS_DIFFER {
        lines.push(format!(
            "{what}: answers are {answers:.2} times as long as the stub's, so the sides differ"
        ));
    }
    let late = [Side::Gateway, Side::Stub].map(|side| case.sample(side, |row| row.late_ms.p99).median());
    if case.load == Load::Rate && late.iter().any(|late| *late > LATE_MS) {
        lines.push(format!(
            "{what}: requests waited for a free stream, p99 {:.1} ms (gateway) and {:.1} ms (stub): use a lower --rate",
            late[0], late[1]
        ));
    }
    lines
}

fn faults(rows: &[Row]) -> String {
    let sum = |value: fn(&Row) -> u64| rows.iter().map(value).sum::<u64>();
    let (errors, refused) = (sum(|row| row.errors), sum(|row| row.refused));
    let mut line = format!(
        "{errors} errors and {refused} refused of {} requests, none: {}",
        sum(|row| row.requests),
        verdict(errors + refused == 0)
    );
    let mut flaws: Vec<&str> = rows.iter().flat_map(|row| &row.flaws).map(String::as_str).collect();
    flaws.sort_unstable();
    flaws.dedup();
    if !flaws.is_empty() {
        line += &format!("; {}", flaws.join("; "));
    }
    line
}

/// Lower bound of a commit; one value per round.
fn disk(rows: &[Row]) -> String {
    let mut rounds: Vec<&Row> = rows.iter().collect();
    rounds.dedup_by_key(|row| row.round);
    let of = |value: fn(&Row) -> f64| Sample::new(rounds.iter().map(|row| value(row)).collect()).summary();
    format!(
        "an fsync of 4 KiB in the same folder, before each round: p50 {} ms, p99 {} ms",
        of(|row| row.sync_ms.p50),
        of(|row| row.sync_ms.p99)
    )
}

fn verdict(is_met: bool) -> &'static str {
    if is_met { "met" } else { "missed" }
}

fn name(value: impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |name| name.get_name().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::Spread;

    fn row(side: Side, load: Load, round: u32, cpu_us: f64, p99: f64) -> Row {
        let spread = |p99| Spread { p50: 1.0, p95: 1.0, p99 };
        Row {
            side,
            load,
            body: 1_024,
            round,
            streams: 4,
            tokens: 2,
            token_micros: 0,
            requests: 10,
            wall_s: 1.0,
            requests_per_s: 10.0,
            cpu_us,
            load_cpu_us: 1.0,
            first_ms: spread(1.0),
            whole_ms: spread(p99),
            gap_ms: spread(1.0),
            late_ms: spread(0.0),
            errors: 0,
            refused: 0,
            flaws: Vec::new(),
            body_bytes: 1_000.0,
            answer_bytes: 500.0,
            commits_per_s: None,
            disk_bytes_per_turn: None,
            sync_ms: spread(0.5),
        }
    }

    /// Two rounds of both sides: CPU and p99 of the gateway, then of the stub.
    fn check(load: Load, rounds: [[f64; 4]; 2], expected: &[&str]) {
        let mut rows = Vec::new();
        for (round, [ours, ours_p99, stub, stub_p99]) in (1..).zip(rounds) {
            rows.push(row(Side::Gateway, load, round, ours, ours_p99));
            rows.push(row(Side::Stub, load, round, stub, stub_p99));
        }
        assert_eq!(compared(Case { rows: &rows, load, body: 1_024 }), expected);
        assert!(compared(Case { rows: &rows, load, body: 1 }).is_empty());
    }

    #[test]
    fn targets_compare_within_a_round() {
        check(
            Load::Rate,
            [[150.0, 14.0, 100.0, 10.0], [300.0, 106.0, 200.0, 100.0]],
            &[
                "rate 1024: 1.50 (1.50-1.50) times the stub's CPU per request, at most 2: met",
                "rate 1024: added p99 5.00 (4.00-6.00) ms, at most 5: met",
            ],
        );
        check(
            Load::Full,
            [[250.0, 90.0, 100.0, 10.0], [250.0, 90.0, 100.0, 10.0]],
            &[
                "full 1024: 2.50 (2.50-2.50) times the stub's CPU per request, at most 2: missed",
                "full 1024: added p99 80.00 (80.00-80.00) ms, dominated by waiting for cores: no target",
            ],
        );
    }

    #[test]
    fn equal_errors_are_listed_once() {
        let mut rows = vec![row(Side::Stub, Load::Full, 1, 1.0, 1.0); 2];
        assert_eq!(faults(&rows), "0 errors and 0 refused of 20 requests, none: met");
        for row in &mut rows {
            row.refused = 1;
            row.flaws = vec!["429".to_owned()];
        }
        assert_eq!(faults(&rows), "0 errors and 2 refused of 20 requests, none: missed; 429");
    }
}
