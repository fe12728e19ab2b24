//! The metrics of one update, for its progress report.

use std::time::Duration;

use clawrl_core::UsageTotal;
use clawrl_learn::{BatchStats, UpdateReport};
use clawrl_record::JudgedTurn;
use clawrl_runtime::training::UpdateProgress;

/// Metrics of one update that neither learner nor stream report.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct UpdateTimes {
    /// Time spent waiting for a batch.
    pub(super) wait: Duration,
    /// Time spent learning.
    pub(super) update: Duration,
    /// Time spent publishing the parameters.
    pub(super) publish: Duration,
}

/// Totals of the samples since the previous update.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sampled {
    pub(super) episodes: u64,
    pub(super) tokens: u64,
    pub(super) turns: u64,
    /// Repetition, summed over replies.
    pub(super) repetition: f64,
    /// Number of hints that were left out because they are too long.
    pub(super) hints_too_long: u64,
    /// Episodes that a remote teacher did not score completely.
    pub(super) unanswered: u64,
    /// Episodes that a limit cut, in the episode or in one of its replies.
    pub(super) overlong: u64,
    /// Tokens that are not trained on because of a cut.
    pub(super) overlong_tokens: u64,
    pub(super) judging: JudgingFigures,
}

/// Results of questions about turns.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct JudgingFigures {
    /// Questions with a verdict.
    pub(super) judged: u64,
    /// Questions with too few votes.
    pub(super) unjudged: u64,
    pub(super) missing_votes: u64,
    /// Questions with at least two votes, and the sum of their agreement.
    pub(super) compared: u64,
    pub(super) agreement: f64,
    /// Token usage of the votes, if the judge reports it.
    pub(super) usage: UsageTotal,
}

impl JudgingFigures {
    /// Adds the judgement of a turn.
    pub(super) fn add(&mut self, turn: &JudgedTurn) {
        for judgement in turn.process.iter().chain(&turn.hint) {
            match judgement.verdict {
                Some(_) => self.judged += 1,
                None => self.unjudged += 1,
            }
            self.missing_votes += judgement.missing.len() as u64;
            judgement.usage.iter().for_each(|usage| self.usage.merge(usage));
            if let Some(agreement) = judgement.agreement() {
                self.compared += 1;
                self.agreement += agreement;
            }
        }
    }

    /// Mean agreement; NaN if there is nothing to compare.
    pub(super) fn mean_agreement(&self) -> f64 {
        if self.compared == 0 { f64::NAN } else { self.agreement / self.compared as f64 }
    }
}

/// The report of one update out of `updates`.
pub(super) fn update_progress(
    updates: u32,
    stats: &BatchStats,
    report: &UpdateReport,
    sampled: Sampled,
    times: UpdateTimes,
) -> UpdateProgress {
    let counts = &stats.counts;
    UpdateProgress {
        update: stats.update + 1,
        updates,
        success_rate: counts.success_rate(),
        reward_mean: counts.reward_mean().unwrap_or(f64::NAN),
        entropy_nats: report.entropy,
        staleness_mean: counts.tokens.mean(),
        staleness_max: counts.tokens.max,
        informative_groups: counts.informative,
        groups: counts.groups(),
        constant_groups: (counts.constant_passed + counts.constant_failed + counts.constant_mixed),
        tokens: sampled.tokens,
        episodes: sampled.episodes,
        wait: times.wait,
        learn: times.update,
        skipped_steps: report.skipped,
        culprits: report.culprits.clone(),
    }
}
