//! What a person sees of a training: a line for each phase and each update.

use std::time::Duration;

use clawrl_core::UsageTotal;
use clawrl_learn::{BatchStats, UpdateReport};
use clawrl_record::JudgedTurn;

use clawrl_cli::log::Log;

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

/// Tells of phases and updates, unless it is to be quiet.
#[derive(Debug, Clone)]
pub(super) struct Teller {
    log: Log,
    quiet: bool,
}

impl Teller {
    pub(super) fn new(log: &Log, quiet: bool) -> Self {
        Self { log: log.clone(), quiet }
    }

    pub(super) fn log(&self) -> &Log {
        &self.log
    }

    /// One line.
    pub(super) fn say(&self, line: &str) {
        if !self.quiet {
            self.log.note(format_args!("{line}"));
        }
    }

    /// One update.
    pub(super) fn update(
        &self,
        updates: u32,
        stats: &BatchStats,
        report: &UpdateReport,
        sampled: Sampled,
        times: UpdateTimes,
    ) {
        if self.quiet {
            return;
        }
        let counts = &stats.counts;
        let percent =
            |rate: Option<f64>| rate.map_or("-".to_owned(), |rate| format!("{:.0} %", 100.0 * rate));
        let seconds = (times.wait + times.update).as_secs_f64().max(1e-9);
        let constant = counts.constant_passed + counts.constant_failed + counts.constant_mixed;
        self.log.note(format_args!(
            "update {:>4}/{updates}  success {:>5}  reward {:>6.3}  entropy {:.3}  stale {:.1} (max {})  groups {} of {} \
             ({constant} constant)  {:.0} tokens/s  {:.0} episodes/s  wait {:.2} s  learn {:.2} s",
            stats.update + 1,
            percent(counts.success_rate()),
            counts.reward_mean().unwrap_or(f64::NAN),
            report.entropy,
            counts.tokens.mean(),
            counts.tokens.max,
            counts.informative,
            counts.groups(),
            sampled.tokens as f64 / seconds,
            sampled.episodes as f64 / seconds,
            times.wait.as_secs_f64(),
            times.update.as_secs_f64(),
        ));
        if report.skipped > 0 {
            self.log.warn(format_args!(
                "{} optimizer steps were skipped, because loss or gradient was not finite: attempts {}",
                report.skipped,
                report.culprits.join(", ")
            ));
        }
    }
}
