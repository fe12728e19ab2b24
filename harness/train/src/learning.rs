//! The learner's thread: it takes records and makes updates.
//!
//! I1. An update is made as soon as there is a batch; generation continues meanwhile as far as the demand allows. I2. A
//! checkpoint is written before consumed groups can be lost: every `checkpoint_every` updates and when the thread ends normally,
//! but not while a version waits for its evaluation. I3. When the thread ends, normally or not, the demand is closed, so that the
//! scheduler finishes running attempts and ends, too.
//!
//! Cancellation: the channel of records ends with the scheduler's run, and this thread with it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clawrl_config::{DistillationPlan, RlPlan};
use clawrl_core::{GroupId, RunPlan, TaskSpec, UsageTotal};
use clawrl_learn::{
    Collapse, CollapseGuard, EpisodeLength, FormedBatch, GroupStream, LearnError, Learner, MemberResult,
    StreamEnd, StreamError, StreamSnapshot, Vitals, repetition,
};
use clawrl_record::{JudgedTurn, Metric, MetricRow, RunSink};
use clawrl_scheduler::{Demand, GroupDemand};
use clawrl_torch::{Chat, TorchLearner};
use tokio::runtime::Handle;
use tokio::sync::watch;

use super::acceptance::{UpdateAcceptance, UpdateOutcome};
use super::attempt_sink::{Resolved, ScoredAttempt, TeacherScores};
use super::hints::{Hint, hints};
use super::no_signal::NoSignalGuard;
use super::samples::{Reading, lengths};
use super::settings::overlong;
use super::teacher::RemoteTeacher;
use super::update_report::{Sampled, UpdateTimes, update_progress};
use super::versions::{Made, VersionLog};
use clawrl_runtime::Progress;
use clawrl_runtime::training::TrainError;

/// State that outlives one stretch of a training.
pub(super) struct Learning {
    pub(super) rl: RlPlan,
    pub(super) learner: TorchLearner,
    pub(super) stream: GroupStream,
    pub(super) chat: Arc<Chat>,
    pub(super) checkpoint_every: u32,
    pub(super) progress: Arc<dyn Progress>,
    /// Version of the last checkpoint.
    pub(super) checkpointed: u64,
    /// The last accepted version that has a checkpoint.
    pub(super) parent: u64,
    pub(super) versions: VersionLog,
    /// With a teacher or a judge: members of incomplete groups.
    pub(super) unsettled: BTreeMap<GroupId, Vec<ScoredAttempt>>,
    /// Attempts whose record could not be read; they count as faulted.
    pub(super) unreadable: u64,
    pub(super) no_signal: NoSignalGuard,
    /// The collapse detector, if the plan has one.
    pub(super) guard: Option<CollapseGuard>,
    /// The acceptance of versions, if the plan has one.
    pub(super) gate: Option<UpdateAcceptance>,
    /// The remote teacher, if there is one.
    pub(super) teacher: Option<Arc<RemoteTeacher>>,
}

/// The connections of one stretch to the rest of the training.
pub(super) struct LoopChannels {
    /// The plan whose attempts arrive.
    pub(super) plan: Arc<RunPlan>,
    pub(super) resolved: Resolved,
    pub(super) demand: watch::Sender<Demand>,
    pub(super) metrics: RunSink,
    pub(super) runtime: Handle,
}

/// Counters since the previous update.
struct Interval {
    began: Instant,
    sampled: Sampled,
}

impl Interval {
    fn new() -> Self {
        Self { began: Instant::now(), sampled: Sampled::default() }
    }
}

impl Learning {
    /// Updates made so far.
    pub(super) fn updates(&self) -> u32 {
        self.stream.snapshot().updates
    }

    /// Learns until so many updates are made, a version waits for its evaluation, no more attempts can arrive, or the run is
    /// over.
    ///
    /// # Errors
    /// The learner failed, or a checkpoint could not be written.
    pub(super) fn until(&mut self, target: u32, channels: LoopChannels) -> Result<(), TrainError> {
        let LoopChannels { plan, mut resolved, demand, metrics, runtime } = channels;
        let mut interval = Interval::new();
        let mut open = true;
        loop {
            while open {
                self.publish_if_due()?;
                open = self.updates() < target && self.candidate().is_none() && self.stream.end().is_none();
                // A formed batch has to be trained, so none is formed unless another update follows.
                let Some(formed) = open.then(|| self.stream.next_batch()).flatten() else { break };
                // A process that is killed during the evaluation of the next version makes exactly that version again.
                if self.next_is_evaluated() && self.learner.version() > self.checkpointed {
                    self.checkpoint()?;
                }
                let counts = formed.stats.counts;
                let (rows, outcome) = self.update(formed, &mut interval)?;
                let figure = |name| rows.iter().find(|row| row.name == name).map(|row| row.value);
                let collapse =
                    self.guard.as_mut().zip(vitals(figure)).and_then(|(guard, now)| guard.after(now));
                // A lost metric does not stop the training.
                let _ = runtime.block_on(metrics.metrics(rows));
                // After the metrics: a resumed training removes the metrics of updates that no checkpoint contains.
                let is_due = self.updates().is_multiple_of(self.checkpoint_every.max(1));
                if is_due && self.candidate().is_none() {
                    let seconds = timed(|| self.checkpoint())?.as_secs_f64();
                    let figures = [(Metric::TrainCheckpointSeconds, seconds)];
                    let rows = MetricRow::of_update(now_ms(), u64::from(self.updates()), &figures);
                    let _ = runtime.block_on(metrics.metrics(rows));
                }
                self.no_signal.after(&counts)?;
                if let Some(collapse) = collapse {
                    if self.learner.version() > self.checkpointed && self.candidate().is_none() {
                        self.checkpoint()?;
                    }
                    return Err(halted(&collapse));
                }
                self.halt_if_hopeless(outcome)?;
            }
            demand.send_if_modified(|demand| {
                let (more, closes) = (demand.groups.count() < self.stream.demand(), !open && !demand.closed);
                if more {
                    demand.groups = self.wanted();
                }
                demand.closed |= closes;
                more || closes
            });
            if self.updates() >= self.rl.updates {
                // Running attempts are no longer used, and their judgements not awaited.
                break;
            }
            match resolved.blocking_recv() {
                Some(judged) => self.take(&plan, judged, &mut interval)?,
                None => break,
            }
        }
        if self.learner.version() > self.checkpointed && self.candidate().is_none() {
            self.checkpoint()?;
        }
        Ok(())
    }

    /// The groups that may be dispatched now.
    pub(super) fn wanted(&self) -> GroupDemand {
        self.stream.order().map_or_else(
            || GroupDemand::First(self.stream.demand()),
            |order| GroupDemand::These(order.into()),
        )
    }

    /// The reason why the stream ended, if it did.
    pub(super) fn end(&self) -> Option<StreamEnd> {
        self.stream.end()
    }

    fn take(
        &mut self,
        plan: &RunPlan,
        judged: ScoredAttempt,
        interval: &mut Interval,
    ) -> Result<(), TrainError> {
        let ScoredAttempt { record, turns, .. } = &judged;
        turns.iter().for_each(|turn| interval.sampled.judging.add(turn));
        let tokens = record.trajectory.turns.iter().filter_map(|turn| turn.tokens.as_ref());
        interval.sampled.tokens += tokens.map(|tokens| tokens.ids.len() as u64).sum::<u64>();
        interval.sampled.turns += record.trajectory.turns.len() as u64;
        let replies = record.trajectory.turns.iter().filter_map(|turn| turn.tokens.as_ref());
        interval.sampled.repetition += replies.map(|tokens| repetition(&tokens.ids)).sum::<f64>();
        interval.sampled.episodes += 1;
        let slot = &plan.slots[record.attempt.slot.0 as usize];
        let task = plan.task_of(slot);
        if self.rl.distillation.is_none() && !self.rl.judges_turns() {
            return self.resolve(task, &judged, false, Hint::None, interval);
        }
        // A member's hint may come from another member, and verdicts are compared within the group, so the group has to be
        // complete.
        let group = self.unsettled.entry(slot.group).or_default();
        group.push(judged);
        if group.len() < self.rl.group_size as usize {
            return Ok(());
        }
        let mut members = self.unsettled.remove(&slot.group).unwrap_or_default();
        members.sort_by_key(|member| member.record.attempt);
        let version = self.learner.version();
        // A teacher that is no longer asked needs no hints, so no group is kept for it. A remote teacher has read them already.
        let asks = |it: &&DistillationPlan| {
            self.teacher.is_none() && it.fade_updates.is_none_or(|fade| version < u64::from(fade))
        };
        let hints = match self.rl.distillation.as_ref().filter(asks) {
            Some(distillation) => hints(distillation, &self.chat, self.rl.reward, task, &members),
            None => vec![Hint::None; members.len()],
        };
        let mut turns = members.iter().flat_map(|member| &member.record.trajectory.turns);
        let by_verdicts = self.rl.judges_turns() && turns.all(|turn| turn.process_reward.is_none());
        let mut each = members.iter().zip(hints);
        each.try_for_each(|(member, hint)| self.resolve(task, member, by_verdicts, hint, interval))
    }

    /// `by_verdicts`: whether process rewards are the verdicts on its turns.
    fn resolve(
        &mut self,
        task: &TaskSpec,
        ScoredAttempt { record, turns, teacher_scores: taught }: &ScoredAttempt,
        by_verdicts: bool,
        hint: Hint,
        interval: &mut Interval,
    ) -> Result<(), TrainError> {
        let reading = Reading {
            chat: &self.chat,
            format: task.action_format,
            reward: self.rl.reward,
            map: task.reward,
            temperature: self.rl.sampling.temperature_milli as f32 / 1000.0,
        };
        let mut result = reading.member(record).unwrap_or_else(|why| {
            self.unreadable += 1;
            self.progress.warn(format_args!("attempt {} teaches nothing: {why}", record.attempt));
            MemberResult::Faulted
        });
        if result == MemberResult::Unsound {
            self.progress.warn(format_args!(
                "attempt {} teaches nothing: its reward is no number, or outside of what it can be",
                record.attempt
            ));
        }
        if let (true, MemberResult::Finished { process, .. }) = (by_verdicts, &mut result) {
            *process = verdicts(turns, process.len());
        }
        if let MemberResult::Finished { segments, views, .. } = &mut result {
            let most_tokens = self.learner.params().layout().config().max_position_embeddings;
            let most_tokens = usize::try_from(most_tokens).unwrap_or_default();
            let found = match taught {
                Some(TeacherScores { views, too_long, is_unanswered }) => {
                    interval.sampled.unanswered += u64::from(*is_unanswered);
                    Ok((views.clone(), *too_long))
                }
                None => reading.views_with(&record.trajectory, segments, &hint, most_tokens),
            };
            match found {
                Ok((found, too_long)) => {
                    *views = found;
                    interval.sampled.hints_too_long += too_long;
                }
                Err(why) => {
                    self.progress.warn(format_args!("attempt {} has no hint: {why}", record.attempt));
                }
            }
        }
        // After the views, which cover every sampled token.
        if let MemberResult::Finished { reward, segments, .. } = &mut result {
            let (replies, is_cut) = lengths(record);
            let limit = self.rl.sampling.max_new_tokens;
            let length = EpisodeLength { replies: &replies, limit, is_cut };
            interval.sampled.overlong += u64::from(length.is_overlong());
            interval.sampled.overlong_tokens += overlong(self.rl.overlong).apply(&length, reward, segments);
        }
        self.stream.resolved(record.attempt, result).map_err(|error| broken(&error))
    }

    fn update(
        &mut self,
        formed: FormedBatch,
        interval: &mut Interval,
    ) -> Result<(Vec<MetricRow>, UpdateOutcome), TrainError> {
        let FormedBatch { batch, stats } = formed;
        let began = Instant::now();
        let mut times = UpdateTimes { wait: began - interval.began, ..UpdateTimes::default() };
        // The policy's health on this batch, before the update changes it.
        let (shares, length_strength) = (self.stream.shares(), self.stream.length_strength());
        let report = self.learner.update(&batch).map_err(|error| gave_up(&error))?;
        let (outcome, of_gate) = self.judge(&batch, &stats, &report)?;
        times.update = began.elapsed();
        times.publish = timed(|| self.publish_if_due())?;
        let sampled = std::mem::replace(interval, Interval::new()).sampled;
        self.progress.update(&update_progress(self.rl.updates, &stats, &report, sampled, times));

        let counts = &stats.counts;
        let seconds = (times.wait + times.update).as_secs_f64().max(1e-9);
        // Without values there is no mean.
        let over = |count: u64| if count == 0 { f64::NAN } else { count as f64 };
        let per_turn = sampled.tokens as f64 / over(sampled.turns);
        let constant = counts.constant_passed + counts.constant_failed + counts.constant_mixed;
        let mut figures = vec![
            (Metric::TrainRewardMean, counts.reward_mean().unwrap_or(f64::NAN)),
            (Metric::TrainSuccessRatio, counts.success_rate().unwrap_or(f64::NAN)),
            (Metric::TrainLossMean, report.loss),
            (Metric::TrainEntropyNats, report.entropy),
            (Metric::TrainGradientNorm, report.grad_norm),
            (Metric::TrainBehaviourGapNats, report.behaviour_gap),
            (Metric::TrainClippedRatio, report.clip_fraction),
            (Metric::TrainReferenceKlNats, report.kl),
            (Metric::TrainOutcomeRms, report.outcome_rms),
            (Metric::TrainTeacherRms, report.teacher_rms),
            (Metric::TrainHintedEpisodesCount, counts.taught as f64),
            (Metric::TrainHintsTooLongCount, sampled.hints_too_long as f64),
            (Metric::TrainStalenessMeanVersions, counts.tokens.mean()),
            (Metric::TrainStalenessMaxVersions, counts.tokens.max as f64),
            (Metric::TrainGroupsTriedCount, counts.groups() as f64),
            (Metric::TrainGroupsUsedCount, counts.informative as f64),
            (Metric::TrainGroupsConstantCount, constant as f64),
            (Metric::TrainGroupsSmallCount, counts.too_few as f64),
            (Metric::TrainGroupsUntaughtCount, counts.untaught as f64),
            (Metric::TrainEpisodesOverlongCount, sampled.overlong as f64),
            (Metric::TrainTokensOverlongCount, sampled.overlong_tokens as f64),
            (Metric::TrainRewardsRefusedCount, counts.unsound as f64),
            (Metric::TrainTokensStaleCount, counts.tokens.masked as f64),
            (Metric::TrainSegmentsDroppedCount, report.dropped_segments as f64),
            (Metric::TrainTokensTrainedCount, report.trained_tokens as f64),
            (Metric::TrainTokensForwardCount, report.forward_tokens as f64),
            (Metric::TrainStepsCount, f64::from(report.steps)),
            (Metric::TrainStepsSkippedCount, f64::from(report.skipped)),
            (Metric::TrainReplyTokensMean, per_turn),
            (Metric::TrainRepetitionRatio, sampled.repetition / over(sampled.turns)),
            (Metric::TrainSampledTokensPerSecond, sampled.tokens as f64 / seconds),
            (Metric::TrainEpisodesPerSecond, sampled.episodes as f64 / seconds),
            (Metric::TrainWaitSeconds, times.wait.as_secs_f64()),
            (Metric::TrainUpdateSeconds, times.update.as_secs_f64()),
            (Metric::TrainPublishSeconds, times.publish.as_secs_f64()),
        ];
        figures.extend(of_gate);
        figures.extend(
            self.rl.loss.entropy.map(|_| (Metric::TrainEntropyBonusCoefficient, report.entropy_coefficient)),
        );
        figures.extend(length_strength.map(|strength| (Metric::TrainLengthPunishmentCoefficient, strength)));
        if let Some((least, most)) = shares {
            figures.push((Metric::TrainShareLeastRatio, least));
            figures.push((Metric::TrainShareMostRatio, most));
        }
        let (now, update) = (now_ms(), u64::from(stats.update) + 1);
        let mut rows = MetricRow::of_update(now, update, &figures);
        if self.teacher.is_some() {
            let unanswered = sampled.unanswered as f64;
            rows.extend(MetricRow::of_update(
                now,
                update,
                &[(Metric::TrainTeacherUnansweredCount, unanswered)],
            ));
        }
        if self.rl.judging.is_some() {
            let judging = sampled.judging;
            let UsageTotal { input_tokens, output_tokens, cost_nano_usd, .. } = judging.usage;
            let figures = [
                (Metric::TrainTurnsJudgedCount, judging.judged as f64),
                (Metric::TrainTurnsUnjudgedCount, judging.unjudged as f64),
                (Metric::TrainVotesMissingCount, judging.missing_votes as f64),
                (Metric::TrainVoteAgreementRatio, judging.mean_agreement()),
                (Metric::TrainJudgeTokensCount, input_tokens.saturating_add(output_tokens) as f64),
                (Metric::TrainJudgeCostUsd, cost_nano_usd.map_or(f64::NAN, |nano| nano as f64 / 1e9)),
            ];
            rows.extend(MetricRow::of_update(now, update, &figures));
        }
        Ok((rows, outcome))
    }

    fn publish_if_due(&mut self) -> Result<(), TrainError> {
        if self.stream.publish_due() { self.publish() } else { Ok(()) }
    }

    /// Publishes the last accepted version, even if the schedule holds it back until a batch is complete. Call between two
    /// stretches, when nothing is being sampled.
    ///
    /// # Errors
    /// The sampler does not take it.
    pub(super) fn publish(&mut self) -> Result<(), TrainError> {
        if self.stream.is_behind() {
            self.learner.publish().map_err(|error| gave_up(&error))?;
            let acting = self.stream.snapshot().accepted();
            self.stream.published(acting).map_err(|error| broken(&error))?;
        }
        Ok(())
    }

    /// Writes a checkpoint of the parameters and the consumed groups.
    ///
    /// # Errors
    /// The checkpoint cannot be written.
    pub(super) fn checkpoint(&mut self) -> Result<(), TrainError> {
        let progress = serde_json::to_string(self.stream.snapshot())
            .map_err(|error| TrainError::internal(format!("progress cannot be written: {error}")))?;
        self.learner.checkpoint(&progress).map_err(|error| gave_up(&error))?;
        let (version, parent) = (self.learner.version(), Some(self.parent));
        self.checkpointed = version;
        let (updates, accepted) = (self.updates(), self.stream.snapshot().accepted());
        if accepted < version {
            // The weights equal the accepted version's, and the rejection was noted when it happened.
            return Ok(());
        }
        self.parent = version;
        self.versions.add(&Made {
            version,
            parent,
            updates,
            t_ms: now_ms(),
            instead_of: None,
            rejected: None,
        })
    }
}

/// The verdicts as process rewards, one for each of so many turns.
fn verdicts(judged: &[JudgedTurn], turns: usize) -> Vec<Option<f64>> {
    let mut rewards = vec![None; turns];
    for turn in judged {
        if let Some(reward) = rewards.get_mut(turn.turn as usize) {
            *reward = turn.process.as_ref().and_then(|judgement| judgement.verdict).map(f64::from);
        }
    }
    rewards
}

/// The collapse detector's input from the metrics of an update. `None` if no token was trained, or no reply arrived since the
/// previous update.
pub(super) fn vitals(figure: impl Fn(Metric) -> Option<f64>) -> Option<Vitals> {
    let reply_tokens = figure(Metric::TrainReplyTokensMean)?;
    let is_known = figure(Metric::TrainTokensTrainedCount)? > 0.0 && reply_tokens.is_finite();
    is_known.then_some(Vitals {
        entropy: figure(Metric::TrainEntropyNats)?,
        reply_tokens,
        repetition: figure(Metric::TrainRepetitionRatio)?,
    })
}

fn halted(collapse: &Collapse) -> TrainError {
    TrainError::aborted(format!("the training is halted, since the policy collapses: {collapse}")).with_help("`clawrl policy versions` lists what it can go back to, and `clawrl policy rollback` does. What is in the train file stays; for a \
         lower `learning_rate`, a cost of the distance (`kl`) or other `guards:`, train anew from a version that is kept \
         (`policy: { path: ... }`)")
}

/// The progress that a checkpoint holds.
///
/// # Errors
/// The text is invalid.
pub(super) fn progress_of(text: &str) -> Result<StreamSnapshot, TrainError> {
    serde_json::from_str(text)
        .map_err(|error| TrainError::storage(format!("the checkpoint's progress cannot be read: {error}")))
}

/// Milliseconds since the Unix epoch.
pub(super) fn now_ms() -> u64 {
    u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap_or(0)
}

fn timed<E>(work: impl FnOnce() -> Result<(), E>) -> Result<Duration, E> {
    let began = Instant::now();
    work().map(|()| began.elapsed())
}

/// The error of a learner that cannot continue.
pub(super) fn gave_up(error: &LearnError) -> TrainError {
    match error {
        LearnError::NotFinite { .. } => TrainError::aborted(format!("the training is given up: {error}"))
            .with_help(
                "a lower `learning_rate` or `max_grad_norm` often helps; the last checkpoint is intact",
            ),
        LearnError::Checkpoint(_) => TrainError::storage(format!("the training stopped: {error}")).with_help(
            "older checkpoints are intact; once there is room, `clawrl train --resume` goes on from the last",
        ),
        LearnError::Backend(_) => TrainError::internal(format!("the training stopped: {error}")),
    }
}

pub(super) fn broken(error: &StreamError) -> TrainError {
    TrainError::internal(error.to_string()).with_help("this is a bug in ClawRL: please report it")
}

#[cfg(test)]
mod tests {
    use clawrl_core::{AttemptId, SlotId};
    use clawrl_record::Judgement;

    use super::*;

    #[test]
    fn what_is_not_judged_is_not_0() {
        let judged = |turn: u32, verdict: Option<i8>| JudgedTurn {
            attempt: AttemptId { slot: SlotId(0), number: 0 },
            turn,
            process: Some(Judgement { verdict, votes: Vec::new(), missing: Vec::new(), usage: None }),
            hint: None,
        };
        let found =
            verdicts(&[judged(0, Some(-1)), judged(1, None), judged(3, Some(0)), judged(9, Some(1))], 4);
        assert_eq!(found, [Some(-1.0), None, None, Some(0.0)]);
    }

    #[test]
    fn a_guard_looks_at_what_was_measured_only() {
        let figures = |trained: f64, reply_tokens: f64| {
            move |metric| match metric {
                Metric::TrainTokensTrainedCount => Some(trained),
                Metric::TrainReplyTokensMean | Metric::TrainRepetitionRatio => Some(reply_tokens),
                _ => Some(0.5),
            }
        };
        assert_eq!(vitals(figures(0.0, 3.0)), None);
        assert_eq!(vitals(figures(9.0, f64::NAN)), None);
        assert_eq!(vitals(|_| None), None);
        let found = vitals(figures(9.0, 3.0));
        assert_eq!(found, Some(Vitals { entropy: 0.5, reply_tokens: 3.0, repetition: 3.0 }));
    }
}
