//! Task repositories of SWE-bench: one folder for each instance, whose files become the columns of a row.

use std::path::{Path, PathBuf};

use clawrl_config::{Node, NodeValue};
use serde_json::{Map, Value};

use super::place::{FILES, Place};
use super::source::SourceRow;
use crate::document::{Document, read_text};
use crate::draft::{Fixture, fixtures_of};
use crate::findings::Findings;
use crate::questions::BadRow;
use crate::tree::Tree;
use clawrl_core::python_as_json;

const CONFIG: &str = "sweb.yaml";
const TASK: &str = "task.yaml";
const ASSETS: &str = "test_assets";

/// Whether a folder is a task repository, or the tasks folder of one.
pub(super) fn is_repository(folder: &Path) -> bool {
    folder.join(CONFIG).is_file() || folder.join("tasks").is_dir()
}

/// Reads the instances with the ids `wanted`, or else those of the splits that the repository publishes.
pub(super) fn rows_of(folder: &Path, named: &[String], findings: &mut Findings) -> Vec<SourceRow> {
    let tasks = folder.join("tasks");
    let Ok(entries) = std::fs::read_dir(&tasks) else {
        findings.refuse_path(
            folder,
            "has no folder `tasks`",
            "name a task repository of SWE-bench, or a file of rows",
        );
        return Vec::new();
    };
    let mut folders: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|task| task.join(TASK).is_file())
        .collect();
    folders.sort();
    let Some(splits) = splits(folder, findings) else { return Vec::new() };
    let mut unpublished = 0;
    let mut rows = Vec::new();
    for task in folders {
        let Some(columns) = columns(&task, findings) else { continue };
        let is_named =
            task.file_name().is_some_and(|name| named.iter().any(|wanted| name == wanted.as_str()));
        let split = columns.as_ref().ok().and_then(|columns| columns.get("split")).and_then(Value::as_str);
        if split.is_some_and(|split| !is_named && !splits.iter().any(|known| known == split)) {
            unpublished += 1;
            continue;
        }
        rows.push(SourceRow { place: Place::Folder(task), columns });
    }
    if unpublished > 0 {
        let tasks =
            if unpublished == 1 { "1 task is".to_owned() } else { format!("{unpublished} tasks are") };
        findings.note(format!("{tasks} left out, of a split that {CONFIG} does not publish"));
    }
    rows
}

/// Splits that the repository publishes; `test` by default.
fn splits(folder: &Path, findings: &mut Findings) -> Option<Vec<String>> {
    let path = folder.join(CONFIG);
    let config = if path.is_file() {
        match Document::yaml(&path) {
            Ok(document) => value(&document.root),
            Err(error) => {
                findings.adopt(&error);
                return None;
            }
        }
    } else {
        Value::Null
    };
    let named = config["splits"].as_array().map(|splits| splits.iter().filter_map(Value::as_str));
    Some(named.map_or_else(|| vec!["test".to_owned()], |splits| splits.map(str::to_owned).collect()))
}

/// The row that SWE-bench makes of a task.
fn columns(task: &Path, findings: &mut Findings) -> Option<Result<Map<String, Value>, BadRow>> {
    let document = match Document::yaml(&task.join(TASK)) {
        Ok(document) => document,
        Err(error) => {
            findings.adopt(&error);
            return None;
        }
    };
    let Value::Object(mut columns) = value(&document.root) else {
        return Some(Err(BadRow::new("", "the file is not a map", "write `key: value` lines")));
    };
    for (column, file) in FILES {
        let path = task.join(file);
        if !path.is_file() {
            continue;
        }
        let source = match read_text(&path) {
            Ok(source) => source,
            Err(problem) => {
                findings.adopt(&problem.into());
                return None;
            }
        };
        if file != "tests.json" {
            columns.insert(column.to_owned(), Value::String(source.text().to_owned()));
            continue;
        }
        match serde_json::from_str::<Map<String, Value>>(&python_as_json(source.text())) {
            Ok(tests) => columns.extend(tests.into_iter().filter(|(key, _)| key == column)),
            Err(error) => {
                let message = format!("this is not a JSON object of lists: {error}");
                return Some(Err(BadRow::new(
                    column,
                    message,
                    "write `{\"FAIL_TO_PASS\": [...], \"PASS_TO_PASS\": [...]}`",
                )));
            }
        }
    }
    Some(Ok(columns))
}

/// Files that no patch can hold, copied over the repository before the tests.
pub(super) fn assets(place: &Place, to: &str, findings: &mut Findings) -> Vec<Fixture> {
    let Place::Folder(folder) = place else { return Vec::new() };
    let assets = folder.join(ASSETS);
    if !assets.is_dir() {
        return Vec::new();
    }
    fixtures_of(&Tree::read(&assets, findings), to)
}

fn value(node: &Node) -> Value {
    match &node.value {
        NodeValue::Bool(is) => Value::Bool(*is),
        NodeValue::Integer(number) => Value::from(*number),
        NodeValue::Number(number) => Value::from(*number),
        NodeValue::Text(text) => Value::String(text.clone()),
        NodeValue::List(nodes) => nodes.iter().map(value).collect(),
        NodeValue::Map(entries) => {
            Value::Object(entries.iter().map(|entry| (entry.key.clone(), value(&entry.node))).collect())
        }
        _ => Value::Null,
    }
}
