//! `metrics.jsonl`: metrics over time.
//!
//! One row per line, `{"t_ms":...,"name":"slots_open_count","value":12.0}`. Rows are not covered by the durability of
//! resolutions: a crash may lose the last ones. Names come from one enum, `<area>_<thing>_<unit>`.
//!
//! Training metrics belong to an update: `{"t_ms":...,"name":"train_reward_mean","update":12,
//! "value":0.41}`. A training that returns to a checkpoint removes those of later updates.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::RecordError;

/// Name of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Metric {
    /// Slots that are not closed.
    SlotsOpenCount,
    /// Slots that are closed, by a fault or not.
    SlotsClosedCount,
    /// Slots that a fault closed.
    SlotsFaultedCount,
    /// Slots whose episode passed.
    SlotsPassedCount,
    /// Attempts under way.
    AttemptsLiveCount,
    /// Attempts resolved in the last interval, per second.
    AttemptsResolvedPerSecond,
    /// Attempts that were a further try after a fault.
    AttemptsRetriedCount,
    /// Turns in the last interval, per second.
    TurnsTakenPerSecond,
    /// Sandboxes that exist, leased or warm.
    SandboxesLiveCount,
    /// Sandboxes that are ready and not leased.
    SandboxesWarmCount,
    /// Most sandboxes at once so far.
    SandboxesPeakCount,
    /// Sum of attempts waiting for a lease.
    QueueWaitingCount,
    /// Resident memory of this process.
    HarnessMemoryMib,
    /// Processor time of this process in the last interval, in hundredths of a core.
    HarnessCpuPercent,
    /// Memory that the host has available.
    HostMemoryAvailableMib,
    /// Reward of the update's episodes, those of constant groups included, mean.
    TrainRewardMean,
    /// Share of the update's episodes that passed every check.
    TrainSuccessRatio,
    /// Share of the held-out tasks passed, greedily, by the version of this update; update 0 is before the first.
    TrainHeldOutSuccessRatio,
    /// Held-out tasks that this share is over: faulted ones are left out.
    TrainHeldOutTasksCount,
    /// Aggregated loss, mean over the update's optimizer steps.
    TrainLossMean,
    /// Mean negative log-likelihood of trained tokens in the warm start; the update is its step.
    TrainImitationLossNats,
    /// Entropy of the policy at trained tokens, mean.
    TrainEntropyNats,
    /// Coefficient of the entropy bonus, in trainings that have one.
    TrainEntropyBonusCoefficient,
    /// The most that an episode earned less for long replies; of a training in which those cost anything.
    TrainLengthPunishmentCoefficient,
    /// Least share that a family has of its suite, in even shares; of a training with a curriculum.
    TrainShareLeastRatio,
    /// Most share that a family has of its suite, in even shares; of a training with a curriculum.
    TrainShareMostRatio,
    /// Norm of the gradient before clipping, mean over steps.
    TrainGradientNorm,
    /// Distance of recomputed and recorded log-probabilities, mean over tokens.
    TrainBehaviourGapNats,
    /// Share of tokens whose ratio or weight was clipped.
    TrainClippedRatio,
    /// Estimated divergence from the reference policy, mean over tokens; 0 where it costs nothing.
    TrainReferenceKlNats,
    /// Estimated divergence of the version from the last accepted one, mean over tokens; of a training with a gate.
    TrainGateKlNats,
    /// Share of the held-out tasks passed, greedily, by the version before it acted, where the gate looks at that.
    TrainGateSuccessRatio,
    /// 1 of a version that the gate rejected, else 0.
    TrainVersionsRejectedCount,
    /// Contribution of outcomes to the advantage of a token, root mean square.
    TrainOutcomeRms,
    /// Contribution of a teacher to it, root mean square; 0 without a teacher, or if it scores candidates.
    TrainTeacherRms,
    /// Episodes trained on that a teacher had a hint for.
    TrainHintedEpisodesCount,
    /// Hints left out since the last update because they were too long.
    TrainHintsTooLongCount,
    /// Episodes that a teacher behind a server was asked about, and did not answer.
    TrainTeacherUnansweredCount,
    /// Turns that a verdict of a judge was heard of since the last update.
    TrainTurnsJudgedCount,
    /// Turns for which a judge was asked and too few votes arrived.
    TrainTurnsUnjudgedCount,
    /// Votes of judges that did not come, or said nothing.
    TrainVotesMissingCount,
    /// Share of votes on a turn that agree with the most frequent value; mean over turns with at least two votes.
    TrainVoteAgreementRatio,
    /// Tokens of prompts and replies of the judge of turns, by its own count, since the last update.
    TrainJudgeTokensCount,
    /// Cost of judges, by the prices of the policy file.
    TrainJudgeCostUsd,
    /// Age of the trained tokens at the start of the batch, mean.
    TrainStalenessMeanVersions,
    /// Age of the oldest trained token at the start of the batch.
    TrainStalenessMaxVersions,
    /// Groups that the update used up, whatever became of them.
    TrainGroupsTriedCount,
    /// Groups that carried a gradient.
    TrainGroupsUsedCount,
    /// Groups dropped because all members had the same reward.
    TrainGroupsConstantCount,
    /// Groups dropped because faults left fewer than two members.
    TrainGroupsSmallCount,
    /// Groups dropped because outcomes do not count and the teacher had no hint.
    TrainGroupsUntaughtCount,
    /// Episodes since the last update that a limit on turns or time cut, or with a reply that its limit cut.
    TrainEpisodesOverlongCount,
    /// Tokens since the last update that are not trained on because of that.
    TrainTokensOverlongCount,
    /// Episodes dropped because their reward was not a number or out of range.
    TrainRewardsRefusedCount,
    /// Tokens left out because they were too old.
    TrainTokensStaleCount,
    /// Segments dropped because a log-probability had moved too far.
    TrainSegmentsDroppedCount,
    /// Tokens that carried a gradient.
    TrainTokensTrainedCount,
    /// Tokens that went through the model.
    TrainTokensForwardCount,
    /// Optimizer steps made.
    TrainStepsCount,
    /// Optimizer steps skipped because loss or gradient was not finite.
    TrainStepsSkippedCount,
    /// Tokens of a reply, mean.
    TrainReplyTokensMean,
    /// Runs of four tokens in a reply that stood in it before, as a share; mean.
    TrainRepetitionRatio,
    /// Tokens sampled since the last update.
    TrainSampledTokensPerSecond,
    /// Episodes that ended since the last update.
    TrainEpisodesPerSecond,
    /// The learner's time waiting for a batch.
    TrainWaitSeconds,
    /// Time of the update.
    TrainUpdateSeconds,
    /// Time to hand the parameters to the engine.
    TrainPublishSeconds,
    /// Time to write a checkpoint.
    TrainCheckpointSeconds,
    /// Time of an evaluation.
    TrainEvaluationSeconds,
}

impl Metric {
    /// Every metric.
    pub const ALL: [Self; 69] = [
        Self::SlotsOpenCount,
        Self::SlotsClosedCount,
        Self::SlotsFaultedCount,
        Self::SlotsPassedCount,
        Self::AttemptsLiveCount,
        Self::AttemptsResolvedPerSecond,
        Self::AttemptsRetriedCount,
        Self::TurnsTakenPerSecond,
        Self::SandboxesLiveCount,
        Self::SandboxesWarmCount,
        Self::SandboxesPeakCount,
        Self::QueueWaitingCount,
        Self::HarnessMemoryMib,
        Self::HarnessCpuPercent,
        Self::HostMemoryAvailableMib,
        Self::TrainRewardMean,
        Self::TrainSuccessRatio,
        Self::TrainHeldOutSuccessRatio,
        Self::TrainHeldOutTasksCount,
        Self::TrainLossMean,
        Self::TrainImitationLossNats,
        Self::TrainEntropyNats,
        Self::TrainEntropyBonusCoefficient,
        Self::TrainLengthPunishmentCoefficient,
        Self::TrainShareLeastRatio,
        Self::TrainShareMostRatio,
        Self::TrainGradientNorm,
        Self::TrainBehaviourGapNats,
        Self::TrainClippedRatio,
        Self::TrainReferenceKlNats,
        Self::TrainGateKlNats,
        Self::TrainGateSuccessRatio,
        Self::TrainVersionsRejectedCount,
        Self::TrainOutcomeRms,
        Self::TrainTeacherRms,
        Self::TrainHintedEpisodesCount,
        Self::TrainHintsTooLongCount,
        Self::TrainTeacherUnansweredCount,
        Self::TrainTurnsJudgedCount,
        Self::TrainTurnsUnjudgedCount,
        Self::TrainVotesMissingCount,
        Self::TrainVoteAgreementRatio,
        Self::TrainJudgeTokensCount,
        Self::TrainJudgeCostUsd,
        Self::TrainStalenessMeanVersions,
        Self::TrainStalenessMaxVersions,
        Self::TrainGroupsTriedCount,
        Self::TrainGroupsUsedCount,
        Self::TrainGroupsConstantCount,
        Self::TrainGroupsSmallCount,
        Self::TrainGroupsUntaughtCount,
        Self::TrainEpisodesOverlongCount,
        Self::TrainTokensOverlongCount,
        Self::TrainRewardsRefusedCount,
        Self::TrainTokensStaleCount,
        Self::TrainSegmentsDroppedCount,
        Self::TrainTokensTrainedCount,
        Self::TrainTokensForwardCount,
        Self::TrainStepsCount,
        Self::TrainStepsSkippedCount,
        Self::TrainReplyTokensMean,
        Self::TrainRepetitionRatio,
        Self::TrainSampledTokensPerSecond,
        Self::TrainEpisodesPerSecond,
        Self::TrainWaitSeconds,
        Self::TrainUpdateSeconds,
        Self::TrainPublishSeconds,
        Self::TrainCheckpointSeconds,
        Self::TrainEvaluationSeconds,
    ];
}

/// One value at one time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MetricRow {
    /// Milliseconds since 1970.
    pub t_ms: u64,
    /// Name of the metric.
    pub name: Metric,
    /// The update that it is a figure of, in training.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update: Option<u64>,
    /// In the unit that the name ends in. Not a number is stored as null and read back as such.
    #[serde(deserialize_with = "number_or_nan")]
    pub value: f64,
}

/// All figures of one update.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UpdateMetrics {
    /// The update; 0 for values before the first update.
    pub update: u64,
    /// When the last of them was taken, milliseconds since 1970.
    pub t_ms: u64,
    /// By name.
    pub figures: BTreeMap<Metric, f64>,
}

impl UpdateMetrics {
    /// The value of a metric, if it was measured.
    #[must_use]
    pub fn get(&self, name: Metric) -> Option<f64> {
        self.figures.get(&name).copied()
    }
}

impl MetricRow {
    /// A figure at a time, of no update.
    #[must_use]
    pub fn new(t_ms: u64, name: Metric, value: f64) -> Self {
        Self { t_ms, name, update: None, value }
    }

    /// Figures of one update.
    #[must_use]
    pub fn of_update(t_ms: u64, update: u64, figures: &[(Metric, f64)]) -> Vec<Self> {
        let row = |&(name, value): &(Metric, f64)| Self { t_ms, name, update: Some(update), value };
        figures.iter().map(row).collect()
    }
}

/// Figures of training by update, ascending. Of one that was given twice the later counts.
pub(crate) fn by_update(rows: &[MetricRow]) -> Vec<UpdateMetrics> {
    let mut updates: BTreeMap<u64, UpdateMetrics> = BTreeMap::new();
    for row in rows {
        let Some(update) = row.update else { continue };
        let empty = UpdateMetrics { update, t_ms: row.t_ms, figures: BTreeMap::new() };
        let figures = updates.entry(update).or_insert(empty);
        figures.t_ms = figures.t_ms.max(row.t_ms);
        figures.figures.insert(row.name, row.value);
    }
    updates.into_values().collect()
}

/// The rows, byte by byte, without those of later updates and without a torn last one.
///
/// # Errors
/// As [`parse`].
pub(crate) fn up_to(bytes: &[u8], update: u64) -> Result<Vec<u8>, (usize, serde_json::Error)> {
    let rows = parse(bytes)?;
    let lines = bytes.split_inclusive(|&byte| byte == b'\n').zip(rows);
    // Steps of the warm start are older than every update.
    let stays = |row: &MetricRow| {
        row.update.is_none_or(|of| of <= update) || row.name == Metric::TrainImitationLossNats
    };
    let kept = lines.filter(|(_, row)| stays(row));
    Ok(kept.flat_map(|(line, _)| line).copied().collect())
}

/// The error of a file with such a line.
pub(crate) fn unreadable(path: PathBuf, line: usize, error: &serde_json::Error) -> RecordError {
    RecordError::Unreadable { path, reason: format!("line {line}: {error}") }
}

fn number_or_nan<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::<f64>::deserialize(deserializer)?.unwrap_or(f64::NAN))
}

/// Parses rows; a torn last line is ignored.
///
/// # Errors
/// Number of the line, from 1, and its error.
pub(crate) fn parse(bytes: &[u8]) -> Result<Vec<MetricRow>, (usize, serde_json::Error)> {
    let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    let lines = bytes[..whole].split_inclusive(|&byte| byte == b'\n');
    lines.enumerate().map(|(index, line)| serde_json::from_slice(line).map_err(|e| (index + 1, e))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_locked() {
        let names: Vec<String> = Metric::ALL
            .iter()
            .map(|metric| serde_json::to_value(metric).unwrap().as_str().unwrap().to_owned())
            .collect();
        insta::assert_snapshot!(names.join("\n"), @r"
        slots_open_count
        slots_closed_count
        slots_faulted_count
        slots_passed_count
        attempts_live_count
        attempts_resolved_per_second
        attempts_retried_count
        turns_taken_per_second
        sandboxes_live_count
        sandboxes_warm_count
        sandboxes_peak_count
        queue_waiting_count
        harness_memory_mib
        harness_cpu_percent
        host_memory_available_mib
        train_reward_mean
        train_success_ratio
        train_held_out_success_ratio
        train_held_out_tasks_count
        train_loss_mean
        train_imitation_loss_nats
        train_entropy_nats
        train_entropy_bonus_coefficient
        train_length_punishment_coefficient
        train_share_least_ratio
        train_share_most_ratio
        train_gradient_norm
        train_behaviour_gap_nats
        train_clipped_ratio
        train_reference_kl_nats
        train_gate_kl_nats
        train_gate_success_ratio
        train_versions_rejected_count
        train_outcome_rms
        train_teacher_rms
        train_hinted_episodes_count
        train_hints_too_long_count
        train_teacher_unanswered_count
        train_turns_judged_count
        train_turns_unjudged_count
        train_votes_missing_count
        train_vote_agreement_ratio
        train_judge_tokens_count
        train_judge_cost_usd
        train_staleness_mean_versions
        train_staleness_max_versions
        train_groups_tried_count
        train_groups_used_count
        train_groups_constant_count
        train_groups_small_count
        train_groups_untaught_count
        train_episodes_overlong_count
        train_tokens_overlong_count
        train_rewards_refused_count
        train_tokens_stale_count
        train_segments_dropped_count
        train_tokens_trained_count
        train_tokens_forward_count
        train_steps_count
        train_steps_skipped_count
        train_reply_tokens_mean
        train_repetition_ratio
        train_sampled_tokens_per_second
        train_episodes_per_second
        train_wait_seconds
        train_update_seconds
        train_publish_seconds
        train_checkpoint_seconds
        train_evaluation_seconds
        ");
    }

    #[test]
    fn torn_last_line_is_left_out() {
        let row = MetricRow::new(5, Metric::SlotsOpenCount, 3.0);
        let mut bytes = serde_json::to_vec(&row).unwrap();
        assert_eq!(bytes, br#"{"t_ms":5,"name":"slots_open_count","value":3.0}"#);
        bytes.extend_from_slice(b"\n{\"t_ms\":");
        assert_eq!(parse(&bytes).unwrap(), [row]);
        bytes.extend_from_slice(b"\n");
        assert_eq!(parse(&bytes).unwrap_err().0, 2);
    }

    #[test]
    fn figures_of_an_update_come_together() {
        let mut rows =
            MetricRow::of_update(5, 1, &[(Metric::TrainRewardMean, 0.25), (Metric::TrainStepsCount, 2.0)]);
        rows.push(MetricRow::new(6, Metric::SlotsOpenCount, 3.0));
        rows.extend(MetricRow::of_update(7, 0, &[(Metric::TrainHeldOutSuccessRatio, 0.4)]));
        rows.extend(MetricRow::of_update(8, 1, &[(Metric::TrainRewardMean, 0.5)]));
        let updates = by_update(&rows);
        assert_eq!(
            updates.iter().map(|update| (update.update, update.t_ms)).collect::<Vec<_>>(),
            [(0, 7), (1, 8)]
        );
        assert_eq!(updates[1].get(Metric::TrainRewardMean), Some(0.5));
        assert_eq!(updates[1].get(Metric::TrainStepsCount), Some(2.0));
        assert_eq!(updates[1].get(Metric::TrainLossMean), None);
    }

    #[test]
    fn later_updates_are_forgotten_and_nothing_else() {
        let of = |update| MetricRow::of_update(1, update, &[(Metric::TrainLossMean, f64::NAN)]).remove(0);
        let rows = [of(1), MetricRow::new(2, Metric::SlotsOpenCount, 3.0), of(2), of(1)];
        let lines: Vec<String> =
            rows.iter().map(|row| format!("{}\n", serde_json::to_string(row).unwrap())).collect();
        assert_eq!(lines[0], "{\"t_ms\":1,\"name\":\"train_loss_mean\",\"update\":1,\"value\":null}\n");
        let bytes = format!("{}{{\"t_ms", lines.concat());
        let kept = up_to(bytes.as_bytes(), 1).unwrap();
        assert_eq!(String::from_utf8(kept).unwrap(), [&*lines[0], &*lines[1], &*lines[3]].concat());
    }
}
