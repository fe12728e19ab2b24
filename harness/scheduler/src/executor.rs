//! One task per attempt: journals the lease, drives the episode, reports, and records accepted results.
//!
//! I1. The lease is journaled before a provider is called. I2. The record is written once, and
//! only after the dispatcher accepted the result. I3. Owner: the dispatcher's `JoinSet`. Dropping it ends
//! the task, and dropping the task drops the environment, whose backstop then ends everything. I4. The policy
//! is notified once of the end of every attempt whose lease was journaled, even if the task is dropped.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use clawrl_core::{
    AttemptId, AttemptRecord, CancelToken, LeaseRecord, Outcome, PhaseTimes, SinkError, Trajectory,
};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout};

use crate::attempt::{Attempt, Driven, Ending, HeartbeatHandle};
use crate::event::{Answer, Event};
use crate::guard::{catch_panic, panic_text};
use crate::heartbeat::Heartbeat;
use crate::shared::Shared;
use crate::state::{Grant, Resolution};

/// Runs one attempt.
pub(crate) async fn execute(
    shared: Arc<Shared>,
    grant: Grant,
    token: CancelToken,
    heartbeat: Arc<Heartbeat>,
    events: mpsc::Sender<Event>,
) {
    let dispatched = Instant::now();
    let (slot, epoch) = (grant.attempt.slot, grant.epoch);
    let heartbeat = HeartbeatHandle::new(&shared, &heartbeat);
    let lease = LeaseRecord { attempt: grant.attempt, epoch };
    if let Err(error) = kept(&shared, async { shared.sink.leased(lease).await }).await {
        send(&events, Event::NotRecorded { slot, epoch, error }).await;
        return;
    }
    let on_drop = OnDrop { shared: &shared, attempt: grant.attempt };
    let (driven, _heartbeat) = Attempt::new(&shared, grant, token, heartbeat).drive(dispatched).await;
    drop(on_drop);
    let Driven { ending, times, trajectory, leftovers } = driven;
    let (answer, answered) = oneshot::channel();
    let resolution = resolution_of(&ending);
    let fault = match &ending {
        Ending::Faulted(fault) => Some(fault.clone()),
        Ending::Finished { .. } | Ending::Cancelled => None,
    };
    send(&events, Event::Resolved { slot, epoch, resolution, fault, leftovers, answer }).await;
    // Without an answer the run is gone, and the record is not needed.
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

/// Notifies the policy of the end of an attempt, even if its executor is dropped.
struct OnDrop<'a> {
    shared: &'a Shared,
    attempt: AttemptId,
}

impl Drop for OnDrop<'_> {
    fn drop(&mut self) {
        let policy = &self.shared.policy;
        let told = catch_unwind(AssertUnwindSafe(|| policy.attempt_ended(self.attempt)));
        if let Err(panic) = told {
            tracing::error!(attempt = %self.attempt, "the policy panicked at the end: {}", panic_text(&*panic));
        }
    }
}

/// Records an attempt whose executor is lost. Its trajectory is lost, too.
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
    let timeouts = shared.timeouts.record;
    match timeout(timeouts, catch_panic(operation)).await {
        Ok(Ok(result)) => result,
        Ok(Err(text)) => Err(SinkError { message: format!("writing a record panicked: {text}") }),
        Err(_) => Err(SinkError {
            message: format!("writing a record took longer than {} s; check the disk", timeouts.as_secs()),
        }),
    }
}

/// A closed channel means that the run was dropped, and the executor is about to be.
async fn send(events: &mpsc::Sender<Event>, event: Event) {
    if events.send(event).await.is_err() {
        tracing::debug!("an executor sent an event after the end of its run");
    }
}

fn resolution_of(ending: &Ending) -> Resolution {
    match ending {
        Ending::Finished { grade, .. } => Resolution::Finished { passed: grade.passed },
        Ending::Faulted(fault) => Resolution::Faulted { boundary: fault.boundary, retry: fault.retry },
        Ending::Cancelled => Resolution::Cancelled,
    }
}
