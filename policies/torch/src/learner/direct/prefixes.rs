//! Groups of samples that share the rows of a common prefix.
//!
//! The model's result for a token depends only on that token and those before it, so the members of a group, which have one
//! prompt, need the prompt's rows only once.
//!
//! I1. The members of a family begin with the same tokens. I2. No division into families saves more rows.
//!
//! Units: tokens. Pure.

/// Maximum size of a family; bounds the search time.
const LARGEST: usize = 64;
/// Minimum length of a shared prefix: a shorter one costs more attention calls than it saves.
const SHORTEST: usize = 8;

/// Samples that share their first tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Family {
    /// Indices among the given samples.
    pub(super) members: Vec<usize>,
    /// Number of shared tokens; 0 for a single member.
    pub(super) prefix: usize,
}

/// Divides samples, given as tokens, into families, sorted by the tokens.
pub(super) fn families(samples: &[&[u32]]) -> Vec<Family> {
    let mut order: Vec<usize> = (0..samples.len()).collect();
    order.sort_by_key(|&index| (samples[index], index));
    let shared: Vec<usize> = order
        .windows(2)
        .map(|pair| shared(samples[pair[0]], samples[pair[1]]))
        .map(|length| if length < SHORTEST { 0 } else { length })
        .collect();
    // For each number of leading samples: the largest number of rows that families save, and the last family's first member
    // and prefix.
    let mut best = vec![(0usize, 0usize, 0usize)];
    for end in 1..=order.len() {
        let alone = (best[end - 1].0, end - 1, 0);
        let mut choice = alone;
        let mut prefix = usize::MAX;
        for start in (end.saturating_sub(LARGEST)..end - 1).rev() {
            prefix = prefix.min(shared[start]);
            if prefix == 0 {
                break;
            }
            let saved = best[start].0 + (end - start - 1) * prefix;
            if saved > choice.0 {
                choice = (saved, start, prefix);
            }
        }
        best.push(choice);
    }
    let mut families = Vec::new();
    let mut end = order.len();
    while end > 0 {
        let (_, start, prefix) = best[end];
        families.push(Family { members: order[start..end].to_vec(), prefix });
        end = start;
    }
    families.reverse();
    families
}

fn shared(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(samples: &[&[u32]], expected: &[(&[usize], usize)]) {
        let expected: Vec<Family> =
            expected.iter().map(|&(members, prefix)| Family { members: members.to_vec(), prefix }).collect();
        assert_eq!(families(samples), expected);
    }

    /// `length` tokens of one prompt, then one token of a reply.
    fn sample(prompt: u32, length: usize, reply: u32) -> Vec<u32> {
        let mut ids = vec![7, 7, 7, 7, 7, 7, 7, 7, 7];
        ids.resize(length, prompt);
        ids.push(reply);
        ids
    }

    #[test]
    fn members_of_a_group_are_a_family() {
        let samples =
            [sample(1, 20, 3), sample(2, 30, 5), sample(1, 20, 4), sample(2, 30, 4), sample(3, 9, 1)];
        let samples: Vec<&[u32]> = samples.iter().map(Vec::as_slice).collect();
        check(&samples, &[(&[4], 0), (&[0, 2], 20), (&[3, 1], 30)]);
    }

    #[test]
    fn a_little_in_common_is_nothing() {
        check(&[&[1, 2, 3, 4], &[1, 2, 3, 5]], &[(&[0], 0), (&[1], 0)]);
        check(&[], &[]);
    }

    #[test]
    fn equal_samples_share_everything() {
        let tokens = [4u32; 12];
        check(&[&tokens, &tokens], &[(&[0, 1], 12)]);
    }

    proptest! {
        /// I1, and every sample is in one family.
        #[test]
        fn a_family_begins_with_the_same_tokens(
            samples in proptest::collection::vec((0u32..3, 8usize..14, 0u32..3), 0..40)
        ) {
            let samples: Vec<Vec<u32>> =
                samples.into_iter().map(|(prompt, length, reply)| sample(prompt, length, reply)).collect();
            let samples: Vec<&[u32]> = samples.iter().map(Vec::as_slice).collect();
            let families = families(&samples);
            let mut seen: Vec<usize> = families.iter().flat_map(|family| family.members.clone()).collect();
            seen.sort_unstable();
            prop_assert_eq!(seen, (0..samples.len()).collect::<Vec<_>>());
            for family in families {
                for &member in &family.members {
                    prop_assert_eq!(
                        &samples[member][..family.prefix],
                        &samples[family.members[0]][..family.prefix]
                    );
                }
            }
        }
    }
}
