//! Number of repeats of a gate.

use clawrl_config::{CiPlan, MetricKind, Repeats};
use clawrl_regression::{FIRST_REPEATS, drop_seen, promise, repeats_needed, repeats_of};

use crate::fixture::{TestStore, gate, metric};

#[test]
fn repeats_follow_from_the_promise() {
    let place = TestStore::new();
    let comparison = place.comparison(CiPlan { repeats: Repeats::Auto, ..gate() });
    let (auto, baseline) = (comparison.gate(), comparison.baseline());
    let needed = repeats_needed(auto, baseline).unwrap().unwrap();
    assert!(needed > 1, "{needed}");
    assert_eq!(repeats_of(auto, Some(baseline)), Ok(needed));
    assert_eq!(repeats_of(auto, None), Ok(FIRST_REPEATS));
    assert_eq!(repeats_of(&gate(), Some(baseline)), Ok(4));
    let seen = drop_seen(auto, baseline, needed).unwrap().unwrap();
    assert!(seen <= 0.25 && seen > 0.15, "{seen}");
    let with_looks = CiPlan { interim_analyses: 4, ..auto.clone() };
    assert!(repeats_needed(&with_looks, baseline).unwrap().unwrap() > needed, "looks cost repeats");
    let with_more = CiPlan { metrics: vec![auto.metrics[0], metric(MetricKind::Turns, 1.0)], ..auto.clone() };
    assert!(repeats_needed(&with_more, baseline).unwrap().unwrap() > needed, "so do further metrics");
    let without = CiPlan { each_task: Some(false), ..auto.clone() };
    let fewer = repeats_needed(&without, baseline).unwrap().unwrap();
    assert!(
        fewer < needed && f64::from(needed) < 1.25 * f64::from(fewer),
        "{fewer} and {needed}: tasks cost few"
    );
}

#[test]
fn undetectable_drop_is_an_error() {
    let place = TestStore::new();
    let mut gate = CiPlan { repeats: Repeats::Auto, ..gate() };
    gate.alpha = 0.001;
    let comparison = place.comparison(gate.clone());
    let told = repeats_of(&gate, Some(comparison.baseline())).unwrap_err().to_string();
    assert_eq!(told, "8 tasks cannot reach a level of 0.0008: 11 are needed");
    gate.metrics = vec![metric(MetricKind::Turns, 1.0)];
    assert_eq!((promise(&gate, 8), repeats_needed(&gate, comparison.baseline())), (None, Ok(None)));
}
