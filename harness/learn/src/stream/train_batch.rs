//! Settled groups become the batch of one update.
//!
//! I1. Advantages are those of the group's valid members, and were made before any token is masked for its age. I2.
//! Episodes are numbered through the batch, so that those of several segments stay one.

use clawrl_core::derive_seed;

use super::assembly::{Settled, Verdict};
use super::figures::{Discard, StreamCounts};
use crate::{Objective, TrainBatch, TrainSample, mask_stale};

/// Which batch, and how old its tokens may be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BatchPlace {
    pub(crate) seed: u64,
    pub(crate) update: u32,
    pub(crate) version: u64,
    pub(crate) max_staleness: u64,
}

pub(crate) fn train_batch(groups: Vec<Settled>, place: BatchPlace) -> (TrainBatch, StreamCounts) {
    let mut counts = StreamCounts::default();
    let mut batch = TrainBatch {
        objective: Objective::PolicyGradient,
        samples: Vec::new(),
        groups: groups.iter().map(|settled| settled.group.id).collect(),
        seed: derive_seed(place.seed, "batch", &[u64::from(place.update)]),
    };
    let mut episodes = 0;
    for mut settled in groups {
        settled.expire(place.version, place.max_staleness);
        counts.episodes += settled.group.episodes.len() as u64;
        counts.passed += u64::from(settled.passed);
        counts.reward += settled.group.episodes.iter().map(|episode| episode.reward).sum::<f64>();
        counts.faulted += u64::from(settled.group.faulted);
        counts.not_finite += u64::from(settled.not_finite);
        let advantages = match settled.verdict {
            Verdict::Informative(advantages) => advantages,
            Verdict::Discarded(reason) => {
                counts.discard(reason);
                if reason == Discard::Stale {
                    counts.tokens.masked += trained_tokens(&settled.group);
                }
                continue;
            }
        };
        counts.informative += 1;
        for (episode, advantage) in settled.group.episodes.into_iter().zip(advantages) {
            for mut segment in episode.segments {
                counts.tokens += mask_stale(&mut segment, place.version, place.max_staleness);
                let of_token = |&trained: &bool| if trained { advantage as f32 } else { 0.0 };
                let advantages = segment.mask.iter().map(of_token).collect();
                let attempt = episode.attempt;
                batch.samples.push(TrainSample { attempt, segment, advantages, episode: episodes });
            }
            episodes += 1;
        }
    }
    (batch, counts)
}

fn trained_tokens(group: &crate::Group) -> u64 {
    let segments = group.episodes.iter().flat_map(|episode| &episode.segments);
    segments.map(|segment| segment.trained() as u64).sum()
}
