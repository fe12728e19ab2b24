//! What good suites become.

use std::path::Path;

use clawrl_config::{HostCapacity, PlanOptions, Suite, load_suite, resolve_plan};
use clawrl_core::{PolicySpec, RunId, RunPlan};

pub(crate) fn host() -> HostCapacity {
    HostCapacity {
        cpus: 2,
        memory_available_mib: 12_000,
        ptys_free: 4_000,
        pids_free: 30_000,
        open_files: 65_536,
    }
}

pub(crate) fn options() -> PlanOptions {
    PlanOptions::new(RunId::new("test").unwrap(), PolicySpec::Noop, host())
}

pub(crate) fn load(path: &str) -> Suite {
    match load_suite(Path::new(path)) {
        Ok(suite) => suite,
        Err(error) => panic!("{}", crate::diagnostics::rendered(&error)),
    }
}

pub(crate) fn plan(suites: &[Suite], options: &PlanOptions) -> RunPlan {
    match resolve_plan(suites, options) {
        Ok(plan) => plan,
        Err(error) => panic!("{}", crate::diagnostics::rendered(&error)),
    }
}

#[test]
fn every_key_of_the_format_arrives_in_the_plan() {
    let suite = load("tests/it/good/everything");
    assert!(suite.warnings().is_empty());
    let plan = plan(&[suite], &options());
    let drawn = serde_json::to_string_pretty(&plan.tasks[0]).unwrap();
    let root = std::fs::canonicalize(".").unwrap();
    insta::assert_snapshot!("everything_drawn_0", drawn.replace(root.to_str().unwrap(), "ROOT"));
    let every_one = serde_json::to_string_pretty(&plan.tasks[5]).unwrap();
    insta::assert_snapshot!("everything_every_one_0", every_one);
}
