//! Passes kept records on to the learner.
//!
//! I1. A record goes on only after it is kept. I2. Records are still kept after the learner has ended.
//! Backpressure: the channel holds twice the concurrency, so that rollouts do not stall during an update, and memory stays bounded
//! if the learner never returns.

use std::sync::Arc;

use clawrl_core::{AttemptRecord, BlobStore, BoxFuture, EpisodeSink, LeaseRecord, Outcome, SinkError};
use clawrl_learn::TeacherView;
use clawrl_record::JudgedTurn;
use tokio::sync::mpsc;

/// The learner's end of the channel.
pub(super) type Resolved = mpsc::Receiver<ScoredAttempt>;

/// A kept attempt with the scores of its turns.
#[derive(Debug, Clone)]
pub(super) struct ScoredAttempt {
    pub(super) record: AttemptRecord,
    /// Scores in order, without turns that were not judged.
    pub(super) turns: Vec<JudgedTurn>,
    /// Scores of a teacher behind a server, if there is one.
    pub(super) teacher_scores: Option<TeacherScores>,
}

/// A teacher's scores of an attempt.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TeacherScores {
    /// The readings that it answered: one entry for each segment, or none at all.
    pub(super) views: Vec<Vec<TeacherView>>,
    /// Hints that were left out.
    pub(super) too_long: u64,
    /// Whether it was asked about a reading and did not answer.
    pub(super) is_unanswered: bool,
}

impl From<AttemptRecord> for ScoredAttempt {
    fn from(record: AttemptRecord) -> Self {
        Self { record, turns: Vec::new(), teacher_scores: None }
    }
}

/// Keeps records in another sink, then passes on those that close their slot and those of cancelled attempts.
pub(super) struct AttemptSink {
    kept: Arc<dyn EpisodeSink>,
    learner: mpsc::Sender<ScoredAttempt>,
}

/// A sink for a run with this many attempts under way.
pub(super) fn attempt_sink(kept: Arc<dyn EpisodeSink>, concurrency: u32) -> (AttemptSink, Resolved) {
    let (learner, resolved) = mpsc::channel(channel_size(concurrency));
    (AttemptSink { kept, learner }, resolved)
}

/// Attempts that a channel on the way to the learner holds.
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
                // The recording of the terminal is nothing to learn from, and most of the bytes.
                trajectory: clawrl_core::Trajectory { cast: None, ..record.trajectory.clone() },
                ..record.clone()
            });
            self.kept.resolved(record).await?;
            if let Some(copy) = copy {
                // Gone is what it is once it has given up (I2).
                let _ = self.learner.send(copy.into()).await;
            }
            Ok(())
        })
    }

    fn blobs(&self) -> Arc<dyn BlobStore> {
        self.kept.blobs()
    }
}
