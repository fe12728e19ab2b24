//! I8 of the architecture: same plan, same seed, same replies, same trajectory.

use clawrl_core::AttemptRecord;

use crate::place::Place;

/// A record without the parts that may differ between a run and its replay because they depend on time: the lease's
/// epoch, the times of phases, turns and steps, the facts of the reset, whether a page settled in time, the terminal
/// recording with its timestamps and chunks, and pictures that no policy saw, which may show a blinking caret.
/// Everything else must repeat: prompts, replies, calls, observations with their other facts, flags, grades, rewards
/// and the end of the attempt.
pub(crate) fn comparable(mut record: AttemptRecord) -> AttemptRecord {
    record.epoch = clawrl_core::Epoch::default();
    record.times = clawrl_core::PhaseTimes::default();
    record.trajectory.cast = None;
    record.trajectory.reset.facts.clear();
    record.trajectory.reset.pictures.clear();
    for turn in &mut record.trajectory.turns {
        turn.policy_time = std::time::Duration::ZERO;
        turn.step_time = std::time::Duration::ZERO;
        let timely = ["quiet", "no_picture"];
        turn.observation
            .facts
            .retain(|name, _| !name.ends_with("_millis") && !timely.contains(&name.as_str()));
        turn.observation.pictures.clear();
    }
    record
}

fn records(place: &Place, run: &str) -> Vec<AttemptRecord> {
    let run = place.run(run);
    let mut records: Vec<AttemptRecord> =
        run.trajectories().unwrap().map(|record| comparable(record.unwrap())).collect();
    records.sort_by_key(|record| record.attempt);
    records
}

#[test]
fn a_replay_repeats_every_trajectory() {
    let place = Place::new();
    let first =
        ["run", "small", "--policy", "demonstrator:50", "--seed", "7", "--group-size", "2", "--quiet"];
    place.clawrl(&[&first[..], &["--name", "first"]].concat()).ends(0);
    // Under the recorded plan, and with the suite and the same arguments.
    place.clawrl(&["run", "--policy", "replay:first", "--name", "again", "--quiet"]).ends(0);
    let arguments = ["--seed", "7", "--group-size", "2", "--policy", "replay:first", "--name", "suite"];
    place.clawrl(&[&["run", "small", "--quiet"][..], &arguments].concat()).ends(0);
    let recorded = records(&place, "first");
    assert_eq!(recorded.len(), 24);
    assert_eq!(recorded, records(&place, "again"));
    assert_eq!(recorded, records(&place, "suite"));
    let other = ["run", "small", "--policy", "replay:first", "--filter", "note*", "--quiet"];
    let said = place.clawrl(&other).ends(4);
    assert!(said.out.contains("policy/replay-miss"), "{}", said.out);
}
