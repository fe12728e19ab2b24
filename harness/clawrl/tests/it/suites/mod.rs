//! The suites that come with ClawRL: they are valid, and their recorded runs repeat.

mod browser_tests;

use std::collections::BTreeMap;
use std::path::Path;

use clawrl_core::{AttemptRecord, TaskId};

use crate::place::Place;
use crate::replaying::comparable;

pub(crate) fn suite(name: &str) -> String {
    let tasks = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tasks").join(name);
    tasks.canonicalize().unwrap().to_str().unwrap().to_owned()
}

fn records(place: &Place, run: &str) -> BTreeMap<TaskId, Vec<AttemptRecord>> {
    let run = place.run(run);
    let mut records: BTreeMap<TaskId, Vec<AttemptRecord>> = BTreeMap::new();
    for record in run.trajectories().unwrap() {
        let record = record.unwrap();
        let task = run.plan().task_of(&run.plan().slots[record.attempt.slot.0 as usize]);
        records.entry(task.id.clone()).or_default().push(comparable(record));
    }
    records.values_mut().for_each(|records| records.sort_by_key(|record| record.attempt));
    records
}

/// I8 of the architecture, turn by turn: the records are equal after [`comparable`].
fn a_replay_repeats(arguments: &[&str], tasks: usize) {
    let place = Place::new();
    let first = [&["run"], arguments, &["--policy", "oracle", "--name", "first", "--quiet", "--seed", "5"]];
    place.clawrl(&first.concat()).ends(0);
    place.clawrl(&["run", "--policy", "replay:first", "--name", "again", "--quiet"]).ends(0);
    let (first, again) = (records(&place, "first"), records(&place, "again"));
    assert_eq!(first.len(), tasks);
    for (task, recorded) in first {
        let repeated = &again[&task];
        for (recorded, repeated) in recorded.iter().zip(repeated) {
            let turns = recorded.trajectory.turns.iter().zip(&repeated.trajectory.turns);
            for (number, (recorded, repeated)) in turns.enumerate() {
                assert_eq!(recorded, repeated, "{task}, turn {number}");
            }
        }
        assert_eq!(&recorded, repeated, "{task}");
    }
}

#[test]
fn a_replay_of_every_family_of_terminal_basics_repeats_it() {
    a_replay_repeats(&[&suite("terminal-basics"), "--limit", "26"], 26);
}

#[test]
fn a_replay_of_toolcall_basics_repeats_it() {
    a_replay_repeats(&[&suite("toolcall-basics")], 304);
}

#[test]
fn a_replay_of_swe_tiny_repeats_it() {
    a_replay_repeats(&[&suite("swe-tiny"), "--limit", "16"], 16);
}

mod slow {
    use super::*;

    /// Every no-op fails and every oracle passes, by real runs of real tests.
    #[test]
    fn suites_of_software_engineering_are_valid() {
        let place = Place::new();
        let valid = |suite_and_options: &[&str], expected: &str| {
            let arguments = [&["validate"], suite_and_options, &["--quiet", "--concurrency", "8"]].concat();
            let said = place.clawrl(&arguments).ends(0);
            assert!(said.out.contains(expected), "{}", said.out);
        };
        valid(&[&suite("swe-basics"), "--mistakes"], "17 of 17 tasks are valid");
        valid(&[&suite("swe-tiny"), "--limit", "16"], "16 of 16 tasks are valid");
        valid(&[&suite("swe-synth"), "--limit", "12"], "12 of 12 tasks are valid");
    }

    /// No-ops and wrong solutions fail, oracles pass.
    #[test]
    fn terminal_hard_is_valid_and_no_mistake_passes() {
        let place = Place::new();
        let said = place.clawrl(&[
            "validate",
            &suite("terminal-hard"),
            "--mistakes",
            "--quiet",
            "--concurrency",
            "8",
        ]);
        let said = said.ends(0);
        assert!(
            said.out.contains("\n0 of ") && said.out.contains("30 of 30 tasks are valid"),
            "{}",
            said.out
        );
    }

    #[test]
    fn a_replay_of_terminal_hard_repeats_it() {
        a_replay_repeats(&[&suite("terminal-hard"), "--concurrency", "8"], 30);
    }
}
