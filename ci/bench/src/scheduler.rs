//! Processor time per step of the scheduler with empty environments, a scripted policy and the journal on, compared with the
//! same awaits in plain tokio tasks.
//!
//! Both sides lease, reset, step, grade and close the same environments and call the same policy; each of these operations
//! yields to other tasks once. The difference is the harness: dispatch, limits, parsing, the conversation, the trajectory,
//! and its record on disk (written, and synced in groups).
//!
//! All slots run concurrently. Processor time is that of the whole process, including the journal's thread. The plan is
//! written before the clock starts, and the journal is complete before it stops.
//!
//! On two shared cores a step costs about a quarter more at 1,000 slots than at 100, and no more beyond. The likely reason
//! is memory: an episode of 20 turns keeps about 20 KiB of conversation and trajectory, which fit into the cores' caches
//! for 100 slots but not for 1,000; the plain tasks keep nothing.

pub(crate) mod null;
mod sides;

use std::path::Path;

use clap::ValueEnum;
use serde::Serialize;

use crate::Failure;
use crate::cpu::Cost;
use crate::rows;
use crate::table::{Sample, render};

/// Target.
const TARGET_US_PER_STEP: f64 = 10.0;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Concurrent slots; one row for each number.
    #[arg(long, value_delimiter = ',', default_values_t = [100, 1_000, 10_000])]
    slots: Vec<u32>,
    /// Steps of each episode.
    #[arg(long, default_value_t = 20)]
    steps: u32,
    /// Rounds per side, after one warm-up round.
    #[arg(long, default_value_t = 7)]
    rounds: u32,
    /// Minimum number of steps of a measurement; runs of few slots are repeated.
    #[arg(long, default_value_t = 200_000)]
    at_least: u32,
    /// Destination of the scheduler's records.
    #[arg(long, value_enum, default_value_t = SinkChoice::Journal)]
    sink: SinkChoice,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
enum SinkChoice {
    /// The journal on disk, as in every real run.
    Journal,
    /// No record, to measure the journal's share.
    None,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Side {
    Scheduler,
    Bare,
}

#[derive(Debug, Clone, Copy, Serialize)]
struct Row {
    side: Side,
    slots: u32,
    steps: u32,
    sink: SinkChoice,
    round: u32,
    repeats: u32,
    cpu_us_per_step: f64,
    wall_us_per_step: f64,
}

/// Measures, and returns the table.
pub(crate) fn run(arguments: &Arguments, out: &Path) -> Result<String, Failure> {
    std::fs::create_dir_all(out)?;
    let mut rows = Vec::new();
    // Sizes alternate too, so that other work on the machine affects all of them alike.
    for round in 0..=arguments.rounds {
        for &slots in &arguments.slots {
            for side in [Side::Scheduler, Side::Bare] {
                let row = measure(arguments, out, slots, side, round)?;
                if round > 0 {
                    rows.push(row);
                }
            }
        }
    }
    rows::append(out, "scheduler", &rows)?;
    Ok(table(arguments, &rows))
}

fn measure(arguments: &Arguments, out: &Path, slots: u32, side: Side, round: u32) -> Result<Row, Failure> {
    let &Arguments { steps, sink, at_least, .. } = arguments;
    let repeats = at_least.div_ceil(slots.saturating_mul(steps).max(1)).max(1);
    let mut sum = Cost { cpu: std::time::Duration::ZERO, wall: std::time::Duration::ZERO };
    for _ in 0..repeats {
        let cost = match (side, sink) {
            (Side::Bare, _) => sides::bare(slots, steps)?,
            (Side::Scheduler, SinkChoice::Journal) => sides::scheduler_with_journal(slots, steps, out)?,
            (Side::Scheduler, SinkChoice::None) => sides::scheduler_without_journal(slots, steps)?,
        };
        sum = Cost { cpu: sum.cpu + cost.cpu, wall: sum.wall + cost.wall };
    }
    let all_steps = f64::from(slots) * f64::from(steps) * f64::from(repeats);
    Ok(Row {
        side,
        slots,
        steps,
        sink,
        round,
        repeats,
        cpu_us_per_step: sum.cpu.as_secs_f64() * 1e6 / all_steps,
        wall_us_per_step: sum.wall.as_secs_f64() * 1e6 / all_steps,
    })
}

fn table(arguments: &Arguments, rows: &[Row]) -> String {
    let sample = |slots: u32, side: Side, value: fn(&Row) -> f64| {
        let of_side = rows.iter().filter(|row| row.slots == slots && row.side == side);
        Sample::new(of_side.map(value).collect())
    };
    let cpu = |slots, side| sample(slots, side, |row| row.cpu_us_per_step);
    let header = ["slots", "scheduler", "bare tokio", "added", "ratio", "wall, scheduler", "wall, bare"];
    let mut lines = vec![header.map(str::to_owned).to_vec()];
    for &slots in &arguments.slots {
        let (ours, bare) = (cpu(slots, Side::Scheduler), cpu(slots, Side::Bare));
        let wall = |side| sample(slots, side, |row| row.wall_us_per_step).summary();
        lines.push(vec![
            slots.to_string(),
            ours.summary(),
            bare.summary(),
            format!("{:.2}", ours.median() - bare.median()),
            format!("{:.1}", ours.median() / bare.median()),
            wall(Side::Scheduler),
            wall(Side::Bare),
        ]);
    }
    let medians: Vec<f64> =
        arguments.slots.iter().map(|&slots| cpu(slots, Side::Scheduler).median()).collect();
    let worst = medians.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let least = medians.iter().copied().fold(f64::INFINITY, f64::min);
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    format!(
        "Processor time per step in microseconds, median (min-max) of {} rounds; {} steps an episode, sink: {}, {cores} \
         cores\n\n{}\ntarget: at most {TARGET_US_PER_STEP} us per step: {} (worst median {worst:.2}); flat over \
         slots: largest/smallest median {:.2}",
        arguments.rounds,
        arguments.steps,
        match arguments.sink {
            SinkChoice::Journal => "journal on disk",
            SinkChoice::None => "none",
        },
        render(&lines),
        if worst <= TARGET_US_PER_STEP { "met" } else { "missed" },
        worst / least,
    )
}
