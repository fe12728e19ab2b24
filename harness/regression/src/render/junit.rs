//! Assessments as JUnit XML: one suite for each gate, one case for each of its parts.
//!
//! J1. A suite has a failure exactly where its gate fails, an error where it is inconclusive, neither where it passes. J2. Faults are properties: never
//! failures.
//!
//! Units: seconds of wall clock. Pure; nothing to cancel.

use clawrl_gates::Change;
use clawrl_report::{JunitCase, JunitEnd, JunitSuite, junit_xml};

use super::part::{Part, parts};
use super::words::counts;
use crate::assessment::{Assessment, Outcome};

/// The file.
#[must_use]
pub fn junit(gates: &[Assessment]) -> String {
    junit_xml("clawrl ci", &gates.iter().map(suite).collect::<Vec<_>>())
}

fn suite(gate: &Assessment) -> JunitSuite {
    JunitSuite {
        name: gate.gate.clone(),
        seconds: 60.0 * gate.budget.minutes,
        properties: properties(gate),
        cases: parts(gate).into_iter().map(|part| case(gate, part)).collect(),
    }
}

fn case(gate: &Assessment, part: Part<'_>) -> JunitCase {
    JunitCase {
        class: format!("{}.{}", gate.gate, part.kind.word()),
        name: part.name.to_owned(),
        seconds: 0.0,
        end: match part.outcome {
            Outcome::Pass => JunitEnd::Passed,
            Outcome::Inconclusive => JunitEnd::Error("inconclusive"),
            Outcome::Fail => JunitEnd::Failure("worse"),
        },
        said: part.said,
    }
}

/// Properties of the gate, and facts about tasks that are not pass or fail.
fn properties(gate: &Assessment) -> Vec<(String, String)> {
    let mut all = vec![
        ("outcome".to_owned(), gate.outcome.name().to_owned()),
        ("run".to_owned(), gate.run.to_string()),
        ("baseline".to_owned(), gate.baseline.run.to_string()),
        ("plan_sha256".to_owned(), gate.baseline.plan_sha256.clone()),
        ("attempts".to_owned(), gate.budget.attempts.to_string()),
    ];
    all.extend(gate.budget.cost_usd.map(|usd| ("cost_usd".to_owned(), format!("{usd:.4}"))));
    for (side, of) in sides() {
        let faults: u64 = gate.tasks.iter().map(|task| u64::from(of(task).faults)).sum();
        all.push((format!("faults of the {side}"), faults.to_string()));
    }
    for task in &gate.tasks {
        let (before, after) = (&task.baseline, &task.candidate);
        if before.faults + before.missing + after.faults + after.missing > 0 {
            let value = format!("baseline {}; candidate {}", counts(before), counts(after));
            all.push((format!("faults of {}", task.task), value));
        }
        if task.flaky {
            all.push((format!("flaky {}", task.task), change_word(task.change).to_owned()));
        }
    }
    all
}

type SideOf = fn(&crate::assessment::TaskChange) -> crate::assessment::Counts;

fn sides() -> [(&'static str, SideOf); 2] {
    [("baseline", |task| task.baseline), ("candidate", |task| task.candidate)]
}

fn change_word(change: Change) -> &'static str {
    match change {
        Change::Broke => "broke",
        Change::Mended => "mended",
        Change::Kept => "kept",
    }
}
