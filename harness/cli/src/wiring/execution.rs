//! One execution of a plan: runtime, signals, display, metrics, scheduler, and the end of all of them.
//!
//! I1. When [`execute`] returns, nothing that it started is left: sandboxes, spawner, tasks, threads.
//! I2. The runtime is gone before the spawner is waited for, so that no task can hold it up.
//!
//! Cancellation: signals, as [`crate::interrupt`] says.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use clawrl_core::{EpisodeSink, Epoch, Policy, RunPlan, SlotId};
use clawrl_record::{LimitNotSet, RunSink};
use clawrl_scheduler::{
    Interrupt, Patience, ProviderConfig, RunError, RunReport, Scheduler, SchedulerConfig,
};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::machine::{Machine, ProviderSettings, Providers};
use super::metrics;
use crate::exit_code::Exit;
use crate::failure::Failure;
use crate::host::facts;
use crate::interrupt::{FirstInterrupt, Signals};
use crate::log::Log;
use crate::progress::{Display, Watched};

/// Threads for blocking calls: fixture reads and little else.
const BLOCKING_THREADS: usize = 16;

/// How long threads that block are waited for at the end.
const LAST_WAIT: Duration = Duration::from_secs(5);

/// What is executed.
pub(crate) struct Work {
    pub(crate) plan: Arc<RunPlan>,
    /// Slots to fill.
    pub(crate) open_slots: Vec<SlotId>,
    /// Above every epoch granted before.
    pub(crate) first_epoch: Epoch,
    /// Number of the next attempt, where it is not 0.
    pub(crate) attempt_numbers: BTreeMap<SlotId, u32>,
    pub(crate) policy: Arc<dyn Policy>,
    pub(crate) sink: Arc<dyn EpisodeSink>,
    /// Where figures over time go, if anywhere.
    pub(crate) metrics: Option<RunSink>,
    /// Most memory of one session's recording; 0 records nothing.
    pub(crate) cast_bytes: usize,
    pub(crate) first_interrupt: FirstInterrupt,
    pub(crate) display: Display,
}

/// How an execution ended.
pub(crate) struct Ended {
    /// The scheduler's own account.
    pub(crate) report: RunReport,
    /// Why it could not go on, if it could not.
    pub(crate) error: Option<RunError>,
    /// Limits that could not be set.
    pub(crate) limits_not_set: Vec<LimitNotSet>,
}

/// Runs to the end. Blocks.
///
/// # Errors
/// What kept it from starting. An end in error is in [`Ended`].
pub(crate) fn execute(machine: Machine, work: Work, log: &Log) -> Result<Ended, Failure> {
    let limits_not_set = machine.limits_not_set();
    let runtime = runtime()?;
    let settings = ProviderSettings { open_slots: work.open_slots.len(), cast_bytes: work.cast_bytes };
    // Held here, so that the last of them is dropped after the runtime.
    let providers = {
        let _entered = runtime.enter();
        machine.providers(&work.plan, settings)?
    };
    let outcome = runtime.block_on(run(work, providers.clone(), log))?;
    // Whatever still blocks a thread by now was given up on long ago.
    runtime.shutdown_timeout(LAST_WAIT);
    // The last connection to the spawner: it is waited for here.
    drop(providers);
    let (report, error) = match outcome {
        Ok(report) => (report, None),
        Err(error) => (error.report().clone(), Some(error)),
    };
    Ok(Ended { report, error, limits_not_set })
}

fn runtime() -> Result<Runtime, Failure> {
    let mut builder = Builder::new_multi_thread();
    builder
        .enable_all()
        .thread_name("clawrl-worker")
        .worker_threads(facts::cpus() as usize)
        .max_blocking_threads(BLOCKING_THREADS);
    builder.build().map_err(|error| {
        let help = "raise `ulimit -u` and `ulimit -n`";
        Failure::with_help(Exit::Environment, format!("cannot start threads: {error}"), help)
    })
}

async fn run(work: Work, providers: Providers, log: &Log) -> Result<Result<RunReport, RunError>, Failure> {
    let (wanted, interrupts) = watch::channel(Interrupt::None);
    let signals = Signals::register()
        .map_err(|error| Failure::new(Exit::Environment, format!("cannot listen to signals: {error}")))?;
    let with_permits =
        |(&kind, provider): (&&'static str, &Arc<_>)| (kind, ProviderConfig::from(Arc::clone(provider)));
    let scheduler = Scheduler::new(SchedulerConfig {
        plan: Arc::clone(&work.plan),
        open_slots: work.open_slots,
        first_epoch: work.first_epoch,
        attempt_numbers: work.attempt_numbers,
        providers: providers.iter().map(with_permits).collect(),
        policy: work.policy,
        sink: work.sink,
        interrupts,
        demand: None,
        patience: Patience::default(),
    })?;
    let progress = scheduler.progress();
    // Ended with this function, whichever way it is left.
    let mut beside = JoinSet::new();
    beside.spawn(signals.listen(work.first_interrupt, wanted, log.clone()));
    if let Some(sink) = work.metrics {
        beside.spawn(metrics::keep(sink, progress.clone(), providers.clone()));
    }
    let watched = Watched { progress, usage: Box::new(move || metrics::usage(&providers)) };
    let shown = work.display.start(watched, log);
    let outcome = scheduler.run().await;
    shown.end().await;
    beside.shutdown().await;
    Ok(outcome)
}
