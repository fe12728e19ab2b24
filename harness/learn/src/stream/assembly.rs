//! Collects members into groups, and admits or discards the groups.
//!
//! I1. A group is settled when its last member resolves, for every order of arrival; its episodes are in order of
//! slot. I2. A faulted member, or one whose reward is not finite or out of range, is not a member: it enters no baseline. I3. A group
//! with a cancelled member is not used: the caller that cancelled it decides whether it is dispatched again. I4. A group whose members
//! have equal returns is trained on if process rewards are in use and differ between its steps. I5. So is a group that a
//! teacher scores; without outcomes, only such a group. I6. All members of a group get the same rule for long replies: the one
//! in force when the group is settled.

use std::collections::BTreeMap;

use clawrl_core::{AttemptId, GroupId};

use super::figures::Discard;
use super::roster::Place;
use super::weighing::{EpisodeAdvantage, Weighing};
use crate::{Admission, Episode, Group, Lineage, Replies, Segment, TeacherView, admit};

/// The end of a slot's final attempt, as the learner uses it.
#[derive(Debug, Clone, PartialEq)]
pub enum MemberResult {
    /// It ran and was graded.
    Finished {
        /// Return of the episode.
        reward: f64,
        /// Process reward of each turn that got one.
        process: Vec<Option<f64>>,
        /// Whether every check passed. Used for statistics only.
        passed: bool,
        /// The replies of the policy in the episode.
        replies: Replies,
        /// The segments that can be trained on, in order.
        segments: Vec<Segment>,
        /// The views of the teacher on each segment; empty without a teacher. See [`crate::teacher_views`].
        views: Vec<Vec<TeacherView>>,
    },
    /// It ran, and got an invalid reward.
    Unsound,
    /// It faulted, and is not retried.
    Faulted,
    /// It was cancelled by ClawRL.
    Cancelled,
}

/// Groups some of whose members have resolved, by position.
#[derive(Debug, Default)]
pub(crate) struct Assembly {
    groups: BTreeMap<u32, Vec<Option<(AttemptId, MemberResult)>>>,
}

/// The slot was resolved before.
pub(crate) struct ResolvedTwice;

impl Assembly {
    /// Adds one member of a group of `members`. Returns the settled group after the last member.
    pub(crate) fn add(
        &mut self,
        place: Place,
        members: u32,
        attempt: AttemptId,
        result: MemberResult,
    ) -> Result<Option<Vec<(AttemptId, MemberResult)>>, ResolvedTwice> {
        let group = self.groups.entry(place.position).or_insert_with(|| vec![None; members as usize]);
        let cell = &mut group[place.member as usize];
        if cell.is_some() {
            return Err(ResolvedTwice);
        }
        *cell = Some((attempt, result));
        if group.iter().any(Option::is_none) {
            return Ok(None);
        }
        let group = self.groups.remove(&place.position).unwrap_or_default();
        Ok(Some(group.into_iter().flatten().collect()))
    }
}

/// A group all of whose members have resolved.
#[derive(Debug)]
pub(crate) struct Settled {
    pub(crate) position: u32,
    /// The kind of its task: each kind has its own baseline.
    pub(crate) kind: u32,
    pub(crate) group: Group,
    /// Members that passed.
    pub(crate) passed: u32,
    /// Members with an invalid reward.
    pub(crate) unsound: u32,
    /// Lengths of its episodes.
    pub(crate) replies: Replies,
    pub(crate) verdict: Verdict,
    /// The latest version among its trained tokens.
    newest: u64,
}

/// The use of a settled group.
#[derive(Debug, PartialEq)]
pub(crate) enum Verdict {
    /// Trained on, with the advantage of each episode.
    Informative(Vec<EpisodeAdvantage>),
    Discarded(Discard),
}

impl Settled {
    pub(crate) fn new(
        weighing: Weighing,
        (position, kind): (u32, u32),
        id: GroupId,
        members: Vec<(AttemptId, MemberResult)>,
    ) -> Self {
        let mut group = Group { id, episodes: Vec::with_capacity(members.len()), faulted: 0 };
        let (mut passes, mut unsound, mut cancelled) = (0, 0, false);
        let mut said = Replies::default();
        for (attempt, result) in members {
            match result {
                MemberResult::Finished { mut reward, process, passed, replies, segments, views }
                    if reward.is_finite() && process.iter().flatten().all(|reward| reward.is_finite()) =>
                {
                    passes += u32::from(passed);
                    said += replies;
                    if let Some(punishment) = weighing.length {
                        reward += punishment.of(replies);
                    }
                    group.episodes.push(Episode { attempt, reward, process, segments, views });
                }
                MemberResult::Finished { .. } | MemberResult::Unsound => unsound += 1,
                MemberResult::Faulted => group.faulted += 1,
                MemberResult::Cancelled => cancelled = true,
            }
        }
        if !weighing.outcome_counts {
            // They have no gradient, but would count as trained tokens.
            for episode in &mut group.episodes {
                if episode.is_taught() {
                    keep_taught(episode);
                } else {
                    episode.segments.clear();
                    episode.views.clear();
                }
            }
        }
        let newest = newest_trained(&group);
        let verdict = if cancelled {
            Verdict::Discarded(Discard::Cancelled)
        } else {
            verdict(weighing, &group, passes, newest.is_some())
        };
        Self {
            position,
            kind,
            group,
            passed: passes,
            unsound,
            replies: said,
            verdict,
            newest: newest.unwrap_or_default(),
        }
    }

    pub(crate) fn is_informative(&self) -> bool {
        matches!(self.verdict, Verdict::Informative(_))
    }

    /// Discards an informative group none of whose tokens is young enough.
    pub(crate) fn expire(&mut self, lineage: &Lineage, max_staleness: u64) {
        if self.is_informative() && lineage.age(self.newest) > max_staleness {
            self.verdict = Verdict::Discarded(Discard::Stale);
        }
    }
}

/// Masks the tokens that no teacher scores.
fn keep_taught(episode: &mut Episode) {
    for (segment, views) in episode.segments.iter_mut().zip(&episode.views) {
        let mut spoken_of = vec![false; segment.len()];
        views.iter().flat_map(|view| &view.places).for_each(|place| spoken_of[place.segment] = true);
        segment.mask.iter_mut().zip(spoken_of).for_each(|(trained, spoken_of)| *trained &= spoken_of);
    }
}

fn verdict(weighing: Weighing, group: &Group, passed: u32, trainable: bool) -> Verdict {
    let rewards: Vec<f64> = group.episodes.iter().map(|episode| episode.reward).collect();
    let admission = admit(weighing.kind, &rewards);
    let outcome = match &admission {
        Ok(Admission::Informative(advantages)) => Some(advantages.clone()),
        Ok(Admission::Constant) => Some(vec![0.0; rewards.len()]),
        Ok(Admission::TooFew) | Err(_) => None,
    };
    let advantages = outcome.map(|outcome| weighing.advantages(outcome, &group.episodes));
    let tells_apart = matches!(admission, Ok(Admission::Informative(_)))
        || advantages.iter().flatten().any(EpisodeAdvantage::tells_steps_apart);
    let is_taught = group.episodes.iter().any(Episode::is_taught);
    let is_informative = is_taught || (tells_apart && weighing.outcome_counts);
    if is_informative && trainable {
        // A teacher can score a group of one member, which has no advantage by its outcome.
        let silent = || vec![EpisodeAdvantage::default(); group.episodes.len()];
        return Verdict::Informative(advantages.unwrap_or_else(silent));
    }
    Verdict::Discarded(match admission {
        _ if is_informative => Discard::Untrainable,
        _ if tells_apart => Discard::Untaught,
        Ok(Admission::Constant) if passed == 0 => Discard::ConstantFailed,
        Ok(Admission::Constant) if passed as usize == group.episodes.len() => Discard::ConstantPassed,
        Ok(Admission::Constant) => Discard::ConstantMixed,
        // Members have finite rewards, so this cannot be an error.
        _ => Discard::TooFew,
    })
}

/// The latest version among trained tokens; `None` without trained tokens.
fn newest_trained(group: &Group) -> Option<u64> {
    let segments = group.episodes.iter().flat_map(|episode| &episode.segments);
    let tokens = segments.flat_map(|segment| segment.mask.iter().zip(&segment.versions));
    tokens.filter(|(trained, _)| **trained).map(|(_, version)| *version).max()
}

#[cfg(test)]
mod tests {
    use clawrl_core::SlotId;

    use super::*;
    use crate::AdvantageKind;

    fn weighing(process: f64) -> Weighing {
        Weighing { kind: AdvantageKind::DrGrpo, process, outcome_counts: true, length: None }
    }

    fn finished(reward: f64, passed: bool) -> MemberResult {
        let mut segment = Segment::default();
        segment.push_context(&[1]);
        segment.push_sampled(0, 2, -1.0, 3, 1.0);
        MemberResult::Finished {
            reward,
            process: Vec::new(),
            passed,
            replies: Replies::default(),
            segments: vec![segment],
            views: Vec::new(),
        }
    }

    fn informative(outcomes: &[f64]) -> Verdict {
        let advantage = |&outcome: &f64| EpisodeAdvantage { outcome, steps: Vec::new() };
        Verdict::Informative(outcomes.iter().map(advantage).collect())
    }

    fn check(members: &[MemberResult], expected: Verdict) {
        let members = members.iter().enumerate().map(|(slot, result)| {
            let attempt = AttemptId { slot: SlotId(slot as u32), number: 0 };
            (attempt, result.clone())
        });
        let settled = Settled::new(weighing(1.0), (0, 0), GroupId(0), members.collect());
        assert_eq!(settled.verdict, expected);
    }

    #[test]
    fn verdicts() {
        use MemberResult::{Cancelled, Faulted};
        let (pass, fail) = (finished(1.0, true), finished(0.0, false));
        let discarded = Verdict::Discarded;
        check(&[pass.clone(), fail.clone()], informative(&[0.5, -0.5]));
        check(&[pass.clone(), pass.clone(), Faulted], discarded(Discard::ConstantPassed));
        check(&[fail.clone(), fail.clone()], discarded(Discard::ConstantFailed));
        check(&[finished(1.0, true), finished(1.0, false)], discarded(Discard::ConstantMixed));
        check(&[pass.clone(), Faulted, finished(f64::NAN, false)], discarded(Discard::TooFew));
        check(&[Faulted, Faulted], discarded(Discard::TooFew));
        check(&[pass.clone(), fail.clone(), Cancelled], discarded(Discard::Cancelled));
        let silent = |reward| MemberResult::Finished {
            reward,
            process: Vec::new(),
            passed: false,
            replies: Replies::default(),
            segments: Vec::new(),
            views: Vec::new(),
        };
        check(&[silent(1.0), silent(0.0)], discarded(Discard::Untrainable));
    }

    #[test]
    fn i2_a_fault_changes_no_baseline() {
        let (pass, fail) = (finished(1.0, true), finished(0.0, false));
        let expected = || informative(&[0.5, -0.5]);
        check(&[MemberResult::Faulted, pass.clone(), fail.clone()], expected());
        check(
            &[pass.clone(), finished(f64::INFINITY, true), fail.clone(), MemberResult::Faulted],
            expected(),
        );
        check(&[pass, MemberResult::Unsound, fail], expected());
    }

    #[test]
    fn i4_steps_that_differ_are_worth_an_update() {
        let member = |process: Option<f64>| match finished(1.0, true) {
            MemberResult::Finished { reward, passed, replies, segments, views, .. } => {
                let process = vec![process];
                MemberResult::Finished { reward, process, passed, replies, segments, views }
            }
            other => other,
        };
        let settled = |weight: f64, rewards: [Option<f64>; 3]| {
            let attempt = AttemptId { slot: SlotId(0), number: 0 };
            let members = rewards.map(|reward| (attempt, member(reward)));
            Settled::new(weighing(weight), (0, 0), GroupId(0), members.into()).verdict
        };
        let discarded = Verdict::Discarded(Discard::ConstantPassed);
        let apart = [Some(1.0), Some(0.0), Some(-1.0)];
        assert!(matches!(settled(0.5, apart), Verdict::Informative(found) if found[0].of_turn(0) > 0.0));
        assert_eq!(settled(0.0, apart), discarded);
        assert_eq!(settled(0.5, [Some(1.0), None, Some(0.0)]), discarded);
        assert_eq!(settled(0.5, [Some(1.0); 3]), discarded);
        assert_eq!(settled(0.5, [Some(f64::NAN), Some(0.0), None]), discarded);
    }

    #[test]
    fn i5_what_a_teacher_speaks_of_is_worth_an_update() {
        let taught = |reward| match finished(reward, true) {
            MemberResult::Finished { reward, process, passed, replies, segments, .. } => {
                let place = crate::ViewPlace { view: 2, segment: 1 };
                let views = vec![vec![TeacherView { ids: vec![1, 7, 2], places: vec![place], said: None }]];
                MemberResult::Finished { reward, process, passed, replies, segments, views }
            }
            other => other,
        };
        let settled = |outcome_counts: bool, members: Vec<MemberResult>| {
            let attempt = AttemptId { slot: SlotId(0), number: 0 };
            let members = members.into_iter().map(|member| (attempt, member)).collect();
            Settled::new(Weighing { outcome_counts, ..weighing(0.0) }, (0, 0), GroupId(0), members)
        };
        // A member without a hint is left out only if outcomes do not count.
        let segments = |outcome_counts| -> Vec<usize> {
            let settled = settled(outcome_counts, vec![taught(1.0), finished(0.0, false)]);
            settled.group.episodes.iter().map(|episode| episode.segments.len()).collect()
        };
        assert_eq!((segments(true), segments(false)), (vec![1, 1], vec![1, 0]));
        // In that case, tokens of a turn without a hint do not count either.
        let longer = || match taught(1.0) {
            MemberResult::Finished { reward, process, passed, replies, mut segments, views } => {
                segments[0].push_sampled(1, 9, -1.0, 3, 1.0);
                MemberResult::Finished { reward, process, passed, replies, segments, views }
            }
            other => other,
        };
        let trained =
            |outcome_counts| settled(outcome_counts, vec![longer()]).group.episodes[0].segments[0].trained();
        assert_eq!((trained(true), trained(false)), (2, 1));
        let verdict = |outcome_counts, members| settled(outcome_counts, members).verdict;
        let (plain, discarded) = (finished(1.0, true), Verdict::Discarded);
        assert_eq!(verdict(true, vec![taught(1.0), plain.clone()]), informative(&[0.0, 0.0]));
        assert_eq!(verdict(true, vec![taught(1.0), finished(0.0, false)]), informative(&[0.5, -0.5]));
        assert_eq!(verdict(true, vec![taught(1.0), MemberResult::Faulted]), informative(&[0.0]));
        assert_eq!(verdict(false, vec![taught(1.0), plain.clone()]), informative(&[0.0, 0.0]));
        assert_eq!(verdict(false, vec![plain.clone(), finished(0.0, false)]), discarded(Discard::Untaught));
        assert_eq!(verdict(false, vec![plain.clone(), plain.clone()]), discarded(Discard::ConstantPassed));
        assert_eq!(verdict(true, vec![plain, MemberResult::Faulted]), discarded(Discard::TooFew));
    }

    #[test]
    fn i6_members_that_say_more_earn_less() {
        let cost = crate::LengthCost { coefficient: 0.5, target: 1.0 };
        let mut control = crate::LengthControl::default();
        let said = |tokens: u64| Replies { count: 2, tokens };
        [20, 40].iter().for_each(|&tokens| control.after(cost, said(tokens)));
        let member = |tokens: u64| match finished(1.0, true) {
            MemberResult::Finished { reward, process, passed, segments, views, .. } => {
                MemberResult::Finished { reward, process, passed, replies: said(tokens), segments, views }
            }
            other => other,
        };
        let weighing = Weighing { length: control.punishment(cost), ..weighing(0.0) };
        let attempt = AttemptId { slot: SlotId(0), number: 0 };
        let members = [20, 30, 40].map(|tokens| (attempt, member(tokens)));
        let settled = Settled::new(weighing, (0, 0), GroupId(0), members.into());
        let rewards: Vec<f64> = settled.group.episodes.iter().map(|episode| episode.reward).collect();
        let near = rewards
            .iter()
            .zip([1.0, 0.975, 0.95])
            .all(|(reward, expected)| (reward - expected).abs() < 1e-12);
        assert!(near && settled.is_informative(), "{rewards:?}");
        assert_eq!((settled.passed, settled.replies), (3, Replies { count: 6, tokens: 90 }));
    }

    #[test]
    fn a_group_expires_by_its_newest_token() {
        let members =
            [1.0, 0.0].map(|reward| (AttemptId { slot: SlotId(0), number: 0 }, finished(reward, true)));
        let mut settled = Settled::new(weighing(0.0), (0, 0), GroupId(0), members.into());
        settled.expire(&Lineage::at(5, 5), 2);
        assert!(settled.is_informative());
        settled.expire(&Lineage::at(6, 5), 2);
        assert!(settled.is_informative(), "nobody acted by version 6");
        settled.expire(&Lineage::at(6, 6), 2);
        assert_eq!(settled.verdict, Verdict::Discarded(Discard::Stale));
    }
}
