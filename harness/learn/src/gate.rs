//! Decides whether a new version may act, by checks between an update and its publication.
//!
//! I1. The divergence of a version from itself is 0, and no divergence is negative. I2. A value that is not finite is rejected, never
//! compared. I3. A held-out success that could not be measured, of either version, rejects nothing.
//!
//! Shapes: T tokens of each sample. Units: nats a token; success as a share, its bound in points of a percentage. Pure; nothing
//! to cancel.
//! Source: [`crate::divergence`]'s k3. The replies were sampled by the accepted version or a few before it, so that the mean is an
//! estimate of KL(accepted, new). Deviations: no correction for the sampling policy, because both versions are scored.

use crate::TrainSample;
use crate::divergence::kl_term;
use crate::loss_config::KlEstimator;

/// Conditions on a version that may act.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GateBounds {
    /// Maximum divergence from the accepted version, mean over tokens, nats.
    pub max_kl: f64,
    /// Maximum drop of the held-out success below the last accepted evaluation, in points.
    pub max_drop_points: f64,
}

/// Measurements of a new version on its own batch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GateFindings {
    /// [`mean_divergence`] from the accepted version.
    pub kl: f64,
    /// Loss of the update.
    pub loss: f64,
    /// Norm of its gradient.
    pub grad_norm: f64,
    /// Number of rewards of the batch that were not finite or out of range.
    pub unsound_rewards: u64,
}

/// The reason why a version may not act.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum Rejection {
    /// A measurement is not finite.
    #[error("its {what} is not finite")]
    NotFinite {
        /// The name of the measurement.
        what: &'static str,
    },
    /// The version is too far from the accepted one.
    #[error("it is {now:.4} nats a token from the accepted version, and {most} are allowed")]
    Divergence {
        /// Estimate of the divergence.
        now: f64,
        /// Bound of the divergence.
        most: f64,
    },
    /// The rewards of its batch are invalid.
    #[error("{rewards} rewards of its batch were no number, or outside their range")]
    Rewards {
        /// Number of invalid rewards.
        rewards: u64,
    },
    /// The version solves fewer held-out tasks.
    #[error(
        "its held-out success is {:.1} %, that of the accepted version {:.1} %, and a drop of {most_points} points is allowed",
        100.0 * now,
        100.0 * before
    )]
    HeldOut {
        /// Success of the version, as a share.
        now: f64,
        /// Success at the last accepted evaluation.
        before: f64,
        /// Bound of the difference.
        most_points: f64,
    },
}

impl GateBounds {
    /// Checks a version by its batch.
    #[must_use]
    pub fn check(&self, findings: GateFindings) -> Option<Rejection> {
        let GateFindings { kl, loss, grad_norm, unsound_rewards } = findings;
        let numbers = [(loss, "loss"), (grad_norm, "gradient"), (kl, "divergence from the accepted version")];
        if let Some((_, what)) = numbers.into_iter().find(|(number, _)| !number.is_finite()) {
            return Some(Rejection::NotFinite { what });
        }
        if unsound_rewards > 0 {
            return Some(Rejection::Rewards { rewards: unsound_rewards });
        }
        (kl > self.max_kl).then_some(Rejection::Divergence { now: kl, most: self.max_kl })
    }

    /// Checks a version by its held-out success, as a share.
    #[must_use]
    pub fn check_held_out(&self, now: f64, before: f64) -> Option<Rejection> {
        let most_points = self.max_drop_points;
        // Shares are fractions of whole tasks: a rounding error is not a drop.
        let drops = 100.0 * (before - now) > most_points + 1e-9;
        drops.then_some(Rejection::HeldOut { now, before, most_points })
    }
}

/// The mean divergence of new log-probabilities from accepted ones, over the trained tokens of these samples; 0 without any.
///
/// # Panics
/// If a column is shorter than its sample, which is an error of the caller.
#[must_use]
pub fn mean_divergence(samples: &[&TrainSample], accepted: &[Vec<f32>], new: &[Vec<f32>]) -> f64 {
    let (mut sum, mut tokens) = (0.0, 0u64);
    for ((sample, accepted), new) in samples.iter().zip(accepted).zip(new) {
        for (at, _) in sample.segment.mask.iter().enumerate().filter(|(_, trained)| **trained) {
            let difference = f64::from(new[at]) - f64::from(accepted[at]);
            // Otherwise the bound would hide an infinite value (I2).
            sum += if difference.is_finite() { kl_term(KlEstimator::K3, difference).value } else { f64::NAN };
            tokens += 1;
        }
    }
    if tokens == 0 { 0.0 } else { sum / tokens as f64 }
}

#[cfg(test)]
mod tests {
    use clawrl_core::{AttemptId, SlotId};
    use proptest::prelude::*;

    use super::*;
    use crate::Segment;

    const BOUNDS: GateBounds = GateBounds { max_kl: 0.1, max_drop_points: 5.0 };
    const SOUND: GateFindings = GateFindings { kl: 0.1, loss: 0.5, grad_norm: 1.0, unsound_rewards: 0 };

    /// One context token, then so many trained ones.
    fn sample(trained: usize) -> TrainSample {
        let mut segment = Segment::default();
        segment.push_context(&[1]);
        (0..trained).for_each(|_| segment.push_sampled(0, 2, -1.0, 0, 1.0));
        TrainSample {
            attempt: AttemptId { slot: SlotId(0), number: 0 },
            segment,
            advantages: Vec::new(),
            episode: 0,
            teacher: Vec::new(),
            candidates: Vec::new(),
        }
    }

    fn check(accepted: &[f32], new: &[f32], expected: f64) {
        let sample = sample(accepted.len() - 1);
        let found = mean_divergence(&[&sample], &[accepted.to_vec()], &[new.to_vec()]);
        assert!((found - expected).abs() < 1e-6 || (found.is_nan() && expected.is_nan()), "{new:?}: {found}");
    }

    #[test]
    fn divergences_by_hand() {
        let two = std::f32::consts::LN_2;
        check(&[9.0, -1.0], &[-9.0, -1.0], 0.0);
        // e^q - 1 - q of q = ln 2, and of -ln 2.
        check(&[0.0, -1.0], &[0.0, -1.0 + two], 1.0 - f64::from(two));
        check(&[0.0, -1.0], &[0.0, -1.0 - two], f64::from(two) - 0.5);
        check(&[0.0, -1.0, -2.0], &[0.0, -1.0 + two, -2.0], (1.0 - f64::from(two)) / 2.0);
        check(&[0.0], &[0.0], 0.0);
        check(&[0.0, -1.0], &[0.0, f32::NEG_INFINITY], f64::NAN);
        check(&[0.0, f32::NAN], &[0.0, -1.0], f64::NAN);
    }

    #[test]
    fn what_may_act() {
        assert_eq!(BOUNDS.check(SOUND), None);
        let check = |findings, expected: &str| {
            let told = BOUNDS.check(findings).map(|why| why.to_string());
            assert!(told.as_ref().is_some_and(|told| told.contains(expected)), "{told:?}");
        };
        check(GateFindings { kl: 0.11, ..SOUND }, "0.1100 nats a token");
        check(GateFindings { kl: f64::NAN, ..SOUND }, "divergence from the accepted version is not finite");
        check(GateFindings { loss: f64::INFINITY, ..SOUND }, "loss is not finite");
        check(GateFindings { grad_norm: f64::NAN, kl: 9.0, ..SOUND }, "gradient is not finite");
        check(GateFindings { unsound_rewards: 2, kl: 9.0, ..SOUND }, "2 rewards of its batch");
    }

    #[test]
    fn held_out_success_may_fall_a_little() {
        let check = |now: f64, before: f64, rejects: bool| {
            let found = BOUNDS.check_held_out(now, before);
            assert_eq!(found.is_some(), rejects, "{now} after {before}: {found:?}");
        };
        check(0.55, 0.6, false);
        check(0.54, 0.6, true);
        check(0.9, 0.6, false);
        check(f64::NAN, 0.6, false);
        check(0.5, f64::NAN, false);
        let told = BOUNDS.check_held_out(0.5, 0.6).unwrap().to_string();
        assert!(told.contains("50.0 %") && told.contains("60.0 %") && told.contains("5 points"), "{told}");
    }

    proptest! {
        #[test]
        fn i1_a_divergence_is_never_negative(pairs in prop::collection::vec((-9.0..0.0f32, -9.0..0.0f32), 1..20)) {
            let sample = sample(pairs.len());
            let column = |of: fn(&(f32, f32)) -> f32| [[vec![0.0], pairs.iter().map(of).collect()].concat()];
            let (accepted, new) = (column(|pair| pair.0), column(|pair| pair.1));
            prop_assert!(mean_divergence(&[&sample], &accepted, &new) >= 0.0);
            prop_assert_eq!(mean_divergence(&[&sample], &accepted, &accepted), 0.0);
        }
    }
}
