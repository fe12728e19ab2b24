//! One size on one side: start in quarters, one command each, close, look for what is left.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clawrl_core::EnvProvider;
use tokio::task::JoinSet;

use super::{Row, Side};
use crate::census::{Census, machine_cpu, settle};
use crate::terminals::{
    BareShell, EnvShell, Failure, Fixtures, Shell, Terminals, run_name, task, with_terminals,
};

const AREA: &str = "live-shells";

/// Wall and processor time of a phase.
#[derive(Debug, Clone, Copy)]
struct Cost {
    wall: Duration,
    cpu: Duration,
}

impl Cost {
    fn cpu_ms_each(self, shells: u32) -> f64 {
        self.cpu.as_secs_f64() * 1e3 / f64::from(shells)
    }
}

/// Starts a clock that also counts the machine's processors.
fn clock() -> impl Fn() -> Cost {
    let (begun, cpu) = (Instant::now(), machine_cpu());
    move || Cost { wall: begun.elapsed(), cpu: machine_cpu().saturating_sub(cpu) }
}

/// What was seen while the shells were alive.
struct Seen {
    quarters: [Cost; 4],
    started: Census,
    echo: Cost,
    used: Census,
    close: Cost,
}

/// The most memory that was ever available before a round. What an earlier round has not given back yet must not make
/// a later one look small.
#[derive(Debug, Default)]
pub(super) struct Baseline {
    available_kib: u64,
}

/// Measures one size on one side.
pub(super) fn measure(side: Side, shells: u32, round: u32, baseline: &mut Baseline) -> Result<Row, Failure> {
    settle();
    let before = Census::take();
    baseline.available_kib = baseline.available_kib.max(before.memory_available_kib);
    let seen = with_terminals(AREA, async |terminals| match side {
        Side::Terminals => environments(terminals, shells).await,
        Side::Bare => bare(terminals, shells).await,
    })?;
    let left = before.left_since(&format!("clawrl-{}-{}-", run_name(AREA), std::process::id()));
    let mib_each = |census: &Census| {
        let gone = baseline.available_kib as f64 - census.memory_available_kib as f64;
        gone / 1024.0 / f64::from(shells)
    };
    let sizes = quarters(shells);
    let start_ms =
        std::array::from_fn(|index| seen.quarters[index].wall.as_secs_f64() * 1e3 / f64::from(sizes[index]));
    Ok(Row {
        side,
        shells,
        round,
        started_mib: mib_each(&seen.started),
        used_mib: mib_each(&seen.used),
        start_ms,
        echo_s: seen.echo.wall.as_secs_f64(),
        close_s: seen.close.wall.as_secs_f64(),
        start_cpu_ms: seen.quarters.iter().map(|cost| cost.cpu_ms_each(shells)).sum(),
        echo_cpu_ms: seen.echo.cpu_ms_each(shells),
        close_cpu_ms: seen.close.cpu_ms_each(shells),
        threads: seen.used.threads as i64 - before.threads as i64,
        open_files: seen.used.open_files as i64 - before.open_files as i64,
        left,
    })
}

/// Four parts, as equal as can be; none is empty from four shells on.
fn quarters(shells: u32) -> [u32; 4] {
    [0, 1, 2, 3].map(|index| shells * (index + 1) / 4 - shells * index / 4)
}

async fn environments(terminals: &Terminals, shells: u32) -> Result<Seen, Failure> {
    let mut quarters_seen = Vec::new();
    for quarter in quarters(shells) {
        let cost = clock();
        terminals.provider.warm_up(quarter).await?;
        quarters_seen.push(cost());
    }
    let started = Census::take();
    let cost = clock();
    let task = task(Fixtures::None);
    let mut at_work = JoinSet::new();
    for _ in 0..shells {
        let (terminals, task) = (terminals.clone(), Arc::clone(&task));
        at_work.spawn(async move {
            let mut shell = EnvShell::start(&terminals, &task).await?;
            shell.step().await?;
            Ok::<_, Failure>(shell)
        });
    }
    finish(all(at_work).await?, quarters_seen, started, cost()).await
}

async fn bare(terminals: &Terminals, shells: u32) -> Result<Seen, Failure> {
    let mut alive = Vec::new();
    let mut quarters_seen = Vec::new();
    for quarter in quarters(shells) {
        let cost = clock();
        let mut starting = JoinSet::new();
        for _ in 0..quarter {
            let backend = terminals.backend.clone();
            starting.spawn(async move { BareShell::start(&backend).await });
        }
        alive.append(&mut all(starting).await?);
        quarters_seen.push(cost());
    }
    let started = Census::take();
    let cost = clock();
    let mut at_work = JoinSet::new();
    for mut shell in alive {
        at_work.spawn(async move {
            shell.step().await?;
            Ok::<_, Failure>(shell)
        });
    }
    finish(all(at_work).await?, quarters_seen, started, cost()).await
}

/// All shells have run their command: looks, and closes them.
async fn finish<S: Shell>(
    shells: Vec<S>,
    quarters: Vec<Cost>,
    started: Census,
    echo: Cost,
) -> Result<Seen, Failure> {
    let used = Census::take();
    let cost = clock();
    let mut closing = JoinSet::new();
    for shell in shells {
        closing.spawn(shell.close());
    }
    all(closing).await?;
    let close = cost();
    let quarters = <[Cost; 4]>::try_from(quarters).map_err(|_| "a quarter was not measured")?;
    Ok(Seen { quarters, started, echo, used, close })
}

async fn all<T: 'static>(mut tasks: JoinSet<Result<T, Failure>>) -> Result<Vec<T>, Failure> {
    let mut results = Vec::with_capacity(tasks.len());
    while let Some(result) = tasks.join_next().await {
        results.push(result??);
    }
    Ok(results)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quarters_are_the_whole() {
        let check = |shells: u32, expected: [u32; 4]| assert_eq!(quarters(shells), expected, "{shells}");
        check(4, [1, 1, 1, 1]);
        check(7, [1, 2, 2, 2]);
        check(3_000, [750, 750, 750, 750]);
    }
}
