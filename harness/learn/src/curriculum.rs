//! Chooses the next family to learn from. Families with a pass rate of about one half teach most.
//!
//! I1. The success of a family is (S + 1) / (n + 2), with S the attempts that passed and n all of them, both multiplied by 1 - 1 / `memory` for
//! each attempt of a later group. The success of an unknown family is one half. I2. The share of a family among F on offer is
//! `least` / F + (1 - `least`) w / (sum of w), with w = p (1 - p) of its success p. So a share is never below `least` of an even share, and
//! the shares sum to 1. I3. A family that is always on offer is chosen as often as its shares add up to, or less than once more, or
//! less than F times fewer: each comes up again, within F (F + 1) / `least` choices. I4. Choices are a function of the earlier
//! results and choices. There is no random draw.
//!
//! A group whose members all passed, or all failed, has no gradient if its mean is the baseline, and a small one otherwise. Among
//! members that pass with probability p the variance of the reward is p (1 - p).
//!
//! Units: attempts. Pure; nothing to cancel.
//! Source: learnability p (1 - p) of a task: arXiv 2408.15099 (sampling for learnability), and the curricula by success of Kimi k1.5,
//! arXiv 2501.12599. Choices by weights without drawing: smooth weighted round robin, as in nginx. Deviations: rates are of
//! families, not of tasks; a floor; weights change between choices.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// How families are weighed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CurriculumConfig {
    /// Minimum share of a family, as a fraction of an even share; above 0 and below 1.
    pub least: f64,
    /// Number of recent attempts that determine a success; at least 1.
    pub memory: u32,
}

/// Statistics of families, by their numbers, and how many groups each is due: part of the snapshot of a stream.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Curriculum(BTreeMap<u32, Standing>);

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
struct Standing {
    passed: f64,
    attempts: f64,
    /// The sum of its shares, minus the number of times that it was chosen.
    due: f64,
}

impl Standing {
    fn success(self) -> f64 {
        (self.passed + 1.0) / (self.attempts + 2.0)
    }
}

impl Curriculum {
    /// Whether there are no statistics and no choices.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Recent success of a family (I1).
    #[must_use]
    pub fn success(&self, family: u32) -> f64 {
        self.of(family).success()
    }

    /// The shares of these families, in their order (I2).
    #[must_use]
    pub fn shares(&self, config: CurriculumConfig, families: &[u32]) -> Vec<f64> {
        let weight = |&family: &u32| {
            let success = self.success(family);
            success * (1.0 - success)
        };
        // None is 0: a success is neither 0 nor 1.
        let weights: Vec<f64> = families.iter().map(weight).collect();
        let all: f64 = weights.iter().sum();
        let floor = config.least / families.len().max(1) as f64;
        weights.into_iter().map(|weight| floor + (1.0 - config.least) * weight / all).collect()
    }

    /// Chooses one of these families; `None` if there are none. Ties go to the first.
    pub fn choose(&mut self, config: CurriculumConfig, families: &[u32]) -> Option<u32> {
        let shares = self.shares(config, families);
        let mut chosen: Option<(u32, f64)> = None;
        for (&family, share) in families.iter().zip(shares) {
            let standing = self.0.entry(family).or_default();
            standing.due += share;
            if chosen.is_none_or(|(_, most)| standing.due > most) {
                chosen = Some((family, standing.due));
            }
        }
        let (family, _) = chosen?;
        self.0.entry(family).or_default().due -= 1.0;
        Some(family)
    }

    /// Records the attempts of a group at tasks of a family.
    pub fn learn(&mut self, config: CurriculumConfig, family: u32, passed: u32, attempts: u32) {
        let remains =
            (1.0 - 1.0 / f64::from(config.memory.max(1))).powi(i32::try_from(attempts).unwrap_or(i32::MAX));
        let standing = self.0.entry(family).or_default();
        standing.passed = standing.passed * remains + f64::from(passed);
        standing.attempts = standing.attempts * remains + f64::from(attempts);
    }

    /// The same choices, with the success rates of another curriculum: used to return to an earlier policy.
    #[must_use]
    pub fn with_success_of(mut self, other: &Self) -> Self {
        for (&family, standing) in &mut self.0 {
            let known = other.of(family);
            (standing.passed, standing.attempts) = (known.passed, known.attempts);
        }
        self
    }

    fn of(&self, family: u32) -> Standing {
        self.0.get(&family).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CONFIG: CurriculumConfig = CurriculumConfig { least: 0.1, memory: 64 };

    /// Families with these passed attempts of as many.
    fn known(results: &[(u32, u32)]) -> Curriculum {
        let mut curriculum = Curriculum::default();
        for (family, &(passed, attempts)) in results.iter().enumerate() {
            curriculum.learn(CONFIG, family as u32, passed, attempts);
        }
        curriculum
    }

    fn check(results: &[(u32, u32)], expected: &[f64]) {
        let families: Vec<u32> = (0..results.len() as u32).collect();
        let shares = known(results).shares(CONFIG, &families);
        let near = shares.iter().zip(expected).all(|(share, expected)| (share - expected).abs() < 1e-9);
        assert!(near && shares.len() == expected.len(), "{results:?}: {shares:?}");
    }

    #[test]
    fn i2_shares_by_hand() {
        check(&[], &[]);
        check(&[(8, 8)], &[1.0]);
        check(&[(0, 0), (0, 0), (0, 0), (0, 0)], &[0.25; 4]);
        // Successes of 0.9, 0.5 and 0.1: weights of 0.09, 0.25 and 0.09.
        let of = |weight: f64| 0.1 / 3.0 + 0.9 * weight / 0.43;
        check(&[(8, 8), (4, 8), (0, 8)], &[of(0.09), of(0.25), of(0.09)]);
    }

    #[test]
    fn i1_what_was_long_ago_is_forgotten() {
        let mut curriculum = known(&[(8, 8)]);
        assert!((curriculum.success(0) - 0.9).abs() < 1e-12);
        let remains = (63.0f64 / 64.0).powi(8);
        curriculum.learn(CONFIG, 0, 0, 8);
        assert!((curriculum.success(0) - (8.0 * remains + 1.0) / (8.0 * remains + 10.0)).abs() < 1e-12);
        (0..90).for_each(|_| curriculum.learn(CONFIG, 0, 0, 8));
        assert!(curriculum.success(0) < 1.1 / 66.0, "{curriculum:?}");
    }

    #[test]
    fn what_nothing_is_known_of_comes_up_in_turns() {
        let mut curriculum = Curriculum::default();
        assert_eq!(curriculum.choose(CONFIG, &[]), None);
        let chosen: Vec<u32> = (0..9).filter_map(|_| curriculum.choose(CONFIG, &[7, 3, 5])).collect();
        assert_eq!(chosen[..3], [7, 3, 5]);
        for round in chosen.chunks(3) {
            let mut round = round.to_vec();
            round.sort_unstable();
            assert_eq!(round, [3, 5, 7]);
        }
    }

    #[test]
    fn a_policy_that_is_gone_back_to_has_its_own_success_and_no_choice_twice() {
        let (old, mut new) = (known(&[(4, 8)]), known(&[(8, 8), (8, 8)]));
        new.choose(CONFIG, &[0, 1]);
        let due =
            |curriculum: &Curriculum| curriculum.0.values().map(|standing| standing.due).collect::<Vec<_>>();
        let back = new.clone().with_success_of(&old);
        assert_eq!(due(&back), due(&new));
        assert_eq!((back.success(0), back.success(1)), (0.5, 0.5));
    }

    #[test]
    fn as_written() {
        let mut curriculum = known(&[(1, 2)]);
        curriculum.choose(CONFIG, &[0]);
        let text = serde_json::to_string(&curriculum).unwrap();
        assert_eq!(text, r#"{"0":{"passed":1.0,"attempts":2.0,"due":0.0}}"#);
        assert_eq!(serde_json::from_str::<Curriculum>(&text).unwrap(), curriculum);
    }

    proptest! {
        /// I2 and I3: the floor is kept, and choices follow shares while those change.
        #[test]
        fn choices_follow_shares(
            families in 1u32..9,
            least in 0.02..0.9f64,
            results in proptest::collection::vec((0u32..9, 0u32..=8), 1..400),
        ) {
            let config = CurriculumConfig { least, memory: 16 };
            let all: Vec<u32> = (0..families).collect();
            let (mut sums, mut counts) = (vec![0.0; all.len()], vec![0.0; all.len()]);
            let mut curriculum = Curriculum::default();
            for (family, passed) in results {
                let shares = curriculum.shares(config, &all);
                prop_assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);
                for (sum, share) in sums.iter_mut().zip(&shares) {
                    prop_assert!(*share >= least / f64::from(families));
                    *sum += share;
                }
                counts[curriculum.choose(config, &all).unwrap() as usize] += 1.0;
                for (count, sum) in counts.iter().zip(&sums) {
                    prop_assert!(*count < sum + 1.0 + 1e-6 && *count > sum - f64::from(families) - 1e-6);
                }
                curriculum.learn(config, family % families, passed, 8);
            }
        }

        /// I3: a family that always fails is still tried again.
        #[test]
        fn every_family_comes_up_again(families in 2u32..7, least in 0.1..0.9f64, rounds in 1usize..4) {
            let config = CurriculumConfig { least, memory: 64 };
            let all: Vec<u32> = (0..families).collect();
            let mut curriculum = Curriculum::default();
            let within = (f64::from(families * (families + 1)) / least).ceil() as usize;
            for _ in 0..rounds {
                let mut chosen = vec![false; all.len()];
                for _ in 0..within {
                    let family = curriculum.choose(config, &all).unwrap();
                    chosen[family as usize] = true;
                    // The first one is right every other time, the others never.
                    curriculum.learn(config, family, if family == 0 { 4 } else { 0 }, 8);
                }
                prop_assert!(chosen.iter().all(|chosen| *chosen), "{chosen:?}");
            }
        }

        /// A family near a half has no smaller share than one that is further from it.
        #[test]
        fn shares_follow_success(results in proptest::collection::vec(0u32..=8, 2..7)) {
            let results: Vec<(u32, u32)> = results.into_iter().map(|passed| (passed, 8)).collect();
            let curriculum = known(&results);
            let families: Vec<u32> = (0..results.len() as u32).collect();
            let shares = curriculum.shares(CONFIG, &families);
            let apart = |family: usize| (curriculum.success(family as u32) - 0.5).abs();
            for one in 0..results.len() {
                for other in 0..results.len() {
                    prop_assert!(apart(one) > apart(other) - 1e-9 || shares[one] >= shares[other] - 1e-9);
                }
            }
        }

        /// I4.
        #[test]
        fn what_is_read_back_chooses_the_same(results in proptest::collection::vec((0u32..4, 0u32..=8), 0..40)) {
            let mut curriculum = Curriculum::default();
            for (family, passed) in results {
                curriculum.choose(CONFIG, &[0, 1, 2, 3]);
                curriculum.learn(CONFIG, family, passed, 8);
            }
            let text = serde_json::to_string(&curriculum).unwrap();
            let mut read: Curriculum = serde_json::from_str(&text).unwrap();
            for _ in 0..40 {
                prop_assert_eq!(curriculum.choose(CONFIG, &[0, 1, 2, 3]), read.choose(CONFIG, &[0, 1, 2, 3]));
            }
        }
    }
}
