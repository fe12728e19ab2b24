//! Killed trainings resume without any difference.

use std::collections::BTreeMap;
use std::fs;

use clawrl_record::{Metric, RunEnd};
use rustix::process::Signal;

use super::ground::{REPRODUCIBLE, assert_alike, checkpoint, figures, ground, killed, progress, trained};
use crate::place::Place;

/// Output before each kill: in demonstrations, imitation, the first update, between two checkpoints, at a checkpoint,
/// after one, and in the last evaluation. Each comes after the work that the previous kill lost.
const MOMENTS: [&str; 7] = [
    "24 demonstrations in real environments",
    "24 demonstrations passed",
    "held-out, greedy, after 0 updates",
    "update    1/4",
    "update    2/4",
    "update    3/4",
    "update    4/4",
];

/// Processes of sandboxes and control groups of this process.
fn left_by(pid: u32) -> Vec<String> {
    let owner = format!("-{pid}-");
    let entries = |folder: &str| fs::read_dir(folder).into_iter().flatten().flatten();
    let processes = entries("/proc").filter_map(|entry| {
        let line = fs::read(entry.path().join("cmdline")).ok()?;
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        (line.starts_with("clawrl-box ") && line.contains(&owner)).then_some(line)
    });
    let groups = entries("/sys/fs/cgroup")
        .flat_map(|entry| fs::read_dir(entry.path()).into_iter().flatten().flatten())
        .map(|entry| entry.path().display().to_string())
        .filter(|path| path.contains("/clawrl-") && path.contains(&owner));
    processes.chain(groups).collect()
}

/// Metrics by update; a checkpoint's duration is known only after it is written.
fn kept(place: &Place, name: &str) -> BTreeMap<u64, Vec<Metric>> {
    let updates = place.run(name).updates().unwrap();
    let figures = |figures: BTreeMap<Metric, f64>| {
        figures.into_keys().filter(|metric| *metric != Metric::TrainCheckpointSeconds).collect()
    };
    updates.into_iter().map(|update| (update.update, figures(update.figures))).collect()
}

fn ends_like(place: &Place, name: &str, undisturbed: &str) {
    assert_alike(place, name, undisturbed);
    assert_eq!(place.run(name).summary().end, Some(RunEnd::DemandClosed), "{name}");
}

#[test]
fn killed_at_every_step_a_training_ends_with_the_same_bits() {
    let place = ground(REPRODUCIBLE);
    let undisturbed = trained(&place, "undisturbed");
    let mut killed = Vec::new();
    for (count, moment) in MOMENTS.iter().enumerate() {
        let resume = ["train", "--resume", "killed"];
        let begin = ["train", "train.yaml", "--name", "killed"];
        let mut live = place.start(if count == 0 { &begin } else { &resume });
        live.hears(moment);
        live.signal(Signal::KILL);
        killed.push(live.id());
        assert_eq!(live.ended().code, None, "killed after `{moment}`");
    }
    let said = place.clawrl(&["train", "--resume", "killed", "--json"]).ends(0);
    assert_eq!(figures(&said), figures(&undisturbed));
    ends_like(&place, "killed", "undisturbed");
    for pid in killed {
        assert_eq!(left_by(pid), Vec::<String>::new());
    }
    assert_eq!(kept(&place, "killed"), kept(&place, "undisturbed"));
    // Nothing is left to do, and another resume changes nothing.
    let again = place.clawrl(&["train", "--resume", "killed", "--json"]).ends(0);
    assert_eq!(figures(&again), figures(&undisturbed));
}

/// Running baselines are part of a checkpoint.
#[test]
fn killed_in_mid_learning_it_remembers_what_was_earned() {
    let train = REPRODUCIBLE
        .replace("batch_groups: 2\n  group_size: 4", "batch_groups: 8\n  group_size: 1\n  objective: binary");
    let place = ground(&train);
    trained(&place, "undisturbed");
    killed(&place, "killed", &["update    3/4"]);
    place.clawrl(&["train", "--resume", "killed"]).ends(0);
    ends_like(&place, "killed", "undisturbed");
    let earned = |name| progress(&place, name, 4)["baselines"].clone();
    assert_eq!(earned("killed"), earned("undisturbed"));
    // Of both templates, each with all its rewards.
    let families = earned("killed");
    let families = families.as_object().unwrap();
    assert!(
        families.len() == 2 && families.values().all(|family| family["rewards"].as_f64() > Some(5.0)),
        "{families:?}"
    );
}

/// Evaluations and demonstrations are separate runs; `--follow` waits for them.
#[test]
fn its_figures_are_followed_to_the_end() {
    let place = ground(REPRODUCIBLE);
    let mut live = place.start(&["train", "train.yaml", "--name", "watched"]);
    live.hears("24 demonstrations in real environments");
    let follower = place.start(&["metrics", "watched", "--tensorboard", "events", "--follow"]);
    live.ended().ends(0);
    follower.ended().ends(0);
    let file = place.path().join("events/watched/events.out.tfevents.0.clawrl");
    let bytes = fs::read(file).unwrap();
    for name in ["train/imitation_loss_nats", "train/held_out_success_ratio", "train/reward_mean"] {
        assert!(bytes.windows(name.len()).any(|window| window == name.as_bytes()), "{name}");
    }
}

#[test]
fn ended_by_a_person_it_leaves_a_checkpoint_and_goes_on() {
    let place = ground(REPRODUCIBLE);
    trained(&place, "undisturbed");
    let mut live = place.start(&["train", "train.yaml", "--name", "ended"]);
    live.hears("imitation   20/20");
    let second = place.clawrl(&["train", "--resume", "ended"]).ends(8);
    assert!(second.err.contains("training ended is under way in another process"), "{}", second.err);
    live.hears("update    1/4");
    live.signal(Signal::INT);
    let said = live.ended().ends(5);
    assert!(said.err.contains("to go on: clawrl train --resume ended"), "{}", said.err);
    // At the update in the output, which is between two due ones, or at the next if current attempts completed it.
    assert!((1..=2).any(|version| checkpoint(&place, "ended", version).is_dir()), "{}", said.err);
    // On SIGTERM, the training cancels its attempts, which are not counted and are sampled again.
    let mut live = place.start(&["train", "--resume", "ended"]);
    live.hears("update    3/4");
    live.signal(Signal::TERM);
    let said = live.ended().ends(5);
    assert!(!said.err.contains("update    1/4"), "{}", said.err);
    place.clawrl(&["train", "--resume", "ended", "--quiet"]).ends(0);
    ends_like(&place, "ended", "undisturbed");
}
