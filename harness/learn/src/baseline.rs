//! A running baseline: the mean of recent rewards at tasks of one kind.
//!
//! I1. The baseline of a kind is S / (n + 8), with S the sum of its rewards and n their number, both decayed by 0.98 for each
//! later reward, so about the last fifty rewards count. The baseline of an unknown kind is 0. I2. The baseline that a group gets
//! does not contain the rewards of that group, because they would bias the gradient.
//!
//! If the mean of a group is its baseline, a group with equal rewards gives no gradient, and a policy that has become certain
//! of a wrong action is never corrected. A running baseline corrects it.
//!
//! Units: reward units. Pure; nothing to cancel.
//! Source: REINFORCE with a baseline, Williams 1992; the binary objective of OpenClaw-RL, arXiv 2603.10165. Deviation: the paper has no
//! baseline, and rewards of 1 and -1.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Number of initial rewards of 0, as a prior.
const PRIOR: f64 = 8.0;

/// Factor on the weight of earlier rewards when a new reward arrives.
const DECAY: f64 = 0.98;

/// The baselines of all kinds of tasks.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Baselines(BTreeMap<u32, Earned>);

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
struct Earned {
    sum: f64,
    rewards: f64,
}

impl Baselines {
    /// The baseline of a kind.
    #[must_use]
    pub fn of(&self, kind: u32) -> f64 {
        self.0.get(&kind).map_or(0.0, |earned| earned.sum / (earned.rewards + PRIOR))
    }

    /// Records a reward.
    pub fn add(&mut self, kind: u32, reward: f64) {
        let earned = self.0.entry(kind).or_default();
        earned.sum = earned.sum * DECAY + reward;
        earned.rewards = earned.rewards * DECAY + 1.0;
    }

    /// Whether there are no rewards of any kind yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(rewards: &[f64], expected: f64) {
        let mut baselines = Baselines::default();
        rewards.iter().for_each(|&reward| baselines.add(7, reward));
        assert!((baselines.of(7) - expected).abs() < 1e-12, "{rewards:?}: {}", baselines.of(7));
        assert_eq!(baselines.of(8).to_bits(), 0.0f64.to_bits(), "another kind");
    }

    #[test]
    fn by_hand() {
        check(&[], 0.0);
        check(&[1.0], 1.0 / 9.0);
        check(&[1.0, -1.0], (0.98 - 1.0) / (0.98 + 1.0 + 8.0));
        // The effective number of rewards is at most 1 / (1 - 0.98) = 50.
        check(&[1.0; 5_000], 50.0 / 58.0);
    }

    #[test]
    fn as_written() {
        let mut baselines = Baselines::default();
        assert!(baselines.is_empty());
        baselines.add(3, 0.5);
        let text = serde_json::to_string(&baselines).unwrap();
        assert_eq!(text, r#"{"3":{"sum":0.5,"rewards":1.0}}"#);
        assert_eq!(serde_json::from_str::<Baselines>(&text).unwrap(), baselines);
    }

    proptest! {
        #[test]
        fn i1_the_sum_is_that_of_the_definition(rewards in prop::collection::vec(-1.0..1.0f64, 0..200)) {
            let mut baselines = Baselines::default();
            rewards.iter().for_each(|&reward| baselines.add(0, reward));
            let weight = |place: usize| DECAY.powi((rewards.len() - 1 - place) as i32);
            let sum: f64 = rewards.iter().enumerate().map(|(place, reward)| reward * weight(place)).sum();
            let number: f64 = (0..rewards.len()).map(weight).sum();
            prop_assert!((baselines.of(0) - sum / (number + PRIOR)).abs() < 1e-9);
        }
    }
}
