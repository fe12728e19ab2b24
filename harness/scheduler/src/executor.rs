//! One task per attempt: journal the lease, drive the episode, report, record what was accepted.
//!
//! I1. The lease is journaled before a provider hears of the attempt. I2. The record is written once, and
//! only after the dispatcher accepted the result. I3. Owner: the dispatcher's `JoinSet`; dropping that ends
//! the task, and dropping the task drops the environment, whose backstop then ends everything. I4. The policy
//! hears once of the end of every attempt whose lease was journaled, also when the task is dropped.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use clawrl_core::{
    AttemptId, AttemptRecord, CancelToken, LeaseRecord, Outcome, PhaseTimes, SinkError, Trajectory,
};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout};

use crate::attempt::{Attempt, Driven, Ending, Pulse};
use crate::event::{Answer, Event};
use crate::guard::{catch_panic, panic_text};
use crate::shared::Shared;
use crate::state::{Grant, Resolution};
use crate::vital::Vital;

/// Runs one attempt.
pub(crate) async fn execute(
    shared: Arc<Shared>,
    grant: Grant,
    token: CancelToken,
    vital: Arc<Vital>,
    events: mpsc::Sender<Event>,
) {
    let dispatched = Instant::now();
    let (slot, epoch) = (grant.attempt.slot, grant.epoch);
    let pulse = Pulse::new(&shared, &vital);
    let lease = LeaseRecord { attempt: grant.attempt, epoch };
    if let Err(error) = kept(&shared, async { shared.sink.leased(lease).await }).await {
        send(&events, Event::NotRecorded { slot, epoch, error }).await;
        return;
    }
    let farewell = Farewell { shared: &shared, attempt: grant.attempt };
    let (driven, _pulse) = Attempt::new(&shared, grant, token, pulse).drive(dispatched).await;
    drop(farewell);
    let Driven { ending, times, trajectory, leftovers } = driven;
    let (answer, answered) = oneshot::channel();
    let resolution = resolution_of(&ending);
    let fault = match &ending {
        Ending::Faulted(fault) => Some(fault.clone()),
        Ending::Finished { .. } | Ending::Cancelled => None,
    };
    send(&events, Event::Resolved { slot, epoch, resolution, fault, leftovers, answer }).await;
    // An answer that never comes means that the run is gone; then nobody wants the record.
    let Ok(Answer::Keep { closes_slot, cancel_reason }) = answered.await else { return };
    let outcome = match ending {
        Ending::Finished { stop, grade } => {
            let reward = shared.plan.task_of(&shared.plan.slots[slot.0 as usize]).reward.apply(grade.score);
            Outcome::Finished { stop, grade, reward }
        }
        Ending::Faulted(fault) => Outcome::Faulted(fault),
        Ending::Cancelled => Outcome::Cancelled(cancel_reason),
    };
    let record = AttemptRecord { attempt: grant.attempt, epoch, closes_slot, outcome, times, trajectory };
    record_and_report(&shared, record, &events).await;
}

/// Tells the policy that an attempt is over, also when its executor is dropped.
struct Farewell<'a> {
    shared: &'a Shared,
    attempt: AttemptId,
}

impl Drop for Farewell<'_> {
    fn drop(&mut self) {
        let policy = &self.shared.policy;
        let told = catch_unwind(AssertUnwindSafe(|| policy.attempt_ended(self.attempt)));
        if let Err(panic) = told {
            tracing::error!(attempt = %self.attempt, "the policy panicked at the end: {}", panic_text(&*panic));
        }
    }
}

/// Records an attempt whose executor is lost, in its place. What it did is lost with it.
pub(crate) async fn record_lost(
    shared: Arc<Shared>,
    grant: Grant,
    closes_slot: bool,
    outcome: Outcome,
    events: mpsc::Sender<Event>,
) {
    let Grant { attempt, epoch } = grant;
    let (times, trajectory) = (PhaseTimes::default(), Trajectory::default());
    let record = AttemptRecord { attempt, epoch, closes_slot, outcome, times, trajectory };
    record_and_report(&shared, record, &events).await;
}

async fn record_and_report(shared: &Shared, record: AttemptRecord, events: &mpsc::Sender<Event>) {
    let (slot, epoch) = (record.attempt.slot, record.epoch);
    let event = match kept(shared, async { shared.sink.resolved(record).await }).await {
        Ok(()) => Event::Recorded { slot, epoch },
        Err(error) => Event::NotRecorded { slot, epoch, error },
    };
    send(events, event).await;
}

/// Waits until the sink kept something. Hanging and panicking are ways to fail.
async fn kept(
    shared: &Shared,
    operation: impl Future<Output = Result<(), SinkError>>,
) -> Result<(), SinkError> {
    let patience = shared.patience.record;
    match timeout(patience, catch_panic(operation)).await {
        Ok(Ok(result)) => result,
        Ok(Err(text)) => Err(SinkError { message: format!("the record's writer panicked: {text}") }),
        Err(_) => Err(SinkError {
            message: format!("the record took nothing for {} s; is the disk there?", patience.as_secs()),
        }),
    }
}

/// A closed channel means that the run was dropped, and the executor is about to be.
async fn send(events: &mpsc::Sender<Event>, event: Event) {
    if events.send(event).await.is_err() {
        tracing::debug!("an executor outlived its run by one event");
    }
}

fn resolution_of(ending: &Ending) -> Resolution {
    match ending {
        Ending::Finished { grade, .. } => Resolution::Finished { passed: grade.passed },
        Ending::Faulted(fault) => Resolution::Faulted { boundary: fault.boundary, retry: fault.retry },
        Ending::Cancelled => Resolution::Cancelled,
    }
}
