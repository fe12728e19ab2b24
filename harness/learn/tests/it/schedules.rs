//! Properties of whole runs, for every order of arrival.

use std::collections::{BTreeMap, BTreeSet};

use clawrl_core::{GroupId, SlotId};
use clawrl_learn::{Admission, Schedule, StreamCounts, StreamEnd, admit};
use proptest::prelude::*;

use crate::world::{Order, Run, World, worlds};

fn schedules() -> impl Strategy<Value = Schedule> {
    prop_oneof![Just(Schedule::Synchronous), Just(Schedule::OneStepOff), asynchronous()]
}

fn asynchronous() -> impl Strategy<Value = Schedule> {
    (0u64..5).prop_map(|max_staleness| Schedule::Asynchronous { max_staleness })
}

/// Groups whose valid members differ in reward, by what the world says.
fn informative(world: &World, groups: impl IntoIterator<Item = GroupId>) -> u64 {
    let is_informative = |group: &GroupId| {
        matches!(admit(world.config.advantage, &world.rewards(*group)), Ok(Admission::Informative(_)))
    };
    groups.into_iter().filter(is_informative).count() as u64
}

fn total(run: &Run) -> StreamCounts {
    let mut total = StreamCounts::default();
    run.batches.iter().for_each(|formed| total += formed.stats.counts);
    total
}

/// I1: no group is used twice, and none that settled is lost.
fn check_every_group_once(world: &World, run: &Run) -> Result<(), TestCaseError> {
    let used: Vec<GroupId> = run.batches.iter().flat_map(|formed| formed.batch.groups.clone()).collect();
    let distinct: BTreeSet<GroupId> = used.iter().copied().collect();
    prop_assert_eq!(used.len(), distinct.len());
    let total = total(run);
    prop_assert_eq!(total.groups(), used.len() as u64);
    let settled = informative(world, run.settled.iter().copied());
    prop_assert_eq!(total.informative + total.stale + run.waiting as u64, settled);
    for (number, formed) in run.batches.iter().enumerate() {
        let counts = formed.stats.counts;
        let full = u64::from(world.config.batch_groups.get());
        let budget = full * u64::from(world.config.resample_budget.get());
        prop_assert!(counts.informative <= full && counts.groups() <= budget && counts.groups() > 0);
        // Only the last one can be short: the plan had no more.
        let is_last = number + 1 == run.batches.len();
        prop_assert!(is_last || counts.informative == full || counts.groups() == budget, "{counts:?}");
        let rewards: Vec<f64> = formed.batch.groups.iter().flat_map(|&group| world.rewards(group)).collect();
        prop_assert_eq!(counts.episodes, rewards.len() as u64);
        prop_assert_eq!(counts.reward, rewards.iter().sum::<f64>());
        prop_assert_eq!(counts.faulted, counts.groups() * u64::from(world.members) - counts.episodes);
    }
    Ok(())
}

/// I2: advantages are those of the members that did not fault.
fn check_baselines(world: &World, run: &Run) -> Result<(), TestCaseError> {
    for sample in run.batches.iter().flat_map(|formed| &formed.batch.samples) {
        let slot = sample.attempt.slot;
        let group = GroupId(slot.0 / world.members);
        let Ok(Admission::Informative(advantages)) = admit(world.config.advantage, &world.rewards(group))
        else {
            return Err(TestCaseError::fail("trained a group that teaches nothing"));
        };
        let before = (group.0 * world.members..slot.0).filter(|&other| world.reward(SlotId(other)).is_some());
        let expected = advantages[before.count()] as f32;
        for (advantage, trained) in sample.advantages.iter().zip(&sample.segment.mask) {
            prop_assert_eq!(*advantage, if *trained { expected } else { 0.0 });
        }
    }
    Ok(())
}

/// I4: trained tokens are not older than the bound, and the figures give their age.
fn check_staleness(world: &World, run: &Run) -> Result<(), TestCaseError> {
    for formed in &run.batches {
        let segments = formed.batch.samples.iter().map(|sample| &sample.segment);
        let tokens = segments.flat_map(|segment| segment.mask.iter().zip(&segment.versions));
        let ages: Vec<u64> = tokens
            .filter(|(trained, _)| **trained)
            .map(|(_, version)| world.age(formed.stats.version, *version))
            .collect();
        let figures = formed.stats.counts.tokens;
        prop_assert_eq!((figures.trained, figures.sum), (ages.len() as u64, ages.iter().sum::<u64>()));
        prop_assert_eq!(figures.max, ages.iter().copied().max().unwrap_or_default());
        prop_assert!(figures.max <= world.config.schedule.max_staleness());
    }
    Ok(())
}

/// I7: no token is of a version that was rejected.
fn check_rejected_never_act(world: &World, run: &Run) -> Result<(), TestCaseError> {
    let samples = run.batches.iter().flat_map(|formed| &formed.batch.samples);
    prop_assert!(
        !samples.flat_map(|sample| &sample.segment.versions).any(|&version| world.is_rejected(version))
    );
    Ok(())
}

/// I5: it comes to an end, and to the right one.
fn check_end(world: &World, run: &Run) -> Result<(), TestCaseError> {
    match run.end {
        Some(StreamEnd::Updates) => prop_assert_eq!(run.batches.len(), world.config.updates as usize),
        Some(StreamEnd::PlanExhausted) => {
            prop_assert_eq!(total(run).groups(), u64::from(world.groups));
            prop_assert!(run.batches.len() < world.config.updates as usize);
        }
        other => return Err(TestCaseError::fail(format!("ended with {other:?}"))),
    }
    prop_assert_eq!(run.snapshot.updates as usize, run.batches.len());
    let rejected = run.batches.iter().zip(1u64..).filter(|(_, version)| world.is_rejected(*version));
    let rejected: u64 = rejected.map(|(formed, _)| formed.batch.groups.len() as u64).sum();
    prop_assert_eq!(run.snapshot.counts, StreamCounts { rejected, ..total(run) });
    prop_assert_eq!(run.snapshot.consumed.len() as u64, total(run).groups());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn i1_i2_i4_i5_i7_hold_in_any_order(world in worlds(schedules()), order: u64) {
        let run = world.run(Order::Any(order));
        check_every_group_once(&world, &run)?;
        check_baselines(&world, &run)?;
        check_staleness(&world, &run)?;
        check_end(&world, &run)?;
        check_rejected_never_act(&world, &run)?;
    }

    #[test]
    fn i3_synchronous_batches_ignore_the_order(world in worlds(Just(Schedule::Synchronous)), one: u64, other: u64) {
        let run = world.run(Order::Any(one));
        prop_assert_eq!(&run.batches, &world.run(Order::Any(other)).batches);
        let tokens = total(&run).tokens;
        prop_assert_eq!((tokens.max, tokens.masked), (0, 0));
        let used: Vec<GroupId> = run.batches.iter().flat_map(|formed| &formed.batch.groups).copied().collect();
        let planned = (0..used.len() as u32).map(GroupId);
        if world.config.curriculum.is_none() {
            // The batches cut the plan into consecutive stretches.
            prop_assert!(used.iter().copied().eq(planned));
        } else {
            // Suites take turns, independent of the families that are chosen.
            prop_assert!(used.iter().map(|&group| world.suite(group)).eq(planned.map(|group| world.suite(group))));
        }
    }

    #[test]
    fn one_step_off_is_one_step_off(world in worlds(Just(Schedule::OneStepOff)), order: u64) {
        let run = world.run(Order::Any(order));
        prop_assert_eq!(total(&run).tokens.masked, 0);
        for (number, formed) in run.batches.iter().enumerate() {
            let tokens = formed.stats.counts.tokens;
            let expected = u64::from(number > 0 && !world.is_rejected(number as u64));
            prop_assert_eq!(tokens.sum, tokens.trained * expected, "batch {}", number);
        }
    }

    #[test]
    fn in_the_normal_course_nothing_is_too_old(world in worlds(asynchronous()), pace: u64) {
        let run = world.run(Order::InOrder(pace));
        let total = total(&run);
        prop_assert_eq!((total.tokens.masked, total.stale), (0, 0));
        check_end(&world, &run)?;
    }

    #[test]
    fn i2_a_fault_changes_no_other_groups_baseline(world in worlds(schedules()), orders: [u64; 2]) {
        let whole = World { fault_percent: 0, ..world.clone() };
        let advantages = |run: &Run| -> BTreeMap<SlotId, f32> {
            let samples = run.batches.iter().flat_map(|formed| &formed.batch.samples);
            let trained = samples.filter(|sample| sample.segment.trained() > 0);
            // Every segment of the world ends with a sampled token, and none is of an earlier version.
            trained.filter_map(|sample| Some((sample.attempt.slot, *sample.advantages.last()?))).collect()
        };
        let with_faults = advantages(&world.run(Order::Any(orders[0])));
        let without = advantages(&whole.run(Order::Any(orders[1])));
        for (slot, advantage) in with_faults {
            let group = GroupId(slot.0 / world.members);
            if world.rewards(group) == whole.rewards(group) && let Some(expected) = without.get(&slot) {
                prop_assert_eq!(advantage, *expected);
            }
        }
    }
}
