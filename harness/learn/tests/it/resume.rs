//! Runs that are stopped and go on from their snapshot.

use std::num::NonZeroU32;

use clawrl_core::{AttemptId, GroupId, SlotId};
use clawrl_learn::{
    AdvantageKind, CurriculumConfig, FormedBatch, GroupStream, LengthCost, MemberResult, Replies, Schedule,
    Segment, StreamConfig, StreamEnd, StreamError, StreamSnapshot, TeacherView, ViewPlace,
};
use proptest::prelude::*;

use crate::world::{Order, Run, Stop, World, worlds};

/// The batches whose updates were made.
fn updates(run: &Run) -> &[FormedBatch] {
    &run.batches[..run.snapshot.updates as usize]
}

fn stops() -> impl Strategy<Value = Stop> {
    prop_oneof![(0usize..200).prop_map(Stop::Killed), (0usize..200).prop_map(Stop::Cancelled)]
}

fn asynchronous() -> impl Strategy<Value = Schedule> {
    prop_oneof![
        Just(Schedule::OneStepOff),
        (0u64..5).prop_map(|max_staleness| Schedule::Asynchronous { max_staleness })
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn i3_a_stopped_synchronous_run_goes_on_as_if_undisturbed(
        mut world in worlds(Just(Schedule::Synchronous)),
        target in proptest::option::of(1.0..2.0f64),
        stop in stops(),
        orders: [u64; 3],
    ) {
        world.config.length = target.map(|target| LengthCost { coefficient: 0.5, target });
        let undisturbed = world.run(Order::Any(orders[0]));
        let stopped = world.run_from(StreamSnapshot::at(0), Order::Any(orders[1]), stop);
        // The snapshot goes through a checkpoint's text.
        let text = serde_json::to_string(&stopped.snapshot).unwrap();
        let resumed = world.run_from(serde_json::from_str(&text).unwrap(), Order::Any(orders[2]), Stop::Never);
        let all: Vec<FormedBatch> = updates(&stopped).iter().chain(&resumed.batches).cloned().collect();
        prop_assert_eq!(all, undisturbed.batches);
        prop_assert_eq!(resumed.end, undisturbed.end);
        prop_assert_eq!(resumed.snapshot, undisturbed.snapshot);
    }

    #[test]
    fn i1_a_resumed_run_uses_no_group_twice(world in worlds(asynchronous()), stop in stops(), orders: [u64; 2]) {
        let stopped = world.run_from(StreamSnapshot::at(0), Order::Any(orders[0]), stop);
        let resumed = world.run_from(stopped.snapshot.clone(), Order::Any(orders[1]), Stop::Never);
        let batches = updates(&stopped).iter().chain(&resumed.batches);
        let mut used: Vec<GroupId> = batches.flat_map(|formed| formed.batch.groups.clone()).collect();
        used.sort_unstable();
        prop_assert!(used.is_sorted_by(|left, right| left < right), "{used:?}");
        prop_assert!(resumed.snapshot.consumed.iter().eq(used));
        prop_assert!(matches!(resumed.end, Some(StreamEnd::Updates | StreamEnd::PlanExhausted)));
    }
}

/// A world with a curriculum, in which nothing faults and some groups teach nothing.
fn chosen(schedule: Schedule) -> World {
    let (world, _) = small();
    let config = StreamConfig {
        schedule,
        curriculum: Some(CurriculumConfig { least: 0.1, memory: 16 }),
        batch_groups: NonZeroU32::new(3).unwrap(),
        resample_budget: NonZeroU32::new(2).unwrap(),
        updates: 6,
        ..world.config
    };
    World { config, groups: 60, families: 4, constant_percent: 30, ..world }
}

/// Groups that were chosen before a kill are known after it, and are not chosen twice.
#[test]
fn a_stream_that_is_taken_up_goes_on_with_what_was_chosen() {
    for schedule in [Schedule::OneStepOff, Schedule::Asynchronous { max_staleness: 4 }] {
        let world = chosen(schedule);
        let mut seen = 0;
        for events in 0..120 {
            let stopped = world.run_from(StreamSnapshot::at(0), Order::InOrder(7), Stop::Killed(events));
            let snapshot = stopped.snapshot;
            let waiting = &snapshot.chosen;
            seen += waiting.len();
            let resumed = world.run_from(snapshot.clone(), Order::Any(7), Stop::Never);
            let begun = waiting.len().min(resumed.dispatched.len());
            assert_eq!(resumed.dispatched[..begun], waiting[..begun], "after {events}");
            // Turns are taken where they were left.
            let done = snapshot.consumed.len();
            let suites = resumed.dispatched.iter().skip(waiting.len()).map(|&group| world.suite(group));
            let turns = (done as u32 + waiting.len() as u32..).map(|turn| world.suite(GroupId(turn)));
            assert!(suites.zip(turns).all(|(suite, turn)| suite == turn), "after {events}");
        }
        assert!(seen > 0, "{schedule:?}");
    }
}

/// A family that always passes is given up for one that is undecided, except for its floor.
#[test]
fn groups_follow_success() {
    let world = World { constant_percent: 0, groups: 400, families: 2, ..chosen(Schedule::Synchronous) };
    let config = StreamConfig { updates: 40, batch_groups: NonZeroU32::new(4).unwrap(), ..world.config };
    let slots: Vec<_> =
        world.slots().into_iter().map(|slot| clawrl_core::SlotSpec { suite: 0, ..slot }).collect();
    let mut stream = GroupStream::new(config, &slots, &world.kinds(), StreamSnapshot::at(0)).unwrap();
    let mut answered = 0;
    while stream.end().is_none() {
        let order = stream.order().unwrap().to_vec();
        for &group in &order[answered..] {
            for member in 0..2 {
                let passed = group % 2 == 0 || member == 0;
                let mut segment = Segment::default();
                segment.push_context(&[1]);
                segment.push_sampled(0, 2, -1.0, stream.snapshot().version, 1.0);
                let result = MemberResult::Finished {
                    reward: f64::from(u8::from(passed)),
                    process: Vec::new(),
                    passed,
                    replies: Replies::default(),
                    segments: vec![segment],
                    views: vec![Vec::new()],
                };
                stream.resolved(AttemptId { slot: SlotId(group * 2 + member), number: 0 }, result).unwrap();
            }
        }
        answered = order.len();
        if stream.next_batch().is_some() {
            let version = stream.snapshot().version + 1;
            stream.updated(version).unwrap();
            stream.published(version).unwrap();
        }
    }
    assert_eq!(stream.end(), Some(StreamEnd::Updates));
    let order = stream.order().unwrap();
    let easy = order.iter().filter(|&group| group % 2 == 0).count();
    // Some sixteen attempts are remembered: its success comes to 0.95, and its share to a fifth.
    assert!((order.len() / 10..order.len() / 3).contains(&easy), "{easy} of {}", order.len());
    let (least, most) = stream.shares().unwrap();
    assert!(least < 0.6 && most > 1.4 && (least + most - 2.0).abs() < 1e-9, "{least} {most}");
}

/// Two groups of two, one group a batch.
fn small() -> (World, GroupStream) {
    let config = StreamConfig {
        advantage: AdvantageKind::Grpo,
        process_weight: 0.0,
        outcome_counts: true,
        length: None,
        schedule: Schedule::Synchronous,
        curriculum: None,
        batch_groups: NonZeroU32::MIN,
        resample_budget: NonZeroU32::MIN,
        updates: 2,
        seed: 0,
    };
    let world = World {
        config,
        groups: 2,
        members: 2,
        families: 1,
        fault_percent: 0,
        constant_percent: 0,
        rejected_percent: 0,
        seed: 0,
    };
    let stream = GroupStream::new(world.config, &world.slots(), &[], StreamSnapshot::at(5)).unwrap();
    (world, stream)
}

#[test]
fn a_cancelled_member_ends_a_synchronous_run() {
    let (world, mut stream) = small();
    assert_eq!((stream.demand(), stream.in_flight()), (1, 1));
    let attempt = |slot| AttemptId { slot: SlotId(slot), number: 0 };
    stream.resolved(attempt(1), MemberResult::Faulted).unwrap();
    assert_eq!(stream.end(), None);
    stream.resolved(attempt(0), MemberResult::Cancelled).unwrap();
    assert_eq!((stream.end(), stream.demand()), (Some(StreamEnd::Cancelled), 1));
    assert_eq!(stream.next_batch(), None);
    let resumed = GroupStream::new(world.config, &world.slots(), &[], stream.snapshot().clone()).unwrap();
    assert_eq!((resumed.end(), resumed.demand()), (None, 1));
}

#[test]
fn faults_of_the_caller_change_nothing() {
    let (world, mut stream) = small();
    let attempt = |slot| AttemptId { slot: SlotId(slot), number: 0 };
    let mut check = |slot, expected| {
        assert_eq!(stream.resolved(attempt(slot), MemberResult::Faulted), expected);
    };
    check(4, Err(StreamError::UnknownSlot(SlotId(4))));
    check(2, Err(StreamError::NotInFlight(SlotId(2))));
    check(0, Ok(()));
    check(0, Err(StreamError::ResolvedTwice(SlotId(0))));
    let mut segment = Segment::default();
    segment.push_context(&[1]);
    segment.mask[0] = true;
    let finished = |segment: &Segment, views| MemberResult::Finished {
        reward: 1.0,
        process: Vec::new(),
        passed: true,
        replies: Replies::default(),
        segments: vec![segment.clone()],
        views,
    };
    let malformed = finished(&segment, Vec::new());
    assert_eq!(stream.resolved(attempt(1), malformed), Err(StreamError::Malformed(attempt(1))));
    segment.mask[0] = false;
    let place = ViewPlace { view: 1, segment: 0 };
    let foreign =
        TeacherView { ids: vec![segment.ids[0], segment.ids[0] + 1], places: vec![place], said: None };
    for views in [vec![vec![foreign]], vec![Vec::new(), Vec::new()]] {
        let malformed = finished(&segment, views);
        assert_eq!(stream.resolved(attempt(1), malformed), Err(StreamError::Malformed(attempt(1))));
    }
    assert_eq!(stream.updated(6), Err(StreamError::NoBatch(6)));
    assert_eq!(stream.rejected(6), Err(StreamError::NoBatch(6)));
    assert_eq!(stream.published(6), Err(StreamError::Version { got: 6, learner: 5 }));
    stream.resolved(attempt(1), MemberResult::Faulted).unwrap();
    assert!(stream.next_batch().is_some_and(|formed| formed.batch.samples.is_empty()));
    assert_eq!(stream.updated(5), Err(StreamError::Version { got: 5, learner: 5 }));
    assert_eq!(stream.rejected(5), Err(StreamError::Version { got: 5, learner: 5 }));
    stream.updated(6).unwrap();
    assert!(stream.publish_due() && stream.demand() == 1);
    stream.published(6).unwrap();
    assert!(!stream.publish_due() && stream.demand() == 2);

    let mut foreign = StreamSnapshot::at(0);
    foreign.consumed.insert(GroupId(9));
    let error = GroupStream::new(world.config, &world.slots(), &[], foreign).err();
    assert_eq!(error, Some(StreamError::UnknownGroup(GroupId(9))));
}

/// I7: what was sampled before a version was rejected is as young after it, and its number stays used.
#[test]
fn a_rejected_version_uses_up_its_groups_and_never_acts() {
    let (world, mut stream) = small();
    let attempt = |slot| AttemptId { slot: SlotId(slot), number: 0 };
    let fault = |stream: &mut GroupStream, slots: [u32; 2]| {
        slots.iter().for_each(|&slot| stream.resolved(attempt(slot), MemberResult::Faulted).unwrap());
    };
    fault(&mut stream, [0, 1]);
    assert!(stream.next_batch().is_some());
    stream.rejected(6).unwrap();
    let snapshot = stream.snapshot().clone();
    assert_eq!((snapshot.version, snapshot.accepted(), snapshot.updates), (6, 5, 1));
    assert_eq!((snapshot.counts.rejected, snapshot.rejected_in_a_row()), (1, 1));
    assert!(snapshot.consumed.contains(GroupId(0)));
    // Generation continues at once, with the policy that acted before.
    assert!(!stream.publish_due() && stream.demand() == 2);
    assert_eq!(stream.published(6), Err(StreamError::Version { got: 6, learner: 6 }));
    let text = serde_json::to_string(&snapshot).unwrap();
    let mut resumed =
        GroupStream::new(world.config, &world.slots(), &[], serde_json::from_str(&text).unwrap()).unwrap();
    for stream in [&mut stream, &mut resumed] {
        assert!(!stream.publish_due() && stream.demand() == 2);
        fault(stream, [2, 3]);
        assert_eq!(stream.next_batch().map(|formed| formed.stats.version), Some(6));
        stream.updated(7).unwrap();
        assert_eq!((stream.snapshot().accepted(), stream.publish_due()), (7, true));
        stream.published(7).unwrap();
        assert_eq!(stream.end(), Some(StreamEnd::Updates));
    }
    assert_eq!(stream.snapshot(), resumed.snapshot());
    // Progress of before there was a gate is read as it was meant.
    let before: StreamSnapshot = serde_json::from_str(&text.replace(r#""accepted":5,"#, "")).unwrap();
    assert_eq!(before.accepted(), 6);
}
