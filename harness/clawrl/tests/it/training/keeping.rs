//! Stored versions of a training that gets worse, and its report.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use super::gating::acted;
use super::ground::{LUCKY, REPRODUCIBLE, ground, killed, lucky, trained, weights};
use crate::place::Place;

/// Versions with stored weights.
fn kept(place: &Place, name: &str) -> Vec<u64> {
    let said = place.clawrl(&["policy", "versions", name, "--json"]).ends(0).json();
    let with_weights = said.as_array().unwrap().iter().filter(|version| version["has_weights"] == true);
    with_weights.map(|version| version["version"].as_u64().unwrap()).collect()
}

/// A training that starts with a correct policy and destroys it with a learning rate of 1.
fn destroyed() -> Place {
    let train = REPRODUCIBLE
        .replace("optimizer: { learning_rate: 1e-3 }", "optimizer: { learning_rate: 1 }\n  objective: binary")
        .replace("updates: 4", "updates: 2\n  guards: { updates: 0 }")
        .replace("oracle_percent: 50\n  steps: 20", "oracle_percent: 100\n  steps: 60")
        .replace("evaluation: { every_updates: 0 }", "evaluation: { every_updates: 1 }")
        .replace("checkpoint: { every_updates: 2 }", "checkpoint: { every_updates: 1, keep_weights: 1 }");
    ground(&train)
}

#[test]
fn after_a_collapse_the_best_version_is_there_and_named() {
    let place = destroyed();
    let said = place.clawrl(&["train", "train.yaml", "--name", "worse"]).ends(0);
    let fell = "held-out success dropped to 0.0 % after 2 updates, from ";
    assert!(
        said.err.contains(fell) && said.err.contains("; version 0, the best, is kept in "),
        "{}",
        said.err
    );
    for part in
        [", the best: version 0\n", ", a fall\n", "best        ", "clawrl policy rollback worse --to 0\n"]
    {
        assert!(said.out.contains(part), "{part}: {}", said.out);
    }
    assert_eq!(kept(&place, "worse"), [0, 2]);
    let shown = place.clawrl(&["show", "worse"]).ends(0).out;
    for part in [", the best: version 0\n", ", a fall\n", "clawrl policy rollback worse --to 0\n"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let shown = place.clawrl(&["show", "worse", "--json"]).ends(0).json();
    assert_eq!(shown["held_out"].as_array().map(Vec::len), Some(3), "{shown}");
    let listed = place.clawrl(&["ls"]).ends(0).out;
    assert!(listed.contains(&format!("worse: {fell}")), "{listed}");
    let page =
        fs::read_to_string(place.run("worse").checkpoints_dir().with_file_name("report.html")).unwrap();
    assert!(
        page.contains("<circle class=\"fall\"") && page.contains("The best evaluation was after 0 updates")
    );
    let versions = place.clawrl(&["policy", "versions", "worse"]).ends(0).out;
    assert!(versions.lines().any(|line| line.starts_with('0') && line.contains(", the best")), "{versions}");

    // The printed advice works.
    let folder = said.out.lines().find_map(|line| line.strip_prefix("best        ")).unwrap();
    let policy = format!("torch:{}", folder.split(" (").next().unwrap());
    place.clawrl(&["run", "tasks/signs", "--policy", &policy, "--limit", "2", "--quiet"]).ends(0);
    place.clawrl(&["policy", "rollback", "worse", "--to", "0"]).ends(0);
    assert!(weights(&place, "worse", 3) == weights(&place, "worse", 0));
    let listed = place.clawrl(&["ls"]).ends(0).out;
    assert!(!listed.contains("held-out success dropped"), "it went back: {listed}");
}

#[test]
fn killed_around_a_collapse_a_training_keeps_and_tells_the_same() {
    let place = destroyed();
    let whole = trained(&place, "undisturbed").json();
    killed(
        &place,
        "killed",
        &[
            "held-out, greedy, after 0 updates",
            "update    1/2",
            "held-out, greedy, after 1 updates",
            "held-out success dropped",
        ],
    );
    let said = place.clawrl(&["train", "--resume", "killed", "--json"]).ends(0).json();
    assert_eq!((&said["held_out"], &said["fall"]), (&whole["held_out"], &whole["fall"]));
    assert!(said["fall"].is_string() && said["best"]["version"] == 0, "{said}");
    assert_eq!(kept(&place, "killed"), kept(&place, "undisturbed"));
    assert_eq!(place.run("killed").held_out().unwrap(), place.run("undisturbed").held_out().unwrap());
    assert!(weights(&place, "killed", 2) == weights(&place, "undisturbed", 2));
}

/// The best version is random.
#[test]
fn of_all_evaluated_versions_the_best_and_the_first_stay() {
    let train = LUCKY.replace(
        "every_updates: 0, max_tasks: 4 }",
        "every_updates: 1, max_tasks: 9 }\ncheckpoint: { every_updates: 1, keep_weights: 1 }",
    );
    let place = lucky(&train, "");
    let said = trained(&place, "luck").json();
    let rates = said["held_out"].as_array().unwrap();
    let success = |at: &Value| at[1]["low"].as_f64().unwrap();
    let best_of = |rates: &[Value]| {
        let most = rates.iter().map(success).fold(0.0, f64::max);
        rates.iter().rfind(|at| success(at) == most).unwrap()[0].as_u64().unwrap()
    };
    let best = best_of(rates);
    assert_eq!(
        (said["best"]["version"].as_u64(), said["best"]["updates"].as_u64()),
        (Some(best), Some(best))
    );
    // The best version at the last checkpoint is kept as well.
    let expected = BTreeSet::from([0, best_of(&rates[..4]), 4]);
    assert_eq!(BTreeSet::from_iter(kept(&place, "luck")), expected, "{said}");
    assert!(expected.contains(&best), "{said}");
    assert!(fs::exists(said["best"]["policy"].as_str().unwrap()).unwrap());
}

/// A schedule that waits for a complete batch does not delay evaluations.
#[test]
fn what_is_evaluated_after_an_update_is_the_version_of_that_update() {
    let train = LUCKY
        .replace("updates: 4,", "updates: 4, schedule: one_step_off,")
        .replace("every_updates: 0, max_tasks: 4 }", "every_updates: 1, max_tasks: 4 }");
    let place = lucky(&train, "");
    trained(&place, "luck");
    for updates in 0..=4 {
        assert_eq!(acted(&place, &format!("luck-eval-{updates:06}")), BTreeSet::from([updates]));
    }
}

#[test]
fn a_training_that_is_given_up_says_what_it_can_go_back_to() {
    // The policy becomes certain, which this guard detects as a collapse.
    let train = REPRODUCIBLE.replace("updates: 4", "updates: 9\n  guards: { updates: 1, entropy: 1 }");
    let place = ground(&train);
    let said = place.clawrl(&["train", "train.yaml", "--name", "halted"]).ends(9);
    for part in [
        "the best evaluation was ",
        "clawrl policy rollback halted --to 0",
        ", the newest, was not evaluated",
    ] {
        assert!(said.err.contains(part), "{part}: {}", said.err);
    }
    place.clawrl(&["policy", "rollback", "halted", "--to", "0"]).ends(0);

    // If all updates were rejected, there is nothing to roll back.
    let train = REPRODUCIBLE.replace("updates: 4", "updates: 9\n  gate: { max_kl: 1e-12, failures: 1 }");
    fs::write(place.path().join("train.yaml"), train).unwrap();
    let said = place.clawrl(&["train", "train.yaml", "--name", "rejected"]).ends(9);
    assert!(said.err.contains("the best evaluation was "), "{}", said.err);
    assert!(!said.err.contains("clawrl policy rollback rejected"), "{}", said.err);
}
