//! The figures of one update, for its progress report.

use std::time::Duration;

use clawrl_core::UsageTotal;
use clawrl_learn::{BatchStats, UpdateReport};
use clawrl_record::JudgedTurn;
use clawrl_runtime::training::UpdateProgress;

/// Figures of one update beside those of learner and stream.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct UpdateTimes {
    /// Waiting for a batch.
    pub(super) wait: Duration,
    /// Learning.
    pub(super) update: Duration,
    /// Handing over the parameters.
    pub(super) publish: Duration,
}

/// What was sampled since the update before.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sampled {
    pub(super) episodes: u64,
    pub(super) tokens: u64,
    pub(super) turns: u64,
    /// Sum over replies.
    pub(super) repetition: f64,
    /// Hints that were left out.
    pub(super) hints_too_long: u64,
    /// Episodes that a teacher behind a server was asked about, and did not answer.
    pub(super) unanswered: u64,
    /// Episodes that a limit cut, or one of whose replies.
    pub(super) overlong: u64,
    /// Tokens that are not trained on because of that.
    pub(super) overlong_tokens: u64,
    pub(super) judging: JudgingFigures,
}

/// What came of questions about turns.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct JudgingFigures {
    /// Questions with a verdict.
    pub(super) judged: u64,
    /// Questions of which too few votes came.
    pub(super) unjudged: u64,
    pub(super) missing_votes: u64,
    /// Questions with two votes or more, and the sum of how far those agree.
    pub(super) compared: u64,
    pub(super) agreement: f64,
    /// What the votes took, where the judge says.
    pub(super) usage: UsageTotal,
}

impl JudgingFigures {
    /// Takes in what was said of a turn.
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

    /// Mean; not a number where there is nothing to compare.
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
        staleness_max: counts.tokens.max.into(),
        informative_groups: counts.informative.into(),
        groups: counts.groups().into(),
        constant_groups: (counts.constant_passed + counts.constant_failed + counts.constant_mixed).into(),
        tokens: sampled.tokens,
        episodes: sampled.episodes,
        wait: times.wait,
        learn: times.update,
        skipped_steps: report.skipped,
        culprits: report.culprits.clone(),
    }
}
