//! Advantages of single steps: how good a step was among the steps at the same place of its group.
//!
//! I1. A bucket holds the rewards of the steps of one group that have the same index. A bucket of fewer than
//! [`LEAST_MEMBERS`] is ignored: the members that are still running late in an episode are not a fair sample. A bucket
//! whose rewards are equal, or too large to be averaged, is ignored too. I2. A step without a reward is in no bucket, and its
//! term is 0. I3. The terms of a bucket sum to zero, and none is magnified by more than 1 / [`STD_FLOOR`].
//!
//! Shapes: G members with K steps each; the terms have the shape of the rewards. Units: none. Pure; nothing to cancel.
//! Source: the two-level form of group-relative step rewards, after GRPO with process supervision (arXiv 2402.03300,
//! section 4.1.3). Deviations: terms stay with their own step instead of being summed over the later ones, since the
//! outcome is added apart; the deviation is that of the population and has a floor.

use crate::admission::CONSTANT_SPREAD;

/// Minimum number of steps in a bucket for a useful mean.
const LEAST_MEMBERS: usize = 3;

/// Minimum standard deviation that rewards are divided by, in reward units.
const STD_FLOOR: f64 = 0.1;

/// The term of each step: `(p - mean) / max(std, 0.1)` within its bucket.
///
/// Rewards have to be finite.
#[must_use]
pub fn process_advantages(members: &[&[Option<f64>]]) -> Vec<Vec<f64>> {
    let mut terms: Vec<Vec<f64>> = members.iter().map(|steps| vec![0.0; steps.len()]).collect();
    let longest = members.iter().map(|steps| steps.len()).max().unwrap_or_default();
    for index in 0..longest {
        let bucket: Vec<(usize, f64)> = members
            .iter()
            .enumerate()
            .filter_map(|(member, steps)| Some((member, steps.get(index).copied().flatten()?)))
            .collect();
        let least = bucket.iter().map(|(_, reward)| *reward).fold(f64::INFINITY, f64::min);
        let most = bucket.iter().map(|(_, reward)| *reward).fold(f64::NEG_INFINITY, f64::max);
        if bucket.len() < LEAST_MEMBERS || most - least <= CONSTANT_SPREAD {
            continue;
        }
        let count = bucket.len() as f64;
        let mean = bucket.iter().map(|(_, reward)| reward).sum::<f64>() / count;
        let variance = bucket.iter().map(|(_, reward)| (reward - mean).powi(2)).sum::<f64>() / count;
        let scale = variance.sqrt().max(STD_FLOOR);
        // Rewards near the largest floats have no mean.
        if !(mean.is_finite() && scale.is_finite()) {
            continue;
        }
        for (member, reward) in bucket {
            if let Some(term) = terms[member].get_mut(index) {
                *term = (reward - mean) / scale;
            }
        }
    }
    terms
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(members: &[&[Option<f64>]], expected: &[&[f64]]) {
        let terms = process_advantages(members);
        assert_eq!(terms.len(), expected.len());
        for (terms, expected) in terms.iter().zip(expected) {
            assert_eq!(terms.len(), expected.len(), "{members:?}");
            for (term, expected) in terms.iter().zip(*expected) {
                assert!((term - expected).abs() < 1e-12, "{members:?}: {term} is not {expected}");
            }
        }
    }

    #[test]
    fn by_hand() {
        let some = Some;
        // Mean 1/3, population variance 2/9.
        let std = (2.0f64 / 9.0).sqrt();
        let (high, low) = (2.0 / 3.0 / std, -1.0 / 3.0 / std);
        check(&[&[some(1.0)], &[some(0.0)], &[some(0.0)]], &[&[high], &[low], &[low]]);
        // I1: two rewards are too few for a bucket, and members that have ended are not in it.
        check(&[&[some(1.0)], &[some(0.0)]], &[&[0.0], &[0.0]]);
        check(
            &[&[some(1.0), some(5.0)], &[some(0.0), some(1.0)], &[some(0.0)]],
            &[&[high, 0.0], &[low, 0.0], &[low]],
        );
        // I2.
        check(
            &[&[some(1.0)], &[None], &[some(0.0)], &[some(0.0)], &[]],
            &[&[high], &[0.0], &[low], &[low], &[]],
        );
        // I3: a spread below the floor is not magnified to 1.
        check(&[&[some(0.03)], &[some(0.0)], &[some(0.0)]], &[&[0.2], &[-0.1], &[-0.1]]);
        check(&[&[some(0.1)], &[some(0.1)], &[some(0.1)]], &[&[0.0], &[0.0], &[0.0]]);
        check(&[&[some(1e308)], &[some(9e307)], &[some(1e308)]], &[&[0.0], &[0.0], &[0.0]]);
        check(&[], &[]);
    }

    proptest! {
        #[test]
        fn i3_a_bucket_sums_to_zero(
            rewards in prop::collection::vec(prop::collection::vec(prop::option::of(-1e3..1e3f64), 0..6), 0..10),
        ) {
            let members: Vec<&[Option<f64>]> = rewards.iter().map(Vec::as_slice).collect();
            let terms = process_advantages(&members);
            for index in 0..6 {
                let of_bucket = terms.iter().filter_map(|terms| terms.get(index));
                prop_assert!(of_bucket.sum::<f64>().abs() < 1e-8);
            }
            for (terms, rewards) in terms.iter().zip(&rewards) {
                prop_assert_eq!(terms.len(), rewards.len());
                prop_assert!(terms.iter().zip(rewards).all(|(term, reward)| reward.is_some() || *term == 0.0), "I2");
            }
        }
    }
}
