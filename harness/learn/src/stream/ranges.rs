//! Sets of group ids that are mostly consecutive, kept as ranges. A checkpoint lists the consumed groups this way.
//!
//! I1. Ranges are half-open, not empty, ascending, and neither overlap nor touch, so equal sets are equal texts.

use clawrl_core::GroupId;
use serde::{Deserialize, Serialize};

/// A set of group ids. Written as `[[0, 16], [18, 20]]`: 0 to 15, 18 and 19.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<(u32, u32)>", into = "Vec<(u32, u32)>")]
pub struct GroupRanges(Vec<(u32, u32)>);

/// A text that breaks the rules of [`GroupRanges`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the range {start} to {end} is empty, or not past the one before it")]
pub struct RangeError {
    /// First id of the bad range.
    pub start: u32,
    /// First id past it.
    pub end: u32,
}

impl GroupRanges {
    /// Whether the group is in the set.
    #[must_use]
    pub fn contains(&self, group: GroupId) -> bool {
        let after = self.0.partition_point(|&(start, _)| start <= group.0);
        after > 0 && group.0 < self.0[after - 1].1
    }

    /// Adds a group; `false` if it was there.
    pub fn insert(&mut self, group: GroupId) -> bool {
        if self.contains(group) {
            return false;
        }
        let after = self.0.partition_point(|&(start, _)| start <= group.0);
        let joins_before = after > 0 && self.0[after - 1].1 == group.0;
        let joins_after = self.0.get(after).is_some_and(|&(start, _)| start == group.0 + 1);
        match (joins_before, joins_after) {
            (true, true) => {
                let (_, end) = self.0.remove(after);
                self.0[after - 1].1 = end;
            }
            (true, false) => self.0[after - 1].1 = group.0 + 1,
            (false, true) => self.0[after].0 = group.0,
            (false, false) => self.0.insert(after, (group.0, group.0 + 1)),
        }
        true
    }

    /// Number of groups.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.iter().map(|(start, end)| (end - start) as usize).sum()
    }

    /// Whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The groups, ascending.
    pub fn iter(&self) -> impl Iterator<Item = GroupId> + '_ {
        self.0.iter().flat_map(|&(start, end)| (start..end).map(GroupId))
    }
}

impl FromIterator<GroupId> for GroupRanges {
    fn from_iter<I: IntoIterator<Item = GroupId>>(groups: I) -> Self {
        let mut ranges = Self::default();
        for group in groups {
            ranges.insert(group);
        }
        ranges
    }
}

impl From<GroupRanges> for Vec<(u32, u32)> {
    fn from(ranges: GroupRanges) -> Self {
        ranges.0
    }
}

impl TryFrom<Vec<(u32, u32)>> for GroupRanges {
    type Error = RangeError;

    fn try_from(ranges: Vec<(u32, u32)>) -> Result<Self, RangeError> {
        let mut least = 0;
        for &(start, end) in &ranges {
            if start >= end || start < least {
                return Err(RangeError { start, end });
            }
            least = end.saturating_add(1);
        }
        Ok(Self(ranges))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn check(groups: &[u32], expected: &str) {
        let ranges: GroupRanges = groups.iter().copied().map(GroupId).collect();
        assert_eq!(serde_json::to_string(&ranges).unwrap(), expected);
        assert_eq!(serde_json::from_str::<GroupRanges>(expected).unwrap(), ranges);
    }

    #[test]
    fn as_written() {
        check(&[], "[]");
        check(&[2, 0, 1], "[[0,3]]");
        check(&[7, 2, 3, 5, 2], "[[2,4],[5,6],[7,8]]");
        for bad in ["[[1,1]]", "[[2,1]]", "[[0,3],[3,4]]", "[[4,6],[1,2]]", "[[0,3],[2,5]]"] {
            assert!(serde_json::from_str::<GroupRanges>(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn i1_is_a_set(groups in prop::collection::vec(0u32..40, 0..60)) {
            let ranges: GroupRanges = groups.iter().copied().map(GroupId).collect();
            let set: BTreeSet<GroupId> = groups.iter().copied().map(GroupId).collect();
            prop_assert_eq!(ranges.len(), set.len());
            prop_assert!(ranges.iter().eq(set.iter().copied()));
            for group in (0..41).map(GroupId) {
                prop_assert_eq!(ranges.contains(group), set.contains(&group));
            }
            prop_assert_eq!(GroupRanges::try_from(Vec::from(ranges.clone())), Ok(ranges));
        }
    }
}
