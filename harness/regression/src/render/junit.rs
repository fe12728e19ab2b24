//! Assessments as JUnit XML, which most systems of CI show: one suite for each gate, one case for each of its parts.
//!
//! J1. A suite has a failure exactly where its gate fails, an error where it is inconclusive, neither where it passes. J2. What is told is
//! well-formed XML of the shape that Jenkins' schema has, whatever tasks are called. J3. Faults are properties: never failures.
//!
//! Units: seconds of wall clock. Pure; nothing to cancel.
//! Source: the schema `junit-10.xsd` of Jenkins' xUnit plugin; `ci/golden/junit.py` shows snapshots to junitparser.

use std::fmt::Write;

use clawrl_gates::Change;

use super::escape::xml;
use super::part::{Part, parts};
use super::words::counts;
use crate::assessment::{Assessment, Outcome};

/// The file.
#[must_use]
pub fn junit(gates: &[Assessment]) -> String {
    let suites: Vec<Suite<'_>> = gates.iter().map(Suite::of).collect();
    let sum = |of: fn(&Suite<'_>) -> usize| suites.iter().map(of).sum::<usize>();
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <testsuites name=\"clawrl ci\" tests=\"{}\" failures=\"{}\" errors=\"{}\" time=\"{:.3}\">\n",
        sum(|suite| suite.parts.len()),
        sum(|suite| suite.count(Outcome::Fail)),
        sum(|suite| suite.count(Outcome::Inconclusive)),
        gates.iter().map(seconds).sum::<f64>(),
    );
    suites.iter().for_each(|suite| suite.write(&mut text));
    text.push_str("</testsuites>\n");
    text
}

fn seconds(gate: &Assessment) -> f64 {
    60.0 * gate.budget.minutes
}

struct Suite<'a> {
    gate: &'a Assessment,
    parts: Vec<Part<'a>>,
}

impl<'a> Suite<'a> {
    fn of(gate: &'a Assessment) -> Self {
        Self { gate, parts: parts(gate) }
    }

    fn count(&self, outcome: Outcome) -> usize {
        self.parts.iter().filter(|part| part.outcome == outcome).count()
    }

    fn write(&self, text: &mut String) {
        let gate = self.gate;
        // Writing to a string does not fail, here and below.
        let _ = write!(
            text,
            " <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"0\" time=\"{:.3}\">\n  <properties>\n",
            xml(&gate.gate),
            self.parts.len(),
            self.count(Outcome::Fail),
            self.count(Outcome::Inconclusive),
            seconds(gate),
        );
        for (name, value) in self.properties() {
            let _ = writeln!(text, "   <property name=\"{}\" value=\"{}\"/>", xml(&name), xml(&value));
        }
        text.push_str("  </properties>\n");
        for part in &self.parts {
            write_case(text, gate, part);
        }
        text.push_str(" </testsuite>\n");
    }

    /// Facts of the gate, and of each task what is no matter of passes.
    fn properties(&self) -> Vec<(String, String)> {
        let gate = self.gate;
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

fn write_case(text: &mut String, gate: &Assessment, part: &Part<'_>) {
    let (class, name, said) =
        (xml(&format!("{}.{}", gate.gate, part.kind.word())), xml(part.name), xml(&part.said));
    let _ = write!(text, "  <testcase classname=\"{class}\" name=\"{name}\" time=\"0\">");
    let _ = match part.outcome {
        Outcome::Pass => write!(text, "<system-out>{said}</system-out>"),
        Outcome::Inconclusive => {
            write!(text, "<error type=\"inconclusive\" message=\"{said}\">{said}</error>")
        }
        Outcome::Fail => write!(text, "<failure type=\"worse\" message=\"{said}\">{said}</failure>"),
    };
    text.push_str("</testcase>\n");
}
