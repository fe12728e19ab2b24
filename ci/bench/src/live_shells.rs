//! Thousands of sandboxed shells in one run: what each takes of memory, of time to start, of processor time, of
//! threads and descriptors, and whether anything is left when all are closed.
//!
//! - `terminals`: the environments that a run would lease. A quarter at a time is started, then every one is reset and
//!   runs one `echo`, all at once, then all are closed, all at once.
//! - `bare`: the same sandboxes with a bash that nobody but a loop talks to: no screen, no recording, no session. What
//!   `terminals` takes beyond it is the harness's share.
//!
//! Memory is the drop of MemAvailable, of the whole machine, from the most that was available before any round so far:
//! once when all shells are at their prompt, and once when all have run their command; the second counts. Processor time is that of the whole machine, too, interrupts and the
//! kernel's own threads included, because most of a sandbox's cost is paid by processes that are nobody's children and
//! by the kernel's clean-up. Both are only worth reading from a machine that does nothing else.
//!
//! "Nothing left" is looked up outside the harness: processes by the label that every sandbox carries, children of
//! this process, control groups by the run's name, mounts, entries of the folder for temporary files, threads and
//! descriptors of this process.

mod room;
mod round;

use std::io::Write;
use std::path::Path;

use clap::ValueEnum;
use serde::Serialize;

use crate::rows;
use crate::table::{Sample, render};
use crate::terminals::Failure;

/// The row of the design that this area answers to.
const MIB_AT_MOST: f64 = 2.0;
/// One in each quarter.
const FEWEST: u32 = 4;
/// Growth within this is flat.
const FLAT: f64 = 1.2;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Shells alive at once, one row each; at least four.
    #[arg(long, value_delimiter = ',', default_values_t = [500, 2_000, 3_000], value_parser = clap::value_parser!(u32).range(i64::from(FEWEST)..))]
    shells: Vec<u32>,
    /// How often each size is measured on each side.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// What to measure.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Side::Terminals, Side::Bare])]
    sides: Vec<Side>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
enum Side {
    /// The environments of a run.
    Terminals,
    /// A bash in the same sandbox, and nothing around it.
    Bare,
}

/// One size, once.
#[derive(Debug, Clone, Serialize)]
struct Row {
    side: Side,
    shells: u32,
    round: u32,
    /// MemAvailable that went, per shell: at the prompt, and after one command.
    started_mib: f64,
    used_mib: f64,
    /// Wall time per shell of each quarter's start.
    start_ms: [f64; 4],
    /// Wall time of all echoes (for `terminals` with their resets), and of closing all.
    echo_s: f64,
    close_s: f64,
    /// Processor time of the machine per shell, by phase.
    start_cpu_ms: f64,
    echo_cpu_ms: f64,
    close_cpu_ms: f64,
    /// Of this process while all shells are alive, beyond what it had before.
    threads: i64,
    open_files: i64,
    /// What was there after the end and was not before, one sentence each.
    left: Vec<String>,
}

impl Row {
    /// Time per shell of the last quarter against the first.
    fn growth(&self) -> f64 {
        self.start_ms[3] / self.start_ms[0]
    }

    fn cpu_ms(&self) -> f64 {
        self.start_cpu_ms + self.echo_cpu_ms + self.close_cpu_ms
    }
}

/// Measures and gives the table.
pub(crate) fn run(arguments: &Arguments, out: &Path) -> Result<String, Failure> {
    let most = arguments.shells.iter().copied().max().unwrap_or(0);
    room::check(most)?;
    // What this process opens once and keeps, such as the runtime's pipe for signals, is no remnant of a round.
    round::measure(Side::Terminals, FEWEST, 0, &mut round::Baseline::default())?;
    let mut rows = Vec::new();
    let mut baseline = round::Baseline::default();
    for round in 1..=arguments.rounds {
        for &shells in &arguments.shells {
            for &side in &arguments.sides {
                let row = round::measure(side, shells, round, &mut baseline)?;
                // It takes long: what was measured stays when somebody ends it.
                rows::append(out, "live-shells", std::slice::from_ref(&row))?;
                let of = arguments.rounds;
                let start_ms = row.start_ms.iter().sum::<f64>() / 4.0;
                let told = format!(
                    "round {round}/{of}: {shells} shells, {side:?}: {start_ms:.1} ms a start, {:.2} MiB\n",
                    row.used_mib
                );
                std::io::stderr().write_all(told.as_bytes())?;
                rows.push(row);
            }
        }
    }
    Ok(table(arguments, &rows))
}

const COLUMNS: [&str; 11] = [
    "shells",
    "side",
    "MiB each, used",
    "at prompt",
    "start, ms each",
    "last/first quarter",
    "echo all, s",
    "close all, s",
    "cpu, ms each",
    "threads",
    "files each",
];

fn table(arguments: &Arguments, rows: &[Row]) -> String {
    let sample = |shells: u32, side: Side, value: fn(&Row) -> f64| {
        let picked = rows.iter().filter(|row| row.shells == shells && row.side == side);
        Sample::new(picked.map(value).collect())
    };
    let mut lines = vec![COLUMNS.map(str::to_owned).to_vec()];
    for &shells in &arguments.shells {
        for &side in &arguments.sides {
            let of = |value| sample(shells, side, value);
            lines.push(vec![
                shells.to_string(),
                side.to_possible_value().map_or_else(String::new, |name| name.get_name().to_owned()),
                of(|row| row.used_mib).summary(),
                of(|row| row.started_mib).summary(),
                of(|row| row.start_ms.iter().sum::<f64>() / 4.0).summary(),
                of(Row::growth).summary(),
                of(|row| row.echo_s).summary(),
                of(|row| row.close_s).summary(),
                of(Row::cpu_ms).summary(),
                format!("{:+.0}", of(|row| row.threads as f64).median()),
                format!("{:.2}", of(|row| row.open_files as f64 / f64::from(row.shells)).median()),
            ]);
        }
    }
    format!(
        "median (least-greatest) of {} rounds; cpu is the whole machine's\n\n{}\n{}",
        arguments.rounds,
        render(&lines),
        verdicts(arguments, rows, sample),
    )
}

fn verdicts(
    arguments: &Arguments,
    rows: &[Row],
    sample: impl Fn(u32, Side, fn(&Row) -> f64) -> Sample,
) -> String {
    let greatest = |value: fn(&Row) -> f64| {
        let medians = arguments.shells.iter().map(|&shells| sample(shells, Side::Terminals, value).median());
        medians.fold(f64::NAN, f64::max)
    };
    let verdict = |met: bool| if met { "met" } else { "missed" };
    let (memory, growth) = (greatest(|row| row.used_mib), greatest(Row::growth));
    let per_shell = |&shells: &u32| sample(shells, Side::Terminals, |row| row.start_ms.iter().sum()).median();
    let sizes: Vec<f64> = arguments.shells.iter().map(per_shell).collect();
    let over_sizes =
        sizes.iter().copied().fold(f64::NAN, f64::max) / sizes.iter().copied().fold(f64::NAN, f64::min);
    let threads = greatest(|row| row.threads as f64);
    let fewest = arguments.shells.iter().copied().min().unwrap_or(0);
    let mut left: Vec<&str> = rows.iter().flat_map(|row| &row.left).map(String::as_str).collect();
    left.sort_unstable();
    left.dedup();
    format!(
        "target: at most {MIB_AT_MOST} MiB each: {} ({memory:.2}); start time flat, last/first quarter at most {FLAT}: {} \
         ({growth:.2}), greatest/least over sizes {over_sizes:.2}; no thread per shell: {} ({threads:+.0} at most); \
         nothing left: {}",
        verdict(memory <= MIB_AT_MOST),
        verdict(growth <= FLAT),
        verdict(threads < f64::from(fewest) / 10.0),
        if left.is_empty() { "met".to_owned() } else { format!("missed: {}", left.join("; ")) },
    )
}
