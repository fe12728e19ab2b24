//! Acceptance of new versions.

use std::collections::BTreeSet;
use std::fs;

use clawrl_record::Metric;
use serde_json::Value;

use super::ground::{
    LUCKY, REPRODUCIBLE, assert_alike, checkpoint, ground, killed, lucky, progress, trained, weights,
};
use crate::place::Place;

fn versions(place: &Place, name: &str) -> Vec<Value> {
    let said = place.clawrl(&["policy", "versions", name, "--json"]).ends(0);
    said.json().as_array().unwrap().clone()
}

/// Numbers of the versions that were rejected.
pub(super) fn rejected(place: &Place, name: &str) -> Vec<u64> {
    let all = versions(place, name);
    let rejected = all.iter().filter(|version| version["rejected"].is_string());
    rejected.map(|version| version["version"].as_u64().unwrap()).collect()
}

/// The versions that sampled.
pub(super) fn acted(place: &Place, name: &str) -> BTreeSet<u64> {
    let run = place.run(name);
    let attempts = run.attempts().filter(|attempt| attempt.closes_slot);
    attempts
        .flat_map(|summary| run.trajectory(summary.attempt).unwrap().trajectory.turns)
        .flat_map(|turn| turn.tokens.unwrap().versions.into_iter().map(|(_, version)| version))
        .collect()
}

/// Values of a metric by update.
pub(super) fn figures(place: &Place, name: &str, metric: Metric) -> Vec<f64> {
    place.run(name).updates().unwrap().iter().filter_map(|update| update.get(metric)).collect()
}

pub(super) fn moments(place: &Place, name: &str, version: u64) -> [Vec<u8>; 2] {
    ["first_moment", "second_moment"]
        .map(|file| fs::read(checkpoint(place, name, version).join(format!("{file}.safetensors"))).unwrap())
}

/// I1, I2: every step exceeds the limit.
#[test]
fn rejected_versions_never_act_and_leave_no_trace_and_halt_the_training() {
    let gate = "gate: { max_kl: 1e-12, failures: 2 }, updates: 6,";
    let kept = "checkpoint: { every_updates: 1, keep_weights: 9, keep_moments: 9 }\nlimits:";
    let place = lucky(&LUCKY.replace("updates: 4,", gate).replace("limits:", kept), "");
    let halted = |arguments: &[&str], at: u64| {
        let said = place.clawrl(arguments).ends(9);
        for part in [
            "versions in a row were rejected, the last because it is",
            "nats a token from the accepted version",
            "version 0 goes on acting",
            "has what version 0 has",
        ] {
            assert!(said.err.contains(part), "{part}: {}", said.err);
        }
        let progress = progress(&place, "held", at);
        assert_eq!((&progress["updates"], &progress["accepted"]), (&at.into(), &0.into()));
        assert!(progress["counts"]["rejected"].as_u64() >= Some(2 * at), "{progress}");
        assert!(weights(&place, "held", at) == weights(&place, "held", 0));
        assert!(moments(&place, "held", at) == moments(&place, "held", 0));
        assert_eq!(rejected(&place, "held"), (1..=at).collect::<Vec<_>>());
        let flags = figures(&place, "held", Metric::TrainVersionsRejectedCount);
        assert_eq!(flags, vec![1.0; usize::try_from(at).unwrap()]);
    };
    halted(&["train", "train.yaml", "--name", "held"], 2);
    // Groups of both updates were filled, the second after the first was rejected.
    assert_eq!(acted(&place, "held"), BTreeSet::from([0]));
    halted(&["train", "--resume", "held"], 4);
    assert_eq!(acted(&place, "held"), BTreeSet::from([0]));
    assert!(figures(&place, "held", Metric::TrainGateKlNats).iter().all(|kl| *kl > 1e-12));
    assert!(figures(&place, "held", Metric::TrainStalenessMaxVersions).iter().all(|age| *age == 0.0));

    let told = place.clawrl(&["policy", "versions", "held"]).ends(0).out;
    assert!(told.contains("0, rejected") && told.contains("version 3 was rejected: it is "), "{told}");
    // The restored version is a normal version.
    place.clawrl(&["policy", "rollback", "held", "--to", "0"]).ends(0);
    assert_eq!(progress(&place, "held", 5)["accepted"], Value::Null);
}

/// A learning rate that destroys the policy.
#[test]
fn a_policy_that_would_be_destroyed_is_kept() {
    let train = REPRODUCIBLE
        .replace("optimizer: { learning_rate: 1e-3 }", "optimizer: { learning_rate: 1 }\n  gate: {}")
        .replace("updates: 4", "updates: 9");
    let place = ground(&train);
    let said = place.clawrl(&["train", "train.yaml", "--name", "wild"]).ends(9);
    assert!(said.err.contains("3 versions in a row were rejected"), "{}", said.err);
    let last = figures(&place, "wild", Metric::TrainVersionsRejectedCount).len() as u64;
    assert!(weights(&place, "wild", last) == weights(&place, "wild", 0));
    assert_eq!((rejected(&place, "wild"), acted(&place, "wild")), (vec![1, 2, 3], BTreeSet::from([0])));
}

/// The same, detected only by held-out tasks. The running baseline lets every update step.
#[test]
fn a_version_that_solves_less_is_evaluated_and_never_acts() {
    let gate = "optimizer: { learning_rate: 1 }\n  objective: binary\n  gate:\n    max_kl: 1000\n    failures: 2\n    \
                held_out: { every_updates: 1, max_drop_points: 1 }";
    let train = REPRODUCIBLE
        .replace("optimizer: { learning_rate: 1e-3 }", gate)
        .replace("updates: 4", "updates: 9")
        .replace("oracle_percent: 50\n  steps: 20", "oracle_percent: 100\n  steps: 60");
    let place = ground(&train);
    let said = place.clawrl(&["train", "train.yaml", "--name", "worse"]).ends(9);
    for part in ["of version 1 before it acts: ", "its held-out success is ", "a drop of 1 points is allowed"]
    {
        assert!(said.err.contains(part), "{part}: {}", said.err);
    }
    assert_eq!((rejected(&place, "worse"), acted(&place, "worse")), (vec![1, 2], BTreeSet::from([0])));
    assert!(weights(&place, "worse", 2) == weights(&place, "worse", 0));
    assert_eq!(figures(&place, "worse", Metric::TrainGateSuccessRatio).len(), 2);
    place.clawrl(&["show", "worse-gate-000002"]).ends(0);
}

mod slow {
    use super::*;

    /// I3.
    #[test]
    fn killed_with_rejected_versions_behind_it_a_training_ends_with_the_same_bits() {
        let with = |max_kl: f64| {
            let gate = format!(
                "gate:\n    max_kl: {max_kl}\n    failures: 9\n    held_out: {{ every_updates: 2, max_drop_points: 100 }}\n  \
                 sampling:"
            );
            REPRODUCIBLE.replace("sampling:", &gate)
        };
        let place = ground(&with(1000.0));
        trained(&place, "open");
        assert_eq!(rejected(&place, "open"), Vec::<u64>::new());
        assert_eq!(figures(&place, "open", Metric::TrainGateSuccessRatio).len(), 2);
        let first = figures(&place, "open", Metric::TrainGateKlNats)[0];
        assert!(first > 0.0);

        fs::write(place.path().join("train.yaml"), with(first * 0.99)).unwrap();
        trained(&place, "undisturbed");
        assert_eq!(rejected(&place, "undisturbed").first(), Some(&1));
        killed(&place, "killed", &["update    1/4", "update    2/4", "update    3/4", "update    4/4"]);
        place.clawrl(&["train", "--resume", "killed"]).ends(0);
        assert_alike(&place, "killed", "undisturbed");
        assert_eq!(versions(&place, "killed"), versions(&place, "undisturbed"));
        let progress = |name| progress(&place, name, 4);
        assert_eq!(progress("killed"), progress("undisturbed"));
    }
}
