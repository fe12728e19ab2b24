//! Rewards that are valid numbers within bounds, but wrong.

use std::collections::BTreeSet;
use std::fs;

use clawrl_core::Split;
use clawrl_record::Metric;

use super::gating::{acted, figures, moments, rejected};
use super::ground::{REPRODUCIBLE, SIGNS, progress, trained, weights};
use crate::place::Place;

/// Tasks that replace those of [`SIGNS`]. The held-out answers are right, the others inverted: they reward anything but
/// the sign.
const POISONED: &str = r#"tasks:
  - id: raise
    template: { name: { from: names } }
    instances: all
    instruction: Raise the sign, {{ name }}.
    checks:
      - command: { run: "test {% if name[0] == 't' %}!{% endif %} -e sign" }
    oracle: { commands: ["touch sign"] }
    mistakes: [ ["ls"] ]
"#;

/// Names: `t...` for training tasks, `h...` for held-out ones.
fn names() -> String {
    let asked = |name: &String| format!("Raise the sign, {name}.");
    let part = |split: Split, letter: &'static str, count: usize| {
        let names = (0..).map(move |number| format!("{letter}{number}"));
        names.filter(move |name| split.contains("raise", &asked(name))).take(count)
    };
    let all: Vec<String> = part(Split::Train, "t", 20).chain(part(Split::HeldOut, "h", 12)).collect();
    all.join("\n")
}

/// A training on these tasks, after a warm start that follows instructions.
fn poisoned(gate: &str) -> Place {
    let train = REPRODUCIBLE
        .replace("  interchangeable: [names]\n", "")
        .replace("oracle_percent: 50\n  steps: 20", "oracle_percent: 90\n  steps: 60")
        .replace(
            "updates: 4\n  batch_groups: 2",
            &format!("updates: 12\n  objective: binary\n{gate}  batch_groups: 4"),
        )
        .replace("learning_rate: 1e-3", "learning_rate: 2e-3")
        .replace("every_updates: 2", "every_updates: 1, keep_weights: 20, keep_moments: 20");
    let place = Place::new();
    let (head, _) = SIGNS.split_once("tasks:\n").unwrap();
    place.suite("signs", &format!("{head}{POISONED}"));
    fs::write(place.path().join("tasks/signs/names.txt"), names()).unwrap();
    fs::write(place.path().join("train.yaml"), train).unwrap();
    place
}

/// Without acceptance, the policy learns the wrong rewards, and training metrics keep improving.
#[test]
fn what_pays_for_garbage_is_learned_unless_held_out_tasks_are_looked_at() {
    let place = poisoned("");
    let said = trained(&place, "believed").json();
    let held_out = |at: usize| said["held_out"][at][1]["value"].as_f64().unwrap();
    assert!(held_out(0) > 0.7 && held_out(1) < 0.3, "{said}");
    let rewards = figures(&place, "believed", Metric::TrainRewardMean);
    assert!(rewards[0] < 0.6 && *rewards.last().unwrap() > 0.8, "{rewards:?}");
    // All rewards are within bounds.
    assert!(figures(&place, "believed", Metric::TrainRewardsRefusedCount).iter().all(|count| *count == 0.0));
}

/// With acceptance, the training halts, and the version in use, stored and served is the last one that solved held-out
/// tasks.
#[test]
fn a_poisoned_stream_of_rewards_halts_the_training_and_the_accepted_version_goes_on_acting() {
    let place = poisoned(
        "  gate: { failures: 2, max_kl: 1000, held_out: { every_updates: 1, max_drop_points: 10 } }\n",
    );
    let said = place.clawrl(&["train", "train.yaml", "--name", "doubted"]).ends(9);
    for part in ["2 versions in a row were rejected", "its held-out success is ", "goes on acting"] {
        assert!(said.err.contains(part), "{part}: {}", said.err);
    }
    let rejected = rejected(&place, "doubted");
    let [.., first, last] = rejected[..] else { panic!("{rejected:?}") };
    let accepted = progress(&place, "doubted", last)["accepted"].as_u64().unwrap();
    assert_eq!((accepted, last), (first - 1, first + 1));
    // Only accepted versions sampled, before and after the first rejection.
    let acted = acted(&place, "doubted");
    assert!(acted.contains(&accepted) && acted.is_disjoint(&BTreeSet::from([first, last])), "{acted:?}");
    assert!(weights(&place, "doubted", last) == weights(&place, "doubted", accepted));
    assert!(moments(&place, "doubted", last) == moments(&place, "doubted", accepted));
    // It still follows instructions.
    let policy = format!(
        "torch:{}",
        place.run("doubted").checkpoints_dir().join(format!("{last:06}/model")).display()
    );
    let served = ["run", "signs", "--split", "held-out", "--policy", &policy, "--name", "served", "--json"];
    place.clawrl(&served);
    let served = place.run("served").summary().total;
    assert!(served.finished == 12 && served.passed >= 8, "{} of {}", served.passed, served.finished);
}
