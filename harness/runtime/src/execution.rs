//! The execution of plans: runtime, signals, display, metrics, scheduler, and their shutdown.
//!
//! I1. When [`execute`] or [`Executor::end`] returns, all sandboxes, tasks, threads and the spawner have ended. I2. The runtime
//! ends before the spawner is awaited, so that no task can delay the spawner.
//!
//! Cancellation: signals, as [`crate::interrupt`] says.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use clawrl_core::{EpisodeSink, Epoch, Policy, RunPlan, SlotId};
use clawrl_record::{LimitNotSet, RunSink};
use clawrl_scheduler::{
    Demand, Interrupt, ProviderConfig, RunEnd, RunError, RunReport, Scheduler, SchedulerConfig,
    SchedulerTimeouts,
};
use tokio::runtime::{Builder, Handle};
use tokio::sync::{oneshot, watch};

use super::machine::{Machine, ProviderSettings, Providers, Runtime};
use super::{isolation, metrics};
use crate::error::RuntimeError;
use crate::host::facts;
use crate::interrupt::{FirstInterrupt, Signals};
use crate::progress::{Progress, RunningRun};

/// Threads for blocking calls, mostly reads of fixtures.
const BLOCKING_THREADS: usize = 16;

/// Time limit for blocking threads at the end.
const LAST_WAIT: Duration = Duration::from_secs(5);

/// Input of an execution.
pub struct Work {
    /// The run: its tasks, limits and seeds.
    pub plan: Arc<RunPlan>,
    /// Slots to fill.
    pub open_slots: Vec<SlotId>,
    /// Above every epoch granted before.
    pub first_epoch: Epoch,
    /// Number of the next attempt, where it is not 0.
    pub attempt_numbers: BTreeMap<SlotId, u32>,
    /// The demand for groups, set by a consumer during the run; `None`: all slots.
    pub demand: Option<watch::Receiver<Demand>>,
    /// Chooses the actions.
    pub policy: Arc<dyn Policy>,
    /// Receives every attempt that ended.
    pub sink: Arc<dyn EpisodeSink>,
    /// Receives metrics over time, if set.
    pub metrics: Option<RunSink>,
    /// Maximum memory of one session's recording, bytes; 0 records nothing.
    pub cast_bytes: usize,
    /// Whether the run is shown while it executes.
    pub is_shown: bool,
}

/// How an execution ended.
pub struct Ended {
    /// The scheduler's report.
    pub report: RunReport,
    /// The error that ended the execution, if there was one.
    pub error: Option<RunError>,
    /// Limits that could not be set.
    pub limits_not_set: Vec<LimitNotSet>,
    /// Notes of the policy.
    pub policy_notes: Vec<String>,
}

/// Executes work to its end. Blocks.
///
/// # Errors
/// The execution could not start. Later errors are in [`Ended`].
pub fn execute(
    machine: Machine,
    first_interrupt: FirstInterrupt,
    work: Work,
    progress: Arc<dyn Progress>,
) -> Result<Ended, RuntimeError> {
    let executor = Executor::start(machine, first_interrupt, progress)?;
    let ended = executor.run(work);
    executor.end();
    ended
}

/// A runtime with signals and a spawner, for one run after another.
pub struct Executor {
    /// Threads for asynchronous work.
    threads: tokio::runtime::Runtime,
    /// Shared with callers that make providers; they drop their copies before the end.
    runtime: Arc<Runtime>,
    limits_not_set: Vec<LimitNotSet>,
    machine_facts: BTreeMap<String, String>,
    interrupts: watch::Receiver<Interrupt>,
    progress: Arc<dyn Progress>,
}

impl Executor {
    /// Starts the runtime, and listens to signals from now on.
    ///
    /// # Errors
    /// The runtime or the signal handlers could not start.
    pub fn start(
        machine: Machine,
        first_interrupt: FirstInterrupt,
        progress: Arc<dyn Progress>,
    ) -> Result<Self, RuntimeError> {
        let (limits_not_set, machine_facts) = (machine.limits_not_set(), machine.facts());
        let threads = threads()?;
        let entered = threads.enter();
        let runtime = Arc::new(machine.attach()?);
        let signals = Signals::register()
            .map_err(|error| RuntimeError::unavailable(format!("cannot listen to signals: {error}")))?;
        let (wanted, interrupts) = watch::channel(Interrupt::None);
        // This task ends with the runtime.
        threads.spawn(signals.listen(first_interrupt, wanted, Arc::clone(&progress)));
        drop(entered);
        Ok(Self { threads, runtime, limits_not_set, machine_facts, interrupts, progress })
    }

    /// Limits that could not be set.
    pub fn limits_not_set(&self) -> &[LimitNotSet] {
        &self.limits_not_set
    }

    /// Facts for lock files.
    pub fn machine_facts(&self) -> &BTreeMap<String, String> {
        &self.machine_facts
    }

    /// Handle for other threads that have to wait for futures.
    pub fn handle(&self) -> Handle {
        self.threads.handle().clone()
    }

    /// The strongest interrupt so far.
    pub fn interrupt(&self) -> Interrupt {
        *self.interrupts.borrow()
    }

    /// Receives interrupts.
    pub fn interrupts(&self) -> watch::Receiver<Interrupt> {
        self.interrupts.clone()
    }

    /// The runtime that makes providers.
    pub fn runtime(&self) -> Arc<Runtime> {
        Arc::clone(&self.runtime)
    }

    /// Executes one run. Its providers are shut down when this returns. Blocks.
    ///
    /// # Errors
    /// The execution could not start. Later errors are in [`Ended`].
    pub fn run(&self, work: Work) -> Result<Ended, RuntimeError> {
        let settings = ProviderSettings { open_slots: work.open_slots.len(), cast_bytes: work.cast_bytes };
        let providers = {
            let _entered = self.threads.enter();
            self.runtime.providers(&work.plan, settings)?
        };
        let policy = Arc::clone(&work.policy);
        let (outcome, undead) = self.threads.block_on(async {
            let outcome = run(work, self.interrupts.clone(), providers, &*self.progress).await;
            (outcome, self.runtime.programs_ended().await)
        });
        if undead > 0 {
            self.progress.warn(format_args!("{undead} agent programs have not ended after they were killed"));
        }
        self.runtime.tell_of_images(&*self.progress);
        let outcome = outcome?;
        let (report, error) = match outcome {
            Ok(report) => (report, None),
            Err(error) => (error.report().clone(), Some(error)),
        };
        Ok(Ended {
            report,
            error,
            limits_not_set: self.limits_not_set.clone(),
            policy_notes: policy.closing_notes(),
        })
    }

    /// Ends the runtime, then the spawner (I2).
    pub fn end(self) {
        // Operations that still block a thread have been abandoned long ago.
        self.threads.shutdown_timeout(LAST_WAIT);
        // The last connection to the spawner; this waits for the spawner's end.
        drop(self.runtime);
    }
}

fn threads() -> Result<tokio::runtime::Runtime, RuntimeError> {
    let mut builder = Builder::new_multi_thread();
    builder
        .enable_all()
        .thread_name("clawrl-worker")
        .worker_threads(facts::cpus() as usize)
        .max_blocking_threads(BLOCKING_THREADS);
    builder.build().map_err(|error| {
        let help = "raise `ulimit -u` and `ulimit -n`";
        RuntimeError::unavailable(format!("cannot start threads: {error}")).with_help(help)
    })
}

async fn run(
    work: Work,
    interrupts: watch::Receiver<Interrupt>,
    providers: Providers,
    progress: &dyn Progress,
) -> Result<Result<RunReport, RunError>, RuntimeError> {
    let with_permits =
        |(&kind, provider): (&&'static str, &Arc<_>)| (kind, ProviderConfig::from(Arc::clone(provider)));
    let (word, isolated) = (isolation::word(&work.plan), !isolation::kinds(&[&work.plan]).is_empty());
    let scheduler = Scheduler::new(SchedulerConfig {
        plan: Arc::clone(&work.plan),
        open_slots: work.open_slots,
        first_epoch: work.first_epoch,
        attempt_numbers: work.attempt_numbers,
        demand: work.demand,
        providers: providers.iter().map(with_permits).collect(),
        policy: work.policy,
        sink: work.sink,
        interrupts,
        timeouts: SchedulerTimeouts::default(),
    })?;
    let counts = scheduler.progress();
    let (end, ended) = oneshot::channel::<()>();
    let kept = work
        .metrics
        .map(|sink| tokio::spawn(metrics::keep(sink, counts.clone(), providers.clone(), isolated, ended)));
    let shown = work.is_shown.then(|| {
        let running =
            RunningRun { counts, usage: Box::new(move || metrics::usage(&providers)), environments: word };
        let (over, is_over) = oneshot::channel::<()>();
        let show = progress.show_run(running, Box::pin(async { drop(is_over.await) }));
        (over, tokio::spawn(show))
    });
    let outcome = scheduler.run().await;
    if let Some((over, shown)) = shown {
        drop(over);
        // A display that panics does not fail the run.
        let _ = shown.await;
    }
    drop(end);
    if let Some(kept) = kept {
        // Lost rows are not a fault.
        let _ = kept.await;
    }
    Ok(outcome)
}

/// The end of a run in the form of the record.
pub fn recorded_end(end: RunEnd) -> clawrl_record::RunEnd {
    match end {
        RunEnd::Completed => clawrl_record::RunEnd::Completed,
        RunEnd::DemandClosed => clawrl_record::RunEnd::DemandClosed,
        RunEnd::Drained | RunEnd::Cancelled => clawrl_record::RunEnd::Interrupted,
        RunEnd::TooManyFaults => clawrl_record::RunEnd::TooManyFaults,
        RunEnd::HarnessFault | RunEnd::SinkFailed => clawrl_record::RunEnd::HarnessFault,
    }
}
