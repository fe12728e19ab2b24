//! Completion tokens per second of the whole loop of reinforcement learning with a tiny policy and a trivial reward,
//! against TRL's GRPOTrainer.
//!
//! - `asynchronous`, `synchronous`: ours, with generation running ahead of the learner by at most four versions, and
//!   by turns as in TRL. The engine takes one thread of libtorch and the learner one for each core, beside the
//!   scheduler's threads.
//! - `trl`: GRPOTrainer, one generation and one optimizer step for each batch in one forward pass, no reference model,
//!   on `--peer-threads` threads.
//!
//! All begin with the same weights and have the same instructions, group size, batch, lengths, temperature, optimizer
//! and reward, which is the share of vowels in the reply. A reply ends with the end token or at the limit. Counted are
//! sampled tokens that an update was made with. Time runs from the first generation to the last update with all
//! weights loaded. Ours has a scheduler, an environment for each episode, and a batch that is formed of whole groups;
//! none of it writes to disk.

use std::num::{NonZeroU32, NonZeroUsize};
use std::path::Path;

use clap::ValueEnum;
use clawrl_learn::Schedule;
use serde::{Deserialize, Serialize};

use crate::Failure;
use crate::python::Peer;
use crate::rows;
use crate::table::{Sample, render};
use crate::tiny::{TinyPolicy, instructions};
use crate::training::{LEARNING_RATE, TrainingConfig, train};

const SCRIPT: &str = include_str!("../peers/trl_grpo.py");
/// The row of the design that this area answers to.
const AT_LEAST: f64 = 2.0;
/// How far generation runs ahead, as in a train file that does not say.
const MAX_STALENESS: u64 = 4;
const WORDS: usize = 12;
/// Updates of the round that does not count.
const WARM_UP: u32 = 2;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How often each side is measured, after a short round that does not count.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Updates of a round.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    updates: u32,
    /// Groups of a batch.
    #[arg(long, default_value_t = NonZeroU32::MIN.saturating_add(15))]
    groups: NonZeroU32,
    /// Members of a group.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(2..))]
    members: u32,
    /// Most tokens of a reply.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    new_tokens: u32,
    /// Threads of libtorch for TRL; as many as there are cores when not given.
    #[arg(long)]
    peer_threads: Option<u32>,
    /// What to measure.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Side::Asynchronous, Side::Synchronous, Side::Trl])]
    sides: Vec<Side>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
enum Side {
    Asynchronous,
    Synchronous,
    Trl,
}

#[derive(Debug, Clone, Copy, Serialize)]
struct Row {
    side: Side,
    round: u32,
    updates: u32,
    tokens: u64,
    wall_s: f64,
    tokens_per_s: f64,
}

/// What TRL is told.
#[derive(Debug, Serialize)]
struct Work<'a> {
    prompts: &'a [String],
    groups: u32,
    members: u32,
    updates: u32,
    new_tokens: u32,
    learning_rate: f64,
    threads: u32,
    seed: u64,
}

#[derive(Debug, Deserialize)]
struct Done {
    wall_s: f64,
    tokens: u64,
}

/// Measures and gives the table.
pub(crate) fn run(arguments: &Arguments, out: &Path) -> Result<String, Failure> {
    let policy = TinyPolicy::new()?;
    let mut peer = match arguments.sides.contains(&Side::Trl) {
        true => Some(Peer::start(SCRIPT, &policy.path())?),
        false => None,
    };
    let mut rows = Vec::new();
    for round in 0..=arguments.rounds {
        let updates = if round == 0 { WARM_UP } else { arguments.updates };
        for &side in &arguments.sides {
            let (wall_s, tokens) =
                measure(arguments, &policy, peer.as_mut(), side, updates, u64::from(round))?;
            if round > 0 {
                rows.push(Row { side, round, updates, tokens, wall_s, tokens_per_s: tokens as f64 / wall_s });
            }
        }
    }
    rows::append(out, "rl-loop", &rows)?;
    let versions = peer.map_or_else(String::new, |peer| peer.versions.clone());
    Ok(format!("{}{versions}\n", table(arguments, &rows)))
}

fn measure(
    arguments: &Arguments,
    policy: &TinyPolicy,
    peer: Option<&mut Peer>,
    side: Side,
    updates: u32,
    seed: u64,
) -> Result<(f64, u64), Failure> {
    let &Arguments { groups, members, new_tokens, .. } = arguments;
    // As many as are trained on.
    let prompts = instructions((groups.get() * updates) as usize, WORDS, seed);
    let schedule = match side {
        Side::Asynchronous => Schedule::Asynchronous { max_staleness: MAX_STALENESS },
        Side::Synchronous => Schedule::Synchronous,
        Side::Trl => {
            let threads = arguments.peer_threads.unwrap_or_else(cores);
            let work = Work {
                prompts: &prompts,
                groups: groups.get(),
                members,
                updates,
                new_tokens,
                learning_rate: LEARNING_RATE,
                threads,
                seed,
            };
            let Done { wall_s, tokens } = peer.ok_or("TRL was not started")?.ask(&work)?;
            return Ok((wall_s, tokens));
        }
    };
    let trained = train(
        policy,
        &TrainingConfig {
            schedule,
            instructions: prompts,
            groups,
            members,
            updates,
            turns: 1,
            new_tokens,
            concurrency: groups.get() * members,
            latency: None,
            learner_threads: NonZeroUsize::new(cores() as usize).unwrap_or(NonZeroUsize::MIN),
            seed,
        },
    )?;
    Ok((trained.wall_s, trained.tokens))
}

fn cores() -> u32 {
    std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32)
}

fn table(arguments: &Arguments, rows: &[Row]) -> String {
    let of = |side: Side, value: fn(&Row) -> f64| {
        Sample::new(rows.iter().filter(|row| row.side == side).map(value).collect())
    };
    let speed = |side| of(side, |row| row.tokens_per_s).median();
    let header = ["side", "completion tokens/s", "s an update", "tokens an update", "ratio to trl"];
    let mut lines = vec![header.map(str::to_owned).to_vec()];
    for &side in &arguments.sides {
        lines.push(vec![
            side.to_possible_value().map_or_else(String::new, |name| name.get_name().to_owned()),
            of(side, |row| row.tokens_per_s).summary(),
            of(side, |row| row.wall_s / f64::from(row.updates)).summary(),
            of(side, |row| row.tokens as f64 / f64::from(row.updates)).summary(),
            format!("{:.2}", speed(side) / speed(Side::Trl)),
        ]);
    }
    let ratio = speed(Side::Asynchronous) / speed(Side::Trl);
    let verdict = match ratio {
        ratio if ratio >= AT_LEAST => format!("met ({ratio:.2})"),
        ratio if ratio.is_finite() => format!("missed ({ratio:.2})"),
        _ => "not judged without asynchronous and trl".to_owned(),
    };
    format!(
        "{} updates of {} groups of {}, replies of at most {} tokens, median (least-greatest) of {} rounds, {} cores, \
         TRL on {} threads\n\n{}\ntarget: asynchronous at least {AT_LEAST} x TRL: {verdict}\n",
        arguments.updates,
        arguments.groups,
        arguments.members,
        arguments.new_tokens,
        arguments.rounds,
        cores(),
        arguments.peer_threads.unwrap_or_else(cores),
        render(&lines),
    )
}
