//! Tests the state against a model: a list of all grants and their results.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::share::{KindIndex, SuiteIndex};

const MAX_RETRIES: u32 = 2;

fn state(slots: u32, permits: u32, max_faults: Option<u32>) -> RunState {
    state_with(None, slots, permits, max_faults)
}

/// The position of a slot's group when groups are released: two slots each.
fn position(slot: SlotId) -> u32 {
    slot.0 / 2
}

fn withheld_state(slots: u32, permits: u32, max_faults: Option<u32>) -> RunState {
    let positions = (0..slots).map(SlotId).map(position).collect();
    state_with(Some(positions), slots, permits, max_faults)
}

fn state_with(positions: Option<Vec<u32>>, slots: u32, permits: u32, max_faults: Option<u32>) -> RunState {
    let open: Vec<SlotId> = (0..slots).map(SlotId).collect();
    RunState::new(StateConfig {
        claims: open.iter().map(|slot| claim(*slot)).collect(),
        share: FairShare::new(&[2, 1], &[None], permits),
        open_slots: &open,
        positions,
        first_numbers: &BTreeMap::from([(SlotId(0), 3)]),
        first_epoch: Epoch(7),
        max_retries: MAX_RETRIES,
        max_faults,
        seed: 1,
    })
}

fn claim(slot: SlotId) -> Claim {
    Claim { suite: SuiteIndex((slot.0 % 2) as usize), kind: KindIndex(0) }
}

const PASSED: Resolution = Resolution::Finished { passed: true };
const SOUND: Resolution = Resolution::Faulted { boundary: Boundary::Env, retry: Retry::Sound };
const NEVER: Resolution = Resolution::Faulted { boundary: Boundary::Provider, retry: Retry::Never };
const OURS: Resolution = Resolution::Faulted { boundary: Boundary::Harness, retry: Retry::Never };

/// Grants one attempt, gives it this result and says whether its slot closed.
fn check(resolution: Resolution, closes_slot: bool, mode: Mode) {
    let mut state = state(1, 1, None);
    let grant = state.grant().unwrap();
    let verdict = state.resolve(grant.attempt.slot, grant.epoch, resolution);
    assert_eq!(verdict, Disposition::Accepted { closes_slot }, "{resolution:?}");
    state.recorded(grant.attempt.slot, grant.epoch, Duration::ZERO);
    assert_eq!(state.is_open(grant.attempt.slot), !closes_slot, "{resolution:?}");
    assert_eq!(state.mode(), mode, "{resolution:?}");
}

#[test]
fn outcomes_that_close_a_slot() {
    check(PASSED, true, Mode::Running);
    check(Resolution::Finished { passed: false }, true, Mode::Running);
    check(NEVER, true, Mode::Running);
    check(SOUND, false, Mode::Running);
    check(Resolution::Cancelled, false, Mode::Running);
    check(OURS, false, Mode::Stopping(StopCause::HarnessFault));
}

#[test]
fn numbers_and_epochs_continue_where_a_resume_starts() {
    let mut state = state(2, 2, None);
    let grants: Vec<Grant> = std::iter::from_fn(|| state.grant()).collect();
    let slots: BTreeMap<SlotId, u32> =
        grants.iter().map(|grant| (grant.attempt.slot, grant.attempt.number)).collect();
    assert_eq!(slots, BTreeMap::from([(SlotId(0), 3), (SlotId(1), 0)]));
    assert_eq!(grants.iter().map(|grant| grant.epoch).collect::<Vec<_>>(), [Epoch(7), Epoch(8)]);
}

#[test]
fn a_late_result_of_an_older_epoch_is_discarded() {
    let mut state = state(1, 1, None);
    let first = state.grant().unwrap();
    let slot = first.attempt.slot;
    state.resolve(slot, first.epoch, SOUND);
    state.recorded(slot, first.epoch, Duration::ZERO);
    state.wake(state.next_wake().unwrap());
    let second = state.grant().unwrap();
    assert_eq!((second.attempt.number, second.epoch), (first.attempt.number + 1, Epoch(8)));
    assert_eq!(state.resolve(slot, first.epoch, PASSED), Disposition::Discarded);
    assert_eq!(state.resolve(slot, second.epoch, PASSED), Disposition::Accepted { closes_slot: true });
    assert_eq!(state.resolve(slot, second.epoch, PASSED), Disposition::Discarded);
    assert_eq!(state.tally().discarded, 2);
}

#[test]
fn too_many_faulted_slots_stop_the_run() {
    let mut state = state(9, 1, Some(2));
    for _ in 0..2 {
        assert_eq!(state.cancel_reason(), None);
        let grant = state.grant().unwrap();
        state.resolve(grant.attempt.slot, grant.epoch, NEVER);
        state.recorded(grant.attempt.slot, grant.epoch, Duration::ZERO);
    }
    assert_eq!(state.cancel_reason(), Some(CancelReason::RunEnded));
    assert!(state.grant().is_none() && state.is_done());
}

#[test]
fn a_due_retry_is_left_open_by_a_drain() {
    let mut state = state(1, 1, None);
    let grant = state.grant().unwrap();
    state.drain();
    state.resolve(grant.attempt.slot, grant.epoch, SOUND);
    state.recorded(grant.attempt.slot, grant.epoch, Duration::ZERO);
    assert!(state.is_done() && state.is_open(grant.attempt.slot) && state.next_wake().is_none());
}

#[test]
fn an_unrecorded_result_closes_nothing() {
    let mut state = state(1, 1, None);
    let grant = state.grant().unwrap();
    state.resolve(grant.attempt.slot, grant.epoch, PASSED);
    state.abandoned(grant.attempt.slot, grant.epoch, StopCause::SinkFailed);
    assert!(state.is_done() && state.is_open(grant.attempt.slot));
    assert_eq!((state.tally().closed, state.tally().passed), (0, 0));
}

/// Slots granted in the end with 4 slots in 2 groups and permits for all, after these demands.
fn check_released(demands: &[u32], expected: &[u32]) {
    let mut state = withheld_state(4, 9, None);
    demands.iter().for_each(|&groups| state.release(&GroupDemand::First(groups)));
    let granted: Vec<u32> = std::iter::from_fn(|| state.grant()).map(|grant| grant.attempt.slot.0).collect();
    assert_eq!(granted, expected, "{demands:?}");
    assert_eq!(state.withheld(), 4 - expected.len());
}

#[test]
fn demand_releases_whole_groups_and_only_rises() {
    check_released(&[], &[]);
    check_released(&[1], &[0, 1]);
    check_released(&[1, 0], &[0, 1]);
    check_released(&[0, 2], &[0, 1, 2, 3]);
    check_released(&[9, 1], &[0, 1, 2, 3]);
}

#[test]
fn demand_releases_each_named_group_once() {
    let check = |orders: &[&[u32]], expected: &[u32]| {
        let mut state = withheld_state(6, 9, None);
        orders.iter().for_each(|&order| state.release(&GroupDemand::These(order.into())));
        let granted: Vec<u32> =
            std::iter::from_fn(|| state.grant()).map(|grant| grant.attempt.slot.0).collect();
        assert_eq!(granted, expected, "{orders:?}");
        assert_eq!(state.withheld(), 6 - expected.len());
    };
    check(&[&[]], &[]);
    check(&[&[2]], &[4, 5]);
    check(&[&[2], &[2, 0]], &[0, 1, 4, 5]);
    // Demand never shrinks, and positions outside the plan or the run are ignored.
    check(&[&[2, 0], &[2], &[2, 0, 9]], &[0, 1, 4, 5]);
}

#[test]
fn i7_run_ends_with_demand_not_while_waiting() {
    let mut state = withheld_state(2, 2, None);
    assert!(state.grant().is_none() && !state.is_done());
    assert_eq!((state.waiting(), state.withheld()), (0, 2));
    state.sate();
    assert!(state.is_done() && state.is_open(SlotId(0)));
    state.release(&GroupDemand::First(1));
    assert!(state.grant().is_none(), "nothing is released after the end");
    assert_eq!(state.mode(), Mode::DemandClosed);
}

#[test]
fn i8_released_slot_retries_without_demand() {
    let mut state = withheld_state(4, 2, None);
    state.release(&GroupDemand::First(1));
    let grant = state.grant().unwrap();
    assert!(state.grant().is_some());
    state.resolve(grant.attempt.slot, grant.epoch, SOUND);
    state.recorded(grant.attempt.slot, grant.epoch, Duration::ZERO);
    state.wake(state.next_wake().unwrap());
    let again = state.grant().unwrap();
    assert_eq!((again.attempt.slot, again.attempt.number), (grant.attempt.slot, grant.attempt.number + 1));
}

#[test]
fn closed_demand_ends_a_run() {
    let check = |end: fn(&mut RunState), mode: Mode| {
        let mut state = withheld_state(2, 2, None);
        state.sate();
        end(&mut state);
        assert_eq!(state.mode(), mode);
    };
    check(|_| {}, Mode::DemandClosed);
    check(RunState::drain, Mode::DemandClosed);
    check(|state| state.stop(StopCause::Interrupted), Mode::Stopping(StopCause::Interrupted));
}

#[derive(Debug, Clone)]
enum Op {
    Grant,
    /// A result for some attempt ever granted: current, closed, or of an older epoch.
    Resolve(prop::sample::Index, Resolution),
    /// The record of some accepted result is kept, or not.
    Record(prop::sample::Index, bool),
    Wait(u16),
    Release(u32),
    Sate,
    Drain,
    Stop,
}

fn op() -> impl Strategy<Value = Op> {
    let resolution = prop_oneof![
        4 => any::<bool>().prop_map(|passed| Resolution::Finished { passed }),
        4 => Just(SOUND),
        2 => Just(NEVER),
        1 => Just(Resolution::Cancelled),
    ];
    prop_oneof![
        40 => Just(Op::Grant),
        40 => (any::<prop::sample::Index>(), resolution).prop_map(|(at, resolution)| Op::Resolve(at, resolution)),
        40 => (any::<prop::sample::Index>(), prop::bool::weighted(0.01)).prop_map(|(at, lost)| Op::Record(at, lost)),
        20 => any::<u16>().prop_map(Op::Wait),
        10 => (0u32..8).prop_map(Op::Release),
        1 => Just(Op::Sate),
        1 => Just(Op::Drain),
        1 => Just(Op::Stop),
    ]
}

/// The model's knowledge of one attempt.
#[derive(Debug)]
struct Attempt {
    grant: Grant,
    accepted: Option<(Resolution, bool)>,
    ended: bool,
}

#[derive(Debug, Default)]
struct Model {
    attempts: Vec<Attempt>,
    discarded: u32,
    /// Groups released so far; `None` when nothing is withheld.
    released: Option<u32>,
    /// No more is granted.
    ended: bool,
}

impl Model {
    fn grant(&mut self, state: &mut RunState, permits: u32) -> Result<bool, TestCaseError> {
        let Some(grant) = state.grant() else { return Ok(false) };
        let slot = grant.attempt.slot;
        let of_slot = || self.attempts.iter().filter(|attempt| attempt.grant.attempt.slot == slot);
        prop_assert!(!self.ended, "no grant after the end");
        prop_assert!(
            self.released.is_none_or(|groups| position(slot) < groups),
            "granted before it was released"
        );
        let live = self.attempts.iter().filter(|attempt| !attempt.ended).count();
        prop_assert!(live < permits as usize);
        prop_assert!(of_slot().all(|attempt| attempt.ended), "one live attempt per slot");
        prop_assert!(
            of_slot().all(|attempt| !matches!(attempt.accepted, Some((_, true)))),
            "closed for good"
        );
        prop_assert!(of_slot().count() <= MAX_RETRIES as usize);
        prop_assert!(of_slot().all(|attempt| attempt.grant.attempt.number < grant.attempt.number));
        prop_assert_eq!(grant.epoch, Epoch(7 + self.attempts.len() as u64));
        self.attempts.push(Attempt { grant, accepted: None, ended: false });
        Ok(true)
    }

    fn resolve(
        &mut self,
        state: &mut RunState,
        at: usize,
        resolution: Resolution,
    ) -> Result<(), TestCaseError> {
        let attempt = &mut self.attempts[at];
        let verdict = state.resolve(attempt.grant.attempt.slot, attempt.grant.epoch, resolution);
        if attempt.accepted.is_some() || attempt.ended {
            prop_assert_eq!(verdict, Disposition::Discarded);
            self.discarded += 1;
            return Ok(());
        }
        let Disposition::Accepted { closes_slot } = verdict else {
            return Err(TestCaseError::fail("the first result of the current epoch counts"));
        };
        attempt.accepted = Some((resolution, closes_slot));
        Ok(())
    }

    fn record(&mut self, state: &mut RunState, at: usize, lost: bool, now: Duration) {
        let attempt = &mut self.attempts[at];
        let (slot, epoch) = (attempt.grant.attempt.slot, attempt.grant.epoch);
        match attempt.accepted {
            Some(_) if attempt.ended => state.recorded(slot, epoch, now),
            Some(_) if lost => {
                attempt.ended = true;
                attempt.accepted = None;
                state.abandoned(slot, epoch, StopCause::SinkFailed);
            }
            Some(_) => {
                attempt.ended = true;
                state.recorded(slot, epoch, now);
            }
            None => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// I1 to I8 under any order of grants, results (late, doubled, stale), records, demands and interrupts.
    #[test]
    fn every_attempt_resolves_exactly_once(
        slots in 1u32..12,
        permits in 1u32..6,
        max_faults in proptest::option::of(1u32..6),
        withheld: bool,
        sated_at_last: bool,
        ops in proptest::collection::vec(op(), 0..250),
    ) {
        let mut state =
            if withheld { withheld_state(slots, permits, max_faults) } else { state(slots, permits, max_faults) };
        let mut model = Model { released: withheld.then_some(0), ..Model::default() };
        let mut now = Duration::ZERO;
        for op in ops {
            match op {
                Op::Grant => {
                    model.grant(&mut state, permits)?;
                }
                Op::Resolve(at, resolution) if !model.attempts.is_empty() => {
                    let at = at.index(model.attempts.len());
                    model.resolve(&mut state, at, resolution)?;
                }
                Op::Record(at, lost) if !model.attempts.is_empty() => {
                    let at = at.index(model.attempts.len());
                    model.record(&mut state, at, lost, now);
                }
                Op::Resolve(..) | Op::Record(..) => {}
                Op::Wait(millis) => {
                    now += Duration::from_millis(millis.into());
                    state.wake(now);
                }
                Op::Release(groups) => {
                    state.release(&GroupDemand::First(groups));
                    model.released = model.released.map(|before| before.max(groups));
                }
                Op::Sate => {
                    state.sate();
                    model.ended = true;
                }
                Op::Drain => {
                    state.drain();
                    model.ended = true;
                }
                Op::Stop => {
                    state.stop(StopCause::Interrupted);
                    model.ended = true;
                }
            }
        }

        // The tail: all live attempts end, every retry becomes due, and the run is done or waits for demand. Then
        // demand, or its end, ends the run.
        while !state.is_done() {
            while model.grant(&mut state, permits)? {}
            for at in 0..model.attempts.len() {
                if model.attempts[at].accepted.is_none() && !model.attempts[at].ended {
                    model.resolve(&mut state, at, PASSED)?;
                }
                model.record(&mut state, at, false, now);
            }
            if let Some(due) = state.next_wake() {
                now = due;
                state.wake(now);
            } else if state.live() == 0 && state.waiting() == 0 && !state.is_done() {
                prop_assert!(state.withheld() > 0 && state.mode() == Mode::Running, "it waits for nothing else");
                if sated_at_last {
                    state.sate();
                    model.ended = true;
                } else {
                    state.release(&GroupDemand::First(slots));
                    model.released = Some(slots);
                }
            }
        }

        prop_assert_eq!(state.live(), 0);
        prop_assert!(model.attempts.iter().all(|attempt| attempt.ended));
        let accepted = || model.attempts.iter().filter_map(|attempt| Some((attempt.grant, attempt.accepted?)));
        let closed: BTreeSet<SlotId> =
            accepted().filter(|(_, (_, closes))| *closes).map(|(grant, _)| grant.attempt.slot).collect();
        for slot in (0..slots).map(SlotId) {
            prop_assert_eq!(state.is_open(slot), !closed.contains(&slot));
            prop_assert!(state.mode() != Mode::Running || closed.contains(&slot)
                || accepted().any(|(grant, (how, _))| grant.attempt.slot == slot && how == Resolution::Cancelled));
        }
        let tally = state.tally();
        prop_assert_eq!(tally.attempts as usize, model.attempts.len());
        prop_assert_eq!(tally.closed as usize, closed.len());
        prop_assert_eq!(tally.discarded, model.discarded);
        let passed = accepted().filter(|(_, (how, _))| *how == PASSED).count();
        prop_assert_eq!(tally.passed as usize, passed);
    }
}
