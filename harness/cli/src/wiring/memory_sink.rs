//! Records kept in memory, for commands that record nothing.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clawrl_core::{
    AttemptRecord, BlobStore, BoxFuture, EpisodeSink, LeaseRecord, MemoryBlobs, Outcome, SinkError, SlotId,
};

/// Keeps what closed each slot, without its trajectory. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct MemorySink {
    outcomes: Arc<Mutex<BTreeMap<SlotId, Outcome>>>,
    blobs: Arc<MemoryBlobs>,
}

impl MemorySink {
    /// What closed each slot so far.
    pub(crate) fn take(&self) -> BTreeMap<SlotId, Outcome> {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<SlotId, Outcome>> {
        // Every change is one insert; a panic cannot leave it half done.
        self.outcomes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EpisodeSink for MemorySink {
    fn leased(&self, _: LeaseRecord) -> BoxFuture<'_, Result<(), SinkError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn resolved(&self, record: AttemptRecord) -> BoxFuture<'_, Result<(), SinkError>> {
        if record.closes_slot {
            self.lock().insert(record.attempt.slot, record.outcome);
        }
        Box::pin(std::future::ready(Ok(())))
    }

    fn blobs(&self) -> Arc<dyn BlobStore> {
        Arc::clone(&self.blobs) as Arc<dyn BlobStore>
    }
}
