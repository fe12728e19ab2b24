//! CPU time per step of the scheduler: null environments, a scripted policy, the journal on, against the
//! same awaits in bare tokio tasks.
//!
//! Both sides lease, reset, step, grade and close the same environments and ask the same policy; each of
//! these operations gives way to other tasks once. The difference is what the harness adds: dispatch, limits,
//! parsing, the conversation, the trajectory, and its record on disk (written, and synced in groups).
//!
//! All slots are under way at once. CPU time is that of the whole process, the journal's thread included; the
//! plan is made and written before the clock starts, and the journal is finished before it stops.
//!
//! On two shared cores the row is about a quarter dearer from 1,000 slots on than at 100, and flat from there.
//! The likely reason is memory: an episode of 20 turns keeps some 20 KiB of conversation and trajectory, which
//! for 100 slots stays in the cores' caches and for 1,000 does not; the bare side keeps nothing.

pub(crate) mod null;
mod sides;

use std::error::Error;
use std::path::Path;

use clap::ValueEnum;
use serde::Serialize;

use crate::cpu::Cost;
use crate::rows;
use crate::table::{Sample, render};

/// The row of the design that this area answers to.
const TARGET_US_PER_STEP: f64 = 10.0;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Slots under way at once, one row each.
    #[arg(long, value_delimiter = ',', default_values_t = [100, 1_000, 10_000])]
    slots: Vec<u32>,
    /// Steps of each episode.
    #[arg(long, default_value_t = 20)]
    steps: u32,
    /// How often each side is measured, after one round that does not count.
    #[arg(long, default_value_t = 7)]
    rounds: u32,
    /// Least steps of a measurement: few slots are run several times.
    #[arg(long, default_value_t = 200_000)]
    at_least: u32,
    /// Where our side's records go.
    #[arg(long, value_enum, default_value_t = SinkChoice::Journal)]
    sink: SinkChoice,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
enum SinkChoice {
    /// The journal on disk, as in every real run.
    Journal,
    /// Nowhere, to see what the journal's share is.
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

/// Measures and gives the table.
pub(crate) fn run(arguments: &Arguments, out: &Path) -> Result<String, Box<dyn Error>> {
    std::fs::create_dir_all(out)?;
    let mut rows = Vec::new();
    // Sizes take turns, too: what else the machine does meanwhile then weighs on all of them alike.
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

fn measure(
    arguments: &Arguments,
    out: &Path,
    slots: u32,
    side: Side,
    round: u32,
) -> Result<Row, Box<dyn Error>> {
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
        "CPU microseconds per step, median (least-greatest) of {} rounds; {} steps an episode, sink: {}, {cores} \
         cores\n\n{}\ntarget: at most {TARGET_US_PER_STEP} us per step: {} (worst median {worst:.2}); flat over \
         slots: greatest/least median {:.2}",
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
