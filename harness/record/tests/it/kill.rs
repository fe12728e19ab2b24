//! `kill -9` of the writing process: nothing that was acknowledged is lost.

use std::collections::BTreeMap;

use clawrl_core::{RunId, SplitMix64};
use clawrl_record::{Ending, RunState, RunStore, SlotStatus};

use crate::child;

const KILLS: u32 = 20;
const SLOTS: u32 = 1500;

#[test]
fn twenty_kills_lose_nothing_acknowledged() {
    let disturbed = tempfile::tempdir().unwrap();
    let run = RunId::new(child::RUN).unwrap();
    let store = RunStore::open(disturbed.path()).unwrap();
    let mut moments = SplitMix64::new(20);
    let mut acknowledged: Vec<String> = Vec::new();
    let mut pictures = 0;
    for kill in 0..KILLS {
        let (mut process, output) = child::start(disturbed.path(), SLOTS, None);
        let moment = 1 + moments.below(120) as usize;
        let mut sayings = child::sayings(output);
        acknowledged.extend(sayings.by_ref().take(moment));
        process.kill().unwrap();
        // Records between that moment and its death were acknowledged, too.
        acknowledged.extend(sayings);
        process.wait().unwrap();
        assert!(acknowledged.iter().all(|said| !said.starts_with("failed")), "{:?}", acknowledged.last());

        let read = store.run(&run).unwrap();
        assert!(!read.is_running(), "a dead owner's lock is free at once");
        let state = read.state().unwrap();
        for said in &acknowledged {
            let words: Vec<&str> = said.split(' ').collect();
            let [what, slot, number, epoch] = words[..] else { panic!("{said}") };
            let (slot, number) = (slot.parse().unwrap(), number.parse().unwrap());
            let slot_state = &state.slots()[slot as usize];
            match what {
                "leased" => assert!(slot_state.next_number > number, "kill {kill}: {said}"),
                _ => {
                    let record = read.trajectory(crate::fixture::attempt(slot, number)).unwrap();
                    assert_eq!(record.epoch.0.to_string(), epoch, "kill {kill}: {said}");
                    for picture in &record.trajectory.turns[0].observation.pictures {
                        let there = read.blob(picture).unwrap();
                        assert_eq!(there, Some(crate::fixture::picture(slot, number)), "kill {kill}: {said}");
                        pictures += 1;
                    }
                }
            }
        }
    }
    assert!(pictures > 0);
    let closed = store.info(&run).closed;
    assert!(
        0 < closed && closed < SLOTS,
        "the kills came in the middle of the run ({closed} of {SLOTS} closed)"
    );

    let undisturbed = tempfile::tempdir().unwrap();
    for results in [disturbed.path(), undisturbed.path()] {
        let (mut process, output) = child::start(results, SLOTS, None);
        assert_eq!(child::sayings(output).last().as_deref(), Some("ended"));
        assert!(process.wait().unwrap().success());
    }
    assert_eq!(store.info(&run).state, RunState::Finished);
    let whole = endings(&RunStore::open(undisturbed.path()).unwrap(), &run);
    assert_eq!(whole.len(), SLOTS as usize);
    assert_eq!(endings(&store, &run), whole);
}

/// How each slot was closed.
fn endings(store: &RunStore, run: &RunId) -> BTreeMap<usize, Ending> {
    let read = store.run(run).unwrap();
    let slots = read.state().unwrap().slots().iter().enumerate();
    slots
        .map(|(id, slot)| {
            assert!(matches!(slot.status, SlotStatus::Closed { .. }));
            let closing = slot.attempts.iter().filter(|attempt| attempt.closes_slot).count();
            assert_eq!(closing, 1, "slot {id} was closed {closing} times");
            (id, slot.closing().unwrap().ending.clone())
        })
        .collect()
}
