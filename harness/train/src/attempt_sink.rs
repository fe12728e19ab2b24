//! Forwards stored records to the learner.
//!
//! I1. A record is forwarded only after it is stored. I2. Records are still stored after the learner has ended.
//! Backpressure: the channel holds twice the concurrency, so that rollouts do not stall during an update, and memory stays
//! bounded if the learner never returns.

use std::sync::Arc;

use clawrl_core::{AttemptRecord, BlobStore, BoxFuture, EpisodeSink, LeaseRecord, Outcome, SinkError};
use clawrl_learn::TeacherView;
use clawrl_record::JudgedTurn;
use tokio::sync::mpsc;

/// The learner's end of the channel.
pub(super) type Resolved = mpsc::Receiver<ScoredAttempt>;

/// A stored attempt with the scores of its turns.
#[derive(Debug, Clone)]
pub(super) struct ScoredAttempt {
    pub(super) record: AttemptRecord,
    /// Scores in the order of turns, without turns that were not judged.
    pub(super) turns: Vec<JudgedTurn>,
    /// Scores of the remote teacher, if there is one.
    pub(super) teacher_scores: Option<TeacherScores>,
}

/// A teacher's scores of an attempt.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TeacherScores {
    /// The views that the teacher scored: one entry for each segment, or empty.
    pub(super) views: Vec<Vec<TeacherView>>,
    /// Number of hints that were left out because they are too long.
    pub(super) too_long: u64,
    /// Whether the teacher left a question about a view unanswered.
    pub(super) is_unanswered: bool,
}

impl From<AttemptRecord> for ScoredAttempt {
    fn from(record: AttemptRecord) -> Self {
        Self { record, turns: Vec::new(), teacher_scores: None }
    }
}

/// Stores records in another sink, then forwards those that close their slot and those of cancelled attempts.
pub(super) struct AttemptSink {
    kept: Arc<dyn EpisodeSink>,
    learner: mpsc::Sender<ScoredAttempt>,
}

/// A sink for a run with this many concurrent attempts.
pub(super) fn attempt_sink(kept: Arc<dyn EpisodeSink>, concurrency: u32) -> (AttemptSink, Resolved) {
    let (learner, resolved) = mpsc::channel(channel_size(concurrency));
    (AttemptSink { kept, learner }, resolved)
}

/// Capacity of a channel on the way to the learner, in attempts.
pub(super) fn channel_size(concurrency: u32) -> usize {
    2 * concurrency.max(1) as usize
}

impl EpisodeSink for AttemptSink {
    fn leased(&self, lease: LeaseRecord) -> BoxFuture<'_, Result<(), SinkError>> {
        self.kept.leased(lease)
    }

    fn resolved(&self, record: AttemptRecord) -> BoxFuture<'_, Result<(), SinkError>> {
        Box::pin(async move {
            let tells = record.closes_slot || matches!(record.outcome, Outcome::Cancelled(_));
            let copy = tells.then(|| AttemptRecord {
                // The learner does not need the terminal recording, which is most of the bytes.
                trajectory: clawrl_core::Trajectory { cast: None, ..record.trajectory.clone() },
                ..record.clone()
            });
            self.kept.resolved(record).await?;
            if let Some(copy) = copy {
                // The receiver is gone once the learner has ended (I2).
                let _ = self.learner.send(copy.into()).await;
            }
            Ok(())
        })
    }

    fn blobs(&self) -> Arc<dyn BlobStore> {
        self.kept.blobs()
    }
}
