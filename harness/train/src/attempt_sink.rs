//! From the scheduler to the learner: records that are kept go on to whoever learns.
//!
//! I1. A record goes on only after it is kept. I2. A learner that is gone stops nothing: records are still kept.
//! The channel is bounded by twice the attempts under way, so that a learner in the middle of an update holds up
//! nobody who could still work, and memory stays bounded if it never comes back.

use std::sync::Arc;

use clawrl_core::{AttemptRecord, BlobStore, BoxFuture, EpisodeSink, LeaseRecord, Outcome, SinkError};
use clawrl_learn::TeacherView;
use clawrl_record::JudgedTurn;
use tokio::sync::mpsc;

/// Where the learner hears of attempts.
pub(super) type Resolved = mpsc::Receiver<Judged>;

/// An attempt that is kept, and what was said of its turns.
#[derive(Debug, Clone)]
pub(super) struct Judged {
    pub(super) record: AttemptRecord,
    /// In order; nothing of turns that nobody was asked about.
    pub(super) turns: Vec<JudgedTurn>,
    /// Where the teacher is behind a server.
    pub(super) taught: Option<Taught>,
}

/// What a teacher behind a server said of an attempt.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Taught {
    /// The readings that it answered: one entry for each segment, or none at all.
    pub(super) views: Vec<Vec<TeacherView>>,
    /// Hints that were left out.
    pub(super) too_long: u64,
    /// Whether it was asked about a reading and did not answer.
    pub(super) is_unanswered: bool,
}

impl From<AttemptRecord> for Judged {
    fn from(record: AttemptRecord) -> Self {
        Self { record, turns: Vec::new(), taught: None }
    }
}

/// Keeps records in another sink, then passes on those that close their slot and those of cancelled attempts.
pub(super) struct Feed {
    kept: Arc<dyn EpisodeSink>,
    learner: mpsc::Sender<Judged>,
}

/// A feed for a run with this many attempts under way.
pub(super) fn feed(kept: Arc<dyn EpisodeSink>, concurrency: u32) -> (Feed, Resolved) {
    let (learner, resolved) = mpsc::channel(channel_size(concurrency));
    (Feed { kept, learner }, resolved)
}

/// Attempts that a channel on the way to the learner holds.
pub(super) fn channel_size(concurrency: u32) -> usize {
    2 * concurrency.max(1) as usize
}

impl EpisodeSink for Feed {
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
