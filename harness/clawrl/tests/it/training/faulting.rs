//! Environments with random faults.

use std::collections::BTreeMap;

use clawrl_core::GroupId;

use super::ground::{LUCKY, SIGNS, ground, lucky, progress, trained};
use crate::place::Place;

/// Kills itself before the episode in a fifth of the attempts, independent of the seed.
const KILLS_ITSELF: &str = "        - (( SRANDOM % 5 )) || kill -9 $$\n";

/// Finished and faulted attempts that closed the slots of each group.
fn closed(place: &Place, name: &str) -> BTreeMap<GroupId, (u64, u64)> {
    let run = place.run(name);
    let mut groups: BTreeMap<GroupId, (u64, u64)> = BTreeMap::new();
    for attempt in run.attempts().filter(|attempt| attempt.closes_slot) {
        let group = run.plan().slots[attempt.attempt.slot.0 as usize].group;
        let counts = groups.entry(group).or_default();
        if attempt.faulted() { counts.1 += 1 } else { counts.0 += 1 }
    }
    groups
}

/// Faulted members of consumed groups.
fn consumed_as_recorded(place: &Place, name: &str) -> u64 {
    let groups = closed(place, name);
    // Every slot of every dispatched group is closed: faults lose none.
    assert!(groups.values().all(|(finished, faulted)| finished + faulted == 6), "{groups:?}");
    let progress = progress(place, name, 4);
    assert_eq!(progress["updates"], 4);
    let consumed: Vec<(u64, u64)> =
        serde_json::from_value::<clawrl_learn::GroupRanges>(progress["consumed"].clone())
            .unwrap()
            .iter()
            .map(|group| groups[&group])
            .collect();
    let finished: u64 = consumed.iter().map(|(finished, _)| finished).sum();
    let faulted: u64 = consumed.iter().map(|(_, faulted)| faulted).sum();
    // Faulted attempts are not members: they affect neither baseline nor success rate.
    assert_eq!(progress["counts"]["episodes"], finished, "{progress}");
    assert_eq!(progress["counts"]["faulted"], faulted, "{progress}");
    assert!(progress["counts"]["informative"].as_u64().unwrap() > 0, "{progress}");
    faulted
}

#[test]
fn faulted_members_are_none_and_no_slot_is_lost() {
    let place = lucky(LUCKY, KILLS_ITSELF);
    trained(&place, "luck");
    assert!(consumed_as_recorded(&place, "luck") > 0);
    let summary = place.run("luck").summary();
    assert!(summary.faults.iter().any(|fault| fault.code == "setup-failed"), "{:?}", summary.faults);
}

#[test]
fn faults_that_another_environment_cures_are_retried() {
    let place = lucky(&LUCKY.replace("max_retries: 0", "max_retries: 8"), KILLS_ITSELF);
    trained(&place, "retried");
    assert_eq!(consumed_as_recorded(&place, "retried"), 0);
    assert!(place.run("retried").summary().total.retries > 0);
}

#[test]
fn environments_that_always_fault_end_the_training_and_say_so() {
    let place = ground(&LUCKY.replace("updates: 4", "updates: 40"));
    place.suite("signs", &SIGNS.replace("setup:\n", "setup:\n        - 'false'\n"));
    let said = place.clawrl(&["train", "train.yaml", "--name", "broken", "--quiet"]).ends(9);
    assert!(said.err.contains("had fewer than two members that did not fault"), "{}", said.err);
}
