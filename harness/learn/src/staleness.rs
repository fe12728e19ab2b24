//! Staleness of tokens, at the start of a batch.
//!
//! I1. After [`mask_stale`] no trained token is older than the bound. I2. A token is masked for its age only; the
//! episode's reward stays in the baseline of its group, which is made before this point. I3. Every masked token is
//! counted.
//!
//! Units: versions. Staleness is the age of the version that sampled the token, as [`Lineage`] computes it. Pure; nothing to cancel.

use serde::{Deserialize, Serialize};

use crate::{Lineage, Segment};

/// The ages of the tokens of a batch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenAges {
    /// Tokens left to train.
    pub trained: u64,
    /// Tokens masked because they were older than the bound.
    pub masked: u64,
    /// Sum of the staleness of the trained ones.
    pub sum: u64,
    /// Greatest staleness of a trained one.
    pub max: u64,
}

impl TokenAges {
    /// Mean staleness of the trained tokens; 0 without any.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.sum as f64 / self.trained.max(1) as f64
    }
}

impl std::ops::AddAssign for TokenAges {
    fn add_assign(&mut self, other: Self) {
        self.trained += other.trained;
        self.masked += other.masked;
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }
}

/// Masks tokens older than `max_staleness`.
pub fn mask_stale(segment: &mut Segment, lineage: &Lineage, max_staleness: u64) -> TokenAges {
    let mut ages = TokenAges::default();
    for (trained, &version) in segment.mask.iter_mut().zip(&segment.versions).filter(|(trained, _)| **trained)
    {
        let age = lineage.age(version);
        if age > max_staleness {
            *trained = false;
            ages.masked += 1;
        } else {
            ages.trained += 1;
            ages.sum += age;
            ages.max = ages.max.max(age);
        }
    }
    ages
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn segment(versions: &[u64]) -> Segment {
        let mut segment = Segment::default();
        segment.push_context(&[0]);
        versions.iter().for_each(|&version| segment.push_sampled(0, 1, -1.0, version, 1.0));
        segment
    }

    fn check(versions: &[u64], max_staleness: u64, mask: &[bool], expected: TokenAges) {
        let mut segment = segment(versions);
        assert_eq!(mask_stale(&mut segment, &Lineage::at(5, 5), max_staleness), expected);
        assert_eq!(segment.mask[1..], *mask);
        assert!(!segment.mask[0]);
    }

    #[test]
    fn by_hand() {
        let counts = |trained, masked, sum, max| TokenAges { trained, masked, sum, max };
        check(&[5, 5], 0, &[true, true], counts(2, 0, 0, 0));
        check(&[2, 3, 4, 5], 2, &[false, true, true, true], counts(3, 1, 3, 2));
        check(&[4], 0, &[false], counts(0, 1, 0, 0));
        check(&[7], 0, &[true], counts(1, 0, 0, 0));
    }

    proptest! {
        #[test]
        fn i1_nothing_trained_is_older_than_the_bound(
            versions in prop::collection::vec(0..20u64, 0..30),
            learner in 0..20u64,
            bound in 0..6u64,
        ) {
            let mut segment = segment(&versions);
            let before = segment.trained() as u64;
            let ages = mask_stale(&mut segment, &Lineage::at(learner, learner), bound);
            for (token, &trained) in segment.mask.iter().enumerate().skip(1) {
                prop_assert_eq!(trained, learner.saturating_sub(segment.versions[token]) <= bound);
            }
            prop_assert!(ages.max <= bound);
            prop_assert_eq!((ages.trained, ages.trained + ages.masked), (segment.trained() as u64, before));
        }
    }
}
