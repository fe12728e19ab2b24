//! Turns of conversations as a batch.
//!
//! I1. A turn's advantage is its reward less what its user's turns earned in earlier updates: rewards of one batch are in no baseline
//! of that batch. I2. A reward of 0 says nothing, and is none: such a turn has a place in the batch only where a teacher has something to
//! say of it, and enters no baseline. What was not judged has no reward, which is not 0. I3. What a limit cut is not learned from by its
//! outcome: where it would have ended is not known. I4. Each turn of what is given is either in the batch or left out for a reason.
//!
//! Units: reward units. Shapes: an advantage for each token of a segment, T. Pure; nothing to cancel.
//! Source: the binary and combined objectives of OpenClaw-RL, arXiv 2603.10165. Deviation: it has no baseline.

use clawrl_core::{AttemptId, GroupId, SlotId};

use crate::{
    Baselines, Lineage, Objective, Segment, TeacherView, TokenAges, TrainBatch, TrainSample, mask_stale,
};

/// A turn that may be learned from.
#[derive(Debug, Clone, PartialEq)]
pub struct Lesson {
    /// Names it in the manifest of a checkpoint.
    pub sample: u32,
    /// Whose it is, among those whose baselines are told apart.
    pub user: u32,
    /// What it is worth, where somebody said so.
    pub reward: Option<f64>,
    /// Whether its answer was cut by a limit.
    pub is_cut: bool,
    /// The prompt as fed, and the answer as sampled.
    pub segment: Segment,
    /// What a teacher reads about it; empty without one.
    pub views: Vec<TeacherView>,
}

/// How turns become a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LessonRules {
    /// Whether rewards count, and not a teacher's words alone.
    pub outcome_counts: bool,
    /// Tokens that are older are not trained, in versions.
    pub max_staleness: u64,
    /// Seed of the split into minibatches.
    pub seed: u64,
}

/// Why a turn is not in a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LeftOut {
    /// Its reward is no number.
    #[error("its reward is no number")]
    Unsound,
    /// Nobody said anything of it that can be learned from.
    #[error("its reward is 0 or it has none, and no teacher has a hint")]
    Neutral,
    /// It was cut by a limit, and no teacher has a hint.
    #[error("its answer was cut by a limit")]
    Cut,
    /// All its tokens are too old.
    #[error("all its tokens are too old")]
    Stale,
}

/// A batch of turns.
#[derive(Debug, Clone, PartialEq)]
pub struct LessonBatch {
    /// What an update consumes.
    pub batch: TrainBatch,
    /// Turns that are not in it.
    pub left_out: Vec<(u32, LeftOut)>,
    /// Of the tokens that are.
    pub ages: TokenAges,
    /// Rewards that count, by user: for the baselines of later updates.
    pub rewards: Vec<(u32, f64)>,
    /// Turns that a teacher is asked about.
    pub taught: u32,
}

/// The batch of these turns, in their order.
#[must_use]
pub fn lessons(
    all: Vec<Lesson>,
    baselines: &Baselines,
    lineage: &Lineage,
    rules: LessonRules,
) -> LessonBatch {
    let mut made = LessonBatch {
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
    for lesson in all {
        let Lesson { sample, user, reward, is_cut, mut segment, views } = lesson;
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

    const RULES: LessonRules = LessonRules { outcome_counts: true, max_staleness: 4, seed: 7 };

    fn segment(version: u64) -> Segment {
        let mut segment = Segment::default();
        segment.push_context(&[1, 2]);
        for id in [10, 11] {
            segment.push_sampled(0, id, -0.5, version, 0.7);
        }
        segment
    }

    fn lesson(sample: u32, reward: Option<f64>) -> Lesson {
        Lesson { sample, user: 0, reward, is_cut: false, segment: segment(5), views: Vec::new() }
    }

    fn hinted(lesson: Lesson) -> Lesson {
        let places = vec![ViewPlace { view: 4, segment: 2 }, ViewPlace { view: 5, segment: 3 }];
        let view = TeacherView { ids: vec![1, 2, 3, 4, 10, 11], places, said: None };
        Lesson { views: vec![view], ..lesson }
    }

    /// What is in the batch, with its advantage, and what is left out.
    fn check(
        all: Vec<Lesson>,
        baselines: &Baselines,
        rules: LessonRules,
        expected: &[(u32, f32)],
        left_out: &[(u32, LeftOut)],
    ) -> LessonBatch {
        let made = lessons(all, baselines, &Lineage::at(6, 6), rules);
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
        let all = vec![lesson(1, Some(1.0)), lesson(2, Some(-1.0)), lesson(3, Some(1.0))];
        let made = check(all.clone(), &Baselines::default(), RULES, &[(1, 1.0), (2, -1.0), (3, 1.0)], &[]);
        assert_eq!(made.rewards, [(0, 1.0), (0, -1.0), (0, 1.0)]);
        let mut baselines = Baselines::default();
        for _ in 0..2 {
            baselines.add(0, 1.0);
        }
        let baseline = baselines.of(0) as f32;
        assert!(baseline > 0.1);
        let expected = [(1, 1.0 - baseline), (2, -1.0 - baseline), (3, 1.0 - baseline)];
        let made = lessons(all, &baselines, &Lineage::at(6, 6), RULES);
        for (sample, (_, advantage)) in made.batch.samples.iter().zip(expected) {
            assert!((sample.advantages[0] - advantage).abs() < 1e-6);
        }
        // Somebody else's turns say nothing about mine.
        let other = Lesson { user: 1, ..lesson(4, Some(1.0)) };
        check(vec![other], &baselines, RULES, &[(4, 1.0)], &[]);
    }

    #[test]
    fn what_says_nothing_has_no_place_unless_a_teacher_speaks() {
        let all = vec![
            lesson(1, None),
            lesson(2, Some(0.0)),
            hinted(lesson(3, None)),
            hinted(lesson(4, Some(0.0))),
        ];
        let left_out = [(1, LeftOut::Neutral), (2, LeftOut::Neutral)];
        let made = check(all, &Baselines::default(), RULES, &[(3, 0.0), (4, 0.0)], &left_out);
        assert_eq!((made.taught, made.rewards.len()), (2, 0));
        let teacher_alone = LessonRules { outcome_counts: false, ..RULES };
        let all = vec![lesson(1, Some(1.0)), hinted(lesson(2, Some(1.0)))];
        let made = check(all, &Baselines::default(), teacher_alone, &[(2, 0.0)], &[(1, LeftOut::Neutral)]);
        assert!(made.rewards.is_empty());
    }

    #[test]
    fn what_was_cut_teaches_by_its_hint_alone() {
        let cut = |lesson: Lesson| Lesson { is_cut: true, ..lesson };
        let all = vec![cut(lesson(1, Some(-1.0))), cut(hinted(lesson(2, Some(-1.0))))];
        let made = check(all, &Baselines::default(), RULES, &[(2, 0.0)], &[(1, LeftOut::Cut)]);
        assert!(made.rewards.is_empty());
    }

    #[test]
    fn what_is_too_old_or_no_number_is_left_out() {
        let old = Lesson { segment: segment(1), ..lesson(1, Some(1.0)) };
        let all = vec![old, lesson(2, Some(f64::NAN)), lesson(3, Some(f64::INFINITY)), lesson(4, Some(1.0))];
        let left_out = [(1, LeftOut::Stale), (2, LeftOut::Unsound), (3, LeftOut::Unsound)];
        let made = check(all, &Baselines::default(), RULES, &[(4, 1.0)], &left_out);
        assert_eq!((made.ages.trained, made.ages.masked, made.ages.max), (2, 2, 1));
    }

    proptest! {
        /// I4.
        #[test]
        fn each_turn_is_somewhere(rewards in prop::collection::vec(
            prop::option::of(prop_oneof![Just(0.0), Just(1.0), Just(-1.0), Just(f64::NAN)]), 0..20), hints in any::<u32>()) {
            let all: Vec<Lesson> = rewards.iter().enumerate().map(|(at, reward)| {
                let lesson = lesson(at as u32, *reward);
                if hints >> at & 1 == 1 { hinted(lesson) } else { lesson }
            }).collect();
            let made = lessons(all, &Baselines::default(), &Lineage::at(6, 6), RULES);
            let mut seen: Vec<u32> = made.batch.samples.iter().map(|sample| sample.attempt.slot.0).collect();
            seen.extend(made.left_out.iter().map(|(sample, _)| *sample));
            seen.sort_unstable();
            prop_assert_eq!(seen, (0..rewards.len() as u32).collect::<Vec<_>>());
        }
    }
}
