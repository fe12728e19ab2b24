//! What the gateway costs: `clawrl serve`'s server with its record on a disk, against the same policy behind a bare server.
//!
//! - `gateway`: keys, guard, limits, settings, linking, redaction and the ledger as `clawrl serve` has them, nothing left out. The
//!   policy is a stub that has its words ready; it tells the ids of prompt and answer, so that turns are kept as ones that can be
//!   trained (`--without-ids`: as behind a server that tells none).
//! - `stub`: the same policy behind hyper alone, the same version with the same settings: a body is read to its end, taken as JSON
//!   once, and answered in as many chunks of the same bytes. Nothing is linked or recorded.
//!
//! Each side is a process of its own, made anew for each measurement with an empty ledger; the load is this process. CPU is
//! user and system time of all threads of the side's process, between the end of a warm-up, one request for each stream, and the
//! end of the last request. Both sides share the cores with the load.
//!
//! Conversations grow: a system prompt of half the body's size, then questions of an eighth of it, each behind the answer before, until a
//! body has reached the size; then another conversation begins. So bodies are of 0.6 to 1.3 of the size, and the table says their mean.
//! No header says which conversation it is: the gateway finds it by what is in it. A measurement in which the ledger has not as many
//! turns and sessions as were had is none, and fails the area.
//!
//! Two loads, since one alone says half:
//!
//! - `full`: each stream asks again as soon as it has its answer, and tokens are there at once. The cores are never idle, so CPU per
//!   request is exact, and the stub is at its cheapest: hyper writes many chunks in one call. How long a request takes says only how many
//!   share the cores, and has no target.
//! - `rate`: requests come at a rate that leaves cores idle, whatever becomes of earlier ones, over as many held connections. A timer
//!   gives every answer under way its next token at the same moment, as a step of an engine does. This is what people see of a
//!   gateway, so the target of the added time is held against it. A request counts from when it was due, if no connection was free.
//!
//! The target of CPU is held against both. `added p99` is the p99 of whole requests, to `[DONE]`, less that of the stub in the same round. The last
//! piece waits for a commit, so beside it stands what an fsync of the same disk takes, one after the other on an idle machine: nobody
//! gets below that.
//!
//! What leans where: the bare server makes its chunks by a derived serialiser and has no channel between policy and connection, which is
//! as little as a server can do. Its answers have fewer headers. Connections and requests of a stream are the same on both sides.

mod bare;
mod disk;
mod load;
mod ours;
mod process;
pub(crate) mod serving;
mod stub;
mod talk;
mod verdict;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use clap::ValueEnum;
use serde::Serialize;
use tokio::runtime::{Builder, Runtime};

use crate::cpu::cpu_time;
use crate::rows;
use crate::table::Sample;
use crate::terminals::Failure;

const AREA: &str = "gateway";

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Connections of the load at once, each with one request at a time.
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=1024))]
    streams: u32,
    /// Bytes that bodies grow to, one row each.
    #[arg(long, value_delimiter = ',', default_values_t = [1_024, 40_960], value_parser = clap::value_parser!(u32).range(256..))]
    bodies: Vec<u32>,
    /// Requests of a round of `full`.
    #[arg(long, default_value_t = 4_096, value_parser = clap::value_parser!(u64).range(1..))]
    requests: u64,
    /// Requests a second of `rate`, of all streams together. Times the seconds of an answer, it has to be less than there are streams.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    rate: u32,
    /// Requests of a round of `rate`.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..))]
    rate_requests: u64,
    /// Tokens of an answer, a chunk each.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    tokens: u32,
    /// Microseconds between two tokens in `rate`, in whole milliseconds; 0 for all at once.
    #[arg(long, default_value_t = 20_000)]
    token_micros: u64,
    /// The same in `full`.
    #[arg(long, default_value_t = 0)]
    full_token_micros: u64,
    /// Keys, each of a user, that the streams share.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..))]
    users: u32,
    /// The policy tells no ids and log-probabilities, as a server that does not know how.
    #[arg(long)]
    without_ids: bool,
    /// Where the ledger is made, and removed; on a disk, not in memory. The folder for raw rows, if not given.
    #[arg(long)]
    folder: Option<PathBuf>,
    /// How often each side is measured, after a short round that does not count.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// How requests come.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Load::Full, Load::Rate])]
    loads: Vec<Load>,
    /// What to measure.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Side::Gateway, Side::Stub])]
    sides: Vec<Side>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
enum Side {
    /// The server of `clawrl serve`, and its record.
    Gateway,
    /// The same policy behind a bare server.
    Stub,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
enum Load {
    /// Each stream asks again as soon as it has its answer.
    Full,
    /// So many requests a second.
    Rate,
}

/// Milliseconds.
#[derive(Debug, Clone, Copy, Serialize)]
struct Spread {
    p50: f64,
    p95: f64,
    p99: f64,
}

impl Spread {
    fn of(milliseconds: Vec<f64>) -> Self {
        let sample = Sample::new(milliseconds);
        Self { p50: sample.quantile(0.5), p95: sample.quantile(0.95), p99: sample.quantile(0.99) }
    }
}

/// One side, once.
#[derive(Debug, Clone, Serialize)]
struct Row {
    side: Side,
    load: Load,
    /// Bytes that bodies grow to.
    body: u32,
    round: u32,
    streams: u32,
    tokens: u32,
    token_micros: u64,
    requests: u64,
    wall_s: f64,
    requests_per_s: f64,
    /// Of the side's process, user and system.
    cpu_us: f64,
    /// Of the load's process, for each request, too.
    load_cpu_us: f64,
    /// To the first piece that says something.
    first_ms: Spread,
    /// To `[DONE]`.
    whole_ms: Spread,
    /// Between two pieces.
    gap_ms: Spread,
    /// What requests waited for a connection that was free; part of the two above.
    late_ms: Spread,
    /// Answers that broke, or are not what they have to be.
    errors: u64,
    /// Answers with another status than 200.
    refused: u64,
    /// What the first of them were.
    flaws: Vec<String>,
    /// Mean bytes of a body, and of the events of an answer.
    body_bytes: f64,
    answer_bytes: f64,
    /// Of the ledger.
    commits_per_s: Option<f64>,
    disk_bytes_per_turn: Option<f64>,
    /// Milliseconds of an fsync in the same folder before this round.
    sync_ms: Spread,
}

/// What is measured next.
#[derive(Debug, Clone, Copy)]
struct Turn {
    side: Side,
    load: Load,
    body: u32,
    round: u32,
    sync_ms: Spread,
}

/// Measures and gives the table.
pub(crate) fn run(arguments: &Arguments, out: &Path) -> Result<String, Failure> {
    std::fs::create_dir_all(out)?;
    let folder = arguments.folder.as_deref().unwrap_or(out);
    let in_memory = disk::is_in_memory(folder)?.then(|| {
        format!(
            "warning: {} is in memory, so a commit costs nothing there: name a folder on a disk by --folder\n",
            folder.display()
        )
    });
    let in_memory = in_memory.unwrap_or_default();
    tell(&in_memory)?;
    let runtime = Builder::new_multi_thread().enable_all().build()?;
    let mut rows = Vec::new();
    for round in 0..=arguments.rounds {
        let sync_ms = Spread::of(disk::syncs(folder)?);
        for &body in &arguments.bodies {
            for &load in &arguments.loads {
                for &side in &arguments.sides {
                    let turn = Turn { side, load, body, round, sync_ms };
                    let row = measure(arguments, turn, folder, &runtime)?;
                    if round == 0 {
                        continue;
                    }
                    rows::append(out, AREA, std::slice::from_ref(&row))?;
                    tell(&format!(
                        "round {round}/{}: {load:?} {body} {side:?}: {:.0} us of CPU a request, p99 {:.1} ms\n",
                        arguments.rounds, row.cpu_us, row.whole_ms.p99
                    ))?;
                    rows.push(row);
                }
            }
        }
    }
    Ok(in_memory + &verdict::table(arguments, &rows))
}

fn tell(text: &str) -> std::io::Result<()> {
    std::io::stderr().write_all(text.as_bytes())
}

fn measure(arguments: &Arguments, turn: Turn, folder: &Path, runtime: &Runtime) -> Result<Row, Failure> {
    let Turn { side, load, body, round, sync_ms } = turn;
    let &Arguments { streams, tokens, users, .. } = arguments;
    let (requests, token_micros, pace) = match load {
        Load::Full => (arguments.requests, arguments.full_token_micros, load::Pace::Full),
        Load::Rate => (arguments.rate_requests, arguments.token_micros, load::Pace::Rate(arguments.rate)),
    };
    // The round that does not count is short.
    let requests = if round == 0 { requests.min(u64::from(streams)) } else { requests };
    let ledger = tempfile::Builder::new().prefix("gateway-").tempdir_in(folder)?;
    let serving = serving::Arguments {
        side,
        tokens,
        token_micros,
        users,
        without_ids: arguments.without_ids,
        ledger: ledger.path().to_owned(),
    };
    let mut process = process::Process::start(&serving)?;
    let asking = Arc::new(load::Asking { address: process.address, users, body: body as usize, tokens });
    let open = runtime.block_on(load::open(&asking, streams))?;
    let (before, own) = (process.look()?, cpu_time());
    let begun = Instant::now();
    let (open, seen) = runtime.block_on(load::drive(open, requests, pace))?;
    let wall_s = begun.elapsed().as_secs_f64();
    let own = cpu_time().saturating_sub(own);
    let after = process.look()?;
    let sessions: u64 = open.iter().map(load::Stream::conversations).sum();
    drop(open);
    let ended = process.end()?;
    let turns = seen.answers + u64::from(streams);
    if let Some(record) = ended.record.filter(|_| seen.errors + seen.refused == 0)
        && (record.turns, record.sessions) != (turns, sessions)
    {
        return Err(format!(
            "the ledger has {} turns in {} sessions of {turns} answers in {sessions} conversations",
            record.turns, record.sessions
        )
        .into());
    }
    let each = |sum: f64| sum / requests as f64;
    let commits = after.commits.zip(before.commits).map(|(after, before)| after - before);
    Ok(Row {
        side,
        load,
        body,
        round,
        streams,
        tokens,
        token_micros,
        requests,
        wall_s,
        requests_per_s: requests as f64 / wall_s,
        cpu_us: each((after.cpu_ns - before.cpu_ns) as f64 / 1e3),
        load_cpu_us: each(own.as_secs_f64() * 1e6),
        first_ms: Spread::of(seen.first_ms),
        whole_ms: Spread::of(seen.whole_ms),
        gap_ms: Spread::of(seen.gap_ms),
        late_ms: Spread::of(seen.late_ms),
        errors: seen.errors,
        refused: seen.refused,
        flaws: seen.flaws,
        body_bytes: each(seen.body_bytes as f64),
        answer_bytes: seen.answer_bytes as f64 / seen.answers as f64,
        commits_per_s: commits.map(|commits| commits as f64 / wall_s),
        disk_bytes_per_turn: ended.record.map(|record| record.bytes as f64 / record.turns as f64),
        sync_ms,
    })
}
