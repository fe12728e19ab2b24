//! Trainings without reinforcement learning.

use super::ground::{REPRODUCIBLE, figures, ground, killed, trained, weights};

/// The training of signs with imitation only.
pub(super) fn imitation() -> String {
    let (before, after) = REPRODUCIBLE.split_once("rl:\n").unwrap();
    let (_, evaluation) = after.split_once("evaluation:").unwrap();
    format!("{before}evaluation:{evaluation}")
}

#[test]
fn a_policy_that_imitates_only_is_evaluated_and_kept() {
    let place = ground(&imitation());
    let said = trained(&place, "alone").json();
    assert_eq!((&said["updates"], said["held_out"].as_array().map(Vec::len)), (&0.into(), Some(1)));
    let policy = said["policy"].as_str().unwrap();
    assert!(policy.ends_with("checkpoints/000000/model"), "{policy}");
    let page = std::fs::read_to_string(said["page"].as_str().unwrap()).unwrap();
    for part in ["at the warm start.", "Imitation: loss of a token", "<th>passed"] {
        assert!(page.contains(part), "{part}");
    }
    assert!(!page.contains("warm start<th>last"), "one evaluation is no change");
    place.clawrl(&["show", "alone"]).ends(0);
    assert!(place.clawrl(&["ls"]).ends(0).out.contains("alone"));
    let policy = format!("torch:{policy}");
    place.clawrl(&["run", "tasks/signs", "--policy", &policy, "--limit", "4", "--quiet"]).ends(0);

    // Reinforcement learning afterwards does not change imitation.
    std::fs::write(place.path().join("train.yaml"), REPRODUCIBLE).unwrap();
    trained(&place, "beginning");
    assert!(weights(&place, "alone", 0) == weights(&place, "beginning", 0));
}

#[test]
fn killed_an_imitation_is_taken_up() {
    let place = ground(&imitation());
    let undisturbed = trained(&place, "undisturbed");
    killed(&place, "killed", &["demonstrations passed"]);
    for _again in ["after a kill", "after its end"] {
        let said = place.clawrl(&["train", "--resume", "killed", "--json"]).ends(0);
        assert_eq!(figures(&said), figures(&undisturbed));
        assert!(weights(&place, "killed", 0) == weights(&place, "undisturbed", 0));
    }
}
