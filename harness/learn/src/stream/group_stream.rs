//! The state machine behind the asynchronous loop.
//!
//! I1. Every group of the plan is used up by at most one batch, and every informative one that was dispatched is
//! trained, waits, or is discarded under a counted reason. I2. A fault changes no baseline. I3. Synchronous: batches
//! are a function of plan and outputs. Interrupted anywhere, a stream made from the last snapshot resumes with the
//! batches that an undisturbed one would have made. I4. No trained token is older than the schedule's bound. I5.
//! A stream never deadlocks: until it ends, a slot is in flight, a batch is ready or in training,
//! or parameters are due to be published. I6. Demand only rises. I7. A version that is rejected uses up its batch and is never
//! due to be published: the acting policy continues with its old age, and baselines are those before the batch. I8. The statistics
//! of a curriculum come from the batches of accepted versions, and change with an update, not within a batch.
//!
//! Order of calls, from one thread: [`GroupStream::resolved`] as slots close; [`GroupStream::next_batch`] when the
//! learner is idle, then [`GroupStream::updated`] or [`GroupStream::rejected`]; [`GroupStream::published`] once the engine uses the parameters that
//! [`GroupStream::publish_due`] asked to publish; [`GroupStream::demand`] after any of them.
//!
//! Errors: [`StreamError`], errors of the caller, which leave the state unchanged. Pure; nothing to cancel.

use clawrl_core::{AttemptId, GroupId, SlotId, SlotSpec};
use serde::{Deserialize, Serialize};

use super::assembly::{Assembly, MemberResult, Settled, Verdict};
use super::config::{Schedule, StreamConfig};
use super::figures::{BatchStats, Discard, StreamCounts};
use super::ordered::Filling;
use super::ranges::GroupRanges;
use super::roster::Roster;
use super::streaming::{BatchSize, Streaming};
use super::train_batch::{BatchPlace, train_batch};
use super::weighing::Weighing;
use crate::{Baselines, Curriculum, LengthControl, Lineage, Replies, TrainBatch};

/// A batch to train.
#[derive(Debug, Clone, PartialEq)]
pub struct FormedBatch {
    /// The input of the learner. Without samples if no group was informative: the update makes no step, but counts as an update.
    pub batch: TrainBatch,
    /// Counts for the metrics.
    pub stats: BatchStats,
}

/// The reason why a stream ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamEnd {
    /// All updates are made.
    Updates,
    /// The plan has no more groups.
    PlanExhausted,
    /// A member was cancelled, and the schedule is synchronous: later batches would differ from those of an undisturbed
    /// run. A stream made from the snapshot resumes with that group.
    Cancelled,
}

/// An error of the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// The plan has no such slot.
    #[error("the plan has no slot {0}")]
    UnknownSlot(SlotId),
    /// The plan has no such group.
    #[error("group {} is consumed, but the plan has no such group", .0.0)]
    UnknownGroup(GroupId),
    /// The slot's group is not wanted yet, or has been settled.
    #[error("slot {0} is not in flight")]
    NotInFlight(SlotId),
    /// The slot has its result.
    #[error("slot {0} was resolved twice")]
    ResolvedTwice(SlotId),
    /// Columns of a segment differ in length, its first token is trained, or a teacher's view is of other tokens.
    #[error("attempt {0} has a segment whose columns, or whose teacher's views, do not fit it")]
    Malformed(AttemptId),
    /// There was no batch in training.
    #[error("an update to version {0} without a batch")]
    NoBatch(u64),
    /// Versions rise with updates, and only a known version can be published.
    #[error("version {got} where the learner's is {learner}")]
    Version {
        /// The version that the caller named.
        got: u64,
        /// The version of the learner.
        learner: u64,
    },
}

/// The state of a stream in a checkpoint. It matches the parameters of `version`, so it does not contain a batch in training.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StreamSnapshot {
    /// The learner's version.
    pub version: u64,
    /// The version whose parameters the learner has, if all later ones were rejected; otherwise `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted: Option<u64>,
    /// Updates made, including rejected ones.
    pub updates: u32,
    /// Groups used up by them.
    pub consumed: GroupRanges,
    /// Counts over all batches.
    pub counts: StreamCounts,
    /// Running baselines; empty if advantages are relative to their group.
    #[serde(default, skip_serializing_if = "Baselines::is_empty")]
    pub baselines: Baselines,
    /// The state of the length penalty; left out if it is new.
    #[serde(default, skip_serializing_if = "LengthControl::is_new")]
    pub length: LengthControl,
    /// Statistics of families, with a curriculum.
    #[serde(default, skip_serializing_if = "Curriculum::is_empty")]
    pub curriculum: Curriculum,
    /// Groups that it had chosen and that are not consumed, in order of choice. They are not chosen again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chosen: Vec<GroupId>,
}

impl StreamSnapshot {
    /// The snapshot of a stream that has not started, with a learner at this version.
    #[must_use]
    pub fn at(version: u64) -> Self {
        Self {
            version,
            accepted: None,
            updates: 0,
            consumed: GroupRanges::default(),
            counts: StreamCounts::default(),
            baselines: Baselines::default(),
            length: LengthControl::default(),
            curriculum: Curriculum::default(),
            chosen: Vec::new(),
        }
    }

    /// The version whose parameters the learner has: the last that was not rejected.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.accepted.unwrap_or(self.version)
    }

    /// Versions since then, all of which were rejected.
    #[must_use]
    pub fn rejected_in_a_row(&self) -> u64 {
        self.version.saturating_sub(self.accepted())
    }
}

/// See the module's header.
#[derive(Debug)]
pub struct GroupStream {
    config: StreamConfig,
    roster: Roster,
    assembly: Assembly,
    gathering: Gathering,
    /// The snapshot as of the last update.
    done: StreamSnapshot,
    lineage: Lineage,
    /// The acting version.
    acting: u64,
    training: Option<Training>,
    /// Groups with a cancelled member, since the last batch.
    cancelled: u64,
    /// See [`StreamEnd::Cancelled`].
    halted: bool,
}

#[derive(Debug)]
enum Gathering {
    Ordered(Option<Filling>),
    Streaming(Streaming),
}

/// The batch in training.
#[derive(Debug)]
struct Training {
    groups: Vec<GroupId>,
    counts: StreamCounts,
    /// The baselines after this batch.
    baselines: Baselines,
    /// Kind, members that passed, and members that count, of each group.
    tried: Vec<(u32, u32, u32)>,
    replies: Replies,
}

impl GroupStream {
    /// A stream over the slots of a plan. `kinds` gives the kind of each task: every kind has its own running baseline, and the
    /// tasks without an entry share one kind. The accepted version of the snapshot must already act, and the plan must run every
    /// slot of an unconsumed group: an incomplete group is dispatched again as a whole.
    ///
    /// # Errors
    /// [`StreamError::UnknownGroup`]: the snapshot is of another plan.
    pub fn new(
        config: StreamConfig,
        slots: &[SlotSpec],
        kinds: &[u32],
        snapshot: StreamSnapshot,
    ) -> Result<Self, StreamError> {
        let mut roster = Roster::new(slots, kinds, &snapshot.consumed).map_err(StreamError::UnknownGroup)?;
        if let Some(curriculum) = config.curriculum {
            let chosen = roster.chosen_by(curriculum, snapshot.curriculum.clone(), &snapshot.chosen);
            roster = chosen.map_err(StreamError::UnknownGroup)?;
        }
        let gathering = match config.schedule {
            Schedule::Synchronous | Schedule::OneStepOff => Gathering::Ordered(None),
            Schedule::Asynchronous { .. } => Gathering::Streaming(Streaming::default()),
        };
        let mut stream = Self {
            config,
            roster,
            assembly: Assembly::default(),
            gathering,
            lineage: Lineage::at(snapshot.version, snapshot.accepted()),
            acting: snapshot.accepted(),
            done: snapshot,
            training: None,
            cancelled: 0,
            halted: false,
        };
        stream.replenish();
        Ok(stream)
    }

    /// Takes the result of the attempt that closed its slot.
    ///
    /// # Errors
    /// [`StreamError`].
    pub fn resolved(&mut self, attempt: AttemptId, result: MemberResult) -> Result<(), StreamError> {
        let slot = attempt.slot;
        let place = self.roster.place(slot).ok_or(StreamError::UnknownSlot(slot))?;
        if !self.roster.is_in_flight(place.position) {
            return Err(StreamError::NotInFlight(slot));
        }
        if let MemberResult::Finished { segments, views, .. } = &result {
            let consistent = segments.iter().all(crate::Segment::is_consistent);
            let paired = views.is_empty() || views.len() == segments.len();
            let of_them =
                segments.iter().zip(views).all(|(of, views)| views.iter().all(|view| view.is_of(of)));
            if !(consistent && paired && of_them) {
                return Err(StreamError::Malformed(attempt));
            }
        }
        let members = self.roster.members(place.position);
        let settled = self.assembly.add(place, members, attempt, result);
        let Some(members) = settled.map_err(|_| StreamError::ResolvedTwice(slot))? else { return Ok(()) };
        self.roster.close(place.position);
        let id = self.roster.id(place.position);
        let kind = self.roster.kind(place.position);
        self.settle(Settled::new(self.weighing(), (place.position, kind), id, members));
        self.replenish();
        Ok(())
    }

    /// The number of groups from the start of the plan that may be dispatched, including those consumed before. With a curriculum,
    /// the length of [`Self::order`].
    #[must_use]
    pub fn demand(&self) -> u32 {
        self.roster.demand()
    }

    /// With a curriculum, the positions of the groups that may be dispatched, in order of choice: all since the stream was made.
    #[must_use]
    pub fn order(&self) -> Option<&[u32]> {
        self.roster.order()
    }

    /// With a curriculum, the smallest and the largest current share of a family in its suite, in multiples of an even share.
    #[must_use]
    pub fn shares(&self) -> Option<(f64, f64)> {
        self.roster.chooser()?.spread()
    }

    /// The current maximum penalty for the length of an episode, if there is one.
    #[must_use]
    pub fn length_strength(&self) -> Option<f64> {
        self.config.length.map(|cost| self.done.length.strength(cost))
    }

    /// The next batch, if it is due and none is in training.
    pub fn next_batch(&mut self) -> Option<FormedBatch> {
        if self.training.is_some() || self.halted || self.batches_left() == 0 {
            return None;
        }
        let (version, size) = (self.done.version, self.batch_size());
        let max_staleness = self.config.schedule.max_staleness();
        let more = self.roster.has_more();
        let groups = match &mut self.gathering {
            Gathering::Ordered(filling) => {
                let is_due =
                    self.lineage.age(self.acting) == 0 && filling.as_ref().is_some_and(Filling::is_whole);
                filling.take_if(|_| is_due)?.into_groups()
            }
            Gathering::Streaming(streaming) => {
                streaming.expire(&self.lineage, max_staleness);
                let groups = streaming.take(size, more);
                if groups.is_none() {
                    // Expired groups have made room.
                    self.replenish();
                }
                groups?
            }
        };
        let update = self.done.updates;
        let place = BatchPlace { seed: self.config.seed, update, lineage: &self.lineage, max_staleness };
        let tried = groups.iter().map(|settled| {
            // A group has no more members than slots, whose ids are 32 bits wide.
            (settled.kind, settled.passed, settled.group.episodes.len() as u32)
        });
        let tried = tried.collect();
        let mut replies = Replies::default();
        groups.iter().for_each(|settled| replies += settled.replies);
        let mut baselines = self.done.baselines.clone();
        let running = (!self.config.advantage.is_relative()).then_some(&mut baselines);
        let (batch, mut counts) = train_batch(groups, place, running);
        counts.cancelled = std::mem::take(&mut self.cancelled);
        self.training = Some(Training { groups: batch.groups.clone(), counts, baselines, tried, replies });
        self.replenish();
        Some(FormedBatch { batch, stats: BatchStats { update, version, counts } })
    }

    /// Records that the batch in training became the learner's new version.
    ///
    /// # Errors
    /// [`StreamError::NoBatch`], or [`StreamError::Version`] if the version did not rise.
    pub fn updated(&mut self, version: u64) -> Result<(), StreamError> {
        let training = self.use_up(version)?;
        self.done.counts += training.counts;
        self.done.baselines = training.baselines;
        self.done.accepted = None;
        if let Some(cost) = self.config.length {
            self.done.length.after(cost, training.replies);
        }
        if let Some(chooser) = self.roster.chooser_mut() {
            training.tried.iter().for_each(|&(kind, passed, attempts)| chooser.learn(kind, passed, attempts));
        }
        self.note_choices();
        self.lineage.rise(version);
        self.replenish();
        Ok(())
    }

    /// Records that the new version was rejected: the learner has the parameters of the last accepted version again, under the
    /// number of the rejected one (I7).
    ///
    /// # Errors
    /// As [`Self::updated`].
    pub fn rejected(&mut self, version: u64) -> Result<(), StreamError> {
        let accepted = self.done.accepted();
        let training = self.use_up(version)?;
        let rejected = training.groups.len() as u64;
        self.done.counts += StreamCounts { rejected, ..training.counts };
        self.done.accepted = Some(accepted);
        self.note_choices();
        self.lineage.reject(version);
        self.replenish();
        Ok(())
    }

    /// Removes the batch in training.
    fn use_up(&mut self, version: u64) -> Result<Training, StreamError> {
        if version <= self.done.version {
            return Err(StreamError::Version { got: version, learner: self.done.version });
        }
        let training = self.training.take().ok_or(StreamError::NoBatch(version))?;
        for &group in &training.groups {
            self.done.consumed.insert(group);
        }
        self.done.updates += 1;
        self.done.version = version;
        Ok(training)
    }

    /// Saves the curriculum and its choices for the snapshot. Called before more groups are chosen.
    fn note_choices(&mut self) {
        if let Some(chooser) = self.roster.chooser() {
            self.done.curriculum = chooser.curriculum().clone();
            self.done.chosen = self.roster.wanted_beside(&self.done.consumed);
        }
    }

    /// The current rules from rewards to advantages.
    fn weighing(&self) -> Weighing {
        let StreamConfig { advantage, process_weight, outcome_counts, length, .. } = self.config;
        Weighing {
            kind: advantage,
            process: process_weight,
            outcome_counts,
            length: length.and_then(|cost| self.done.length.punishment(cost)),
        }
    }

    /// Whether the learner's parameters should act from now on. With a one-step schedule, not before the batch in generation is
    /// complete.
    #[must_use]
    pub fn publish_due(&self) -> bool {
        let is_held = match (&self.gathering, self.config.schedule) {
            (Gathering::Ordered(Some(filling)), Schedule::OneStepOff) => !filling.is_whole(),
            _ => false,
        };
        self.is_behind() && !is_held
    }

    /// Whether the acting version is older than the last accepted one, held back or not.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        self.lineage.age(self.acting) > 0
    }

    /// Records that this version acts: it samples all later tokens.
    ///
    /// # Errors
    /// [`StreamError::Version`] for one that the learner has not made, or that was rejected.
    pub fn published(&mut self, version: u64) -> Result<(), StreamError> {
        if version > self.done.version || self.lineage.is_rejected(version) {
            return Err(StreamError::Version { got: version, learner: self.done.version });
        }
        self.acting = self.acting.max(version);
        self.replenish();
        Ok(())
    }

    /// The reason why the stream ended; `None` until then.
    #[must_use]
    pub fn end(&self) -> Option<StreamEnd> {
        let is_empty = match &self.gathering {
            Gathering::Ordered(filling) => filling.is_none(),
            Gathering::Streaming(streaming) => streaming.is_empty(),
        };
        if self.training.is_some() {
            None
        } else if self.batches_left() == 0 {
            Some(StreamEnd::Updates)
        } else if self.halted {
            Some(StreamEnd::Cancelled)
        } else {
            (is_empty && !self.roster.has_more()).then_some(StreamEnd::PlanExhausted)
        }
    }

    /// The snapshot for a checkpoint, as of the last update.
    #[must_use]
    pub fn snapshot(&self) -> &StreamSnapshot {
        &self.done
    }

    /// Groups wanted and not settled.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        match &self.gathering {
            Gathering::Ordered(filling) => filling.as_ref().map_or(0, Filling::in_flight),
            Gathering::Streaming(streaming) => streaming.in_flight(),
        }
    }

    /// Informative groups that wait for their batch.
    #[must_use]
    pub fn waiting(&self) -> usize {
        match &self.gathering {
            Gathering::Ordered(filling) => filling.as_ref().map_or(0, Filling::waiting),
            Gathering::Streaming(streaming) => streaming.waiting(),
        }
    }

    fn settle(&mut self, settled: Settled) {
        if settled.verdict == Verdict::Discarded(Discard::Cancelled) {
            self.cancelled += 1;
            self.halted |= self.config.schedule == Schedule::Synchronous;
            match &mut self.gathering {
                Gathering::Ordered(Some(filling)) => filling.remove(settled.position),
                Gathering::Ordered(None) => {}
                Gathering::Streaming(streaming) => streaming.remove(),
            }
            return;
        }
        match &mut self.gathering {
            Gathering::Ordered(Some(filling)) => filling.settle(settled),
            // All groups in flight belong to the batch that is being filled.
            Gathering::Ordered(None) => {}
            Gathering::Streaming(streaming) => streaming.settle(settled),
        }
    }

    /// Raises the demand to the number of groups that the schedule allows now.
    fn replenish(&mut self) {
        if self.halted {
            return;
        }
        let (size, batches, may_begin) =
            (self.batch_size(), self.batches_within_age(), self.may_begin_filling());
        match &mut self.gathering {
            Gathering::Ordered(filling) => {
                if filling.is_none() && !may_begin {
                    return;
                }
                let mut filled = filling.take().unwrap_or_else(|| Filling::new(size.batch, size.budget));
                while filled.wants_more() {
                    let Some(position) = self.roster.want() else { break };
                    filled.push(position);
                }
                *filling = Some(filled).filter(|filled| !filled.is_empty());
            }
            Gathering::Streaming(streaming) => {
                while streaming.wants_more(size, batches) && self.roster.want().is_some() {
                    streaming.push();
                }
            }
        }
    }

    /// Whether the groups of another batch may be dispatched, in a schedule that fills one batch at a time.
    fn may_begin_filling(&self) -> bool {
        let is_turn = self.training.is_none() || self.config.schedule == Schedule::OneStepOff;
        self.batches_left() > 0 && self.lineage.age(self.acting) == 0 && is_turn
    }

    /// The number of batches from now in which a group that is dispatched now would be young enough.
    fn batches_within_age(&self) -> u64 {
        // The age of the acting version when the next batch starts, if the version in training is accepted.
        let behind = self.lineage.age(self.acting) + u64::from(self.training.is_some());
        let by_age = self.config.schedule.max_staleness().saturating_add(1).saturating_sub(behind);
        by_age.min(u64::from(self.batches_left()))
    }

    /// Batches that are still to be formed.
    fn batches_left(&self) -> u32 {
        let formed = self.done.updates + u32::from(self.training.is_some());
        self.config.updates.saturating_sub(formed)
    }

    fn batch_size(&self) -> BatchSize {
        BatchSize { batch: self.config.batch(), budget: self.config.budget() }
    }
}
