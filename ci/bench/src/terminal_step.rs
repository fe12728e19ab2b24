//! One `echo hello` in a persistent sandboxed shell.
//!
//! - `env`: a step of the terminal environment as the scheduler calls it: parse the tool call, run the command, make the
//!   observation.
//! - `session`: the shell session without the environment.
//! - `bare`: a loop that writes the line to the terminal and reads up to the prompt. The lower bound.
//! - `tmux-wait`: the tmux calls of Harbor's `TmuxSession` when it waits for the end of the command (Harbor's own agent
//!   sleeps for a time that the model chooses). Each call is a `bash -c` in the sandbox of tmux. `docker exec` and Python,
//!   which Harbor needs too, are left out, which favours the peer.
//! - `tmux-poll`: sends the keys and reads the screen until the expected answer is there, with fewer calls than Harbor
//!   needs. The target compares with the faster of the two.
//! - `harbor`: Harbor's own class, driven by `ci/bench/peers/harbor_tmux.py`.
//! - `swe-rex`: SWE-ReX's own local deployment, driven by `ci/bench/peers/swe_rex.py`.
//!
//! The first five run in sandboxes of the same backend with the same limits, one per session. The last two need Python
//! packages (`--peers` explains how to install them). All their sessions share one sandbox with the same namespaces but
//! without ClawRL's system-call filter and limits, which favours them.
//!
//! All sessions of a side start and take a few warm-up steps; then all step concurrently. Steps per second are the sum over
//! all sessions.

mod drive;
mod peers;
mod tmux;

use std::path::Path;
use std::sync::Arc;

use clap::ValueEnum;
use serde::Serialize;

use crate::Failure;
use crate::rows;
use crate::table::{Sample, render};
use crate::terminals::{BareShell, EnvShell, SessionShell, Terminals, task, with_terminals};
use drive::{Times, drive};
use peers::Peers;
use tmux::{Ending, TmuxShell};

/// Targets.
const BARE_AT_MOST: f64 = 1.5;
const TMUX_AT_LEAST: f64 = 15.0;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Concurrent sessions; one block of rows for each number.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 64], value_parser = clap::value_parser!(u32).range(1..))]
    sessions: Vec<u32>,
    /// Rounds per side, after one warm-up round.
    #[arg(long, default_value_t = 7)]
    rounds: u32,
    /// Steps per round of `env`, `session` and `bare`, divided among the sessions.
    #[arg(long, default_value_t = 6_400)]
    steps: u32,
    /// Steps per round of the other, slower sides, divided among the sessions.
    #[arg(long, default_value_t = 320)]
    peer_steps: u32,
    /// Sides to measure [default: all that are installed].
    #[arg(long, value_enum, value_delimiter = ',')]
    sides: Vec<Side>,
    /// List the installed peers and how to install the others.
    #[arg(long)]
    peers: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
enum Side {
    Env,
    Session,
    Bare,
    TmuxWait,
    TmuxPoll,
    Harbor,
    SweRex,
}

impl Side {
    fn is_slow(self) -> bool {
        !matches!(self, Self::Env | Self::Session | Self::Bare)
    }
}

#[derive(Debug, Clone, Copy, Serialize)]
struct Row {
    side: Side,
    sessions: u32,
    round: u32,
    steps: usize,
    p50_us: f64,
    p95_us: f64,
    steps_per_s: f64,
}

/// Measures, and returns the table.
pub(crate) fn run(arguments: &Arguments, out: &Path) -> Result<String, Failure> {
    let peers = Peers::find();
    if arguments.peers {
        return Ok(peers.describe());
    }
    let sides: Vec<Side> = match arguments.sides.as_slice() {
        [] => Side::value_variants().iter().copied().filter(|&side| peers.have(side)).collect(),
        chosen => chosen.to_vec(),
    };
    if let Some(side) = sides.iter().find(|&&side| !peers.have(side)) {
        return Err(format!("{side:?} is not installed\n{}", peers.describe()).into());
    }
    let rows = with_terminals(async |terminals| {
        let mut rows = Vec::new();
        for round in 0..=arguments.rounds {
            for &sessions in &arguments.sessions {
                for &side in &sides {
                    let steps = if side.is_slow() { arguments.peer_steps } else { arguments.steps };
                    let times = measure(terminals, &peers, side, sessions, steps.div_ceil(sessions)).await?;
                    if round > 0 {
                        rows.push(row(side, sessions, round, times));
                    }
                }
            }
        }
        Ok(rows)
    })?;
    rows::append(out, "terminal-step", &rows)?;
    Ok(format!("{}\n{}", table(arguments, &sides, &rows), peers.missing()))
}

async fn measure(
    terminals: &Terminals,
    peers: &Peers,
    side: Side,
    sessions: u32,
    steps: u32,
) -> Result<Times, Failure> {
    let backend = terminals.backend.clone();
    match side {
        Side::Env => {
            let (terminals, task) = (terminals.clone(), task());
            let start = move || {
                let (terminals, task) = (terminals.clone(), Arc::clone(&task));
                async move { EnvShell::start(&terminals, &task).await }
            };
            drive(start, sessions, steps).await
        }
        Side::Session => {
            let start = move || {
                let backend = backend.clone();
                async move { SessionShell::start(&backend).await }
            };
            drive(start, sessions, steps).await
        }
        Side::Bare => {
            let start = move || {
                let backend = backend.clone();
                async move { BareShell::start(&backend).await }
            };
            drive(start, sessions, steps).await
        }
        Side::TmuxWait | Side::TmuxPoll => {
            let ending = if side == Side::TmuxWait { Ending::Waited } else { Ending::Polled };
            let start = move || {
                let backend = backend.clone();
                async move { TmuxShell::start(&backend, ending).await }
            };
            drive(start, sessions, steps).await
        }
        Side::Harbor | Side::SweRex => peers.measure(side, sessions, steps).await,
    }
}

fn row(side: Side, sessions: u32, round: u32, times: Times) -> Row {
    let steps = times.steps.len();
    let sample = Sample::new(times.steps.iter().map(|time| time.as_secs_f64() * 1e6).collect());
    Row {
        side,
        sessions,
        round,
        steps,
        p50_us: sample.median(),
        p95_us: sample.quantile(0.95),
        steps_per_s: steps as f64 / times.wall.as_secs_f64(),
    }
}

fn table(arguments: &Arguments, sides: &[Side], rows: &[Row]) -> String {
    let sample = |sessions: u32, side: Side, value: fn(&Row) -> f64| {
        let picked = rows.iter().filter(|row| row.sessions == sessions && row.side == side);
        Sample::new(picked.map(value).collect())
    };
    let p50 = |sessions, side| sample(sessions, side, |row| row.p50_us).median();
    let ratio = |value: f64| if value.is_finite() { format!("{value:.2}") } else { "-".to_owned() };
    let header = ["sessions", "side", "p50, us", "p95, us", "steps/s", "p50 / bare", "p50 / env"];
    let mut lines = vec![header.map(str::to_owned).to_vec()];
    let mut verdicts = Vec::new();
    let verdict = |met: bool| if met { "met" } else { "missed" };
    for &sessions in &arguments.sessions {
        for &side in sides {
            let of = |value| sample(sessions, side, value);
            lines.push(vec![
                sessions.to_string(),
                side.to_possible_value().map_or_else(String::new, |name| name.get_name().to_owned()),
                of(|row| row.p50_us).summary(),
                of(|row| row.p95_us).summary(),
                of(|row| row.steps_per_s).summary(),
                ratio(p50(sessions, side) / p50(sessions, Side::Bare)),
                ratio(p50(sessions, side) / p50(sessions, Side::Env)),
            ]);
        }
        let to_bare = p50(sessions, Side::Env) / p50(sessions, Side::Bare);
        let tmux = p50(sessions, Side::TmuxWait).min(p50(sessions, Side::TmuxPoll));
        let to_tmux = tmux / p50(sessions, Side::Env);
        if to_bare.is_finite() {
            verdicts.push(format!(
                "{sessions} sessions: env at most {BARE_AT_MOST} x bare: {} ({to_bare:.2})",
                verdict(to_bare <= BARE_AT_MOST)
            ));
        }
        if to_tmux.is_finite() {
            verdicts.push(format!(
                "{sessions} sessions: tmux at least {TMUX_AT_LEAST} x env: {} ({to_tmux:.1})",
                verdict(to_tmux >= TMUX_AT_LEAST)
            ));
        }
    }
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    format!(
        "one `echo hello`, median (min-max) of {} rounds, {cores} cores\n\n{}\ntarget: {}",
        arguments.rounds,
        render(&lines),
        if verdicts.is_empty() { "needs env and bare".to_owned() } else { verdicts.join("; ") },
    )
}
