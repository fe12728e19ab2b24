//! Where records go.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{AttemptId, BlobStore, BoxFuture, Epoch, Outcome, PhaseTimes, Trajectory};

/// A lease was granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseRecord {
    /// The attempt.
    pub attempt: AttemptId,
    /// Its fencing epoch.
    pub epoch: Epoch,
}

/// An attempt resolved, and its result was accepted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AttemptRecord {
    /// The attempt.
    pub attempt: AttemptId,
    /// Its fencing epoch.
    pub epoch: Epoch,
    /// Whether this closed the slot: a finished attempt does, a fault only if it is not retried,
    /// a cancelled one never.
    pub closes_slot: bool,
    /// The outcome.
    pub outcome: Outcome,
    /// Time by phase.
    pub times: PhaseTimes,
    /// The trajectory. Faulted and cancelled attempts keep their turns so far.
    pub trajectory: Trajectory,
}

/// Why a record could not be kept. The run stops: going on would lose results silently.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SinkError {
    /// The cause and the remedy.
    pub message: String,
}

/// Receives records.
///
/// Called by the scheduler: `leased` before an attempt touches an environment, `resolved` exactly once per
/// accepted attempt. When the returned future is ready, the record survives `kill -9` of this process
/// (written), and within 50 ms more a loss of power (synced). Records of one attempt are awaited in order;
/// those of different attempts may overlap.
pub trait EpisodeSink: Send + Sync {
    /// Journals a lease.
    ///
    /// # Errors
    /// [`SinkError`]: the run must end.
    fn leased(&self, lease: LeaseRecord) -> BoxFuture<'_, Result<(), SinkError>>;

    /// Journals a resolution, its trajectory first.
    ///
    /// # Errors
    /// [`SinkError`]: the run must end.
    fn resolved(&self, record: AttemptRecord) -> BoxFuture<'_, Result<(), SinkError>>;

    /// Stores blobs that trajectories refer to. Called once per run; a forwarding sink forwards this, too.
    fn blobs(&self) -> Arc<dyn BlobStore>;
}
