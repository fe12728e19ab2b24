//! How many environments of each kind are created ahead.
//!
//! S1. The shares add up to the requested number, if anything is expected at all.
//! S2. Equal kinds share one entry; the most frequent comes first and gets the remainder.

/// Divides a number among kinds in proportion to how often they are expected.
#[must_use]
pub fn warm_shares<K: Clone + PartialEq>(count: u32, expected: &[(K, u32)]) -> Vec<(K, u32)> {
    let mut kinds: Vec<(K, u64)> = Vec::new();
    for (kind, leases) in expected {
        match kinds.iter_mut().find(|(known, _)| known == kind) {
            Some((_, number)) => *number += u64::from(*leases),
            None => kinds.push((kind.clone(), u64::from(*leases))),
        }
    }
    kinds.sort_by_key(|(_, number)| std::cmp::Reverse(*number));
    let total = kinds.iter().map(|(_, number)| number).sum::<u64>().max(1);
    // A share is at most the whole.
    let share = |(kind, number): (K, u64)| (kind, (u64::from(count) * number / total) as u32);
    let mut shares: Vec<(K, u32)> = kinds.into_iter().map(share).collect();
    let given: u32 = shares.iter().map(|(_, share)| share).sum();
    if let Some((_, first)) = shares.first_mut() {
        *first += count - given;
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_follow_frequency_without_loss() {
        let check = |count: u32, expected: &[(&'static str, u32)], shares: &[(&str, u32)]| {
            assert_eq!(warm_shares(count, expected), shares, "{count} over {expected:?}");
        };
        check(10, &[("a", 1), ("b", 1), ("a", 2)], &[("a", 8), ("b", 2)]);
        check(10, &[("b", 1), ("a", 2)], &[("a", 7), ("b", 3)]);
        check(10, &[("a", u32::MAX)], &[("a", 10)]);
        check(10, &[("a", 0)], &[("a", 10)]);
        check(0, &[("a", 1), ("b", 2)], &[("b", 0), ("a", 0)]);
        check(5, &[], &[]);
    }
}
