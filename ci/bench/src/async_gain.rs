//! Wall time to the same number of updates on slow environments with a heavy tail, asynchronous against synchronous
//! and against one step off.
//!
//! All three train the same policy with the same settings on environments with the same latencies, which sleep and
//! take no processor time, and may have the same number of them under way: as many as a batch has episodes, so that
//! what is compared is who waits, not who has more environments. Each round has latencies of its own.
//!
//! - `synchronous`: a batch is generated, then trained. Both wait for the slowest episode.
//! - `one-step-off`: a batch is generated while the one before trains. Each batch still waits for its slowest episode.
//! - `asynchronous`: a batch is trained with the groups that finish first; the next ones are under way meanwhile. No
//!   trained token is more than `--max-staleness` versions old.
//!
//! The reward of the last quarter of the updates is printed beside: what is faster has to learn as well.

use std::num::{NonZeroU32, NonZeroUsize};
use std::path::Path;
use std::time::Duration;

use clap::ValueEnum;
use clawrl_learn::Schedule;
use serde::Serialize;

use crate::Failure;
use crate::rows;
use crate::table::{Sample, render};
use crate::tiny::{TinyPolicy, instructions};
use crate::training::{Latency, Trained, TrainingConfig, train};

/// The row of the design that this area answers to.
const OVER_SYNCHRONOUS: f64 = 1.8;
const OVER_ONE_STEP_OFF: f64 = 1.3;
const WORDS: usize = 12;
const TURNS: u32 = 2;
/// Updates of the round that does not count.
const WARM_UP: u32 = 1;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How often each schedule is measured, after a short round that does not count.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Updates of a round.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..))]
    updates: u32,
    /// Groups of a batch.
    #[arg(long, default_value_t = NonZeroU32::MIN.saturating_add(3))]
    groups: NonZeroU32,
    /// Members of a group.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(2..))]
    members: u32,
    /// Most tokens of a reply, of which an episode has two.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..))]
    new_tokens: u32,
    /// The least time of a step; the mean is three times as long, the longest forty times.
    #[arg(long, default_value_t = 30)]
    least_ms: u64,
    /// Versions that a token may be behind, asynchronously.
    #[arg(long, default_value_t = 4)]
    max_staleness: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
enum Side {
    Synchronous,
    OneStepOff,
    Asynchronous,
}

#[derive(Debug, Clone, Copy, Serialize)]
struct Row {
    side: Side,
    round: u32,
    #[serde(flatten)]
    trained: Trained,
}

/// Measures and gives the table.
pub(crate) fn run(arguments: &Arguments, out: &Path) -> Result<String, Failure> {
    let policy = TinyPolicy::new()?;
    let mut rows = Vec::new();
    for round in 0..=arguments.rounds {
        let updates = if round == 0 { WARM_UP } else { arguments.updates };
        for &side in Side::value_variants() {
            let trained = train(&policy, &config(arguments, side, updates, u64::from(round)))?;
            if round > 0 {
                rows.push(Row { side, round, trained });
            }
        }
    }
    rows::append(out, "async-gain", &rows)?;
    Ok(table(arguments, &rows))
}

fn config(arguments: &Arguments, side: Side, updates: u32, seed: u64) -> TrainingConfig {
    let &Arguments { groups, members, new_tokens, least_ms, max_staleness, .. } = arguments;
    TrainingConfig {
        schedule: match side {
            Side::Synchronous => Schedule::Synchronous,
            Side::OneStepOff => Schedule::OneStepOff,
            Side::Asynchronous => Schedule::Asynchronous { max_staleness },
        },
        instructions: instructions((groups.get() * updates) as usize, WORDS, seed),
        groups,
        members,
        updates,
        turns: TURNS,
        new_tokens,
        concurrency: groups.get() * members,
        latency: Some(Latency { least: Duration::from_millis(least_ms) }),
        learner_threads: NonZeroUsize::MIN,
        seed,
    }
}

fn table(arguments: &Arguments, rows: &[Row]) -> String {
    let of = |side: Side, value: fn(&Trained) -> f64| {
        let picked = rows.iter().filter(|row| row.side == side);
        Sample::new(picked.map(|row| value(&row.trained)).collect())
    };
    let wall = |side| of(side, |trained| trained.wall_s);
    let header = [
        "schedule",
        "wall, s",
        "learner, s",
        "staleness, most",
        "staleness, mean",
        "too old, tokens",
        "reward at the end",
        "over asynchronous",
    ];
    let mut lines = vec![header.map(str::to_owned).to_vec()];
    // Rounds have latencies of their own, so each is compared within itself.
    let gain = |side: Side| {
        let walls =
            |side: Side| rows.iter().filter(move |row| row.side == side).map(|row| row.trained.wall_s);
        Sample::new(walls(side).zip(walls(Side::Asynchronous)).map(|(other, ours)| other / ours).collect())
    };
    for &side in Side::value_variants() {
        lines.push(vec![
            side.to_possible_value().map_or_else(String::new, |name| name.get_name().to_owned()),
            wall(side).summary(),
            of(side, |trained| trained.update_s).summary(),
            format!("{}", of(side, |trained| trained.staleness_max as f64).quantile(1.0)),
            of(side, |trained| trained.staleness_mean).summary(),
            of(side, |trained| trained.stale_tokens as f64).summary(),
            of(side, |trained| trained.reward).summary(),
            gain(side).summary(),
        ]);
    }
    let verdict = |side: Side, target: f64| {
        let ratio = gain(side).median();
        format!("{} ({ratio:.2})", if ratio >= target { "met" } else { "missed" })
    };
    let stalest = of(Side::Asynchronous, |trained| trained.staleness_max as f64).quantile(1.0);
    let bounded = if stalest <= arguments.max_staleness as f64 { "met" } else { "missed" };
    format!(
        "{} updates of {} groups of {}, {TURNS} steps an episode of {} ms at least, median (least-greatest) of {} \
         rounds\n\n{}\ntarget: at least {OVER_SYNCHRONOUS} x over synchronous: {}; at least {OVER_ONE_STEP_OFF} x over \
         one-step-off: {}; staleness at most {}: {bounded} ({stalest})\n",
        arguments.updates,
        arguments.groups,
        arguments.members,
        arguments.least_ms,
        arguments.rounds,
        render(&lines),
        verdict(Side::Synchronous, OVER_SYNCHRONOUS),
        verdict(Side::OneStepOff, OVER_ONE_STEP_OFF),
        arguments.max_staleness,
    )
}
