//! Advantages of the members of a group.
//!
//! I1. Advantages relative to the group sum to zero, within 1e-6 times G times the largest absolute reward. I2. Each
//! advantage depends on the set of rewards and its own, not on the order of members, to the last bit. I3. A faulted
//! member is excluded before this point: it does not count as a reward of 0, and it is not a member.
//!
//! Shapes: rewards and advantages of one group, both G. Units: none for GRPO, reward units for the others.
//! Errors: [`AdvantageError`]. Pure; nothing to cancel.
//! Source: GRPO, arXiv 2402.03300, section 4.1.2; Dr.GRPO, 2503.20783, section 3.2; leave-one-out, 2402.14740.
//! Deviations: the standard deviation of GRPO has n - 1 in its denominator, as PyTorch's, and 1e-6 is added to it.

use serde::{Deserialize, Serialize};

/// Added to the standard deviation, in reward units.
const STD_FLOOR: f64 = 1e-6;

/// How rewards of a group become advantages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AdvantageKind {
    /// (r - mean) / (std + 1e-6).
    #[default]
    Grpo,
    /// r - mean. Groups that are nearly always right, or wrong, are not magnified.
    DrGrpo,
    /// r - mean of the others: an unbiased baseline.
    LeaveOneOut,
    /// r - the mean of recent rewards at such tasks: a [`crate::GroupStream`] subtracts it from its [`crate::Baselines`].
    /// Groups with equal rewards, and groups of one member, have a gradient too.
    Running,
}

impl AdvantageKind {
    /// Whether the baseline is computed from the group.
    pub(crate) fn is_relative(self) -> bool {
        self != Self::Running
    }
}

/// Why a group has no advantages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AdvantageError {
    /// There are too few members: a group baseline needs two, a running baseline one.
    #[error("a group of {members} has no advantages: it has too few members")]
    TooFewMembers {
        /// Number of members.
        members: usize,
    },
    /// A reward is infinite or not a number.
    #[error("the reward of member {member} is not finite")]
    NotFinite {
        /// The position of the reward.
        member: usize,
    },
}

/// The advantage of each member; for [`AdvantageKind::Running`] the rewards, without the baseline subtracted.
///
/// # Errors
/// [`AdvantageError`].
pub fn advantages(kind: AdvantageKind, rewards: &[f64]) -> Result<Vec<f64>, AdvantageError> {
    if rewards.len() < if kind.is_relative() { 2 } else { 1 } {
        return Err(AdvantageError::TooFewMembers { members: rewards.len() });
    }
    if let Some(member) = rewards.iter().position(|reward| !reward.is_finite()) {
        return Err(AdvantageError::NotFinite { member });
    }
    if !kind.is_relative() {
        return Ok(rewards.to_vec());
    }
    let members = rewards.len() as f64;
    let mean = ordered_sum(rewards.iter().copied()) / members;
    let scale = match kind {
        AdvantageKind::Grpo => {
            let squares = ordered_sum(rewards.iter().map(|reward| (reward - mean).powi(2)));
            1.0 / ((squares / (members - 1.0)).sqrt() + STD_FLOOR)
        }
        AdvantageKind::DrGrpo | AdvantageKind::Running => 1.0,
        // r - (sum - r) / (n - 1) is n / (n - 1) times r - mean.
        AdvantageKind::LeaveOneOut => members / (members - 1.0),
    };
    Ok(rewards.iter().map(|reward| (reward - mean) * scale).collect())
}

/// A sum that does not depend on the order of its terms.
fn ordered_sum(terms: impl Iterator<Item = f64>) -> f64 {
    let mut terms: Vec<f64> = terms.collect();
    terms.sort_unstable_by(f64::total_cmp);
    terms.iter().sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(kind: AdvantageKind, rewards: &[f64], expected: &[f64]) {
        let got = advantages(kind, rewards).unwrap();
        assert_eq!(got.len(), expected.len());
        for (got, expected) in got.iter().zip(expected) {
            assert!((got - expected).abs() < 1e-9, "{kind:?} of {rewards:?}: {got} is not {expected}");
        }
    }

    #[test]
    fn by_hand() {
        // mean 1/4, std sqrt(((3/4)^2 + 3 (1/4)^2) / 3) = 1/2.
        let scale = 1.0 / (0.5 + 1e-6);
        check(
            AdvantageKind::Grpo,
            &[1.0, 0.0, 0.0, 0.0],
            &[0.75 * scale, -0.25 * scale, -0.25 * scale, -0.25 * scale],
        );
        check(AdvantageKind::DrGrpo, &[1.0, 0.0, 0.0, 0.0], &[0.75, -0.25, -0.25, -0.25]);
        check(AdvantageKind::LeaveOneOut, &[1.0, 0.0, 0.0, 0.0], &[1.0, -1.0 / 3.0, -1.0 / 3.0, -1.0 / 3.0]);
    }

    #[test]
    fn refused() {
        for few in [&[] as &[f64], &[1.0]] {
            let error = advantages(AdvantageKind::Grpo, few);
            assert_eq!(error, Err(AdvantageError::TooFewMembers { members: few.len() }));
        }
        assert_eq!(
            advantages(AdvantageKind::Running, &[]),
            Err(AdvantageError::TooFewMembers { members: 0 })
        );
        assert_eq!(advantages(AdvantageKind::Running, &[0.5]), Ok(vec![0.5]));
        for bad in [f64::NAN, f64::INFINITY] {
            let error = advantages(AdvantageKind::DrGrpo, &[0.0, bad]);
            assert_eq!(error, Err(AdvantageError::NotFinite { member: 1 }));
        }
    }

    fn kinds() -> impl Strategy<Value = AdvantageKind> {
        prop_oneof![Just(AdvantageKind::Grpo), Just(AdvantageKind::DrGrpo), Just(AdvantageKind::LeaveOneOut)]
    }

    proptest! {
        #[test]
        fn i1_a_group_sums_to_zero(kind in kinds(), rewards in prop::collection::vec(-1e3..1e3f64, 2..17)) {
            let largest = rewards.iter().fold(0.0, |most: f64, reward| most.max(reward.abs()));
            let sum: f64 = advantages(kind, &rewards).unwrap().iter().sum();
            prop_assert!(sum.abs() <= 1e-6 * rewards.len() as f64 * largest, "{sum}");
        }

        #[test]
        fn i2_order_changes_nothing(
            kind in kinds(),
            (rewards, order) in prop::collection::vec(-1e3..1e3f64, 2..17).prop_flat_map(|rewards| {
                let order: Vec<usize> = (0..rewards.len()).collect();
                (Just(rewards), Just(order).prop_shuffle())
            }),
        ) {
            let shuffled: Vec<f64> = order.iter().map(|&member| rewards[member]).collect();
            let of_shuffled = advantages(kind, &shuffled).unwrap();
            let plain = advantages(kind, &rewards).unwrap();
            let expected: Vec<f64> = order.iter().map(|&member| plain[member]).collect();
            prop_assert_eq!(of_shuffled, expected);
        }
    }
}
