//! Selection of groups and penalties of long replies, in killed trainings.

use std::collections::BTreeMap;
use std::fs;

use clawrl_record::Metric;
use serde_json::Value;

use super::gating::figures;
use super::ground::{LUCKY, REPRODUCIBLE, SIGNS, assert_alike, ground, killed, lucky, progress, trained};
use crate::place::Place;

/// A template that every attempt passes.
const IDLE: &str = r#"
  - id: idle
    template: { name: { from: names } }
    instances: all
    instruction: Leave the note, {{ name }}.
    env: { terminal: { files: { note: "x" } } }
    checks: [ { file_equals: { path: note, expected: "x" } } ]
    oracle: { commands: ["true"] }
    mistakes: [ ["false"] ]
"#;

/// A training with three templates, one of which gives no signal.
fn chosen(settings: &str) -> Place {
    let train = REPRODUCIBLE.replace("batch_groups: 2\n", &format!("batch_groups: 4\n  {settings}\n"));
    let place = ground(&train);
    place.suite("signs", &format!("{}{IDLE}", SIGNS.trim_end()));
    place
}

/// Consumed groups by template.
fn consumed(place: &Place, name: &str, version: u64) -> BTreeMap<String, usize> {
    let run = place.run(name);
    let ranges: Vec<(u32, u32)> =
        serde_json::from_value(progress(place, name, version)["consumed"].clone()).unwrap();
    let mut families = BTreeMap::new();
    for slot in run.plan().slots.iter().filter(|slot| slot.member == 0) {
        let group = slot.group.0;
        if ranges.iter().any(|&(start, end)| (start..end).contains(&group)) {
            *families.entry(run.plan().task_of(slot).family.clone()).or_default() += 1;
        }
    }
    families
}

/// Success rates of templates in a checkpoint.
fn successes(progress: &Value) -> Vec<f64> {
    let families = progress["curriculum"].as_object().unwrap().values();
    let success = |family: &Value| {
        (family["passed"].as_f64().unwrap() + 1.0) / (family["attempts"].as_f64().unwrap() + 2.0)
    };
    families.map(success).collect()
}

/// Half of all attempts pass the others, at random.
#[test]
fn a_family_that_always_passes_comes_up_seldom() {
    let with = "updates: 16, max_staleness: 1, curriculum: { memory: 16 },";
    let place = lucky(&LUCKY.replace("updates: 4,", with), "");
    let suite = fs::read_to_string(place.path().join("tasks/signs/suite.yaml")).unwrap();
    place.suite("signs", &format!("{}{IDLE}", suite.trim_end()));
    killed(&place, "streaming", &["update    7/16"]);
    place.clawrl(&["train", "--resume", "streaming", "--quiet"]).ends(0);
    let families = consumed(&place, "streaming", 16);
    let (idle, all) = (families["idle"], families.values().sum::<usize>());
    // Without selection it would have a third.
    assert!(idle * 4 < all, "{families:?}");
    let known = successes(&progress(&place, "streaming", 16));
    assert!(known.len() == 3 && known[0] > 0.9, "{known:?}");
}

mod slow {
    use super::*;

    /// After a kill in every update, the training selects the same groups.
    #[test]
    fn killed_with_a_curriculum_a_training_chooses_the_same_groups() {
        let place = chosen("curriculum: { memory: 16 }\n  length: { coefficient: 0.5, target: 1 }");
        trained(&place, "undisturbed");
        killed(&place, "killed", &["update    1/4", "update    2/4", "update    3/4"]);
        place.clawrl(&["train", "--resume", "killed"]).ends(0);
        assert_alike(&place, "killed", "undisturbed");
        let progress = |name: &str| progress(&place, name, 4);
        assert_eq!(progress("killed"), progress("undisturbed"));
        assert!(progress("killed")["length"]["first"].as_f64() > Some(0.0));
        for metric in [
            Metric::TrainShareLeastRatio,
            Metric::TrainShareMostRatio,
            Metric::TrainLengthPunishmentCoefficient,
        ] {
            let of = |name: &str| figures(&place, name, metric);
            assert_eq!((of("killed").len(), of("killed")), (4, of("undisturbed")), "{metric:?}");
        }
        // The first update had no statistics.
        let least = figures(&place, "killed", Metric::TrainShareLeastRatio);
        assert!((least[0] - 1.0).abs() < 1e-9 && least[1] < 1.0, "{least:?}");
        assert_eq!(figures(&place, "killed", Metric::TrainLengthPunishmentCoefficient)[..1], [0.0]);

        // Templates are numbered by name: `idle` is the first.
        let known = successes(&progress("killed"));
        assert!(known.len() == 3 && known[0] > 0.8, "{known:?}");
        let families = consumed(&place, "killed", 4);
        assert_eq!(families.len(), 3, "each comes up again: {families:?}");
    }
}
