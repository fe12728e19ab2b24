//! Versions of a trained policy, and rollback.

use serde_json::Value;

use super::ground::{LUCKY, checkpoint, lucky, progress, trained, weights};
use crate::place::Place;

/// A training of four updates with a checkpoint after each; optimizer state for the last two.
fn four_updates() -> Place {
    let kept = "checkpoint: { every_updates: 1, keep_weights: 9, keep_moments: 2 }\nlimits:";
    let place = lucky(&LUCKY.replace("limits:", kept), "");
    trained(&place, "luck");
    place
}

fn versions(place: &Place) -> Vec<Value> {
    let said = place.clawrl(&["policy", "versions", "luck", "--json"]).ends(0);
    said.json().as_array().unwrap().clone()
}

#[test]
fn what_the_version_earned_that_was_given_up_is_forgotten() {
    let kept = "checkpoint: { every_updates: 1, keep_weights: 9, keep_moments: 2 }\nlimits:";
    let train = LUCKY.replace("limits:", kept).replace("updates: 4,", "updates: 4, objective: binary,");
    let place = lucky(&train, "");
    trained(&place, "luck");
    place.clawrl(&["policy", "rollback", "luck", "--to", "2"]).ends(0);
    let earned = |version| progress(&place, "luck", version)["baselines"].clone();
    assert!(earned(2).is_object() && earned(2) != earned(4), "{}", earned(2));
    assert_eq!(earned(5), earned(2));
}

/// I1, I2.
#[test]
fn going_back_is_a_new_version_that_is_trained_on() {
    let place = four_updates();
    let listed = versions(&place);
    let follow = |listed: &[Value]| -> Vec<(u64, Option<u64>)> {
        let of = |version: &Value| (version["version"].as_u64().unwrap(), version["parent"].as_u64());
        listed.iter().map(of).collect()
    };
    assert_eq!(follow(&listed), [(0, None), (1, Some(0)), (2, Some(1)), (3, Some(2)), (4, Some(3))]);
    let moments: Vec<bool> = listed.iter().map(|version| version["has_moments"] == true).collect();
    assert_eq!(moments, [false, false, false, true, true]);
    assert!(listed[0]["held_out"].is_number() && listed[2]["held_out"].is_null());

    let earlier = listed[4]["held_out"].as_f64();
    assert!(earlier.is_some());
    let said = place.clawrl(&["policy", "rollback", "luck", "--to", "3", "--json"]).ends(0).json();
    assert_eq!((&said["version"], &said["parent"], &said["instead_of"]), (&5.into(), &3.into(), &4.into()));
    assert!(weights(&place, "luck", 5) == weights(&place, "luck", 3));
    assert!(checkpoint(&place, "luck", 5).join("first_moment.safetensors").exists());
    // Groups consumed by the discarded version stay consumed.
    let consumed = |version| progress(&place, "luck", version)["consumed"].clone();
    assert_eq!(consumed(5), consumed(4));
    assert_eq!(follow(&versions(&place)).last(), Some(&(5, Some(3))));

    // A version without optimizer state, in a training without remaining updates.
    place.clawrl(&["policy", "rollback", "luck", "--to", "1"]).ends(0);
    assert!(!checkpoint(&place, "luck", 6).join("first_moment.safetensors").exists());
    let said = place.clawrl(&["train", "--resume", "luck", "--json"]).ends(0).json();
    assert!(said["policy"].as_str().unwrap().ends_with("000006/model"), "{said}");
    // The version gets its own evaluation; measurements of version 4 do not apply.
    assert_eq!(said["held_out"].as_array().unwrap().len(), 2, "{said}");
    assert_eq!(place.run("luck-eval-v000006").plan().policy, place.run("luck-eval-000004").plan().policy);
    let listed = versions(&place);
    let own = said["held_out"][1][1]["value"].as_f64().unwrap();
    assert_eq!(listed[6]["held_out"].as_f64(), Some(own));
    assert_eq!(listed[4]["held_out"].as_f64(), earlier);
    assert_eq!((&listed[6]["instead_of"], &listed[6]["updates"]), (&5.into(), &4.into()));
}

#[test]
fn a_training_that_was_interrupted_goes_on_from_where_it_went_back_to() {
    let place = four_updates();
    let mut live = place.start(&["train", "train.yaml", "--name", "cut"]);
    live.hears("update    2/4");
    live.signal(rustix::process::Signal::KILL);
    assert_eq!(live.ended().code, None);
    place.clawrl(&["policy", "rollback", "cut", "--to", "0"]).ends(0);
    let went_back = place.clawrl(&["policy", "versions", "cut", "--json"]).ends(0).json();
    let branch = went_back.as_array().unwrap().last().unwrap()["version"].as_u64().unwrap();
    let consumed = |version| progress(&place, "cut", version)["consumed"].to_string();
    let before = consumed(branch);
    place.clawrl(&["train", "--resume", "cut"]).ends(0);
    let said = place.clawrl(&["policy", "versions", "cut", "--json"]).ends(0).json();
    let last = said.as_array().unwrap().last().unwrap().clone();
    assert_eq!(last["updates"], 4);
    let version = last["version"].as_u64().unwrap();
    assert!(version > 4, "{version}: it was taken back");
    assert_ne!(consumed(version), before, "it went on with other groups");
}

#[test]
fn versions_differ_by_part() {
    let place = four_updates();
    let said = place.clawrl(&["policy", "diff", "luck", "0", "4", "--json"]).ends(0).json();
    let parts = said["parameters"].as_array().unwrap();
    let of = |name: &str| parts.iter().find(|part| part[0] == name).unwrap()[1].as_f64().unwrap();
    assert!(of("all") > 0.0 && of("mlp.up_proj") > 0.0, "{said}");
    let same = place.clawrl(&["policy", "diff", "luck", "4", "4", "--json"]).ends(0).json();
    assert_eq!(same["parameters"].as_array().unwrap().last().unwrap()[1], 0.0);
    let told = place.clawrl(&["policy", "diff", "luck", "0", "4"]).ends(0).out;
    assert!(told.contains("held-out") && told.contains("self_attn.q_proj"), "{told}");
}

#[test]
fn what_cannot_be_gone_back_to() {
    let place = four_updates();
    let refused = |arguments: &[&str], expected: &str| {
        let said = place.clawrl(arguments).ends(2);
        assert!(said.err.contains(expected), "{}", said.err);
    };
    refused(&["policy", "rollback", "luck", "--to", "9"], "version 9 of training luck is not kept");
    refused(&["policy", "rollback", "luck", "--to", "4"], "is the newest");
    refused(&["policy", "diff", "luck", "0", "9"], "version 9 of training luck is not kept");
    place.clawrl(&["run", "small", "--policy", "noop", "--name", "plain"]);
    refused(&["policy", "versions", "plain"], "run plain is no training");
    let damaged = checkpoint(&place, "luck", 2).join("model/model.safetensors");
    let mut bytes = std::fs::read(&damaged).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(&damaged, bytes).unwrap();
    let said = place.clawrl(&["policy", "rollback", "luck", "--to", "2"]);
    assert!(said.code != Some(0) && said.err.contains("damaged or changed"), "{}", said.err);
    assert!(!checkpoint(&place, "luck", 5).exists(), "nothing was made");
}
