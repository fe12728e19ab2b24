//! Acceptance of a new version before it acts.
//!
//! I1. A rejected version is never published. The last accepted version continues to act, and the learner restores that version's
//! parameters, moments and EMA teacher. I2. Checkpoints contain accepted versions only. I3. A resumed training compares with the
//! same values as before: the bounds are in the plan, the last accepted evaluation is in the metrics, the accepted version is in
//! the checkpoint, and the divergence is a function of the batch.

use clawrl_config::GatePlan;
use clawrl_learn::{BatchStats, GateBounds, GateFindings, Learner, Rejection, TrainBatch, UpdateReport};
use clawrl_record::{Metric, UpdateMetrics};

use super::learning::{Learning, broken, now_ms};
use super::versions::Made;
use clawrl_runtime::training::TrainError;

/// Decides whether the versions of a training may act.
#[derive(Debug)]
pub(super) struct UpdateAcceptance {
    plan: GatePlan,
    /// A version that waits for its evaluation.
    candidate: Option<Candidate>,
}

/// A version that passed everything except its evaluation. It has not been reported to the stream yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate {
    pub(super) version: u64,
    /// Number of updates, the one that made this version included.
    pub(super) updates: u32,
}

/// The decision about a version.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum UpdateOutcome {
    /// It may act.
    Accepted,
    /// It has to be evaluated first.
    Waits,
    /// It never acts.
    Rejected(Rejection),
}

impl UpdateAcceptance {
    pub(super) fn new(plan: GatePlan) -> Self {
        Self { plan, candidate: None }
    }

    fn bounds(&self) -> GateBounds {
        let max_drop_points = self.plan.held_out.map_or(100.0, |held_out| held_out.max_drop_points);
        GateBounds { max_kl: self.plan.max_kl, max_drop_points }
    }
}

impl Learning {
    /// The version that waits for its evaluation.
    pub(super) fn candidate(&self) -> Option<Candidate> {
        self.gate.as_ref()?.candidate
    }

    /// Whether the version of the next update is to be evaluated before it acts, if it passes the rest.
    pub(super) fn next_is_evaluated(&self) -> bool {
        self.gate.as_ref().is_some_and(|gate| gate.plan.evaluates(self.updates() + 1))
    }

    /// Decides about the version that this batch made, as far as that is possible without an evaluation. Returns the decision and
    /// its metrics.
    ///
    /// # Errors
    /// The learner failed.
    pub(super) fn judge(
        &mut self,
        batch: &TrainBatch,
        stats: &BatchStats,
        report: &UpdateReport,
    ) -> Result<(UpdateOutcome, Vec<(Metric, f64)>), TrainError> {
        let Some(gate) = &mut self.gate else {
            self.stream.updated(report.version).map_err(|error| broken(&error))?;
            return Ok((UpdateOutcome::Accepted, Vec::new()));
        };
        let kl = self.learner.divergence(&batch.samples).map_err(|error| failed(&error))?;
        let unsound_rewards = stats.counts.unsound;
        let findings = GateFindings { kl, loss: report.loss, grad_norm: report.grad_norm, unsound_rewards };
        let outcome = match gate.bounds().check(findings) {
            Some(why) => UpdateOutcome::Rejected(why),
            None if gate.plan.evaluates(stats.update + 1) => {
                gate.candidate = Some(Candidate { version: report.version, updates: stats.update + 1 });
                UpdateOutcome::Waits
            }
            None => UpdateOutcome::Accepted,
        };
        self.settle(report.version, outcome)?;
        Ok((outcome, vec![(Metric::TrainGateKlNats, kl), rejected_figure(outcome)]))
    }

    /// Decides about the waiting version from its held-out success and that of the last accepted evaluation.
    ///
    /// # Errors
    /// The learner failed.
    pub(super) fn decide(
        &mut self,
        now: f64,
        before: f64,
    ) -> Result<(UpdateOutcome, Vec<(Metric, f64)>), TrainError> {
        let Some((gate, candidate)) =
            self.gate.as_mut().and_then(|gate| gate.candidate.take().map(|candidate| (gate, candidate)))
        else {
            return Ok((UpdateOutcome::Accepted, Vec::new()));
        };
        let outcome = gate
            .bounds()
            .check_held_out(now, before)
            .map_or(UpdateOutcome::Accepted, UpdateOutcome::Rejected);
        self.settle(candidate.version, outcome)?;
        Ok((outcome, vec![(Metric::TrainGateSuccessRatio, now), rejected_figure(outcome)]))
    }

    /// Passes the outcome to the stream and the learner.
    fn settle(&mut self, version: u64, outcome: UpdateOutcome) -> Result<(), TrainError> {
        match outcome {
            UpdateOutcome::Waits => Ok(()),
            UpdateOutcome::Accepted => {
                self.learner.accept().map_err(|error| failed(&error))?;
                self.stream.updated(version).map_err(|error| broken(&error))
            }
            UpdateOutcome::Rejected(why) => {
                self.learner.reject().map_err(|error| failed(&error))?;
                self.stream.rejected(version).map_err(|error| broken(&error))?;
                let parent = self.stream.snapshot().accepted();
                self.progress.warn(format_args!(
                    "version {version} is rejected: {why}; version {parent} goes on acting, and is learned from"
                ));
                let rejected = Some(why.to_string());
                let updates = self.updates();
                let (parent, t_ms) = (Some(parent), now_ms());
                self.versions.add(&Made { version, parent, updates, t_ms, instead_of: None, rejected })
            }
        }
    }

    /// Ends the training if the allowed number of versions in a row were rejected, after a checkpoint of the accepted version.
    /// The count starts again when the training is resumed.
    ///
    /// # Errors
    /// The training ends.
    pub(super) fn halt_if_hopeless(&mut self, outcome: UpdateOutcome) -> Result<(), TrainError> {
        let (Some(gate), UpdateOutcome::Rejected(why)) = (&self.gate, outcome) else { return Ok(()) };
        let in_a_row = self.stream.snapshot().rejected_in_a_row();
        if !in_a_row.is_multiple_of(u64::from(gate.plan.failures.max(1))) {
            return Ok(());
        }
        if self.learner.version() > self.checkpointed {
            self.checkpoint()?;
        }
        let accepted = self.stream.snapshot().accepted();
        Err(TrainError::aborted(format!(
                "the training is halted, since {in_a_row} versions in a row were rejected, the last because {why}"
            )).with_help(format!(
                "the last checkpoint has what version {accepted} has, which was accepted; `clawrl policy versions` tells why others \
                 were not. What is in the train file stays; for a lower `learning_rate` or another `gate:`, train anew from a version \
                 that is kept (`policy: {{ path: ... }}`)"
            )))
    }
}

/// Held-out success of the last accepted evaluation in these metrics: the evaluation before the first update, or a later one of a
/// candidate. NaN if there is none.
pub(super) fn accepted_success(figures: &[UpdateMetrics]) -> f64 {
    let of = |figures: &UpdateMetrics| match figures.update {
        0 => figures.get(Metric::TrainHeldOutSuccessRatio),
        _ if figures.get(Metric::TrainVersionsRejectedCount) == Some(0.0) => {
            figures.get(Metric::TrainGateSuccessRatio)
        }
        _ => None,
    };
    figures.iter().filter_map(of).next_back().unwrap_or(f64::NAN)
}

fn rejected_figure(outcome: UpdateOutcome) -> (Metric, f64) {
    (Metric::TrainVersionsRejectedCount, f64::from(u8::from(matches!(outcome, UpdateOutcome::Rejected(_)))))
}

fn failed(error: &clawrl_torch::TorchError) -> TrainError {
    TrainError::internal(format!("the training stopped: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_accepted_evaluation_is_compared_with() {
        let figures = |update: u64, held_out: f64, gate: Option<(f64, f64)>| {
            let mut figures =
                std::collections::BTreeMap::from([(Metric::TrainHeldOutSuccessRatio, held_out)]);
            if let Some((success, rejected)) = gate {
                figures.insert(Metric::TrainGateSuccessRatio, success);
                figures.insert(Metric::TrainVersionsRejectedCount, rejected);
            }
            UpdateMetrics { update, t_ms: 0, figures }
        };
        let check = |all: &[UpdateMetrics], expected: f64| assert_eq!(accepted_success(all), expected);
        assert!(accepted_success(&[]).is_nan());
        check(&[figures(0, 0.3, None), figures(1, 0.9, None)], 0.3);
        let accepted = figures(2, 0.9, Some((0.5, 0.0)));
        check(&[figures(0, 0.3, None), accepted.clone()], 0.5);
        check(&[figures(0, 0.3, None), accepted, figures(4, 0.9, Some((0.1, 1.0)))], 0.5);
    }
}
