//! Trainings whose sampling runs ahead of learning.

use clawrl_record::Metric;

use super::ground::{LUCKY, lucky, progress, trained};

#[test]
fn evaluated_after_every_update_it_makes_them_all_and_loses_no_group() {
    // One group a batch and many at once, so that whole batches wait when an evaluation is due.
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
