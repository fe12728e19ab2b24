//! The execution of plans: runtime, signals, display, metrics, scheduler, and the end of all of them.
//!
//! I1. When [`execute`] or [`Executor::end`] returns, nothing that was started is left: sandboxes, spawner, tasks,
//! threads.
//! I2. The runtime is gone before the spawner is waited for, so that no task can hold it up.
//!
//! Cancellation: signals, as [`crate::interrupt`] says.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use clawrl_core::{EpisodeSink, Epoch, Policy, RunPlan, SlotId};
use clawrl_record::{LimitNotSet, RunSink};
use clawrl_scheduler::{
    Demand, Interrupt, Patience, ProviderConfig, RunError, RunReport, Scheduler, SchedulerConfig,
};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::{oneshot, watch};

use super::machine::{Machine, ProviderSettings, Providers, Workplace};
use super::{isolation, metrics};
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
pub struct Work {
    /// The run: its tasks, limits and seeds.
    pub plan: Arc<RunPlan>,
    /// Slots to fill.
    pub open_slots: Vec<SlotId>,
    /// Above every epoch granted before.
    pub first_epoch: Epoch,
    /// Number of the next attempt, where it is not 0.
    pub attempt_numbers: BTreeMap<SlotId, u32>,
    /// How much of it is wanted, for a consumer that says so as it goes; `None` for all.
    pub demand: Option<watch::Receiver<Demand>>,
    /// Chooses the actions.
    pub policy: Arc<dyn Policy>,
    /// Receives every attempt that ended.
    pub sink: Arc<dyn EpisodeSink>,
    /// Where figures over time go, if anywhere.
    pub metrics: Option<RunSink>,
    /// Most memory of one session's recording; 0 records nothing.
    pub cast_bytes: usize,
    /// How progress is shown.
    pub display: Display,
}

/// How an execution ended.
pub struct Ended {
    /// The scheduler's own account.
    pub report: RunReport,
    /// Why it could not go on, if it could not.
    pub error: Option<RunError>,
    /// Limits that could not be set.
    pub limits_not_set: Vec<LimitNotSet>,
    /// What the policy has to say.
    pub policy_notes: Vec<String>,
}

/// Runs to the end. Blocks.
///
/// # Errors
/// What kept it from starting. An end in error is in [`Ended`].
pub fn execute(
    machine: Machine,
    first_interrupt: FirstInterrupt,
    work: Work,
    log: &Log,
) -> Result<Ended, Failure> {
    let executor = Executor::start(machine, first_interrupt, log)?;
    let ended = executor.run(work, log);
    executor.end();
    ended
}

/// A runtime with signals and a spawner, for one run after another.
pub struct Executor {
    runtime: Runtime,
    /// Shared with whoever makes providers of its own, and gives it back before the end.
    workplace: Arc<Workplace>,
    limits_not_set: Vec<LimitNotSet>,
    machine_facts: BTreeMap<String, String>,
    interrupts: watch::Receiver<Interrupt>,
}

impl Executor {
    /// Starts the runtime and listens to signals from now on.
    ///
    /// # Errors
    /// What kept it from starting.
    pub fn start(machine: Machine, first_interrupt: FirstInterrupt, log: &Log) -> Result<Self, Failure> {
        let (limits_not_set, machine_facts) = (machine.limits_not_set(), machine.facts());
        let runtime = runtime()?;
        let entered = runtime.enter();
        let workplace = Arc::new(machine.attach()?);
        let signals = Signals::register()
            .map_err(|error| Failure::new(Exit::Environment, format!("cannot listen to signals: {error}")))?;
        let (wanted, interrupts) = watch::channel(Interrupt::None);
        // Ends with the runtime.
        runtime.spawn(signals.listen(first_interrupt, wanted, log.clone()));
        drop(entered);
        Ok(Self { runtime, workplace, limits_not_set, machine_facts, interrupts })
    }

    /// Limits that could not be set.
    pub fn limits_not_set(&self) -> &[LimitNotSet] {
        &self.limits_not_set
    }

    /// Facts for lock files.
    pub fn machine_facts(&self) -> &BTreeMap<String, String> {
        &self.machine_facts
    }

    /// For threads of our own that have something to wait for.
    pub fn handle(&self) -> Handle {
        self.runtime.handle().clone()
    }

    /// What was asked for by signals so far.
    pub fn interrupt(&self) -> Interrupt {
        *self.interrupts.borrow()
    }

    /// Hears of what signals ask for.
    pub fn interrupts(&self) -> watch::Receiver<Interrupt> {
        self.interrupts.clone()
    }

    /// Where providers are made.
    pub fn workplace(&self) -> Arc<Workplace> {
        Arc::clone(&self.workplace)
    }

    /// One run to its end: its providers are shut down when this returns. Blocks.
    ///
    /// # Errors
    /// What kept it from starting. An end in error is in [`Ended`].
    pub fn run(&self, work: Work, log: &Log) -> Result<Ended, Failure> {
        let settings = ProviderSettings { open_slots: work.open_slots.len(), cast_bytes: work.cast_bytes };
        let providers = {
            let _entered = self.runtime.enter();
            self.workplace.providers(&work.plan, settings)?
        };
        let policy = Arc::clone(&work.policy);
        let (outcome, undead) = self.runtime.block_on(async {
            let outcome = run(work, self.interrupts.clone(), providers, log).await;
            (outcome, self.workplace.programs_ended().await)
        });
        if undead > 0 {
            log.warn(format_args!("{undead} agent programs have not ended after they were killed"));
        }
        self.workplace.tell_of_images(log);
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
        // Whatever still blocks a thread by now was given up on long ago.
        self.runtime.shutdown_timeout(LAST_WAIT);
        // The last connection to the spawner: it is waited for here.
        drop(self.workplace);
    }
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

async fn run(
    work: Work,
    interrupts: watch::Receiver<Interrupt>,
    providers: Providers,
    log: &Log,
) -> Result<Result<RunReport, RunError>, Failure> {
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
        patience: Patience::default(),
    })?;
    let progress = scheduler.progress();
    let (end, ended) = oneshot::channel::<()>();
    let kept = work
        .metrics
        .map(|sink| tokio::spawn(metrics::keep(sink, progress.clone(), providers.clone(), isolated, ended)));
    let watched =
        Watched { progress, usage: Box::new(move || metrics::usage(&providers)), environments: word };
    let shown = work.display.start(watched, log);
    let outcome = scheduler.run().await;
    shown.end().await;
    drop(end);
    if let Some(kept) = kept {
        // Losing rows is no fault.
        let _ = kept.await;
    }
    Ok(outcome)
}
