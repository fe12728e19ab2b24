//! Baselines that run along through a stream, and those of a longer one against the numbers of `ci/golden/baseline.py`.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use clawrl_core::{AttemptId, GroupId, SlotId, SlotSpec, TaskIndex};
use clawrl_learn::{
    AdvantageKind, Baselines, Discard, GroupStream, MemberResult, Replies, Schedule, Segment, StreamConfig,
    StreamSnapshot,
};
use serde::Deserialize;

const GOLDEN: &str = include_str!("../golden/baseline.json");

/// The groups to run, in order, and their results.
struct Plan {
    /// The kind of each task.
    kinds: Vec<u32>,
    groups: Vec<PlannedGroup>,
    batch_groups: u32,
}

#[derive(Deserialize)]
struct PlannedGroup {
    task: u32,
    /// Of its members, as many as those of the others; nothing for a fault.
    rewards: Vec<Option<f64>>,
}

/// Three updates of two groups of two.
fn small() -> Plan {
    let group = |(task, rewards): (u32, [Option<f64>; 2])| PlannedGroup { task, rewards: rewards.to_vec() };
    let groups = [
        (0, [Some(1.0), Some(1.0)]),
        (1, [Some(0.0), None]),
        (2, [Some(1.0), Some(0.0)]),
        (0, [Some(0.0), Some(0.0)]),
        (1, [Some(1.0), Some(0.5)]),
        (2, [None, None]),
    ];
    Plan { kinds: vec![0, 1, 1], groups: groups.into_iter().map(group).collect(), batch_groups: 2 }
}

/// Advantages of the episodes of each update, how many groups had too few members, and what is known afterwards.
type Learned = (Vec<Vec<f32>>, u64, StreamSnapshot);

impl Plan {
    fn members(&self) -> u32 {
        self.groups[0].rewards.len() as u32
    }

    fn config(&self) -> StreamConfig {
        StreamConfig {
            advantage: AdvantageKind::Running,
            process_weight: 0.0,
            outcome_counts: true,
            length: None,
            schedule: Schedule::Synchronous,
            curriculum: None,
            batch_groups: NonZeroU32::new(self.batch_groups).unwrap(),
            resample_budget: NonZeroU32::MIN,
            updates: self.groups.len() as u32 / self.batch_groups,
            seed: 0,
        }
    }

    fn slots(&self) -> Vec<SlotSpec> {
        let members = self.members();
        let slot = |id: u32| SlotSpec {
            id: SlotId(id),
            task: TaskIndex(self.groups[(id / members) as usize].task),
            suite: 0,
            group: GroupId(id / members),
            member: id % members,
            env_seed: 0,
            policy_seed: 0,
        };
        (0..self.groups.len() as u32 * members).map(slot).collect()
    }

    /// Resumes from a snapshot for `updates` updates; the versions in `rejected` are rejected.
    fn learn(&self, from: StreamSnapshot, updates: u64, rejected: &[u64]) -> Learned {
        let mut stream = GroupStream::new(self.config(), &self.slots(), &self.kinds, from).unwrap();
        let (mut advantages, mut too_few) = (Vec::new(), 0);
        for _ in 0..updates {
            let consumed: Vec<GroupId> = stream.snapshot().consumed.iter().collect();
            for group in (0..stream.demand()).filter(|group| !consumed.contains(&GroupId(*group))) {
                for (slot, reward) in (group * self.members()..).zip(&self.groups[group as usize].rewards) {
                    let mut segment = Segment::default();
                    segment.push_context(&[1]);
                    segment.push_sampled(0, 2, -1.0, stream.snapshot().accepted(), 1.0);
                    let result = match *reward {
                        Some(reward) => MemberResult::Finished {
                            reward,
                            process: Vec::new(),
                            passed: reward == 1.0,
                            replies: Replies::default(),
                            segments: vec![segment],
                            views: Vec::new(),
                        },
                        None => MemberResult::Faulted,
                    };
                    stream.resolved(AttemptId { slot: SlotId(slot), number: 0 }, result).unwrap();
                }
            }
            let formed = stream.next_batch().unwrap();
            // Of the one token that is trained.
            advantages.push(formed.batch.samples.iter().map(|sample| sample.advantages[1]).collect());
            too_few += formed.stats.counts.discarded(Discard::TooFew);
            let version = stream.snapshot().version + 1;
            if rejected.contains(&version) {
                stream.rejected(version).unwrap();
                continue;
            }
            stream.updated(version).unwrap();
            stream.published(version).unwrap();
        }
        (advantages, too_few, stream.snapshot().clone())
    }
}

#[derive(Deserialize)]
struct GoldenFile {
    kinds: Vec<u32>,
    groups: Vec<PlannedGroup>,
    updates: Vec<GoldenUpdate>,
    /// That of each kind at the end.
    baselines: BTreeMap<u32, f64>,
}

#[derive(Deserialize)]
struct GoldenUpdate {
    rejected: bool,
    /// Of all episodes that did not fault.
    advantages: Vec<f64>,
}

#[test]
fn advantages_of_a_stream_of_several_families_are_those_of_the_definition() {
    let file: GoldenFile = serde_json::from_str(GOLDEN).unwrap();
    let batch_groups = (file.groups.len() / file.updates.len()) as u32;
    let plan = Plan { kinds: file.kinds, groups: file.groups, batch_groups };
    let numbered = (1..).zip(&file.updates);
    let rejected: Vec<u64> =
        numbered.filter(|(_, update)| update.rejected).map(|(version, _)| version).collect();
    assert!(!rejected.is_empty());
    let (got, too_few, snapshot) = plan.learn(StreamSnapshot::at(0), file.updates.len() as u64, &rejected);
    assert!(too_few > 2, "{too_few}");
    for (update, (got, expected)) in got.iter().zip(&file.updates).enumerate() {
        assert_eq!(got.len(), expected.advantages.len(), "update {update}");
        for (got, expected) in got.iter().zip(&expected.advantages) {
            assert!((f64::from(*got) - expected).abs() < 1e-6, "update {update}: {got}, not {expected}");
        }
    }
    for (kind, expected) in file.baselines {
        let got = snapshot.baselines.of(kind);
        assert!((got - expected).abs() < 1e-12, "kind {kind}: {got}, not {expected}");
    }
}

#[test]
fn a_baseline_is_that_of_the_batches_before_and_of_its_kind() {
    let (advantages, too_few, snapshot) = small().learn(StreamSnapshot::at(0), 3, &[]);
    // Nothing is known before the first batch, of which each group has one reward.
    assert_eq!(advantages[0], [1.0, 1.0, 0.0]);
    let mut known = Baselines::default();
    [(0, 1.0), (0, 1.0), (1, 0.0)].iter().for_each(|&(kind, reward)| known.add(kind, reward));
    let (first, second) = (known.of(0), known.of(1));
    assert!(first > 0.1 && second == 0.0);
    assert_eq!(advantages[1], [1.0, 0.0, -first, -first].map(|advantage| advantage as f32));
    [(1, 1.0), (1, 0.0), (0, 0.0), (0, 0.0)].iter().for_each(|&(kind, reward)| known.add(kind, reward));
    assert_eq!(advantages[2], [1.0 - known.of(1), 0.5 - known.of(1)].map(|advantage| advantage as f32));
    // A group that faulted as a whole is the one that teaches nothing.
    assert_eq!(too_few, 1);
    [(1, 1.0), (1, 0.5)].iter().for_each(|&(kind, reward)| known.add(kind, reward));
    assert_eq!(snapshot.baselines, known);
}

#[test]
fn a_stream_that_is_taken_up_knows_what_was_earned() {
    let (whole, _, end) = small().learn(StreamSnapshot::at(0), 3, &[]);
    let (first, _, halfway) = small().learn(StreamSnapshot::at(0), 1, &[]);
    let kept = serde_json::to_string(&halfway).unwrap();
    let (rest, _, resumed) = small().learn(serde_json::from_str(&kept).unwrap(), 2, &[]);
    assert_eq!([first, rest].concat(), whole);
    assert_eq!(resumed, end);
}

/// The rewards of a rejected version may be the reason for its rejection.
#[test]
fn what_a_rejected_batch_earned_is_forgotten() {
    let (whole, _, _) = small().learn(StreamSnapshot::at(0), 3, &[]);
    let (advantages, _, snapshot) = small().learn(StreamSnapshot::at(0), 3, &[1]);
    assert_eq!(advantages[0], whole[0]);
    // As if nothing had been known before the second batch.
    assert_eq!(advantages[1], [1.0, 0.0, 0.0, 0.0]);
    let mut known = Baselines::default();
    let earned = [(1, 1.0), (1, 0.0), (0, 0.0), (0, 0.0), (1, 1.0), (1, 0.5)];
    earned.iter().for_each(|&(kind, reward)| known.add(kind, reward));
    assert_eq!(snapshot.baselines, known);
}
