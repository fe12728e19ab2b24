//! Builds the batch of one update from settled groups.
//!
//! I1. The advantage of a token is that of its turn; it is computed over the valid members of the group, before
//! tokens are masked for their age. I2. Episode numbers are unique in the batch, so that the segments of an episode stay
//! together. I3. A running baseline contains the earlier batches only; all valid rewards of the batch, including those of
//! discarded groups, enter the baseline of the next batch.

use clawrl_core::derive_seed;

use super::assembly::{Settled, Verdict};
use super::figures::{Discard, StreamCounts};
use crate::{Baselines, Lineage, Objective, TrainBatch, TrainSample, mask_stale};

/// The number of the batch, and the maximum age of its tokens.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BatchPlace<'a> {
    pub(crate) seed: u64,
    pub(crate) update: u32,
    pub(crate) lineage: &'a Lineage,
    pub(crate) max_staleness: u64,
}

/// `baselines`: the running baselines, if the kind of advantage uses them.
pub(crate) fn train_batch(
    groups: Vec<Settled>,
    place: BatchPlace<'_>,
    mut baselines: Option<&mut Baselines>,
) -> (TrainBatch, StreamCounts) {
    let before = baselines.as_deref().cloned().unwrap_or_default();
    let mut counts = StreamCounts::default();
    let mut batch = TrainBatch {
        objective: Objective::PolicyGradient,
        samples: Vec::new(),
        groups: groups.iter().map(|settled| settled.group.id).collect(),
        seed: derive_seed(place.seed, "batch", &[u64::from(place.update)]),
    };
    let mut episodes = 0;
    for mut settled in groups {
        settled.expire(place.lineage, place.max_staleness);
        counts.episodes += settled.group.episodes.len() as u64;
        counts.passed += u64::from(settled.passed);
        counts.reward += settled.group.episodes.iter().map(|episode| episode.reward).sum::<f64>();
        if let Some(baselines) = baselines.as_deref_mut() {
            settled.group.episodes.iter().for_each(|episode| baselines.add(settled.kind, episode.reward));
        }
        // Advantages relative to their group have no running baseline.
        let baseline = before.of(settled.kind);
        counts.faulted += u64::from(settled.group.faulted);
        counts.unsound += u64::from(settled.unsound);
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
        counts.taught += settled.group.episodes.iter().filter(|episode| episode.is_taught()).count() as u64;
        for (episode, advantage) in settled.group.episodes.into_iter().zip(advantages) {
            let mut views = episode.views.into_iter();
            for mut segment in episode.segments {
                counts.tokens += mask_stale(&mut segment, place.lineage, place.max_staleness);
                let of_token = |(&trained, &turn): (&bool, &u32)| {
                    if trained { (advantage.of_turn(turn) - baseline) as f32 } else { 0.0 }
                };
                let advantages = segment.mask.iter().zip(&segment.turns).map(of_token).collect();
                let attempt = episode.attempt;
                batch.samples.push(TrainSample {
                    attempt,
                    segment,
                    advantages,
                    episode: episodes,
                    teacher: views.next().unwrap_or_default(),
                    candidates: Vec::new(),
                });
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

#[cfg(test)]
mod tests {
    use clawrl_core::{AttemptId, GroupId, SlotId};

    use super::*;
    use crate::stream::assembly::MemberResult;
    use crate::stream::weighing::Weighing;
    use crate::{AdvantageKind, Replies, Segment, TokenAges};

    /// Two members, of which the first has two segments; each segment has one token of each version.
    fn settled(versions: &[u64]) -> Settled {
        let mut segment = Segment::default();
        segment.push_context(&[1]);
        versions.iter().for_each(|&version| segment.push_sampled(0, 2, -1.0, version, 1.0));
        let member = |slot: u32, reward: f64, segments: usize| {
            let segments = vec![segment.clone(); segments];
            let attempt = AttemptId { slot: SlotId(slot), number: 0 };
            let views = vec![Vec::new(); segments.len()];
            let (process, passed, replies) = (Vec::new(), reward > 0.0, Replies::default());
            (attempt, MemberResult::Finished { reward, process, passed, replies, segments, views })
        };
        let weighing =
            Weighing { kind: AdvantageKind::DrGrpo, process: 0.0, outcome_counts: true, length: None };
        Settled::new(weighing, (0, 0), GroupId(0), vec![member(0, 1.0, 2), member(1, 0.0, 1)])
    }

    fn check(versions: &[u64], expected: &[(u32, &[f32])], ages: TokenAges) {
        let lineage = Lineage::at(5, 5);
        let place = BatchPlace { seed: 0, update: 0, lineage: &lineage, max_staleness: 1 };
        let (batch, counts) = train_batch(vec![settled(versions)], place, None);
        let samples: Vec<(u32, &[f32])> =
            batch.samples.iter().map(|sample| (sample.episode, sample.advantages.as_slice())).collect();
        assert_eq!(samples, expected, "{versions:?}");
        assert_eq!(counts.tokens, ages, "{versions:?}");
        assert_eq!((counts.informative, counts.stale), if ages.trained > 0 { (1, 0) } else { (0, 1) });
        // The rewards count either way.
        assert_eq!((counts.reward_mean(), counts.success_rate()), (Some(0.5), Some(0.5)));
        assert_eq!(batch.groups, [GroupId(0)]);
    }

    #[test]
    fn tokens_within_the_bound_carry_their_episodes_advantage() {
        let (good, bad) = ([0.0, 0.0, 0.5, 0.5], [0.0, 0.0, -0.5, -0.5]);
        let ages = TokenAges { trained: 6, masked: 3, sum: 3, max: 1 };
        check(&[3, 4, 5], &[(0, &good), (0, &good), (1, &bad)], ages);
    }

    /// An invalid reward is counted, and is excluded from every mean.
    #[test]
    fn unsound_rewards_are_counted_and_nothing_else() {
        let attempt = AttemptId { slot: SlotId(0), number: 0 };
        let finished = |reward: f64| MemberResult::Finished {
            reward,
            process: Vec::new(),
            passed: true,
            replies: Replies::default(),
            segments: Vec::new(),
            views: Vec::new(),
        };
        let members = [finished(1.0), MemberResult::Unsound, finished(f64::NAN), finished(f64::INFINITY)];
        let weighing =
            Weighing { kind: AdvantageKind::DrGrpo, process: 0.0, outcome_counts: true, length: None };
        let settled =
            Settled::new(weighing, (0, 0), GroupId(0), members.map(|member| (attempt, member)).into());
        let lineage = Lineage::at(5, 5);
        let place = BatchPlace { seed: 0, update: 0, lineage: &lineage, max_staleness: 1 };
        let mut baselines = Baselines::default();
        let (batch, counts) = train_batch(vec![settled], place, Some(&mut baselines));
        assert!(batch.samples.is_empty());
        assert_eq!((counts.unsound, counts.episodes, counts.too_few), (3, 1, 1));
        let mut known = Baselines::default();
        known.add(0, 1.0);
        assert_eq!((counts.reward_mean(), &baselines), (Some(1.0), &known));
    }

    #[test]
    fn a_group_without_a_young_token_is_discarded() {
        check(&[2, 3], &[], TokenAges { masked: 6, ..TokenAges::default() });
    }
}
