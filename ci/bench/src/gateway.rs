//! Cost of the gateway: the server of `clawrl serve` with its ledger on a disk, compared with the same policy behind a bare server.
//!
//! - `gateway`: keys, guard, limits, settings, linking, redaction and ledger as in `clawrl serve`. The policy is a stub with
//!   prepared words; it reports the ids of prompt and answer, so that turns are recorded as trainable.
//! - `stub`: the same policy behind plain hyper, same version and settings. It reads the body, parses it as JSON once, and answers
//!   with as many chunks of the same bytes. It links and records nothing.
//!
//! Each measurement starts a new process for its side, with an empty ledger; this process generates the load. Processor time is
//! user and system time of all threads of the side's process, from the end of the warm-up (one request per stream) to the end of
//! the last request. Both sides share the cores with the load.
//!
//! Conversations grow: a system prompt of half the body's size, then questions of an eighth of it, each after the previous answer,
//! until a body has reached the size; then a new conversation begins. So bodies have 0.6 to 1.3 times the size; the table has
//! their mean. No header names the conversation: the gateway recognises it by its content. The benchmark fails if the ledger has
//! not all turns and sessions.
//!
//! Two loads:
//!
//! - `full`: each stream sends its next request as soon as it has its answer, and tokens are available at once. The cores are never
//!   idle, so processor time per request is exact, and the stub is at its cheapest: hyper writes many chunks in one call. Latencies
//!   only show how many streams share the cores, and have no target.
//! - `rate`: requests arrive at a fixed rate that leaves cores idle. A timer gives each running answer its next token at the same
//!   moment, as a step of an engine does. Users experience this case, so it has the latency target. The clock of a request starts
//!   when it is due, even if no connection is free.
//!
//! Both loads have the target of processor time. `added p99` is the p99 of whole requests, to `[DONE]`, less that of the stub in the
//! same round. The last piece waits for a commit, so the table also has the time of an fsync on the same disk, a lower bound.
//!
//! The bare server favours itself: its chunks come from a derived serialiser, it has no channel between policy and connection, and
//! its answers have fewer headers.

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

use crate::Failure;
use crate::cpu::cpu_time;
use crate::rows;
use crate::table::Sample;

const AREA: &str = "gateway";

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Concurrent connections, each with one request at a time.
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=1024))]
    streams: u32,
    /// Size to which bodies grow, in bytes; one row for each.
    #[arg(long, value_delimiter = ',', default_values_t = [1_024, 40_960], value_parser = clap::value_parser!(u32).range(256..))]
    bodies: Vec<u32>,
    /// Requests per round of `full`.
    #[arg(long, default_value_t = 4_096, value_parser = clap::value_parser!(u64).range(1..))]
    requests: u64,
    /// Requests per second of `rate` over all streams. Multiplied by the seconds per answer, it must stay below `--streams`.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
    rate: u32,
    /// Requests per round of `rate`.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..))]
    rate_requests: u64,
    /// Tokens per answer, one chunk each.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    tokens: u32,
    /// Microseconds between two tokens in `rate`, in whole milliseconds; 0: all at once.
    #[arg(long, default_value_t = 20_000)]
    token_micros: u64,
    /// Users, each with a key, among whom the streams are divided.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..))]
    users: u32,
    /// Folder for temporary ledgers, on a disk [default: the folder for raw rows].
    #[arg(long)]
    folder: Option<PathBuf>,
    /// Rounds per side, after a short warm-up round.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Load patterns.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Load::Full, Load::Rate])]
    loads: Vec<Load>,
    /// Sides to measure.
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Side::Gateway, Side::Stub])]
    sides: Vec<Side>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
enum Side {
    /// The server of `clawrl serve` with its ledger.
    Gateway,
    /// The same policy behind a bare server.
    Stub,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
enum Load {
    /// Each stream sends its next request as soon as it has its answer.
    Full,
    /// A fixed number of requests per second.
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

/// One measurement of one side.
#[derive(Debug, Clone, Serialize)]
struct Row {
    side: Side,
    load: Load,
    /// Size to which bodies grow, bytes.
    body: u32,
    round: u32,
    streams: u32,
    tokens: u32,
    token_micros: u64,
    requests: u64,
    wall_s: f64,
    requests_per_s: f64,
    /// Processor time of the side's process per request.
    cpu_us: f64,
    /// Processor time of this process per request.
    load_cpu_us: f64,
    /// To the first piece with text.
    first_ms: Spread,
    /// To `[DONE]`.
    whole_ms: Spread,
    /// Between two pieces.
    gap_ms: Spread,
    /// Waiting for a free connection; part of `first_ms` and `whole_ms`.
    late_ms: Spread,
    /// Broken or wrong answers.
    errors: u64,
    /// Answers with a status other than 200.
    refused: u64,
    /// First errors.
    flaws: Vec<String>,
    /// Mean bytes of a body and of an answer's events.
    body_bytes: f64,
    answer_bytes: f64,
    /// Commits of the ledger.
    commits_per_s: Option<f64>,
    disk_bytes_per_turn: Option<f64>,
    /// Time of an fsync in the same folder before this round.
    sync_ms: Spread,
}

/// The next measurement.
#[derive(Debug, Clone, Copy)]
struct Turn {
    side: Side,
    load: Load,
    body: u32,
    round: u32,
    sync_ms: Spread,
}

/// Measures, and returns the table.
pub(crate) fn run(arguments: &Arguments, out: &Path) -> Result<String, Failure> {
    std::fs::create_dir_all(out)?;
    let folder = arguments.folder.as_deref().unwrap_or(out);
    let in_memory = disk::is_in_memory(folder)?.then(|| {
        format!(
            "warning: {} is a memory file system, where commits cost nothing; use --folder with a folder on a disk\n",
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
                        "round {round}/{}: {load:?} {body} {side:?}: {:.0} us of processor time per request, p99 {:.1} ms\n",
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
        Load::Full => (arguments.requests, 0, load::Pace::Full),
        Load::Rate => (arguments.rate_requests, arguments.token_micros, load::Pace::Rate(arguments.rate)),
    };
    // The warm-up round is short.
    let requests = if round == 0 { requests.min(u64::from(streams)) } else { requests };
    let ledger = tempfile::Builder::new().prefix("gateway-").tempdir_in(folder)?;
    let serving = serving::Arguments { side, tokens, token_micros, users, ledger: ledger.path().to_owned() };
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
