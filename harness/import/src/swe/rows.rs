//! Turns rows into tasks, or skips those that cannot be represented.

use std::collections::HashMap;

use clawrl_config::{Node, Problem};
use serde_json::json;

use super::instance::Instance;
use super::options::SweOptions;
use super::repository;
use super::runner::runner;
use super::source::{self, SourceRow};
use super::task::{Task, task, task_id};
use crate::draft::{SuiteParts, whole};
use crate::findings::Findings;
use crate::questions::{BadRow, RowSelector};

/// Problems of rows that are reported one by one.
const MAX_REPORTED: usize = 12;

/// Time limit in seconds for the tests of the largest repositories, as in SWE-bench.
const TEST_TIMEOUT_SECS: u64 = 1800;
/// Resources of an agent: images have gigabytes, and a command may build the repository.
const LEASE_TIMEOUT_SECS: u64 = 900;
const STEP_TIMEOUT_SECS: u64 = 300;
const ATTEMPT_TIMEOUT_SECS: u64 = 3600;
const MEMORY_MIB: u64 = 4096;
const DISK_MIB: u64 = 4096;
const PIDS: u64 = 512;

/// The head of the suite.
pub(crate) fn head(max_turns: u32) -> Vec<(&'static str, Node)> {
    let swe = Node::map(vec![
        ("sandbox", "container".into()),
        ("memory_mib", whole(MEMORY_MIB)),
        ("disk_mib", whole(DISK_MIB)),
        ("pids", whole(PIDS)),
        ("test_timeout_secs", whole(TEST_TIMEOUT_SECS)),
    ]);
    let entries = vec![
        ("max_turns", whole(max_turns.into())),
        ("lease_timeout_secs", whole(LEASE_TIMEOUT_SECS)),
        ("step_timeout_secs", whole(STEP_TIMEOUT_SECS)),
        ("attempt_timeout_secs", whole(ATTEMPT_TIMEOUT_SECS)),
        ("env", Node::map(vec![("swe", swe)])),
    ];
    vec![("defaults", Node::map(entries))]
}

/// Why a row does not become a task.
enum Skip {
    /// It is wrong, or needs something that is missing.
    Bad(BadRow),
    /// None of our parsers reads its log (W1).
    Unread(String),
}

/// Reads the rows; problems go to the findings.
pub(crate) fn import_rows(options: &SweOptions, findings: &mut Findings) -> SuiteParts {
    let found = if options.source.is_dir() {
        if !repository::is_repository(&options.source) {
            let help = "name a task repository, with `sweb.yaml` and `tasks`, or a file of rows";
            findings.refuse_path(&options.source, "is not a task repository of SWE-bench", help);
            return SuiteParts::default();
        }
        repository::rows_of(&options.source, &options.tasks, findings)
    } else {
        source::rows_of(&options.source, findings)
    };
    let wanted: Vec<&SourceRow> = found.iter().filter(|row| is_wanted(row, options)).collect();
    missing(&found, options, findings);
    let mut rows = SuiteParts::default();
    let mut chosen = RowSelector::new(options.choice, wanted.len());
    let mut known: HashMap<String, String> = HashMap::new();
    let (mut reported, mut unreported) = (0, 0);
    let mut left = Vec::new();
    for row in wanted {
        if !chosen.takes() {
            continue;
        }
        match one(row, options, &mut known, findings) {
            Ok(task) => {
                rows.ids.push(task.id);
                rows.tasks.push(task.node);
                rows.fixtures.extend(task.fixtures);
                rows.records.push(task.record);
            }
            Err(Skip::Unread(reason)) => left.push((row, reason)),
            Err(Skip::Bad(bad)) if options.skip_unrepresentable => left.push((row, bad.message)),
            Err(Skip::Bad(bad)) if reported < MAX_REPORTED => {
                reported += 1;
                row.place.refuse(bad, findings);
            }
            Err(Skip::Bad(_)) => unreported += 1,
        }
    }
    if unreported > 0 {
        let help = "skip such rows with `--skip-unrepresentable`, which lists them";
        findings.adopt(&Problem::new(format!("{unreported} more rows cannot be imported"), help).into());
    }
    let notes = findings.take_notes().into_iter().chain(by_reason(&left));
    rows.notes = notes.map(|note| (String::new(), note)).collect();
    if !left.is_empty() {
        let entry = |(row, reason): &(&SourceRow, String)| json!({ "row": row.place.words(), "instance_id": name(row), "reason": reason });
        rows.records.push(json!({ "left_out": left.iter().map(entry).collect::<Vec<_>>() }));
    }
    if findings.count() == 0 && rows.ids.is_empty() {
        let reasons = by_reason(&left).join("; ");
        let message = if reasons.is_empty() {
            "there is no row to import".to_owned()
        } else {
            format!("there is no row to import: {reasons}")
        };
        findings.adopt(&Problem::new(message, "name a file with rows").into());
    }
    rows
}

fn name(row: &SourceRow) -> Option<&str> {
    row.columns.as_ref().ok()?.get("instance_id")?.as_str()
}

/// A row that cannot be read has no id, so it is reported for every selection.
fn is_wanted(row: &SourceRow, options: &SweOptions) -> bool {
    let Some(id) = name(row) else { return true };
    let is_named = |wanted: &String| wanted == id || *wanted == task_id(id);
    (options.tasks.is_empty() || options.tasks.iter().any(is_named))
        && options.filter.as_ref().is_none_or(|part| id.contains(part.as_str()))
}

/// Named instances that do not exist.
fn missing(found: &[SourceRow], options: &SweOptions, findings: &mut Findings) {
    let ids: Vec<&str> = found.iter().filter_map(name).collect();
    for wanted in &options.tasks {
        if !ids.iter().any(|id| id == wanted || task_id(id) == *wanted) {
            let known: Vec<&str> = ids.iter().take(8).copied().collect();
            let help = if known.is_empty() {
                "there is none".to_owned()
            } else {
                format!("there is {}", known.join(", "))
            };
            findings.adopt(&Problem::new(format!("there is no instance `{wanted}`"), help).into());
        }
    }
}

fn one(
    row: &SourceRow,
    options: &SweOptions,
    known: &mut HashMap<String, String>,
    findings: &mut Findings,
) -> Result<Task, Skip> {
    let columns = row.columns.as_ref().map_err(|bad| Skip::Bad(bad.clone()))?;
    let instance = Instance::read(columns).map_err(Skip::Bad)?;
    if let Some(first) = known.insert(task_id(&instance.id), row.place.words()) {
        let message = format!("two rows have the id `{}`: the first is {first}", instance.id);
        return Err(Skip::Bad(BadRow::new("instance_id", message, "remove one of them")));
    }
    let runner = runner(&instance).map_err(Skip::Unread)?;
    let folder = format!("fixtures/{}/assets", task_id(&instance.id));
    let assets = repository::assets(&row.place, &folder, findings);
    task(&instance, &runner, assets, options).map_err(|message| {
        Skip::Bad(BadRow::new("instance_id", message, "skip such rows with `--skip-unrepresentable`"))
    })
}

/// Notes how many rows are skipped, and why.
fn by_reason(left: &[(&SourceRow, String)]) -> Vec<String> {
    let mut counts: Vec<(&str, Vec<String>)> = Vec::new();
    for (row, reason) in left {
        let who = name(row).map_or_else(|| row.place.words(), str::to_owned);
        match counts.iter_mut().find(|(known, _)| known == reason) {
            Some((_, whose)) => whose.push(who),
            None => counts.push((reason, vec![who])),
        }
    }
    let line = |(reason, whose): (&str, Vec<String>)| match whose.as_slice() {
        [one] => format!("{one} is skipped: {reason}"),
        [first, ..] => format!("{} rows are skipped, the first is {first}: {reason}", whose.len()),
        [] => String::new(),
    };
    counts.into_iter().map(line).collect()
}
