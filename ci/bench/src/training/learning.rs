//! The learner's side: records in, updates out, in the order of calls of [`GroupStream`].

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use clawrl_core::{
    AttemptRecord, BlobStore, BoxFuture, EpisodeSink, LeaseRecord, MemoryBlobs, Outcome, SinkError,
};
use clawrl_learn::{FormedBatch, GroupStream, Learner, MemberResult, Replies};
use clawrl_scheduler::{Demand, GroupDemand, Interrupt, context};
use clawrl_torch::{Chat, SampledTurn, TorchLearner, segments};
use tokio::sync::{mpsc, watch};

use super::Trained;
use crate::Failure;

/// Passes on the records of attempts, which are kept nowhere else.
pub(super) struct Feed {
    learner: mpsc::Sender<AttemptRecord>,
}

impl Feed {
    pub(super) fn new(learner: mpsc::Sender<AttemptRecord>) -> Self {
        Self { learner }
    }
}

impl EpisodeSink for Feed {
    fn leased(&self, _lease: LeaseRecord) -> BoxFuture<'_, Result<(), SinkError>> {
        Box::pin(async { Ok(()) })
    }

    fn resolved(&self, record: AttemptRecord) -> BoxFuture<'_, Result<(), SinkError>> {
        Box::pin(async move {
            // A learner that is done hears nothing more.
            let _ = self.learner.send(record).await;
            Ok(())
        })
    }

    fn blobs(&self) -> Arc<dyn BlobStore> {
        Arc::new(MemoryBlobs::default())
    }
}

/// What the learner's thread owns.
pub(super) struct Learning {
    pub(super) learner: TorchLearner,
    pub(super) stream: GroupStream,
    pub(super) chat: Arc<Chat>,
    pub(super) resolved: mpsc::Receiver<AttemptRecord>,
    pub(super) demand: watch::Sender<Demand>,
    pub(super) interrupt: watch::Sender<Interrupt>,
    pub(super) trained: Trained,
}

/// Episodes and their rewards.
#[derive(Debug, Default)]
struct Rewards {
    sum: f64,
    episodes: u64,
}

impl Learning {
    /// Makes so many updates, and then ends the scheduler; it is ended, too, when this fails.
    pub(super) fn run(mut self, updates: u32, began: Instant) -> Result<Trained, Failure> {
        let learned = self.learn(updates);
        self.trained.wall_s = began.elapsed().as_secs_f64();
        self.interrupt.send_replace(Interrupt::CancelAll);
        self.demand.send_modify(|demand| demand.closed = true);
        learned?;
        let tokens = &self.stream.snapshot().counts.tokens;
        self.trained.staleness_max = tokens.max;
        self.trained.staleness_mean = tokens.mean();
        self.trained.stale_tokens = tokens.masked;
        Ok(self.trained)
    }

    fn learn(&mut self, updates: u32) -> Result<(), Failure> {
        let mut last_quarter = Rewards::default();
        while self.stream.end().is_none() {
            self.publish_if_due()?;
            if let Some(FormedBatch { batch, stats }) = self.stream.next_batch() {
                // What forming it made room for is dispatched while it trains.
                self.tell_demand();
                let began = Instant::now();
                let report = self.learner.update(&batch)?;
                self.trained.update_s += began.elapsed().as_secs_f64();
                self.trained.tokens += report.trained_tokens;
                self.trained.updates += 1;
                if 4 * self.trained.updates > 3 * updates {
                    last_quarter.sum += stats.counts.reward;
                    last_quarter.episodes += stats.counts.episodes;
                }
                self.stream.updated(report.version)?;
                continue;
            }
            self.tell_demand();
            let Some(record) = self.resolved.blocking_recv() else { break };
            let result = self.member_result(&record)?;
            self.stream.resolved(record.attempt, result)?;
        }
        self.trained.reward = last_quarter.sum / last_quarter.episodes.max(1) as f64;
        Ok(())
    }

    fn publish_if_due(&mut self) -> Result<(), Failure> {
        if self.stream.publish_due() {
            self.learner.publish()?;
            self.stream.published(self.learner.version())?;
        }
        Ok(())
    }

    fn tell_demand(&self) {
        let groups = self.stream.demand();
        self.demand.send_if_modified(|wanted| {
            let more = wanted.groups.count() < groups;
            if more {
                wanted.groups = GroupDemand::First(groups);
            }
            more
        });
    }

    fn member_result(&self, record: &AttemptRecord) -> Result<MemberResult, Failure> {
        let reward = match &record.outcome {
            Outcome::Finished { reward, .. } => *reward,
            // Nothing here can fault; a measurement in which something does is none.
            Outcome::Faulted(fault) => return Err(fault.to_string().into()),
            Outcome::Cancelled(_) => return Ok(MemberResult::Cancelled),
        };
        let trajectory = &record.trajectory;
        let turns: Option<Vec<SampledTurn<'_>>> = trajectory
            .turns
            .iter()
            .enumerate()
            .map(|(index, turn)| {
                Some(SampledTurn {
                    messages: Cow::Owned(context(&trajectory.prompt, &trajectory.turns[..index])),
                    tools: &[],
                    tokens: Cow::Borrowed(turn.tokens.as_ref()?),
                })
            })
            .collect();
        let turns = turns.ok_or("a turn has no recorded tokens")?;
        Ok(MemberResult::Finished {
            reward,
            process: Vec::new(),
            passed: false,
            replies: Replies::default(),
            segments: segments(&self.chat, turns, 1.0)?,
            views: Vec::new(),
        })
    }
}
