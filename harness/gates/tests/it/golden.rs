//! Statistics against the numbers that `ci/golden/gates.py` got from scipy and statsmodels.

use clawrl_gates::{
    Alternative, InterimAnalyses, Spending, SubsetMeans, TaskRate, bca, binomial_test, clopper_pearson, holm,
    lower_rate, mcnemar, sign_flip, sign_test, tasks, wilson,
};
use serde::Deserialize;

use crate::verdicts::paired;

const GOLDEN: &str = include_str!("../golden/statistics.json");
const TOLERANCE: f64 = 1e-9;

#[derive(Deserialize)]
struct Golden {
    counts: Vec<Count>,
    changed: Vec<Changed>,
    flips: Vec<Flips>,
    bootstraps: Vec<Bootstrap>,
    holm: Vec<Adjusted>,
    looks: Vec<Bounds>,
    rates: Vec<Rates>,
    falls: Vec<Fall>,
}

#[derive(Deserialize)]
struct Fall {
    baseline: (u32, u32),
    candidate: (u32, u32),
    tolerance: f64,
    p: f64,
}

#[derive(Deserialize)]
struct Count {
    hits: u64,
    trials: u64,
    p: f64,
    greater: f64,
    less: f64,
    two_sided: f64,
    level: f64,
    clopper_pearson: (f64, f64),
    wilson: (f64, f64),
}

#[derive(Deserialize)]
struct Changed {
    worse: u64,
    better: u64,
    sign: f64,
    mcnemar: f64,
}

#[derive(Deserialize)]
struct Flips {
    differences: Vec<f64>,
    tau: f64,
    above: f64,
    below: f64,
}

#[derive(Deserialize)]
struct Bootstrap {
    differences: Vec<f64>,
    means: Vec<f64>,
    level: f64,
    low: f64,
    high: f64,
}

#[derive(Deserialize)]
struct Adjusted {
    given: Vec<f64>,
    adjusted: Vec<f64>,
}

#[derive(Deserialize)]
struct Bounds {
    fractions: Vec<f64>,
    alpha: f64,
    spending: Spending,
    z: Vec<f64>,
}

#[derive(Deserialize)]
struct Rates {
    baseline: (u32, u32),
    candidate: (u32, u32),
    below: f64,
}

fn golden() -> Golden {
    serde_json::from_str(GOLDEN).unwrap()
}

#[track_caller]
fn close(what: &str, got: f64, expected: f64) {
    assert!((got - expected).abs() <= TOLERANCE * expected.abs().max(1.0), "{what}: {got} is not {expected}");
}

#[test]
fn binomial_tests_and_intervals() {
    let cases = golden().counts;
    assert_eq!(cases.len(), 50);
    for case in cases {
        let what = format!("{} of {} at {}", case.hits, case.trials, case.p);
        let test = |alternative| binomial_test(case.hits, case.trials, case.p, alternative);
        close(&what, test(Alternative::Greater), case.greater);
        close(&what, test(Alternative::Less), case.less);
        close(&what, test(Alternative::TwoSided), case.two_sided);
        for (got, expected) in [
            (clopper_pearson(case.hits, case.trials, case.level), case.clopper_pearson),
            (wilson(case.hits, case.trials, case.level), case.wilson),
        ] {
            close(&what, got.0, expected.0);
            close(&what, got.1, expected.1);
        }
    }
}

#[test]
fn tasks_that_changed() {
    let cases = golden().changed;
    assert_eq!(cases.len(), 50);
    for Changed { worse, better, sign, mcnemar: expected } in cases {
        let what = format!("{worse} worse, {better} better");
        close(&what, sign_test(worse, better), sign);
        close(&what, mcnemar(worse, better), expected);
    }
}

#[test]
fn sign_flips() {
    let cases = golden().flips;
    assert_eq!(cases.len(), 50);
    for Flips { differences, tau, above, below } in cases {
        let what = format!("{differences:?} against {tau}");
        close(&what, sign_flip(&differences, tau, 0), above);
        close(&what, SubsetMeans::new(&differences, 0).p_below(tau), below);
    }
}

#[test]
fn bootstrap_intervals_of_the_same_samples() {
    for Bootstrap { differences, means, level, low, high } in golden().bootstraps {
        let what = format!("{differences:?}");
        let got = bca(&differences, means, level).unwrap();
        close(&what, got.0, low);
        close(&what, got.1, high);
    }
}

#[test]
fn adjusted_p_values() {
    let cases = golden().holm;
    assert_eq!(cases.len(), 50);
    for Adjusted { given, adjusted } in cases {
        for (got, expected) in holm(&given).into_iter().zip(adjusted) {
            close(&format!("{given:?}"), got, expected);
        }
    }
}

#[test]
fn boundaries_of_looks() {
    for Bounds { fractions, alpha, spending, z } in golden().looks {
        let looks = InterimAnalyses { fractions, alpha, spending, futility: None };
        let plan = looks.plan().unwrap();
        assert_eq!(plan.boundaries.len(), z.len());
        for (boundary, expected) in plan.boundaries.iter().zip(z) {
            // The error of Simpson's rule.
            assert!((boundary.harm - expected).abs() < 1e-6, "{looks:?}: {boundary:?} is not {expected}");
        }
    }
}

#[test]
fn rates_compared() {
    let cases = golden().rates;
    assert_eq!(cases.len(), 50);
    for Rates { baseline, candidate, below } in cases {
        let found = tasks(&paired(&[baseline], &[candidate]), 0.95).unwrap();
        close(&format!("{candidate:?} after {baseline:?}"), found[0].probably_worse, below);
    }
}

#[test]
fn rates_that_fell() {
    let cases = golden().falls;
    assert_eq!(cases.len(), 50);
    for Fall { baseline, candidate, tolerance, p } in cases {
        let rate = |(passes, attempts)| TaskRate { passes, attempts };
        let found = lower_rate(rate(baseline), rate(candidate), tolerance);
        // Both search for the largest of a continuum.
        assert!((found - p).abs() < 1e-7 * p, "{candidate:?} after {baseline:?}: {found} is not {p}");
    }
}
