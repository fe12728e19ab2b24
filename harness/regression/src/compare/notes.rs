//! Notes on the numbers of a comparison.

use std::collections::BTreeMap;

use clawrl_core::TaskSpec;
use clawrl_record::{JournalState, Run, RunEnd};

use crate::outcomes::Outcomes;
use crate::render::counted;

/// Names of suites of a run, in words.
pub(super) fn suites(run: &Run) -> String {
    let names: Vec<&str> = run.plan().suites.iter().map(|suite| suite.name.as_str()).collect();
    if names.is_empty() { "no suite".to_owned() } else { names.join(", ") }
}

/// Summary of attempts that were not graded.
pub(super) fn ungraded_summary(side: &Outcomes) -> String {
    let faults: u64 = side.values().map(|task| u64::from(task.faults)).sum();
    let missing: u64 = side.values().map(|task| u64::from(task.missing)).sum();
    format!("{} ended in a fault, {missing} are open", counted(faults, "slot"))
}

/// Notes on both runs and on their differences.
pub(super) fn notes(
    before: &Run,
    after: &Run,
    alone: (&[String], &[String]),
    common: (&Outcomes, &Outcomes),
) -> Vec<String> {
    let mut notes = Vec::new();
    if before.plan().run == after.plan().run && before.dir() == after.dir() {
        notes.push("both are the same run".to_owned());
    }
    notes.extend(
        [(before, common.0), (after, common.1)].into_iter().flat_map(|(run, side)| of_run(run, side)),
    );
    for (run, names) in [(before, alone.0), (after, alone.1)] {
        if let Some(first) = names.first() {
            notes.push(format!(
                "{} only in {}, first {first}, and excluded from all numbers here",
                if names.len() == 1 { "1 task is".to_owned() } else { format!("{} tasks are", names.len()) },
                run.plan().run
            ));
        }
    }
    notes.extend(other_tasks(before, after));
    if before.plan().seed != after.plan().seed {
        notes.push(format!("their seeds differ: {} and {}", before.plan().seed, after.plan().seed));
    }
    notes
}

fn of_run(run: &Run, side: &Outcomes) -> Vec<String> {
    let name = &run.plan().run;
    let open = run.state().map_or(run.plan().slots.len(), |state| state.open_slots().len()) as u64;
    let end = run.state().and_then(JournalState::finished).map(|finished| finished.end);
    let mut notes = Vec::new();
    let unfinished = match end {
        _ if run.is_running() => Some("is under way"),
        Some(RunEnd::Completed | RunEnd::DemandClosed) => None,
        Some(RunEnd::Interrupted) => Some("was interrupted"),
        Some(RunEnd::TooManyFaults) => Some("was aborted after too many faults"),
        Some(RunEnd::HarnessFault) => Some("was ended by a harness fault"),
        None => Some("was cut short: its process died"),
    };
    if let Some(how) = unfinished {
        notes.push(format!("{name} is incomplete: it {how}, and {} open", are(open, "slot")));
    }
    let faults: u64 = side.values().map(|task| u64::from(task.faults)).sum();
    if faults > 0 {
        notes.push(format!("{} of {name} ended in a fault and are excluded", counted(faults, "slot")));
    }
    let ungraded = side.values().filter(|task| task.episodes.is_empty()).count() as u64;
    if ungraded > 0 {
        notes.push(format!("{} without a graded attempt in {name}", are(ungraded, "task")));
    }
    notes
}

fn are(count: u64, what: &str) -> String {
    format!("{} {}", counted(count, what), if count == 1 { "is" } else { "are" })
}

/// Tasks of one name that are not the same task.
fn other_tasks(before: &Run, after: &Run) -> Option<String> {
    let others: BTreeMap<&str, &TaskSpec> =
        after.plan().tasks.iter().map(|task| (task.id.0.as_str(), &**task)).collect();
    // Compares what the agent sees and how it is checked; the location of files does not matter.
    let same = |one: &TaskSpec, other: &TaskSpec| {
        one.asked() == other.asked() && one.checks == other.checks && one.max_turns == other.max_turns
    };
    let mut names = before.plan().tasks.iter().filter_map(|task| {
        let other = others.get(task.id.0.as_str())?;
        (!same(task, other)).then(|| task.id.0.clone())
    });
    let first = names.next()?;
    let count = 1 + names.count() as u64;
    Some(format!(
        "{} with equal names but another instruction, checks or turn limit, first {first}",
        counted(count, "task")
    ))
}
