//! Keeps records in memory, for commands that do not write a run.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clawrl_core::{
    AttemptRecord, BlobStore, BoxFuture, EpisodeSink, LeaseRecord, MemoryBlobs, Outcome, SinkError, SlotId,
    Turn,
};

/// Number of turns kept of an episode.
const LAST_TURNS: usize = 4;

/// The attempt that closed a slot.
#[derive(Debug)]
pub struct Closed {
    /// The outcome of the attempt.
    pub outcome: Outcome,
    /// The last turns of an episode that was graded and did not pass.
    pub last_turns: Vec<Turn>,
}

/// Keeps the attempt that closed each slot. Clones share the data.
#[derive(Debug, Clone, Default)]
pub struct MemorySink {
    closed: Arc<Mutex<BTreeMap<SlotId, Closed>>>,
    blobs: Arc<MemoryBlobs>,
}

impl MemorySink {
    /// Takes the attempts that closed slots so far.
    pub fn take(&self) -> BTreeMap<SlotId, Closed> {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<SlotId, Closed>> {
        // Every change is one insert; a panic cannot leave it half done.
        self.closed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EpisodeSink for MemorySink {
    fn leased(&self, _: LeaseRecord) -> BoxFuture<'_, Result<(), SinkError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn resolved(&self, record: AttemptRecord) -> BoxFuture<'_, Result<(), SinkError>> {
        if record.closes_slot {
            let mut last_turns = Vec::new();
            if record.outcome.grade().is_some_and(|grade| !grade.passed) {
                let mut turns = record.trajectory.turns;
                last_turns = turns.split_off(turns.len().saturating_sub(LAST_TURNS));
            }
            self.lock().insert(record.attempt.slot, Closed { outcome: record.outcome, last_turns });
        }
        Box::pin(std::future::ready(Ok(())))
    }

    fn blobs(&self) -> Arc<dyn BlobStore> {
        Arc::clone(&self.blobs) as Arc<dyn BlobStore>
    }
}
