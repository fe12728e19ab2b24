//! A run slot by slot, for tools of others: JUnit XML for systems of CI, and CSV for tables.
//!
//! S1. Every slot of the plan is one case and one row. S2. A fault is an error and an open slot is skipped: neither is a failure (I2 of the
//! architecture). S3. Everything follows from plan and journal.
//!
//! Units: seconds of wall clock from the grant of an environment to the grade; US dollars. Pure; nothing to cancel.
//! Source: RFC 4180 for CSV, with `\n` at the end of a line. Deviations: none.

use clawrl_core::{SlotSpec, TaskSpec};
use clawrl_record::{AttemptSummary, Ending, PhaseMicros, Run, SlotState};

use crate::junit::{JunitCase, JunitEnd, JunitSuite, junit_xml};

/// A slot of a plan, and its result.
struct Slot<'a> {
    spec: &'a SlotSpec,
    task: &'a TaskSpec,
    state: &'a SlotState,
    /// Its number among the slots of its task, from 1, and their count.
    repeat: (usize, usize),
}

/// A run as JUnit XML: a suite for each suite, a case for each slot.
#[must_use]
pub fn junit_of_run(run: &Run) -> String {
    let slots = slots(run);
    let suites: Vec<JunitSuite> = run
        .plan()
        .suites
        .iter()
        .zip(0u32..)
        .map(|(suite, at)| {
            let slots = slots.iter().filter(|slot| slot.spec.suite == at);
            let cases: Vec<JunitCase> = slots.map(|slot| slot.case(run)).collect();
            JunitSuite {
                name: suite.name.clone(),
                seconds: cases.iter().map(|case| case.seconds).sum(),
                properties: vec![("run".to_owned(), run.plan().run.to_string())],
                cases,
            }
        })
        .collect();
    junit_xml("clawrl run", &suites)
}

/// The columns of [`csv_of_run`].
const COLUMNS: [&str; 17] = [
    "run",
    "suite",
    "family",
    "task",
    "slot",
    "repeat",
    "outcome",
    "score",
    "reward",
    "turns",
    "seconds",
    "attempts",
    "faulted_attempts",
    "input_tokens",
    "output_tokens",
    "cost_usd",
    "fault",
];

/// A run as CSV: a header, and one row per slot. Missing numbers are empty; attempts, tokens and costs cover all attempts at the slot.
#[must_use]
pub fn csv_of_run(run: &Run) -> String {
    let mut text = COLUMNS.join(",") + "\n";
    for slot in slots(run) {
        text += &(slot.row(run).map(|field| quoted(&field)).join(",") + "\n");
    }
    text
}

fn slots(run: &Run) -> Vec<Slot<'_>> {
    static UNTOUCHED: std::sync::LazyLock<SlotState> = std::sync::LazyLock::new(SlotState::default);
    let plan = run.plan();
    let mut of_task = vec![0usize; plan.tasks.len()];
    let mut count = |task: u32| {
        let seen = &mut of_task[task as usize];
        *seen += 1;
        *seen
    };
    let places: Vec<usize> = plan.slots.iter().map(|spec| count(spec.task.0)).collect();
    let slots = plan.slots.iter().zip(places).enumerate();
    slots
        .map(|(at, (spec, place))| Slot {
            spec,
            task: plan.task_of(spec),
            state: run.state().and_then(|state| state.slots().get(at)).unwrap_or(&UNTOUCHED),
            repeat: (place, of_task[spec.task.0 as usize]),
        })
        .collect()
}

impl Slot<'_> {
    fn case(&self, run: &Run) -> JunitCase {
        let (place, all) = self.repeat;
        let id = &self.task.id.0;
        let show = format!("`clawrl show {} --slot {}` shows it", run.plan().run, self.spec.id);
        let (end, said) = match self.ending() {
            Some(Ending::Finished { score, passed: true, .. }) => {
                (JunitEnd::Passed, format!("score {score}"))
            }
            Some(Ending::Finished { score, .. }) => {
                (JunitEnd::Failure("failed"), format!("score {score}, and some check did not pass; {show}"))
            }
            Some(Ending::Faulted { boundary, code, .. }) => {
                (JunitEnd::Error("fault"), format!("fault {boundary}/{code}; {show}"))
            }
            Some(Ending::Cancelled(_)) | None => (JunitEnd::Skipped, "the slot is open".to_owned()),
        };
        JunitCase {
            class: format!("{}.{}", self.task.suite, self.task.family),
            name: if all > 1 { format!("{id} ({place} of {all})") } else { id.clone() },
            seconds: self.state.closing().map_or(0.0, seconds),
            end,
            said,
        }
    }

    fn row(&self, run: &Run) -> [String; COLUMNS.len()] {
        let (outcome, score, reward, fault) = match self.ending() {
            Some(Ending::Finished { score, passed, reward, .. }) => {
                let outcome = if *passed { "passed" } else { "failed" };
                (outcome, score.to_string(), reward.to_string(), String::new())
            }
            Some(Ending::Faulted { boundary, code, .. }) => {
                ("fault", String::new(), String::new(), format!("{boundary}/{code}"))
            }
            Some(Ending::Cancelled(_)) | None => ("open", String::new(), String::new(), String::new()),
        };
        let closing = self.state.closing();
        let attempts = &self.state.attempts;
        let sum = |of: fn(&clawrl_core::UsageTotal) -> Option<u64>, judges: bool| {
            let usages = attempts.iter().flat_map(|attempt| {
                [attempt.usage.as_ref(), attempt.judge_usage.as_deref().filter(|_| judges)]
            });
            let known: Vec<u64> = usages.flatten().filter_map(of).collect();
            (!known.is_empty()).then(|| known.into_iter().fold(0, u64::saturating_add))
        };
        let number = |number: Option<u64>| number.map_or_else(String::new, |number| number.to_string());
        let cost = sum(|usage| usage.cost_nano_usd, true);
        [
            run.plan().run.to_string(),
            self.task.suite.clone(),
            self.task.family.clone(),
            self.task.id.0.clone(),
            self.spec.id.to_string(),
            self.repeat.0.to_string(),
            outcome.to_owned(),
            score,
            reward,
            closing.map_or_else(String::new, |attempt| attempt.turns.to_string()),
            closing.map_or_else(String::new, |attempt| format!("{:.3}", seconds(attempt))),
            attempts.len().to_string(),
            attempts.iter().filter(|attempt| attempt.faulted()).count().to_string(),
            number(sum(|usage| Some(usage.input_tokens), false)),
            number(sum(|usage| Some(usage.output_tokens), false)),
            cost.map_or_else(String::new, |nano| (nano as f64 / 1e9).to_string()),
            fault,
        ]
    }

    fn ending(&self) -> Option<&Ending> {
        self.state.closing().map(|attempt| &attempt.ending)
    }
}

/// From the grant of the environment to the grade: waiting for room on the machine is not the agent's.
fn seconds(attempt: &AttemptSummary) -> f64 {
    let PhaseMicros { setup, policy, step, grade, .. } = attempt.times_us;
    (setup + policy + step + grade) as f64 / 1e6
}

/// A field of CSV, between quotes where it needs them.
fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_csv() {
        let check = |field: &str, expected: &str| assert_eq!(quoted(field), expected);
        check("plain", "plain");
        check("a,b", "\"a,b\"");
        check("say \"x\"\n", "\"say \"\"x\"\"\n\"");
        check("", "");
    }
}
