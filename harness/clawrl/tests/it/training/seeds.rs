//! Trainings with several seeds and with overridden keys.

use std::fs;

use rustix::process::Signal;
use serde_json::Value;

use super::ground::{REPRODUCIBLE, ground, weights};
use super::imitating::imitation;

#[test]
fn each_of_several_seeds_trains_as_it_does_alone() {
    let place = ground(REPRODUCIBLE);
    let both = ["train", "train.yaml", "--seed", "4,5", "--name", "both", "--set", "rl.updates=2"];
    let said = place.clawrl(&[&both[..], &["--json"]].concat()).ends(0).json();
    let seeds = said["seeds"].as_array().unwrap();
    let names: Vec<&Value> = seeds.iter().map(|seed| &seed["run"]).collect();
    assert_eq!(names, ["both-s4", "both-s5"], "{said}");
    assert!(seeds.iter().all(|seed| seed["trained"]["updates"] == 2), "{said}");
    let last = |at: usize| seeds[at]["trained"]["held_out"][1][1]["value"].as_f64().unwrap();
    assert_eq!(said["last"]["mean"].as_f64().unwrap(), (last(0) + last(1)) / 2.0);

    place.clawrl(&["train", "train.yaml", "--seed", "5", "--name", "alone", "--set", "rl.updates=2"]).ends(0);
    assert!(weights(&place, "both-s5", 2) == weights(&place, "alone", 2));
    assert!(weights(&place, "both-s4", 2) != weights(&place, "alone", 2));

    // Nothing starts if a name is taken or a seed is repeated.
    let said = place.clawrl(&both).ends(8);
    assert!(said.err.contains("run both-s4 exists already"), "{}", said.err);
    let said = place.clawrl(&["train", "train.yaml", "--seed", "1,2,1", "--name", "twice"]).ends(2);
    assert!(said.err.contains("seed 1 is named twice"), "{}", said.err);
    assert!(!place.clawrl(&["ls"]).ends(0).out.contains("twice"));
}

#[test]
fn a_signal_ends_the_seed_that_is_under_way_and_begins_no_other() {
    let place = ground(REPRODUCIBLE);
    let mut live = place.start(&["train", "train.yaml", "--seed", "4,5,6", "--name", "cut"]);
    live.hears("update    1/4");
    live.signal(Signal::INT);
    let said = live.ended().ends(5);
    assert!(said.err.contains("to go on: clawrl train --resume cut-s4"), "{}", said.err);
    let others = "clawrl train train.yaml --seed 5,6 --name cut";
    assert!(said.err.contains(others), "{}", said.err);
    assert!(!place.clawrl(&["ls"]).ends(0).out.contains("cut-s5"));
    place.clawrl(&["train", "--resume", "cut-s4", "--quiet"]).ends(0);
}

#[test]
fn other_values_of_keys_are_checked_and_recorded_like_those_of_the_file() {
    let place = ground(REPRODUCIBLE);
    let train = ["train", "train.yaml", "--name", "set"];
    let refused = |setting: &str, expected: &str| {
        let said = place.clawrl(&[&train[..], &["--set", setting]].concat()).ends(2);
        assert!(said.err.contains(expected), "{setting}: {}", said.err);
    };
    refused("rl.upates=3", "train.yaml with rl.upates=3");
    refused("rl.updates=none", "train.yaml with rl.updates=none");
    refused("rl.updates.x=1", "`rl.updates` has a single value, no keys");
    refused("rl.updates", "write KEY=VALUE");
    let planned = place.clawrl(&["plan", "train.yaml", "--set", "limits.concurrency=3", "--json"]).ends(0);
    assert_eq!(planned.json()["concurrency"], 3);
    let said = place.clawrl(&["plan", "small", "--set", "rl.updates=1"]).ends(2);
    assert!(said.err.contains("--set goes with a train file"), "{}", said.err);
    let more = ["--set", "rl.updates=1", "--set", "rl.optimizer={ learning_rate: 2e-3 }", "--json"];
    let said = place.clawrl(&[&train[..], &more].concat()).ends(0).json();
    assert_eq!(said["updates"], 1);
    let kept = place.run("set").train().unwrap().unwrap();
    assert_eq!(kept["rl"]["optimizer"]["learning_rate"].as_f64(), Some(2e-3));
}

#[test]
fn a_new_train_file_is_planned_and_trains() {
    let place = ground(REPRODUCIBLE);
    let said = place.clawrl(&["new", "train", "mine", "signs"]).ends(0);
    assert_eq!(said.out, "./mine.yaml\n");
    place.clawrl(&["plan", "mine.yaml"]).ends(0);
    let less =
        ["warm_start.demonstrations=8", "warm_start.steps=2", "rl.updates=1", "evaluation.max_tasks=2"];
    let settings = less.iter().flat_map(|setting| ["--set", setting]);
    let arguments: Vec<&str> =
        ["train", "mine.yaml", "--name", "mine", "--quiet"].into_iter().chain(settings).collect();
    let said = place.clawrl(&arguments);
    // So small a policy may have no group with a signal; the test only needs that it trained.
    assert!(matches!(said.code, Some(0 | 9)), "{}", said.err);
    assert!(fs::exists(place.run("mine").checkpoints_dir().join("000000")).unwrap());
}

/// Each training gets a unique name in any order.
#[test]
fn trainings_without_a_name_that_begin_at_once_all_begin() {
    let place = ground(&imitation());
    let one = ["train", "train.yaml", "--set", "warm_start.steps=4", "--json"];
    let live: Vec<_> = (0..3).map(|_| place.start(&one)).collect();
    let mut names: Vec<String> = live
        .into_iter()
        .map(|live| live.ended().ends(0).json()["run"].as_str().unwrap().to_owned())
        .collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 3, "{names:?}");
}
