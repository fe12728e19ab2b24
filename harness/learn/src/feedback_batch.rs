//! A training batch of conversation turns with feedback.
//!
//! I1. A turn's advantage is its reward minus the baseline of its user, which earlier updates' turns determine: rewards of a batch do not
//! change the baseline of that batch. I2. A reward of 0 carries no signal: such a turn is in the batch only if a teacher has a hint, and it
//! does not enter the baseline. A turn without a judgement has no reward, which is not 0. I3. The outcome of an answer that a limit cut is
//! not trained on: its full text is unknown. I4. Every given turn is either in the batch or left out with a reason.
//!
//! Units: reward units. Shapes: an advantage for each token of a segment, T. Pure; nothing to cancel.
//! Source: the binary and combined objectives of OpenClaw-RL, arXiv 2603.10165. Deviation: the paper has no baseline.

use clawrl_core::{AttemptId, GroupId, SlotId};

use crate::{
    Baselines, Lineage, Objective, Segment, TeacherView, TokenAges, TrainBatch, TrainSample, mask_stale,
};

/// A turn with its feedback.
#[derive(Debug, Clone, PartialEq)]
pub struct FeedbackSample {
    /// Sample id, as in the manifest of a checkpoint.
    pub sample: u32,
    /// User id; each user has a baseline.
    pub user: u32,
    /// Reward, if the turn was judged.
    pub reward: Option<f64>,
    /// Whether a limit cut the answer.
    pub is_cut: bool,
    /// The prompt as fed, and the answer as sampled.
    pub segment: Segment,
    /// The teacher's views with the hint; empty without one.
    pub views: Vec<TeacherView>,
}

/// Settings of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeedbackRules {
    /// Whether rewards are used besides hints.
    pub outcome_counts: bool,
    /// Maximum age of a token, in versions; older tokens are masked.
    pub max_staleness: u64,
    /// Seed of the split into minibatches.
    pub seed: u64,
}

/// The reason why a turn was left out of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LeftOut {
    /// The reward is not finite.
    #[error("its reward is not a finite number")]
    Unsound,
    /// Neither a reward other than 0 nor a hint.
    #[error("its reward is 0 or it has none, and no teacher has a hint")]
    Neutral,
    /// A limit cut the answer, and there is no hint.
    #[error("its answer was cut by a limit")]
    Cut,
    /// All tokens are too old.
    #[error("all its tokens are too old")]
    Stale,
}

/// A batch, and the turns that were left out of it.
#[derive(Debug, Clone, PartialEq)]
pub struct FeedbackBatch {
    /// Input of an update.
    pub batch: TrainBatch,
    /// Turns that are not in the batch.
    pub left_out: Vec<(u32, LeftOut)>,
    /// Ages of the tokens of the batch.
    pub ages: TokenAges,
    /// Rewards by user, for the baselines of later updates.
    pub rewards: Vec<(u32, f64)>,
    /// Turns with a teacher's view.
    pub taught: u32,
}

/// Builds the batch of these turns, in their order.
#[must_use]
pub fn build_samples(
    all: Vec<FeedbackSample>,
    baselines: &Baselines,
    lineage: &Lineage,
    rules: FeedbackRules,
) -> FeedbackBatch {
    let mut made = FeedbackBatch {
        batch: TrainBatch {
            objective: Objective::PolicyGradient,
            samples: Vec::with_capacity(all.len()),
            groups: Vec::with_capacity(all.len()),
            seed: rules.seed,
        },
        left_out: Vec::new(),
        ages: TokenAges::default(),
        rewards: Vec::new(),
        taught: 0,
    };
    for feedback in all {
        let FeedbackSample { sample, user, reward, is_cut, mut segment, views } = feedback;
        if reward.is_some_and(|reward| !reward.is_finite()) {
            made.left_out.push((sample, LeftOut::Unsound));
            continue;
        }
        let said = reward.filter(|reward| rules.outcome_counts && *reward != 0.0);
        let outcome = said.filter(|_| !is_cut);
        if outcome.is_none() && views.is_empty() {
            let why = if said.is_some() { LeftOut::Cut } else { LeftOut::Neutral };
            made.left_out.push((sample, why));
            continue;
        }
        let ages = mask_stale(&mut segment, lineage, rules.max_staleness);
        if ages.trained == 0 {
            made.ages += ages;
            made.left_out.push((sample, LeftOut::Stale));
            continue;
        }
        made.ages += ages;
        made.taught += u32::from(!views.is_empty());
        let advantage = outcome.map_or(0.0, |reward| reward - baselines.of(user));
        made.rewards.extend(outcome.map(|reward| (user, reward)));
        let episode = made.batch.samples.len() as u32;
        made.batch.groups.push(GroupId(sample));
        made.batch.samples.push(TrainSample {
            attempt: AttemptId { slot: SlotId(sample), number: 0 },
            advantages: vec![advantage as f32; segment.len()],
            segment,
            episode,
            teacher: views,
            candidates: Vec::new(),
        });
    }
    made
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ViewPlace;

    const RULES: FeedbackRules = FeedbackRules { outcome_counts: true, max_staleness: 4, seed: 7 };

    fn segment(version: u64) -> Segment {
        let mut segment = Segment::default();
        segment.push_context(&[1, 2]);
        for id in [10, 11] {
            segment.push_sampled(0, id, -0.5, version, 0.7);
        }
        segment
    }

    fn feedback(sample: u32, reward: Option<f64>) -> FeedbackSample {
        FeedbackSample { sample, user: 0, reward, is_cut: false, segment: segment(5), views: Vec::new() }
    }

    fn hinted(feedback: FeedbackSample) -> FeedbackSample {
        let places = vec![ViewPlace { view: 4, segment: 2 }, ViewPlace { view: 5, segment: 3 }];
        let view = TeacherView { ids: vec![1, 2, 3, 4, 10, 11], places, said: None };
        FeedbackSample { views: vec![view], ..feedback }
    }

    /// Checks the turns in the batch, their advantages, and the turns that are left out.
    fn check(
        all: Vec<FeedbackSample>,
        baselines: &Baselines,
        rules: FeedbackRules,
        expected: &[(u32, f32)],
        left_out: &[(u32, LeftOut)],
    ) -> FeedbackBatch {
        let made = build_samples(all, baselines, &Lineage::at(6, 6), rules);
        let samples: Vec<(u32, f32)> = made
            .batch
            .samples
            .iter()
            .map(|sample| {
                assert!(sample.advantages.iter().all(|advantage| *advantage == sample.advantages[0]));
                assert_eq!(sample.advantages.len(), sample.segment.len());
                (sample.attempt.slot.0, sample.advantages[0])
            })
            .collect();
        assert_eq!((samples.as_slice(), made.left_out.as_slice()), (expected, left_out));
        made
    }

    #[test]
    fn advantages_are_against_earlier_updates_alone() {
        let all = vec![feedback(1, Some(1.0)), feedback(2, Some(-1.0)), feedback(3, Some(1.0))];
        let made = check(all.clone(), &Baselines::default(), RULES, &[(1, 1.0), (2, -1.0), (3, 1.0)], &[]);
        assert_eq!(made.rewards, [(0, 1.0), (0, -1.0), (0, 1.0)]);
        let mut baselines = Baselines::default();
        for _ in 0..2 {
            baselines.add(0, 1.0);
        }
        let baseline = baselines.of(0) as f32;
        assert!(baseline > 0.1);
        let expected = [(1, 1.0 - baseline), (2, -1.0 - baseline), (3, 1.0 - baseline)];
        let made = build_samples(all, &baselines, &Lineage::at(6, 6), RULES);
        for (sample, (_, advantage)) in made.batch.samples.iter().zip(expected) {
            assert!((sample.advantages[0] - advantage).abs() < 1e-6);
        }
        // The turns of one user do not affect those of another.
        let other = FeedbackSample { user: 1, ..feedback(4, Some(1.0)) };
        check(vec![other], &baselines, RULES, &[(4, 1.0)], &[]);
    }

    #[test]
    fn what_says_nothing_has_no_place_unless_a_teacher_speaks() {
        let all = vec![
            feedback(1, None),
            feedback(2, Some(0.0)),
            hinted(feedback(3, None)),
            hinted(feedback(4, Some(0.0))),
        ];
        let left_out = [(1, LeftOut::Neutral), (2, LeftOut::Neutral)];
        let made = check(all, &Baselines::default(), RULES, &[(3, 0.0), (4, 0.0)], &left_out);
        assert_eq!((made.taught, made.rewards.len()), (2, 0));
        let teacher_alone = FeedbackRules { outcome_counts: false, ..RULES };
        let all = vec![feedback(1, Some(1.0)), hinted(feedback(2, Some(1.0)))];
        let made = check(all, &Baselines::default(), teacher_alone, &[(2, 0.0)], &[(1, LeftOut::Neutral)]);
        assert!(made.rewards.is_empty());
    }

    #[test]
    fn what_was_cut_teaches_by_its_hint_alone() {
        let cut = |feedback: FeedbackSample| FeedbackSample { is_cut: true, ..feedback };
        let all = vec![cut(feedback(1, Some(-1.0))), cut(hinted(feedback(2, Some(-1.0))))];
        let made = check(all, &Baselines::default(), RULES, &[(2, 0.0)], &[(1, LeftOut::Cut)]);
        assert!(made.rewards.is_empty());
    }

    #[test]
    fn what_is_too_old_or_no_number_is_left_out() {
        let old = FeedbackSample { segment: segment(1), ..feedback(1, Some(1.0)) };
        let all =
            vec![old, feedback(2, Some(f64::NAN)), feedback(3, Some(f64::INFINITY)), feedback(4, Some(1.0))];
        let left_out = [(1, LeftOut::Stale), (2, LeftOut::Unsound), (3, LeftOut::Unsound)];
        let made = check(all, &Baselines::default(), RULES, &[(4, 1.0)], &left_out);
        assert_eq!((made.ages.trained, made.ages.masked, made.ages.max), (2, 2, 1));
    }

    proptest! {
        /// I4.
        #[test]
        fn each_turn_is_somewhere(rewards in prop::collection::vec(
            prop::option::of(prop_oneof![Just(0.0), Just(1.0), Just(-1.0), Just(f64::NAN)]), 0..20), hints in any::<u32>()) {
            let all: Vec<FeedbackSample> = rewards.iter().enumerate().map(|(at, reward)| {
                let feedback = feedback(at as u32, *reward);
                if hints >> at & 1 == 1 { hinted(feedback) } else { feedback }
            }).collect();
            let made = build_samples(all, &Baselines::default(), &Lineage::at(6, 6), RULES);
            let mut seen: Vec<u32> = made.batch.samples.iter().map(|sample| sample.attempt.slot.0).collect();
            seen.extend(made.left_out.iter().map(|(sample, _)| *sample));
            seen.sort_unstable();
            prop_assert_eq!(seen, (0..rewards.len() as u32).collect::<Vec<_>>());
        }
    }
}
