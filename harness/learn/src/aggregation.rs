//! Aggregates the terms of tokens to the loss of one optimizer step: the weight of each token, known in advance.
//!
//! I1. Weights depend on masks and lengths only, so they are known before the first micro-batch, and splitting a step
//! into micro-batches changes nothing. I2. A token that is not trained weighs 0. I3. The weights of a step sum to 1
//! for [`Aggregation::TokenMean`] and [`Aggregation::EpisodeMean`], over all ranks. I4. Nothing is averaged per turn
//! or per segment: an episode of several segments counts once.
//!
//! A step is a whole minibatch, on all ranks: [`StepTotals`] of each rank are added before weights are made. All
//! segments of an episode belong to the same step and rank, as [`crate::split_minibatches`] keeps them.
//!
//! Shapes: one row per sample, ragged in T. Pure; nothing to cancel.
//! Source: token mean: DAPO, arXiv 2503.14476, equation 8; episode mean: GRPO, 2402.03300, equation 3; constant:
//! Dr.GRPO, 2503.20783, appendix. Deviations: none.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use crate::TrainSample;

/// The units over which the loss is averaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Aggregation {
    /// Sum over tokens / number of trained tokens: each token counts the same.
    #[default]
    TokenMean,
    /// Mean over episodes of the mean over their tokens: each episode counts the same.
    EpisodeMean,
    /// Sum over tokens / (episodes times `max_tokens`): free of the length bias of both means.
    Constant {
        /// L_max: the number of trained tokens an episode can have.
        max_tokens: NonZeroU32,
    },
}

/// Counts of the data of one optimizer step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StepTotals {
    /// Trained tokens.
    pub tokens: u64,
    /// Episodes with at least one trained token.
    pub episodes: u64,
}

impl StepTotals {
    /// Counts the samples of one rank.
    #[must_use]
    pub fn of(samples: &[&TrainSample]) -> Self {
        let by_episode = trained_by_episode(samples);
        Self { tokens: by_episode.values().sum(), episodes: by_episode.len() as u64 }
    }
}

impl std::ops::Add for StepTotals {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { tokens: self.tokens + other.tokens, episodes: self.episodes + other.episodes }
    }
}

/// The weight of each token of each sample, in the loss of a step with these totals.
#[must_use]
pub fn token_weights(
    aggregation: Aggregation,
    totals: StepTotals,
    samples: &[&TrainSample],
) -> Vec<Vec<f64>> {
    let by_episode = trained_by_episode(samples);
    let weight_in = |episode: u32| {
        let denominator = match aggregation {
            Aggregation::TokenMean => totals.tokens as f64,
            Aggregation::EpisodeMean => {
                let tokens = by_episode.get(&episode).copied().unwrap_or_default();
                totals.episodes as f64 * tokens as f64
            }
            Aggregation::Constant { max_tokens } => totals.episodes as f64 * f64::from(max_tokens.get()),
        };
        1.0 / denominator
    };
    let rows = samples.iter().map(|sample| {
        let weight = weight_in(sample.episode);
        sample.segment.mask.iter().map(|&trained| if trained { weight } else { 0.0 }).collect()
    });
    rows.collect()
}

/// Trained tokens of each episode that has any.
fn trained_by_episode(samples: &[&TrainSample]) -> BTreeMap<u32, u64> {
    let mut by_episode = BTreeMap::new();
    for sample in samples {
        let trained = sample.segment.trained() as u64;
        if trained > 0 {
            *by_episode.entry(sample.episode).or_default() += trained;
        }
    }
    by_episode
}

#[cfg(test)]
mod tests {
    use clawrl_core::{AttemptId, SlotId};
    use proptest::prelude::*;

    use super::*;
    use crate::Segment;

    /// A sample that trains the marked tokens.
    fn sample(episode: u32, mask: &[bool]) -> TrainSample {
        let mut segment = Segment::default();
        segment.push_context(&vec![0; mask.len()]);
        segment.mask = mask.to_vec();
        let attempt = AttemptId { slot: SlotId(episode), number: 0 };
        TrainSample {
            attempt,
            segment,
            advantages: vec![0.0; mask.len()],
            episode,
            teacher: Vec::new(),
            candidates: Vec::new(),
        }
    }

    fn check(aggregation: Aggregation, expected: &[&[f64]]) {
        // Episode 0 has two segments with 3 trained tokens, episode 1 has one, episode 2 has none.
        let samples = [
            sample(0, &[false, true, true]),
            sample(1, &[false, true]),
            sample(0, &[false, false, true]),
            sample(2, &[false, false]),
        ];
        let samples: Vec<&TrainSample> = samples.iter().collect();
        let weights = token_weights(aggregation, StepTotals::of(&samples), &samples);
        for (row, expected) in weights.iter().zip(expected) {
            let close = row.iter().zip(*expected).all(|(got, expected)| (got - expected).abs() < 1e-12);
            assert!(row.len() == expected.len() && close, "{aggregation:?}: {row:?} is not {expected:?}");
        }
        assert_eq!(weights.len(), expected.len());
    }

    #[test]
    fn by_hand() {
        let (t, e, s) = (0.25, 0.5, 1.0 / 6.0);
        check(Aggregation::TokenMean, &[&[0.0, t, t], &[0.0, t], &[0.0, 0.0, t], &[0.0, 0.0]]);
        check(Aggregation::EpisodeMean, &[&[0.0, s, s], &[0.0, e], &[0.0, 0.0, s], &[0.0, 0.0]]);
        let c = 1.0 / 20.0;
        let constant = Aggregation::Constant { max_tokens: NonZeroU32::new(10).unwrap() };
        check(constant, &[&[0.0, c, c], &[0.0, c], &[0.0, 0.0, c], &[0.0, 0.0]]);
    }

    proptest! {
        #[test]
        fn i3_means_sum_to_one_over_two_ranks(
            masks in prop::collection::vec((0u32..6, prop::collection::vec(any::<bool>(), 1..9)), 1..12),
        ) {
            let samples: Vec<TrainSample> = masks.iter().map(|(episode, mask)| sample(*episode, mask)).collect();
            let (left, right): (Vec<&TrainSample>, Vec<&TrainSample>) =
                samples.iter().partition(|sample| sample.episode % 2 == 0);
            let totals = StepTotals::of(&left) + StepTotals::of(&right);
            prop_assume!(totals.tokens > 0);
            for aggregation in [Aggregation::TokenMean, Aggregation::EpisodeMean] {
                let rows = [token_weights(aggregation, totals, &left), token_weights(aggregation, totals, &right)];
                let sum: f64 = rows.iter().flatten().flatten().sum();
                prop_assert!((sum - 1.0).abs() < 1e-9, "{aggregation:?}: {sum}");
            }
        }
    }
}
