//! A sink in memory that checks the contract of `EpisodeSink`.
//!
//! I1. Whatever breaks the contract is noted: a second lease under an epoch, an epoch that is not above all
//! earlier ones of its slot, a resolution without lease, a second resolution, a slot closed twice, a cancelled
//! attempt that closes its slot, a lease of a closed slot, a lease while another attempt at the slot is open.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clawrl_core::{
    AttemptId, AttemptRecord, BlobStore, BoxFuture, EpisodeSink, Epoch, LeaseRecord, MemoryBlobs, Outcome,
    SinkError, SlotId,
};

/// Failure of a sink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SinkFailure {
    /// Returns an error.
    Error,
    /// Panics.
    Panic,
    /// Never returns.
    Hang,
}

/// Keeps records in memory.
#[derive(Debug, Default)]
pub struct MemorySink {
    kept: Mutex<Kept>,
    blobs: Arc<MemoryBlobs>,
    /// After how many calls it fails, and how.
    failure: Option<(usize, SinkFailure)>,
}

#[derive(Debug, Default)]
struct Kept {
    calls: usize,
    leases: Vec<LeaseRecord>,
    records: Vec<AttemptRecord>,
    open: BTreeMap<AttemptId, Epoch>,
    closed: BTreeSet<SlotId>,
    violations: Vec<String>,
}

impl MemorySink {
    /// A sink that fails at every call after the first `calls`.
    #[must_use]
    pub fn failing_after(calls: usize, failure: SinkFailure) -> Self {
        Self { failure: Some((calls, failure)), ..Self::default() }
    }

    /// Violations of the contract, in order.
    #[must_use]
    pub fn violations(&self) -> Vec<String> {
        self.kept().violations.clone()
    }

    /// Leases, in order.
    #[must_use]
    pub fn leases(&self) -> Vec<LeaseRecord> {
        self.kept().leases.clone()
    }

    /// Records, in order.
    #[must_use]
    pub fn records(&self) -> Vec<AttemptRecord> {
        self.kept().records.clone()
    }

    /// Attempts with a lease and without resolution.
    #[must_use]
    pub fn unresolved(&self) -> Vec<AttemptId> {
        self.kept().open.keys().copied().collect()
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn fail_if_due(&self) -> Result<(), SinkError> {
        let calls = {
            let mut kept = self.kept();
            kept.calls += 1;
            kept.calls
        };
        match self.failure {
            Some((after, how)) if calls > after => match how {
                SinkFailure::Error => Err(SinkError { message: "as the script says".to_owned() }),
                SinkFailure::Panic => panic!("as the script says"),
                SinkFailure::Hang => std::future::pending().await,
            },
            _ => Ok(()),
        }
    }
}

impl EpisodeSink for MemorySink {
    fn leased(&self, lease: LeaseRecord) -> BoxFuture<'_, Result<(), SinkError>> {
        Box::pin(async move {
            self.fail_if_due().await?;
            self.kept().lease(lease);
            Ok(())
        })
    }

    fn resolved(&self, record: AttemptRecord) -> BoxFuture<'_, Result<(), SinkError>> {
        Box::pin(async move {
            self.fail_if_due().await?;
            self.kept().resolve(record);
            Ok(())
        })
    }

    fn blobs(&self) -> Arc<dyn BlobStore> {
        Arc::clone(&self.blobs) as Arc<dyn BlobStore>
    }
}

impl Kept {
    fn lease(&mut self, lease: LeaseRecord) {
        let LeaseRecord { attempt, epoch } = lease;
        let slot = attempt.slot;
        let earlier: Vec<&LeaseRecord> =
            self.leases.iter().filter(|lease| lease.attempt.slot == slot).collect();
        let rules = [
            (self.leases.iter().any(|lease| lease.epoch == epoch), "the epoch was used before"),
            (
                earlier.iter().any(|lease| lease.epoch >= epoch),
                "the epoch is not above the slot's earlier ones",
            ),
            (earlier.iter().any(|lease| lease.attempt.number >= attempt.number), "the number is not new"),
            (self.closed.contains(&slot), "the slot is closed"),
            (self.open.keys().any(|open| open.slot == slot), "another attempt at the slot is open"),
        ];
        let broken = rules.iter().filter(|(broken, _)| *broken);
        let broken: Vec<String> = broken.map(|(_, what)| format!("lease {attempt}: {what}")).collect();
        self.violations.extend(broken);
        self.open.insert(attempt, epoch);
        self.leases.push(lease);
    }

    fn resolve(&mut self, record: AttemptRecord) {
        let AttemptRecord { attempt, epoch, closes_slot, .. } = record;
        let open = self.open.remove(&attempt);
        let rules = [
            (open.is_none(), "no lease, or resolved before"),
            (open.is_some_and(|leased| leased != epoch), "the epoch is not that of the lease"),
            (closes_slot && !self.closed.insert(attempt.slot), "the slot was closed before"),
            (
                closes_slot && matches!(record.outcome, Outcome::Cancelled(_)),
                "cancelled, but closes the slot",
            ),
            (
                !closes_slot && matches!(record.outcome, Outcome::Finished { .. }),
                "finished, but closes nothing",
            ),
        ];
        let broken = rules.iter().filter(|(broken, _)| *broken);
        let broken: Vec<String> = broken.map(|(_, what)| format!("resolve {attempt}: {what}")).collect();
        self.violations.extend(broken);
        self.records.push(record);
    }
}
