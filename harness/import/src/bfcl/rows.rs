//! Reads the rows of BFCL's files, with their possible answers.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use clawrl_config::Problem;
use serde_json::{Value, json};

use super::category::{Expectation, expectation};
use super::options::BfclOptions;
use super::task::task;
use crate::draft::SuiteParts;
use crate::findings::Findings;
use crate::questions::{BadRow, Lines, RowSelector};

/// Problems of rows that are reported one by one.
const MAX_REPORTED: usize = 12;

/// Reads the files of the categories; problems go to the findings.
pub(crate) fn import_rows(options: &BfclOptions, findings: &mut Findings) -> SuiteParts {
    let mut rows = SuiteParts::default();
    for (category, file) in files(options, findings) {
        match expectation(&category) {
            Ok(expectation) => read(options, &category, expectation, &file, &mut rows, findings),
            Err(problem) => findings.adopt(&problem.into()),
        }
    }
    if findings.count() == 0 && rows.ids.is_empty() {
        findings.adopt(
            &Problem::new("there is no row to import", "name a category: `--category simple_python`").into(),
        );
    }
    rows
}

/// The categories, with their files.
fn files(options: &BfclOptions, findings: &mut Findings) -> Vec<(String, PathBuf)> {
    let data = &options.data;
    if data.is_file() {
        let stem = data.file_stem().unwrap_or_default().to_string_lossy();
        let category = stem.strip_prefix("BFCL_v4_").unwrap_or(&stem).to_owned();
        if options.categories.iter().any(|wanted| *wanted != category) {
            let help = "name the folder, or leave `--category` out";
            findings.refuse_path(data, format!("holds only the category `{category}`"), help);
        }
        return vec![(category, data.clone())];
    }
    if options.categories.is_empty() {
        let help = "name them: `--category simple_python --category multiple`";
        findings.adopt(&Problem::new("no category is selected", help).into());
    }
    let folders = [data.clone(), data.join("data"), data.join("bfcl_eval/data")];
    let mut found = Vec::new();
    for category in &options.categories {
        if found.iter().any(|(known, _)| known == category) {
            continue;
        }
        let name = format!("BFCL_v4_{category}.json");
        match folders.iter().map(|folder| folder.join(&name)).find(|path| path.is_file()) {
            Some(path) => found.push((category.clone(), path)),
            // An unknown category was already reported.
            None if expectation(category).is_err() => found.push((category.clone(), data.join(&name))),
            None => {
                let help = "name the folder `bfcl_eval/data` of the package `bfcl-eval`: `pip download --no-deps bfcl-eval`, then \
                            `unzip`";
                findings.refuse_path(data, format!("has no `{name}`"), help);
            }
        }
    }
    found
}

fn read(
    options: &BfclOptions,
    category: &str,
    expectation: Expectation,
    file: &Path,
    rows: &mut SuiteParts,
    findings: &mut Findings,
) {
    let Some(lines) = Lines::read(file, findings) else { return };
    let mut answers: HashMap<String, Value> = HashMap::new();
    if expectation == Expectation::Calls {
        let name = file.file_name().unwrap_or_default();
        let path = file.parent().unwrap_or(Path::new(".")).join("possible_answer").join(name);
        let Some(truth) = Lines::read(&path, findings) else { return };
        for line in &truth.lines {
            match &line.row {
                Ok(row) => {
                    if let (Some(Value::String(id)), Some(calls)) = (row.get("id"), row.get("ground_truth")) {
                        answers.insert(id.clone(), calls.clone());
                    }
                }
                // The row of these answers is unknown, so no row can be skipped for it.
                Err(bad) => {
                    let place = truth.place(line, &bad.key);
                    findings.refuse(&truth.source, place, "in this row", &bad.message, &bad.help);
                    return;
                }
            }
        }
    }
    let mut chosen = RowSelector::new(options.choice, lines.lines.len());
    let (mut reported, mut unreported) = (0, 0);
    let mut skipped = Vec::new();
    for line in &lines.lines {
        if !chosen.takes() {
            continue;
        }
        let id = line.row.as_ref().ok().and_then(|row| row.get("id")).and_then(Value::as_str);
        let truth = id.and_then(|id| answers.get(id));
        let row = line.row.as_ref().map_err(Clone::clone);
        let read = row.and_then(|row| task(row, truth, expectation, options.max_turns)).and_then(|task| {
            if rows.ids.contains(&task.id) {
                let message = format!("two rows have the id `{}`", task.id);
                return Err(BadRow { key: "id".to_owned(), message, help: "remove one of them".to_owned() });
            }
            Ok(task)
        });
        match read {
            Ok(task) => {
                rows.ids.push(task.id);
                rows.tasks.push(task.node);
                rows.records.push(task.record);
            }
            Err(bad) if options.skip_unrepresentable => {
                let id = id.map_or_else(|| format!("line {}", line.number), str::to_owned);
                rows.notes.push((String::new(), format!("{id} is skipped: {}", bad.message)));
                skipped.push(json!({ "id": id, "reason": bad.message }));
            }
            Err(bad) if reported < MAX_REPORTED => {
                reported += 1;
                findings.refuse(
                    &lines.source,
                    lines.place(line, &bad.key),
                    "in this row",
                    bad.message,
                    bad.help,
                );
            }
            Err(_) => unreported += 1,
        }
    }
    if unreported > 0 {
        let help = "skip such rows with `--skip-unrepresentable`, which lists them";
        let message = format!("{unreported} more rows of `{category}` cannot be imported");
        findings.adopt(&Problem::new(message, help).into());
    }
    if !skipped.is_empty() {
        rows.records.push(json!({ "category": category, "left_out": skipped }));
    }
}
