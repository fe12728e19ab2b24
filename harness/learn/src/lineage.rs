//! The versions of a policy that acted, and the age of a token in versions.
//!
//! I1. A version that was rejected has the parameters of the one before it, never acts, and does not increase the age of a token. I2. Without
//! rejected versions the age of a token is the learner's version minus the token's. I3. The age of a token of the accepted
//! version is 0.
//!
//! Units: versions. Pure; nothing to cancel.

use std::collections::BTreeSet;

/// The learner's version, and those that were rejected since tokens in flight were sampled.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lineage {
    version: u64,
    rejected: BTreeSet<u64>,
}

impl Lineage {
    /// The history of a learner at this version with the parameters of `accepted`: all versions in between were rejected.
    #[must_use]
    pub fn at(version: u64, accepted: u64) -> Self {
        Self { version, rejected: (accepted.saturating_add(1)..=version).collect() }
    }

    /// The learner's version.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The accepted version, whose parameters the learner has.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        let mut accepted = self.version;
        while self.rejected.contains(&accepted) {
            accepted -= 1;
        }
        accepted
    }

    /// Records that the learner accepted a later version.
    pub fn rise(&mut self, version: u64) {
        self.version = version;
    }

    /// Records that a later version was rejected.
    pub fn reject(&mut self, version: u64) {
        // Numbers in between were never used, and cannot be distinguished from rejected ones.
        self.rejected.extend(self.version.saturating_add(1)..=version);
        self.version = version;
    }

    /// Whether this version was rejected.
    #[must_use]
    pub fn is_rejected(&self, version: u64) -> bool {
        self.rejected.contains(&version)
    }

    /// The age of a token of this version: the number of later versions with other parameters. A token of a version after the
    /// learner's, as after a rollback, has age 0.
    #[must_use]
    pub fn age(&self, version: u64) -> u64 {
        let after = self.version.saturating_sub(version);
        let rejected = self.rejected.range(version.saturating_add(1)..).count() as u64;
        after.saturating_sub(rejected)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn by_hand() {
        let mut lineage = Lineage::at(3, 3);
        let check = |lineage: &Lineage, accepted: u64, ages: [u64; 4]| {
            assert_eq!(lineage.accepted(), accepted, "{lineage:?}");
            assert_eq!([2, 3, 4, 5].map(|version| lineage.age(version)), ages, "{lineage:?}");
        };
        check(&lineage, 3, [1, 0, 0, 0]);
        lineage.reject(4);
        check(&lineage, 3, [1, 0, 0, 0]);
        assert!(lineage.is_rejected(4) && !lineage.is_rejected(3));
        lineage.rise(5);
        check(&lineage, 5, [2, 1, 1, 0]);
        lineage.reject(6);
        lineage.reject(7);
        check(&lineage, 5, [2, 1, 1, 0]);
        assert_eq!((lineage.version(), Lineage::at(7, 5).accepted()), (7, 5));
        assert_eq!(Lineage::at(7, 5).age(5), 0);
    }

    proptest! {
        /// I1 to I3, against the plain definition.
        #[test]
        fn the_age_counts_accepted_versions(rejected in prop::collection::vec(any::<bool>(), 0..20)) {
            let mut lineage = Lineage::at(0, 0);
            let mut acted = vec![0u64];
            for (version, &rejected) in (1u64..).zip(&rejected) {
                if rejected {
                    lineage.reject(version);
                } else {
                    lineage.rise(version);
                    acted.push(version);
                }
                prop_assert_eq!(lineage.accepted(), *acted.last().unwrap());
                for (age, &version) in acted.iter().rev().enumerate() {
                    prop_assert_eq!(lineage.age(version), age as u64);
                }
            }
        }
    }
}
