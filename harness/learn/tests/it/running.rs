//! Baselines that run along through a stream.

use std::num::NonZeroU32;

use clawrl_core::{AttemptId, GroupId, SlotId, SlotSpec, TaskIndex};
use clawrl_learn::{
    AdvantageKind, Baselines, Discard, GroupStream, MemberResult, Replies, Schedule, Segment, StreamConfig,
    StreamSnapshot,
};

const KINDS: [u32; 3] = [0, 1, 1];

/// Rewards of the members of each group; nothing for a fault.
const REWARDS: [[Option<f64>; 2]; 6] = [
    [Some(1.0), Some(1.0)],
    [Some(0.0), None],
    [Some(1.0), Some(0.0)],
    [Some(0.0), Some(0.0)],
    [Some(1.0), Some(0.5)],
    [None, None],
];

fn config() -> StreamConfig {
    StreamConfig {
        advantage: AdvantageKind::Running,
        process_weight: 0.0,
        outcome_counts: true,
        length: None,
        schedule: Schedule::Synchronous,
        curriculum: None,
        batch_groups: NonZeroU32::new(2).unwrap(),
        resample_budget: NonZeroU32::MIN,
        updates: 3,
        seed: 0,
    }
}

fn slots() -> Vec<SlotSpec> {
    let slot = |id: u32| SlotSpec {
        id: SlotId(id),
        task: TaskIndex(id / 2 % 3),
        suite: 0,
        group: GroupId(id / 2),
        member: id % 2,
        env_seed: 0,
        policy_seed: 0,
    };
    (0..12).map(slot).collect()
}

/// Goes on from a snapshot for so many updates, of which these versions are rejected; the advantages of their episodes, and the counts of discards.
fn learn(from: StreamSnapshot, updates: u64, rejected: &[u64]) -> (Vec<Vec<f32>>, u64, StreamSnapshot) {
    let mut stream = GroupStream::new(config(), &slots(), &KINDS, from).unwrap();
    let (mut advantages, mut too_few) = (Vec::new(), 0);
    for _ in 0..updates {
        let consumed: Vec<GroupId> = stream.snapshot().consumed.iter().collect();
        for group in (0..stream.demand()).filter(|group| !consumed.contains(&GroupId(*group))) {
            for member in 0..2 {
                let mut segment = Segment::default();
                segment.push_context(&[1]);
                segment.push_sampled(0, 2, -1.0, stream.snapshot().accepted(), 1.0);
                let result = match REWARDS[group as usize][member as usize] {
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
                stream.resolved(AttemptId { slot: SlotId(group * 2 + member), number: 0 }, result).unwrap();
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

#[test]
fn a_baseline_is_that_of_the_batches_before_and_of_its_kind() {
    let (advantages, too_few, snapshot) = learn(StreamSnapshot::at(0), 3, &[]);
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
    let (whole, _, end) = learn(StreamSnapshot::at(0), 3, &[]);
    let (first, _, halfway) = learn(StreamSnapshot::at(0), 1, &[]);
    let kept = serde_json::to_string(&halfway).unwrap();
    let (rest, _, resumed) = learn(serde_json::from_str(&kept).unwrap(), 2, &[]);
    assert_eq!([first, rest].concat(), whole);
    assert_eq!(resumed, end);
}

/// What a rejected version earned may be what was wrong with it.
#[test]
fn what_a_rejected_batch_earned_is_forgotten() {
    let (whole, _, _) = learn(StreamSnapshot::at(0), 3, &[]);
    let (advantages, _, snapshot) = learn(StreamSnapshot::at(0), 3, &[1]);
    assert_eq!(advantages[0], whole[0]);
    // As if nothing had been known before the second batch.
    assert_eq!(advantages[1], [1.0, 0.0, 0.0, 0.0]);
    let mut known = Baselines::default();
    let earned = [(1, 1.0), (1, 0.0), (0, 0.0), (0, 0.0), (1, 1.0), (1, 0.5)];
    earned.iter().for_each(|&(kind, reward)| known.add(kind, reward));
    assert_eq!(snapshot.baselines, known);
}
