//! Calls a second of a `python` tool that many attempts have at once, and what neighbours that take all they can get
//! cost them.
//!
//! - `python`: the tool `python`, an interpreter for each attempt.
//! - `program`: a tool that starts `python3 -c CODE` for each call, in the same kind of sandbox, with the same schema.
//! - `hogs`: as `python`, where four of the attempts have an infinite loop, a list that grows, a fork bomb and a tool that
//!   never answers, over and over.
//!
//! Every attempt leases, resets, makes one call that does not count, and then calls again as soon as it has its result (or
//! after `--think-ms`, which a policy would take), until the time is up. A call whose result is not the one that its code
//! must have, or a fault, fails the area. The calls of hogs do not count, and they may fail as they like; but each has to
//! be answered, and their attempts have to close like all others.
//!
//! What leans where: a program for each call has no state to keep, and its code is as short as that of the other side.
//! Starting it includes our launcher and the sandbox's seccomp filter, as every program of a sandbox does.
//!
//! "Nothing left" is looked up outside the harness, as for `live-shells`.

mod attempts;
mod kinds;

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use clap::ValueEnum;
use serde::Serialize;

use crate::census::{Census, settle};
use crate::rows;
use crate::table::{Sample, render};
use crate::terminals::{Failure, run_name};

const AREA: &str = "toolcall";
/// The rows of the design that this area answers to.
const AT_LEAST: f64 = 20.0;
const SLOWER_AT_MOST: f64 = 1.1;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Attempts at once, one row each.
    #[arg(long, value_delimiter = ',', default_values_t = [256], value_parser = clap::value_parser!(u32).range(8..))]
    attempts: Vec<u32>,
    /// How long calls are made, each time.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    secs: u64,
    /// What each attempt waits between two calls.
    #[arg(long, default_value_t = 0)]
    think_ms: u64,
    /// How often each side is measured.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// What to measure.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Side::Python, Side::Program, Side::Hogs])]
    sides: Vec<Side>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
enum Side {
    /// An interpreter for each attempt.
    Python,
    /// A program for each call.
    Program,
    /// As python, beside four that take what they can get.
    Hogs,
}

/// One side, once.
#[derive(Debug, Clone, Serialize)]
struct Row {
    side: Side,
    attempts: u32,
    round: u32,
    think_ms: u64,
    /// Calls a second of the attempts that count, for each of them.
    calls_each: f64,
    /// Calls a second of all of them.
    calls: f64,
    /// Milliseconds of a call.
    p50_ms: f64,
    p99_ms: f64,
    /// Wall time until all attempts had made their first call, and of closing them.
    start_s: f64,
    close_s: f64,
    /// Calls of the hogs that were answered, of any kind.
    hog_calls: u64,
    /// What was there after the end and was not before, one sentence each.
    left: Vec<String>,
}

/// Measures and gives the table.
pub(crate) fn run(arguments: &Arguments, out: &Path) -> Result<String, Failure> {
    // What this process opens once and keeps is no remnant of a round.
    measure(Side::Python, 8, 0, arguments)?;
    let mut rows = Vec::new();
    for round in 1..=arguments.rounds {
        for &attempts in &arguments.attempts {
            for &side in &arguments.sides {
                let row = measure(side, attempts, round, arguments)?;
                rows::append(out, AREA, std::slice::from_ref(&row))?;
                let of = arguments.rounds;
                let told = format!(
                    "round {round}/{of}: {attempts} attempts, {side:?}: {:.0} calls/s, p50 {:.1} ms\n",
                    row.calls, row.p50_ms
                );
                std::io::stderr().write_all(told.as_bytes())?;
                rows.push(row);
            }
        }
    }
    Ok(table(arguments, &rows))
}

fn measure(side: Side, attempts: u32, round: u32, arguments: &Arguments) -> Result<Row, Failure> {
    settle();
    let before = Census::take();
    let pace = attempts::Pace {
        // The round that does not count is short.
        lasting: Duration::from_secs(if round == 0 { 1 } else { arguments.secs }),
        thinking: Duration::from_millis(arguments.think_ms),
    };
    let seen = attempts::drive(side, attempts, pace)?;
    let left = before.left_since(&format!("clawrl-{}-{}-", run_name(AREA), std::process::id()));
    let latency = Sample::new(seen.call_ms);
    Ok(Row {
        side,
        attempts,
        round,
        think_ms: arguments.think_ms,
        calls_each: seen.calls / f64::from(seen.counted),
        calls: seen.calls,
        p50_ms: latency.quantile(0.5),
        p99_ms: latency.quantile(0.99),
        start_s: seen.start.as_secs_f64(),
        close_s: seen.close.as_secs_f64(),
        hog_calls: seen.hog_calls,
        left,
    })
}

const COLUMNS: [&str; 8] =
    ["attempts", "side", "calls/s", "calls/s each", "p50, ms", "p99, ms", "start, s", "close, s"];

fn table(arguments: &Arguments, rows: &[Row]) -> String {
    let sample = |attempts: u32, side: Side, value: fn(&Row) -> f64| {
        let picked = rows.iter().filter(|row| row.attempts == attempts && row.side == side);
        Sample::new(picked.map(value).collect())
    };
    let mut lines = vec![COLUMNS.map(str::to_owned).to_vec()];
    let mut verdicts = Vec::new();
    for &attempts in &arguments.attempts {
        for &side in &arguments.sides {
            let of = |value| sample(attempts, side, value);
            lines.push(vec![
                attempts.to_string(),
                side.to_possible_value().map_or_else(String::new, |name| name.get_name().to_owned()),
                format!("{:.0}", of(|row| row.calls).median()),
                of(|row| row.calls_each).summary(),
                of(|row| row.p50_ms).summary(),
                of(|row| row.p99_ms).summary(),
                of(|row| row.start_s).summary(),
                of(|row| row.close_s).summary(),
            ]);
        }
        let each = |side| sample(attempts, side, |row| row.calls_each).median();
        let verdict = |met: bool| if met { "met" } else { "missed" };
        let ratio = each(Side::Python) / each(Side::Program);
        if ratio.is_finite() {
            verdicts.push(format!(
                "{attempts} attempts: {ratio:.1} x the calls of a program for each, at least {AT_LEAST}: {}",
                verdict(ratio >= AT_LEAST)
            ));
        }
        let slower = each(Side::Python) / each(Side::Hogs);
        if slower.is_finite() {
            verdicts.push(format!(
                "{attempts} attempts: {slower:.2} x slower beside four hogs, at most {SLOWER_AT_MOST}: {}",
                verdict(slower <= SLOWER_AT_MOST)
            ));
        }
    }
    let mut left: Vec<&str> = rows.iter().flat_map(|row| &row.left).map(String::as_str).collect();
    left.sort_unstable();
    left.dedup();
    verdicts.push(if left.is_empty() {
        "0 faults; nothing left".to_owned()
    } else {
        format!("left: {}", left.join("; "))
    });
    format!(
        "median (least-greatest) of {} rounds of {} s, {} ms between calls\n\n{}\n{}",
        arguments.rounds,
        arguments.secs,
        arguments.think_ms,
        render(&lines),
        verdicts.join("\n"),
    )
}
