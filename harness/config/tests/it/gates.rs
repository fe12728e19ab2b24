//! Plans of gate files, and the errors of broken ones. One snapshot for each file in `ci/broken/`.

use std::path::{Path, PathBuf};

use clawrl_config::{
    CiBudget, CiMetric, CiPlan, MetricKind, PlanOptions, Repeats, TaskChoice, load_ci, load_suites,
    resolve_plan,
};
use clawrl_core::Split;

use crate::diagnostics::rendered;
use crate::plans::options;

const BROKEN: [&str; 11] = [
    "auto-of-nothing",
    "deterministic-and-more",
    "format-zero",
    "min-effect-missing",
    "metric-unknown",
    "metrics-of-attempts",
    "nothing-to-do",
    "numbers",
    "repeats-word",
    "suites-twice-and-missing",
    "unknown-key",
];

fn good(name: &str) -> CiPlan {
    load_ci(Path::new(&format!("tests/it/ci/good/{name}.yaml")))
        .unwrap_or_else(|error| panic!("{}", rendered(&error)))
}

/// Semantics lock: the defaults of a gate file. Change them only on purpose.
#[test]
fn what_is_left_out_has_a_default() {
    let plan = good("minimal");
    assert_eq!((plan.alpha, plan.power, plan.interim_analyses, plan.seed), (0.05, 0.9, 1, 0));
    assert_eq!((plan.repeats, plan.deterministic), (Repeats::Auto, false));
    assert_eq!((plan.completeness.max_fault_share, plan.completeness.max_lost_share), (0.1, 0.0));
    assert_eq!(plan.budget, CiBudget::default());
    assert_eq!(plan.metrics, [CiMetric { kind: MetricKind::PassRate, tolerance: 0.0, min_effect: 0.1 }]);
    assert_eq!(plan.suites[0].choice, TaskChoice::default());
    assert!(plan.judges_each_task(100) && !plan.judges_each_task(101));
}

#[test]
fn each_task_is_judged_where_the_gate_says_so_or_is_small_and_about_passes() {
    let judges = |each_task, kind, tasks| {
        let metrics = vec![CiMetric { kind, tolerance: 0.0, min_effect: 0.1 }];
        CiPlan { each_task, metrics, ..good("minimal") }.judges_each_task(tasks)
    };
    assert!(judges(None, MetricKind::PassHatK(2), 6));
    assert!(!judges(None, MetricKind::Turns, 6));
    assert!(judges(Some(true), MetricKind::Turns, 6) && judges(Some(true), MetricKind::PassRate, 5_000));
    assert!(!judges(Some(false), MetricKind::PassRate, 6));
}

#[test]
fn what_is_written_is_what_is_planned() {
    let plan = good("everything");
    assert_eq!(plan.policy, "remote:policy.yaml");
    assert_eq!((plan.repeats, plan.interim_analyses, plan.seed), (Repeats::Exactly(8), 4, 7));
    assert_eq!((plan.alpha, plan.power, plan.each_task), (0.01, 0.8, Some(false)));
    let names: Vec<String> = plan.metrics.iter().map(|metric| metric.kind.name()).collect();
    assert_eq!(names, ["pass_rate", "pass_hat_4", "latency_s"]);
    let budget = CiBudget { attempts: Some(500), minutes: Some(30.0), cost_usd: Some(2.5) };
    assert_eq!((plan.budget, plan.completeness.max_lost_share), (budget, 0.05));
    let choice = TaskChoice { split: Split::All, filter: Vec::new(), limit: Some(1) };
    assert_eq!(plan.suites[1].choice, choice);
}

#[test]
fn old_keys_read_like_the_new_ones() {
    let (old, new) = (good("old-keys"), good("minimal"));
    assert_eq!((old.interim_analyses, &old.metrics), (4, &new.metrics));
}

#[test]
fn each_suite_has_its_own_tasks() {
    let gate = good("everything");
    let paths: Vec<PathBuf> = gate.suites.iter().map(|suite| suite.path.clone()).collect();
    let suites = load_suites(&paths).expect("good suites");
    let options = PlanOptions { choices: gate.choices(&suites), seed: gate.seed, ..options() };
    let plan = resolve_plan(&suites, &options).expect("a plan");
    let ids: Vec<&str> = plan.tasks.iter().map(|task| task.id.0.as_str()).collect();
    assert_eq!(ids.len(), 2, "{ids:?}");
    assert!(ids[0].ends_with("/paint#1") && ids[1].starts_with("minimal/"), "{ids:?}");
    assert_eq!(gate.must_pass(&plan).expect("they are there").into_iter().collect::<Vec<_>>(), ids[1..]);
    let lost = CiPlan { must_pass: vec!["minimal/*".to_owned(), "pant*".to_owned()], ..gate.clone() };
    let told = lost.must_pass(&plan).expect_err("no such task").to_string();
    assert_eq!(told, "no task of the gate `everything` matches `must_pass: pant*`");
    let mut wrong = gate;
    wrong.suites[0].choice.filter = vec!["pant*".to_owned()];
    let options = PlanOptions { choices: wrong.choices(&suites), ..options };
    let told = resolve_plan(&suites, &options).expect_err("no such task").to_string();
    assert_eq!(told, "no task matches the filter `pant*`");
}

#[test]
fn every_broken_gate_file_is_explained() {
    for name in BROKEN {
        let path = format!("tests/it/ci/broken/{name}.yaml");
        let Err(error) = load_ci(Path::new(&path)) else { panic!("{path} should be refused") };
        for problem in error.problems() {
            assert!(!problem.help_text().is_empty(), "{problem}");
        }
        insta::assert_snapshot!(format!("ci-{name}"), rendered(&error));
    }
}
