//! Splits a batch into minibatches, one optimizer step each, and those into micro-batches, one pass through the
//! model each.
//!
//! I1. Every sample with a trained token is in exactly one minibatch; a sample without one has no gradient and is left
//! out. I2. All segments of an episode are in the same minibatch. I3. The heaviest and the lightest minibatch differ
//! by no more than the heaviest episode. I4. The split is a function of samples and seed. I5. A micro-batch holds at
//! most its budget of tokens, or one sample alone. I6. Samples of equal length are neighbours, so that attention
//! can take them as one rectangle.
//!
//! Units: tokens. Pure; nothing to cancel.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use clawrl_core::SplitMix64;
use serde::{Deserialize, Serialize};

use crate::TrainSample;

/// The quantity that is balanced between minibatches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Balance {
    /// Trained tokens.
    #[default]
    Tokens,
    /// Episodes.
    Episodes,
}

/// Positions of the samples of each minibatch, ascending. Fewer minibatches than asked for when there are fewer
/// episodes; none when nothing is trained.
#[must_use]
pub fn split_minibatches(
    samples: &[TrainSample],
    minibatches: NonZeroU32,
    balance: Balance,
    seed: u64,
) -> Vec<Vec<usize>> {
    let mut parts = vec![Part::default(); minibatches.get() as usize];
    let mut episodes = trained_episodes(samples);
    shuffle(&mut episodes, seed);
    for episode in episodes {
        let weight = match balance {
            Balance::Tokens => episode.tokens,
            Balance::Episodes => 1,
        };
        // The first of the lightest, so that ties depend only on the shuffle.
        if let Some(lightest) = parts.iter_mut().min_by_key(|part| part.weight) {
            lightest.weight += weight;
            lightest.samples.extend(episode.samples);
        }
    }
    parts.iter_mut().for_each(|part| part.samples.sort_unstable());
    parts.into_iter().map(|part| part.samples).filter(|samples| !samples.is_empty()).collect()
}

/// The chosen samples in micro-batches of at most `budget` tokens, the longest first.
#[must_use]
pub fn micro_batches(samples: &[TrainSample], chosen: &[usize], budget: NonZeroU32) -> Vec<Vec<usize>> {
    let len = |sample: usize| samples[sample].segment.len();
    let mut order = chosen.to_vec();
    // The longest first: a segment that does not fit into memory fails at the first pass, not at the last.
    order.sort_unstable_by_key(|&sample| (std::cmp::Reverse(len(sample)), sample));
    let mut batches: Vec<Vec<usize>> = Vec::new();
    let mut room = 0;
    for sample in order {
        match batches.last_mut() {
            Some(batch) if len(sample) <= room => {
                batch.push(sample);
                room -= len(sample);
            }
            _ => {
                batches.push(vec![sample]);
                room = (budget.get() as usize).saturating_sub(len(sample));
            }
        }
    }
    batches
}

#[derive(Debug, Clone, Default)]
struct Part {
    weight: u64,
    samples: Vec<usize>,
}

#[derive(Debug, Default)]
struct TrainedEpisode {
    tokens: u64,
    samples: Vec<usize>,
}

/// Episodes with trained tokens, in order of their index.
fn trained_episodes(samples: &[TrainSample]) -> Vec<TrainedEpisode> {
    let mut episodes: BTreeMap<u32, TrainedEpisode> = BTreeMap::new();
    for (position, sample) in samples.iter().enumerate() {
        let trained = sample.segment.trained() as u64;
        if trained > 0 {
            let episode = episodes.entry(sample.episode).or_default();
            episode.tokens += trained;
            episode.samples.push(position);
        }
    }
    episodes.into_values().collect()
}

/// Fisher-Yates.
fn shuffle<T>(items: &mut [T], seed: u64) {
    let mut stream = SplitMix64::new(seed);
    for last in (1..items.len()).rev() {
        items.swap(last, stream.below(last as u64 + 1) as usize);
    }
}

#[cfg(test)]
mod tests {
    use clawrl_core::{AttemptId, SlotId};
    use proptest::prelude::*;

    use super::*;
    use crate::Segment;

    /// A sample of an episode, with so many tokens of context and of reply.
    fn sample((episode, context, reply): (u32, usize, usize)) -> TrainSample {
        let mut segment = Segment::default();
        segment.push_context(&vec![0; context + 1]);
        (0..reply).for_each(|_| segment.push_sampled(0, 1, -1.0, 0, 1.0));
        let attempt = AttemptId { slot: SlotId(episode), number: 0 };
        TrainSample {
            attempt,
            advantages: vec![0.0; segment.len()],
            segment,
            episode,
            teacher: Vec::new(),
            candidates: Vec::new(),
        }
    }

    fn shapes() -> impl Strategy<Value = Vec<TrainSample>> {
        prop::collection::vec((0u32..12, 0usize..20, 0usize..20), 0..24)
            .prop_map(|shapes| shapes.into_iter().map(sample).collect())
    }

    fn check(samples: &[(u32, usize, usize)], minibatches: u32, expected: &[&[usize]]) {
        let samples: Vec<TrainSample> = samples.iter().copied().map(sample).collect();
        let count = NonZeroU32::new(minibatches).unwrap();
        assert_eq!(split_minibatches(&samples, count, Balance::Tokens, 7), expected);
    }

    #[test]
    fn small_batches() {
        check(&[], 2, &[]);
        check(&[(0, 3, 0)], 2, &[]);
        check(&[(0, 3, 2)], 2, &[&[0]]);
        check(&[(0, 3, 2), (1, 3, 0), (0, 9, 1)], 2, &[&[0, 2]]);
        check(&[(4, 3, 2), (1, 3, 2), (2, 1, 1)], 1, &[&[0, 1, 2]]);
    }

    #[test]
    fn i6_equal_lengths_are_neighbours() {
        let samples: Vec<TrainSample> =
            [(0, 1, 2), (1, 4, 2), (2, 2, 1), (3, 3, 3), (4, 8, 9)].map(sample).into_iter().collect();
        let batches = micro_batches(&samples, &[0, 1, 2, 3, 4], NonZeroU32::new(15).unwrap());
        assert_eq!(batches, [vec![4], vec![1, 3], vec![0, 2]]);
        assert_eq!(micro_batches(&samples, &[2, 0], NonZeroU32::MIN), [[0], [2]]);
    }

    proptest! {
        #[test]
        fn i1_to_i4_every_trained_sample_once_and_balanced(
            samples in shapes(),
            count in 1u32..6,
            by_tokens: bool,
            seed: u64,
        ) {
            let balance = if by_tokens { Balance::Tokens } else { Balance::Episodes };
            let count = NonZeroU32::new(count).unwrap();
            let parts = split_minibatches(&samples, count, balance, seed);
            prop_assert_eq!(&parts, &split_minibatches(&samples, count, balance, seed));

            let mut all: Vec<usize> = parts.concat();
            all.sort_unstable();
            let trained: Vec<usize> = (0..samples.len()).filter(|&at| samples[at].segment.trained() > 0).collect();
            prop_assert_eq!(all, trained);

            let mut home = BTreeMap::new();
            let mut tokens: BTreeMap<u32, u64> = BTreeMap::new();
            for (part, &sample) in parts.iter().enumerate().flat_map(|(part, all)| all.iter().map(move |at| (part, at))) {
                let episode = samples[sample].episode;
                prop_assert_eq!(*home.entry(episode).or_insert(part), part);
                *tokens.entry(episode).or_default() += samples[sample].segment.trained() as u64;
            }
            if parts.len() == count.get() as usize {
                let weight = |episode: &u32| if by_tokens { tokens[episode] } else { 1 };
                let sums: Vec<u64> = (0..parts.len())
                    .map(|part| home.iter().filter(|(_, at)| **at == part).map(|(episode, _)| weight(episode)).sum())
                    .collect();
                let heaviest = home.keys().map(weight).max().unwrap_or_default();
                let spread = sums.iter().max().unwrap() - sums.iter().min().unwrap();
                prop_assert!(spread <= heaviest, "{sums:?}");
            }
        }

        #[test]
        fn i5_budgets_hold(samples in shapes(), budget in 1u32..80) {
            let chosen: Vec<usize> = (0..samples.len()).collect();
            let batches = micro_batches(&samples, &chosen, NonZeroU32::new(budget).unwrap());
            let mut all = batches.concat();
            let lengths: Vec<usize> = all.iter().map(|&at| samples[at].segment.len()).collect();
            prop_assert!(lengths.is_sorted_by(|left, right| left >= right));
            all.sort_unstable();
            prop_assert_eq!(all, chosen);
            for batch in batches {
                let tokens: usize = batch.iter().map(|&at| samples[at].segment.len()).sum();
                prop_assert!(batch.len() == 1 || tokens <= budget as usize);
            }
        }
    }
}
