//! A run from its configuration to its report.

use std::sync::Arc;
use std::time::Duration;

use clawrl_core::SlotId;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use crate::config::{Interrupt, SchedulerConfig, SetupError, check};
use crate::demand::{DemandInbox, group_positions};
use crate::dispatcher::{Dispatched, Dispatcher};
use crate::guard::catch_panic;
use crate::progress::Progress;
use crate::report::{RunEnd, RunError, RunReport};
use crate::shared::Shared;
use crate::state::{RunState, StateConfig};

/// A run that is ready to start.
pub struct Scheduler {
    shared: Arc<Shared>,
    state: RunState,
    open_slots: Vec<SlotId>,
    interrupts: watch::Receiver<Interrupt>,
    demand: DemandInbox,
    warm_ups: Vec<WarmUp>,
}

struct WarmUp {
    kind: &'static str,
    count: u32,
    timeouts: Duration,
}

impl Scheduler {
    /// Checks the configuration. Nothing is started.
    ///
    /// # Errors
    /// [`SetupError`] when it cannot run.
    pub fn new(config: SchedulerConfig) -> Result<Self, SetupError> {
        let claims = check(&config)?;
        let warm_ups = warm_ups(&config);
        let limits = config.plan.limits;
        let state = RunState::new(StateConfig {
            claims: claims.by_slot,
            share: claims.share,
            open_slots: &config.open_slots,
            positions: config.demand.as_ref().map(|_| group_positions(&config.plan)),
            first_numbers: &config.attempt_numbers,
            first_epoch: config.first_epoch,
            max_retries: limits.max_retries,
            max_faults: limits.max_faults,
            seed: config.plan.seed,
        });
        let count = |slots: usize| u32::try_from(slots).unwrap_or(u32::MAX);
        let progress = Progress::new(count(config.open_slots.len()), count(state.withheld()));
        let providers = config.providers.into_iter().map(|(kind, config)| (kind, config.provider)).collect();
        let shared = Shared {
            plan: config.plan,
            policy: config.policy,
            blobs: config.sink.blobs(),
            sink: config.sink,
            providers,
            progress,
            timeouts: config.timeouts,
            started: Instant::now(),
        };
        Ok(Self {
            shared: Arc::new(shared),
            state,
            open_slots: config.open_slots,
            interrupts: config.interrupts,
            demand: DemandInbox::new(config.demand),
            warm_ups,
        })
    }

    /// A handle to the figures of the run, valid before, during and after it.
    #[must_use]
    pub fn progress(&self) -> Progress {
        self.shared.progress.clone()
    }

    /// Runs to the end: resolves and records every attempt, closes every environment and shuts every provider
    /// down. Needs a tokio runtime with time.
    ///
    /// Cancellation: raise [`Interrupt`]. Dropping the future aborts all attempts and drops their
    /// environments; their synchronous backstops end everything they started, and leases without a resolution stay in
    /// the journal for a resume.
    ///
    /// # Errors
    /// [`RunError`] if records could not be written or our own code broke a rule. Everything is closed in this case,
    /// too, and the error contains the report.
    pub async fn run(self) -> Result<RunReport, RunError> {
        let Self { shared, state, open_slots, mut interrupts, demand, warm_ups } = self;
        let started = Instant::now();
        warm_up(&shared, &warm_ups, &mut interrupts).await;
        let Dispatched { state, mut report, harness_fault, sink_error } =
            Dispatcher::new(Arc::clone(&shared), state, interrupts, demand).run().await;
        shut_down(&shared, &mut report).await;

        let tally = state.tally();
        report.slots = u32::try_from(open_slots.len()).unwrap_or(u32::MAX);
        report.left_open = open_slots.into_iter().filter(|&slot| state.is_open(slot)).collect();
        report.left_open.sort_unstable();
        report.withheld = u32::try_from(state.withheld()).unwrap_or(u32::MAX);
        let ended_early = matches!(report.end, RunEnd::DemandClosed | RunEnd::Drained | RunEnd::Cancelled);
        if report.left_open.is_empty() && ended_early {
            report.end = RunEnd::Completed;
        }
        report.closed = tally.closed;
        report.passed = tally.passed;
        report.faulted = tally.faulted;
        report.attempts = tally.attempts;
        report.retries = tally.retries;
        report.cancelled = tally.cancelled;
        report.discarded = tally.discarded;
        report.steps = shared.progress.steps();
        report.elapsed = started.elapsed();
        let report = Box::new(report);
        match (sink_error, harness_fault) {
            (Some(source), _) => Err(RunError::Sink { source, report }),
            (None, Some(fault)) => Err(RunError::Harness { fault, report }),
            (None, None) => Ok(*report),
        }
    }
}

/// Number of environments to prepare per kind: never more than are needed.
fn warm_ups(config: &SchedulerConfig) -> Vec<WarmUp> {
    let plan = &config.plan;
    let of_kind = |kind: &'static str| {
        let tasks = config.open_slots.iter().filter_map(|slot| plan.slots.get(slot.0 as usize));
        tasks.map(|slot| plan.task_of(slot)).filter(move |task| task.env.kind() == kind)
    };
    let warm_up = |kind: &'static str| {
        let useful = u32::try_from(of_kind(kind).count()).unwrap_or(u32::MAX);
        let count = plan.limits.prewarm.min(useful).min(plan.limits.concurrency);
        let timeouts = of_kind(kind).map(|task| task.timeouts.lease).max().unwrap_or_default();
        WarmUp { kind, count, timeouts }
    };
    config.providers.keys().copied().map(warm_up).filter(|warm_up| warm_up.count > 0).collect()
}

/// Prepares environments. A failure does not end the run: later leases report the same cause.
async fn warm_up(shared: &Shared, warm_ups: &[WarmUp], interrupts: &mut watch::Receiver<Interrupt>) {
    for &WarmUp { kind, count, timeouts } in warm_ups {
        let provider = &shared.providers[kind];
        let ready = timeout(timeouts, catch_panic(async { provider.warm_up(count).await }));
        tokio::select! {
            ready = ready => match ready {
                Ok(Ok(Ok(()))) => {}
                Ok(Ok(Err(fault))) => tracing::warn!(kind, %fault, "not all environments could be made ready"),
                Ok(Err(panic)) => tracing::warn!(kind, panic, "making environments ready panicked"),
                Err(_) => tracing::warn!(kind, ?timeouts, "making environments ready took too long"),
            },
            Ok(_) = interrupts.wait_for(|&interrupt| interrupt != Interrupt::None) => return,
        }
    }
}

/// Ends every provider. One that hangs or panics is reported and does not keep the others.
async fn shut_down(shared: &Shared, report: &mut RunReport) {
    for (kind, provider) in &shared.providers {
        report.peak_environments += provider.usage().peak;
        match timeout(shared.timeouts.shutdown, catch_panic(async { provider.shutdown().await })).await {
            Ok(Ok(closed)) => report.note_leftovers(closed.leftovers),
            Ok(Err(text)) => report.note_leftovers(vec![format!("shutting down `{kind}` panicked: {text}")]),
            Err(_) => {
                let seconds = shared.timeouts.shutdown.as_secs();
                report.note_leftovers(vec![format!("shutting down `{kind}` took longer than {seconds} s")]);
            }
        }
    }
}
