//! Trainings with `reproducible: true`, from start to end.

use clawrl_record::{Metric, RunEnd};

use super::ground::{REPRODUCIBLE, assert_alike, figures, ground, sampled, trained, weights};
use crate::place::Place;

/// Removes rates and their column, which depend on libraries and CPU.
fn settled(place: &Place, text: &str) -> String {
    let text = place.settled(text);
    let number = regex::Regex::new(r" +[+-]?\d+\.\d").unwrap();
    number.replace_all(&text, " [n]").into_owned()
}

#[test]
fn two_trainings_have_the_same_bits() {
    let place = ground(REPRODUCIBLE);
    let (one, two) = (trained(&place, "one"), trained(&place, "two"));
    assert_eq!(figures(&one), figures(&two));
    assert_alike(&place, "one", "two");
    assert_ne!(weights(&place, "one", 4), weights(&place, "one", 0), "nothing was learned");
    let episodes = sampled(&place, "one").len();
    assert!(episodes >= 4 * 2 * 4, "{episodes}");

    let run = place.run("one");
    assert_eq!(run.summary().end, Some(RunEnd::DemandClosed));
    let losses = |metric: Metric| {
        let updates = run.updates().unwrap();
        updates.iter().filter(|update| update.figures.contains_key(&metric)).count()
    };
    assert_eq!((losses(Metric::TrainImitationLossNats), losses(Metric::TrainLossMean)), (20, 4));
}

/// Other names in the imitated instructions give other weights.
#[test]
fn interchangeable_words_trade_places_in_what_is_imitated() {
    let place = ground(REPRODUCIBLE);
    trained(&place, "exchanged");
    let kept = REPRODUCIBLE.replace("  interchangeable: [names]\n", "").replace("updates: 4", "updates: 1");
    assert_ne!(kept.len(), REPRODUCIBLE.len());
    std::fs::write(place.path().join("train.yaml"), kept).unwrap();
    trained(&place, "kept");
    assert_ne!(weights(&place, "exchanged", 0), weights(&place, "kept", 0));
}

#[test]
fn the_end_is_told_and_the_page_is_written() {
    let place = ground(REPRODUCIBLE);
    let said = place.clawrl(&["train", "train.yaml", "--name", "told"]).ends(0);
    insta::assert_snapshot!(settled(&place, &said.out));
    for line in [
        " families to train on; ",
        "a policy from nothing: ",
        "imitation   20/20",
        "held-out, greedy, after 0 updates: ",
        "update    4/4",
    ] {
        assert!(said.err.contains(line), "no `{line}` in\n{}", said.err);
    }
    let page = std::fs::read_to_string(place.results().join("runs/told/report.html")).unwrap();
    for part in [
        "<h1>told</h1>",
        "Held-out greedy success: <b>",
        "after 4 updates: <b>",
        "20 supervised steps of 8 demonstrations each",
        "traded places, in all its texts alike: names",
    ] {
        assert!(page.contains(part), "no `{part}` in the page");
    }
    // Parts of a training are normal runs.
    place.clawrl(&["show", "told-demonstrations"]).ends(0);
    place.clawrl(&["show", "told-eval-000004"]).ends(0);
}
