//! A run that is watched on its way into the record.
//!
//! I1. Records pass unchanged, and what keeping them came to passes back.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use clawrl_core::{AttemptRecord, BlobStore, BoxFuture, EpisodeSink, LeaseRecord, SinkError};
use clawrl_scheduler::Demand;
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::phase::{Phase, of_attempt};
use super::recorder::{is_on, took};
use super::waiting::Waiting;
use crate::wiring::Work;

/// The same work, watched if there is a profile.
pub(crate) fn watched(work: Work, runtime: &Handle) -> Work {
    if !is_on() {
        return work;
    }
    let waiting = Waiting::new(&work.plan, work.demand.is_some(), Instant::now());
    let waiting = Arc::new(Mutex::new(waiting));
    if let Some(demand) = &work.demand {
        // Ends with the sender, or with the runtime.
        runtime.spawn(follow(demand.clone(), Arc::clone(&waiting)));
    }
    Work { sink: Arc::new(Watched { kept: work.sink, waiting }), ..work }
}

struct Watched {
    kept: Arc<dyn EpisodeSink>,
    waiting: Arc<Mutex<Waiting>>,
}

impl EpisodeSink for Watched {
    fn leased(&self, lease: LeaseRecord) -> BoxFuture<'_, Result<(), SinkError>> {
        took(Phase::Queue, locked(&self.waiting).leased(lease.attempt.slot, Instant::now()));
        self.kept.leased(lease)
    }

    fn resolved(&self, record: AttemptRecord) -> BoxFuture<'_, Result<(), SinkError>> {
        of_attempt(&record).for_each(|(phase, time)| took(phase, time));
        let slot = record.attempt.slot;
        Box::pin(async move {
            let kept = self.kept.resolved(record).await;
            locked(&self.waiting).ended(slot, Instant::now());
            kept
        })
    }

    fn blobs(&self) -> Arc<dyn BlobStore> {
        self.kept.blobs()
    }
}

/// Notes when how many groups were wanted.
async fn follow(mut demand: watch::Receiver<Demand>, waiting: Arc<Mutex<Waiting>>) {
    loop {
        let groups = demand.borrow_and_update().groups.clone();
        locked(&waiting).wanted(&groups, Instant::now());
        if demand.changed().await.is_err() {
            return;
        }
    }
}

/// Whoever panicked with it left nothing half done.
fn locked(waiting: &Mutex<Waiting>) -> MutexGuard<'_, Waiting> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}
