//! Trainings whose sampling runs ahead of learning.

use clawrl_record::Metric;

use super::ground::{LUCKY, lucky, progress, trained};

#[test]
fn evaluated_after_every_update_it_makes_them_all_and_loses_no_group() {
    // Batches of one group and many concurrent groups, so that complete batches wait when an evaluation is due.
    let train = LUCKY
        .replace("updates: 4, batch_groups: 2", "updates: 6, batch_groups: 1, max_staleness: 2")
        .replace("every_updates: 0, max_tasks: 4", "every_updates: 1, max_tasks: 2")
        .replace("concurrency: 4", "concurrency: 12");
    let place = lucky(&train, "");
    let said = trained(&place, "ahead").json();
    assert_eq!(said["held_out"].as_array().unwrap().len(), 7);
    let progress = progress(&place, "ahead", 6);
    assert_eq!(progress["updates"], 6);
    assert_eq!(progress["counts"]["informative"], 6, "{progress}");
    let updates = place.run("ahead").updates().unwrap();
    let staleness =
        updates.iter().filter_map(|update| update.figures.get(&Metric::TrainStalenessMaxVersions));
    let oldest = staleness.copied().fold(0.0, f64::max);
    assert!(oldest <= 2.0, "a token of {oldest} versions ago was trained on");
    assert!(oldest > 0.0, "sampling never ran ahead");
}

/// A train file with attempts that end after two turns.
fn overlong(how: &str) -> String {
    LUCKY.replace("updates: 4,", &format!("updates: 6, overlong: {how},"))
}

#[test]
fn overlong_attempts_earn_less() {
    let place = lucky(&overlong("soft"), "");
    trained(&place, "soft");
    for update in place.run("soft").updates().unwrap().iter().filter(|update| update.update > 0) {
        let figure = |metric| update.get(metric).unwrap();
        assert!(figure(Metric::TrainEpisodesOverlongCount) > 0.0);
        let lost = figure(Metric::TrainSuccessRatio) - figure(Metric::TrainRewardMean);
        assert!((lost - 1.0).abs() < 1e-9, "{lost}");
        assert_eq!(figure(Metric::TrainTokensOverlongCount), 0.0);
    }
}

#[test]
fn masked_overlong_attempts_are_not_trained_on() {
    let place = lucky(&overlong("mask"), "");
    let said = place.clawrl(&["train", "train.yaml", "--name", "mask"]).ends(9);
    assert!(said.err.contains("had no token to train on"), "{}", said.err);
    let masked = place.run("mask").updates().unwrap();
    let masked = masked.iter().filter_map(|update| update.get(Metric::TrainTokensOverlongCount));
    assert!(masked.sum::<f64>() > 0.0);
}
