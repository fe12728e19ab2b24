//! Trainings with a teacher that reads hints.

use clawrl_record::Metric;

use super::ground::{
    LUCKY, REPRODUCIBLE, assert_alike, figures, ground, killed, lucky, progress, trained, weights,
};
use crate::place::Place;

/// Values of a metric by update.
fn each(place: &Place, name: &str, metric: Metric) -> Vec<f64> {
    let updates = place.run(name).updates().unwrap();
    updates.iter().filter_map(|update| update.figures.get(&metric).copied()).collect()
}

/// The averaged parameters are part of a checkpoint, and hints lost by a kill are found again.
#[test]
fn killed_a_training_with_a_teacher_ends_with_the_same_bits() {
    let place = ground(&REPRODUCIBLE.replace("  updates: 4\n", "  updates: 4\n  objective: combined\n"));
    let undisturbed = trained(&place, "undisturbed");
    killed(&place, "killed", &["update    3/4"]);
    let said = place.clawrl(&["train", "--resume", "killed", "--json"]).ends(0);
    assert_eq!(figures(&said), figures(&undisturbed));
    assert_alike(&place, "killed", "undisturbed");
    for metric in [Metric::TrainOutcomeRms, Metric::TrainTeacherRms, Metric::TrainHintedEpisodesCount] {
        let figures = each(&place, "undisturbed", metric);
        assert!(figures.len() == 4 && figures.iter().any(|figure| *figure > 0.0), "{metric:?}: {figures:?}");
    }

    // Another teacher weight gives another result.
    let lighter = REPRODUCIBLE
        .replace("  updates: 4\n", "  updates: 4\n  objective: combined\n  distillation: { weight: 0.01 }\n");
    std::fs::write(place.path().join("train.yaml"), lighter).unwrap();
    trained(&place, "lighter");
    assert_eq!(weights(&place, "lighter", 0), weights(&place, "undisturbed", 0));
    assert_ne!(weights(&place, "lighter", 4), weights(&place, "undisturbed", 4));
}

/// No attempt passes, so that outcomes give no signal.
#[test]
fn a_demonstration_teaches_where_all_members_fail() {
    let objective =
        |name: &str| LUCKY.replace("rl: { updates: 4,", &format!("rl: {{ objective: {name}, updates: 2,"));
    let place = lucky(&objective("sdft"), "        - unset SRANDOM; SRANDOM=1\n");
    trained(&place, "shown");
    let counts = &progress(&place, "shown", 2)["counts"];
    assert_eq!(
        (&counts["informative"], &counts["passed"], &counts["taught"]),
        (&4.into(), &0.into(), &24.into())
    );
    assert_ne!(weights(&place, "shown", 2), weights(&place, "shown", 0));

    std::fs::write(place.path().join("train.yaml"), objective("sdpo")).unwrap();
    trained(&place, "told");
    let counts = &progress(&place, "told", 2)["counts"];
    assert_eq!((&counts["informative"], &counts["taught"]), (&4.into(), &24.into()), "checks hint, too");

    let siblings = objective("opd").replace("updates: 2,", "updates: 5, distillation: { hints: [sibling] },");
    std::fs::write(place.path().join("train.yaml"), siblings).unwrap();
    place.clawrl(&["train", "train.yaml", "--name", "alone"]).ends(9);
}

#[test]
fn a_frozen_teacher_is_asked_about_candidates_and_kept() {
    let objective =
        "objective: opd_top_k, distillation: { teacher: frozen, top_k: 3, hints: [demonstration] }";
    let place = lucky(&LUCKY.replace("rl: { updates: 4,", &format!("rl: {{ {objective}, updates: 2,")), "");
    trained(&place, "frozen");
    let reference = place.results().join("runs/frozen/reference/model.safetensors");
    assert!(
        std::fs::read(reference).unwrap() == weights(&place, "frozen", 0),
        "the teacher is the first policy"
    );
    assert_ne!(weights(&place, "frozen", 2), weights(&place, "frozen", 0));
    assert_eq!(each(&place, "frozen", Metric::TrainHintedEpisodesCount), [12.0, 12.0]);
}

#[test]
fn hints_that_are_too_long_are_left_out_and_counted() {
    let objective = "objective: combined, distillation: { hints: [demonstration], max_hint_tokens: 1 }";
    let place = lucky(&LUCKY.replace("rl: { updates: 4,", &format!("rl: {{ {objective}, updates: 1,")), "");
    trained(&place, "long");
    assert_eq!(each(&place, "long", Metric::TrainHintedEpisodesCount), [0.0]);
    assert!(each(&place, "long", Metric::TrainHintsTooLongCount)[0] >= 12.0);
}
