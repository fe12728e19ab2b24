//! Decides which groups are trained on.
//!
//! I1. Where its own mean is the baseline, a group is informative only if two of its valid members differ in reward by more than [`CONSTANT_SPREAD`];
//! any other would contribute a gradient of zero, or noise. I2. A group that is not informative is told apart by
//! reason: too few valid members say nothing about the task, equal rewards say that it is too easy or too hard.
//!
//! Units: reward units. Pure; nothing to cancel.
//! Source: dynamic sampling, DAPO, arXiv 2503.14476, section 3.2. Deviations: DAPO drops by accuracy 0 or 1, this by
//! the spread of the reward that is learned from, so that rewards between 0 and 1 count as well.

use crate::advantage::{AdvantageError, AdvantageKind, advantages};

/// Rewards that differ by no more than this are equal.
pub const CONSTANT_SPREAD: f64 = 1e-6;

/// The decision about a group.
#[derive(Debug, Clone, PartialEq)]
pub enum Admission {
    /// Trained on, with the advantage of each member.
    Informative(Vec<f64>),
    /// All members got the same reward: dropped, and another group takes its place.
    Constant,
    /// Too few valid members, which are fewer than two where their mean is the baseline: sampled again.
    TooFew,
}

/// Decides about a group from the rewards of its valid members.
///
/// # Errors
/// [`AdvantageError::NotFinite`]; too few members are not an error here.
pub fn admit(kind: AdvantageKind, rewards: &[f64]) -> Result<Admission, AdvantageError> {
    let advantages = match advantages(kind, rewards) {
        Ok(advantages) => advantages,
        Err(AdvantageError::TooFewMembers { .. }) => return Ok(Admission::TooFew),
        Err(error @ AdvantageError::NotFinite { .. }) => return Err(error),
    };
    if !kind.is_relative() {
        return Ok(Admission::Informative(advantages));
    }
    let least = rewards.iter().copied().fold(f64::INFINITY, f64::min);
    let most = rewards.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    Ok(if most - least > CONSTANT_SPREAD { Admission::Informative(advantages) } else { Admission::Constant })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rewards: &[f64], expected: Admission) {
        assert_eq!(admit(AdvantageKind::DrGrpo, rewards), Ok(expected), "{rewards:?}");
    }

    #[test]
    fn every_kind_of_group() {
        check(&[], Admission::TooFew);
        check(&[1.0], Admission::TooFew);
        check(&[1.0, 1.0], Admission::Constant);
        check(&[0.25, 0.25, 0.25], Admission::Constant);
        check(&[0.5, 0.5 + 0.9e-6], Admission::Constant);
        check(&[1.0, 0.0], Admission::Informative(vec![0.5, -0.5]));
        check(&[0.5, 0.75], Admission::Informative(vec![-0.125, 0.125]));
        let running = |rewards: &[f64]| admit(AdvantageKind::Running, rewards);
        assert_eq!(running(&[]), Ok(Admission::TooFew));
        for rewards in [&[1.0] as &[f64], &[0.0, 0.0], &[1.0, 0.0]] {
            assert_eq!(running(rewards), Ok(Admission::Informative(rewards.to_vec())));
        }
    }

    #[test]
    fn a_reward_that_is_no_number_is_an_error() {
        let error = admit(AdvantageKind::Grpo, &[0.0, f64::NAN]);
        assert_eq!(error, Err(AdvantageError::NotFinite { member: 1 }));
    }
}
