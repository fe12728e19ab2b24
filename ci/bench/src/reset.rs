//! Time to a new sandboxed shell with a usable workspace, cold and warm, against a bare start of a user namespace.
//!
//! - `cold`: a lease from an empty pool, and its reset: a new sandbox, a bash at its prompt, one file laid into the
//!   workspace, the task's variables set. One at a time; each is closed before the next begins.
//! - `warm`: the same from a pool that was filled before the clock started. One at a time.
//! - `namespace`: `unshare` makes a user, a process and a mount namespace and runs `true`. The limit.
//! - `bwrap`: bubblewrap makes a user namespace over the host's own files and runs `true`.
//! - `docker`: `docker run` of `true` without a network, where a daemon answers and has the image.
//!
//! The bare sides run as an unprivileged user, as our sandboxes do. They isolate less than ours do (no network,
//! process or file-system namespace of their own, no limits, no system-call filter, no terminal, no shell), so the
//! ratio counts all of that as our cost.
//!
//! Where a cold start goes is measured beside, layer by layer, with the same specification: `spawn` (a program that
//! ends at once, started by the spawner, up to its end), `sandbox` (from the request to the mark that the first
//! program inside prints), `prompt` (from there to bash's first prompt), `reset` (the second part of a cold start).

mod bare;
mod sides;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;

use crate::rows;
use crate::table::{Sample, render};
use crate::terminals::{Failure, with_terminals};

/// The row of the design that this area answers to.
const COLD_AT_MOST: f64 = 3.0;
const WARM_AT_MOST_US: f64 = 1_000.0;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How often each side is measured, after one round that does not count.
    #[arg(long, default_value_t = 7)]
    rounds: u32,
    /// Starts of each side in a round.
    #[arg(long, default_value_t = 50)]
    starts: u32,
    /// Image for `docker run`; it is never pulled.
    #[arg(long, default_value = "debian:stable-slim")]
    image: String,
}

/// What is timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
enum Side {
    Cold,
    Warm,
    Namespace,
    Bwrap,
    Docker,
    PhaseSpawn,
    PhaseSandbox,
    PhaseSandboxHostNetwork,
    PhasePrompt,
    PhaseReset,
}

impl Side {
    fn label(self) -> &'static str {
        match self {
            Self::Cold => "cold",
            Self::Warm => "warm",
            Self::Namespace => "bare user namespace",
            Self::Bwrap => "bwrap --unshare-user",
            Self::Docker => "docker run",
            Self::PhaseSpawn => "  of cold: spawn",
            Self::PhaseSandbox => "  of cold: sandbox, spawn included",
            Self::PhaseSandboxHostNetwork => "  not of it: sandbox, host's network",
            Self::PhasePrompt => "  of cold: bash to its prompt",
            Self::PhaseReset => "  of cold: reset",
        }
    }
}

/// The times of one round, by side.
type Round = BTreeMap<Side, Vec<Duration>>;

#[derive(Debug, Clone, Copy, Serialize)]
struct Row {
    side: Side,
    round: u32,
    starts: usize,
    p50_us: f64,
    p95_us: f64,
}

/// Measures and gives the table.
pub(crate) fn run(arguments: &Arguments, out: &Path) -> Result<String, Failure> {
    let docker = bare::Docker::find(&arguments.image);
    let rows = with_terminals("reset", async |terminals| {
        let mut rows = Vec::new();
        for round in 0..=arguments.rounds {
            let mut times = sides::ours(terminals, arguments.starts).await?;
            times.append(&mut bare::others(arguments.starts, docker.as_ref().ok())?);
            if round > 0 {
                rows.extend(times.into_iter().map(|(side, times)| row(side, round, &times)));
            }
        }
        Ok(rows)
    })?;
    rows::append(out, "reset", &rows)?;
    Ok(table(arguments, &rows, docker.err()))
}

fn row(side: Side, round: u32, times: &[Duration]) -> Row {
    let sample = Sample::new(times.iter().map(|time| time.as_secs_f64() * 1e6).collect());
    Row { side, round, starts: times.len(), p50_us: sample.median(), p95_us: sample.quantile(0.95) }
}

fn table(arguments: &Arguments, rows: &[Row], no_docker: Option<String>) -> String {
    let sample = |side: Side, value: fn(&Row) -> f64| {
        Sample::new(rows.iter().filter(|row| row.side == side).map(value).collect())
    };
    let p50 = |side: Side| sample(side, |row| row.p50_us);
    let limit = p50(Side::Namespace).median();
    let mut lines = vec![["side", "p50", "p95", "p50 / bare"].map(str::to_owned).to_vec()];
    let measured: std::collections::BTreeSet<Side> = rows.iter().map(|row| row.side).collect();
    for side in measured {
        lines.push(vec![
            side.label().to_owned(),
            p50(side).summary(),
            sample(side, |row| row.p95_us).summary(),
            format!("{:.2}", p50(side).median() / limit),
        ]);
    }
    if let Some(why) = no_docker {
        lines.push(vec![Side::Docker.label().to_owned(), format!("not measured: {why}")]);
    }
    let (cold, warm) = (p50(Side::Cold).median() / limit, p50(Side::Warm).median());
    let verdict = |met: bool| if met { "met" } else { "missed" };
    format!(
        "microseconds, median (least-greatest) of {} rounds of {} starts, one at a time\n\n{}\ntarget: cold at most \
         {COLD_AT_MOST} x a bare user namespace: {} ({cold:.2}); warm at most {WARM_AT_MOST_US} us: {} ({warm:.0})",
        arguments.rounds,
        arguments.starts,
        render(&lines),
        verdict(cold <= COLD_AT_MOST),
        verdict(warm <= WARM_AT_MOST_US),
    )
}
