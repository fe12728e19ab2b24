//! Statistics against the numbers that `ci/golden/report.py` got from scipy and statsmodels.

use clawrl_report::{Mean, Rate, Tries, rate, success_in};
use serde::Deserialize;

const GOLDEN: &str = include_str!("../golden/statistics.json");
const TOLERANCE: f64 = 1e-9;

#[derive(Deserialize)]
struct Golden {
    clustered: Vec<Clustered>,
    wilson: Vec<Wilson>,
    at_k: Vec<Drawn>,
}

#[derive(Deserialize)]
struct Clustered {
    tasks: Vec<(u32, u32)>,
    standard_error: f64,
    effective: f64,
    low: f64,
    high: f64,
}

#[derive(Deserialize)]
struct Wilson {
    passed: u32,
    episodes: u32,
    low: f64,
    high: f64,
}

#[derive(Deserialize)]
struct Drawn {
    tasks: Vec<(u32, u32)>,
    k: u32,
    enough: u32,
    at_least_one: Expected,
    all: Expected,
}

#[derive(Deserialize)]
struct Expected {
    value: f64,
    interval: Option<(f64, f64)>,
}

fn golden() -> Golden {
    serde_json::from_str(GOLDEN).unwrap()
}

fn tries(pairs: &[(u32, u32)]) -> Vec<Tries> {
    pairs.iter().map(|&(passed, episodes)| Tries { passed, episodes }).collect()
}

#[track_caller]
fn close(what: &str, got: f64, expected: f64) {
    assert!((got - expected).abs() <= TOLERANCE * expected.abs().max(1.0), "{what}: {got} is not {expected}");
}

#[test]
fn clustered_intervals_are_those_of_statsmodels() {
    for case in golden().clustered {
        let Rate { low, high, standard_error, effective_episodes, .. } = rate(&tries(&case.tasks)).unwrap();
        let what = format!("{} tasks beginning with {:?}", case.tasks.len(), &case.tasks[..2]);
        close(&what, standard_error.unwrap(), case.standard_error);
        close(&what, effective_episodes, case.effective);
        close(&what, low, case.low);
        close(&what, high, case.high);
    }
}

#[test]
fn wilson_intervals_are_those_of_statsmodels() {
    for Wilson { passed, episodes, low, high } in golden().wilson {
        let one_task = rate(&[Tries { passed, episodes }]).unwrap();
        let failed = vec![Tries { passed: 0, episodes: 1 }; (episodes - passed) as usize];
        let apart =
            rate(&[vec![Tries { passed: 1, episodes: 1 }; passed as usize], failed].concat()).unwrap();
        for got in [one_task, apart] {
            close(&format!("{passed} of {episodes}"), got.low, low);
            close(&format!("{passed} of {episodes}"), got.high, high);
        }
    }
}

#[test]
fn pass_at_k_is_the_mean_over_subsets() {
    let check = |what: &str, got: &Mean, expected: &Expected| {
        close(what, got.value, expected.value);
        assert_eq!(got.interval.is_some(), expected.interval.is_some(), "{what}");
        if let (Some(got), Some(expected)) = (got.interval, expected.interval) {
            close(what, got.0, expected.0);
            close(what, got.1, expected.1);
        }
    };
    for case in golden().at_k {
        let got = success_in(&tries(&case.tasks), case.k);
        let what = format!("{:?} in {}", case.tasks, case.k);
        assert_eq!(got.tasks, case.enough, "{what}");
        check(&what, &got.at_least_one, &case.at_least_one);
        check(&what, &got.all, &case.all);
    }
}
