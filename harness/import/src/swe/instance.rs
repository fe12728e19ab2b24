//! Reads the columns of a row.
//!
//! N1. `patch` is the fix, but in rows of SWE-smith the bug: there the fix is its reverse. N2. Tests are a list of
//! names, or a text that holds the list as JSON.

use serde_json::{Map, Value};

use super::diff::Diff;
use crate::questions::BadRow;
use clawrl_core::read_python_json;

/// A row with all that a task needs.
#[derive(Debug)]
pub(super) struct Instance {
    pub(super) id: String,
    /// `owner/name`; empty if the row does not name it.
    pub(super) repo: String,
    pub(super) version: String,
    pub(super) base_commit: Option<String>,
    pub(super) problem_statement: String,
    pub(super) hints: Option<String>,
    /// The fix.
    pub(super) gold: String,
    /// The bug, if it has to be applied to the repository of the image first.
    pub(super) fault: Option<String>,
    pub(super) test_patch: Option<TestPatch>,
    pub(super) fail_to_pass: Vec<String>,
    pub(super) pass_to_pass: Vec<String>,
    pub(super) image: Option<ImageColumn>,
    pub(super) test_command: Option<String>,
    pub(super) log_parser: Option<String>,
    pub(super) eval_script: Option<String>,
}

/// The tests that belong to the issue.
#[derive(Debug)]
pub(super) struct TestPatch {
    pub(super) text: String,
    /// Paths of the files that exist after it is applied.
    pub(super) files: Vec<String>,
}

/// An image, and the column that names it: data sets differ in where their images have the repository.
#[derive(Debug)]
pub(super) struct ImageColumn {
    pub(super) column: &'static str,
    pub(super) name: String,
}

const IMAGES: [&str; 4] = ["image", "image_name", "docker_image", "image_url"];

impl Instance {
    /// Reads a row.
    pub(super) fn read(columns: &Map<String, Value>) -> Result<Self, BadRow> {
        if columns.contains_key("parsed_commit_content") && !columns.contains_key("patch") {
            let help = "use a derived data set with the columns `patch`, `test_patch` and `FAIL_TO_PASS`";
            let message = "this is a row of R2E-Gym, whose fix is a commit as a syntax tree and whose tests are in its image";
            return Err(BadRow::new("parsed_commit_content", message, help));
        }
        let id = required(columns, "instance_id")?;
        let repo = text(columns, "repo")?.unwrap_or_default();
        let base_commit = text(columns, "base_commit")?;
        let image = IMAGES.iter().find_map(|column| match text(columns, column) {
            Ok(Some(name)) => Some(ImageColumn { column, name }),
            _ => None,
        });
        let patch = required(columns, "patch")?;
        let diff = Diff::read(&patch).map_err(|reason| no_diff("patch", &reason))?;
        let test_patch = match text(columns, "test_patch")? {
            Some(text) => {
                let diff = Diff::read(&text).map_err(|reason| no_diff("test_patch", &reason))?;
                let files = diff.paths_after().map(str::to_owned).collect();
                Some(TestPatch { text: ended(text), files })
            }
            None => None,
        };
        let of_smith = repo.starts_with("swesmith/")
            || image.as_ref().is_some_and(|image| image.name.contains("swesmith"))
            || (!columns.contains_key("test_patch") && !columns.contains_key("base_commit"));
        // N1.
        let (gold, fault) = if of_smith {
            let undone = diff.reversed().map_err(|reason| no_diff("patch", &reason))?;
            (undone, Some(ended(patch)))
        } else {
            (ended(patch), None)
        };
        let fail_to_pass = tests(columns, ["FAIL_TO_PASS", "fail_to_pass"])?;
        if fail_to_pass.is_empty() {
            let message = "`FAIL_TO_PASS` is empty: no test shows that the issue is resolved";
            return Err(BadRow::new("FAIL_TO_PASS", message, "skip such rows with `--skip-unrepresentable`"));
        }
        let mut pass_to_pass = tests(columns, ["PASS_TO_PASS", "pass_to_pass"])?;
        pass_to_pass.retain(|name| !fail_to_pass.contains(name));
        let install = install_config(columns)?;
        Ok(Self {
            id,
            repo,
            version: text(columns, "version")?.unwrap_or_default(),
            base_commit,
            problem_statement: required(columns, "problem_statement")?,
            hints: text(columns, "hints_text")?,
            gold,
            fault,
            test_patch,
            fail_to_pass,
            pass_to_pass,
            image,
            test_command: command(&install, &["test_cmd"])
                .or_else(|| command(columns, &["test_cmd", "test_cmds", "test_command", "test_commands"])),
            log_parser: text(&install, "log_parser")?.or(text(columns, "log_parser")?),
            eval_script: text(columns, "eval_script")?,
        })
    }
}

fn no_diff(key: &str, reason: &str) -> BadRow {
    BadRow::new(key, format!("`{key}` cannot be used: {reason}"), "write it as `git diff` does")
}

/// A text that is not blank.
fn text(columns: &Map<String, Value>, key: &str) -> Result<Option<String>, BadRow> {
    match columns.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if text.trim().is_empty() => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        // YAML reads `version: 1.0` as a number.
        Some(Value::Number(number)) => Ok(Some(number.to_string())),
        Some(_) => Err(BadRow::new(key, format!("`{key}` is not a text"), "write it as a text")),
    }
}

fn required(columns: &Map<String, Value>, key: &str) -> Result<String, BadRow> {
    text(columns, key)?.ok_or_else(|| {
        let message = format!("the row has no `{key}`, or an empty one");
        BadRow::new(key, message, format!("add the column `{key}`, as in SWE-bench"))
    })
}

/// N2.
fn tests(columns: &Map<String, Value>, keys: [&'static str; 2]) -> Result<Vec<String>, BadRow> {
    let found = keys.iter().find_map(|key| Some((*key, columns.get(*key)?)));
    let Some((key, value)) = found else {
        let message = format!("the row has no `{}`", keys[0]);
        return Err(BadRow::new(keys[0], message, "add the column, with a list of test names"));
    };
    let decoded;
    let value = match value {
        Value::String(text) => {
            decoded = read_python_json(text).unwrap_or(Value::Null);
            &decoded
        }
        other => other,
    };
    let names: Option<Vec<String>> = value
        .as_array()
        .and_then(|names| names.iter().map(|name| name.as_str().map(str::to_owned)).collect());
    let mut names = names.ok_or_else(|| {
        let message = format!("`{key}` is neither a list of names nor a text with such a list in JSON");
        BadRow::new(key, message, "write `[\"test_a\"]`, or the same as a text")
    })?;
    let mut known = std::collections::HashSet::new();
    names.retain(|name| !name.trim().is_empty() && known.insert(name.clone()));
    Ok(names)
}

/// SWE-rebench's description of how a repository is installed and tested: an object, or a text that holds one.
fn install_config(columns: &Map<String, Value>) -> Result<Map<String, Value>, BadRow> {
    match columns.get("install_config") {
        None | Some(Value::Null) => Ok(Map::new()),
        Some(Value::Object(config)) => Ok(config.clone()),
        Some(Value::String(text)) => match read_python_json(text) {
            Ok(Value::Object(config)) => Ok(config),
            _ => Err(no_config()),
        },
        Some(_) => Err(no_config()),
    }
}

fn no_config() -> BadRow {
    BadRow::new(
        "install_config",
        "`install_config` is not an object",
        "write an object with `test_cmd` and `log_parser`, or remove it",
    )
}

/// The first column that holds a command, or several commands, which run one after another.
fn command(columns: &Map<String, Value>, keys: &[&str]) -> Option<String> {
    let written = |value: &Value| match value {
        Value::String(text) => Some(text.trim().to_owned()),
        Value::Array(lines) => {
            let lines: Option<Vec<&str>> = lines.iter().map(Value::as_str).collect();
            lines.map(|lines| lines.join("\n").trim().to_owned())
        }
        _ => None,
    };
    let found = keys.iter().filter_map(|key| columns.get(*key)).find_map(written);
    found.filter(|command| !command.is_empty())
}

/// The last line of a diff needs a line end.
fn ended(mut text: String) -> String {
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests_of_rows {
    use serde_json::json;

    use super::*;

    const PATCH: &str = "--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a\n+b\n";

    fn check(change: Value, expected: Result<(usize, usize, bool), (&str, &str)>) {
        let mut row = json!({
            "instance_id": "o__r-1", "repo": "o/r", "base_commit": "c0ffee", "problem_statement": "It is wrong.",
            "patch": PATCH, "test_patch": "", "FAIL_TO_PASS": "[\"t\"]", "PASS_TO_PASS": ["u", "t", "u"],
        });
        for (key, value) in change.as_object().unwrap() {
            match value {
                Value::Null => row.as_object_mut().unwrap().remove(key),
                value => row.as_object_mut().unwrap().insert(key.clone(), value.clone()),
            };
        }
        let found = Instance::read(row.as_object().unwrap());
        let found = found
            .map(|row| (row.fail_to_pass.len(), row.pass_to_pass.len(), row.fault.is_some()))
            .map_err(|bad| (bad.key, bad.message));
        let expected = expected.map_err(|(key, message)| (key.to_owned(), message.to_owned()));
        assert_eq!(found, expected, "{change}");
    }

    #[test]
    fn n2_tests_are_lists_or_json_texts() {
        check(json!({}), Ok((1, 1, false)));
        check(json!({ "FAIL_TO_PASS": ["t", "v"] }), Ok((2, 1, false)));
        check(json!({ "PASS_TO_PASS": null, "pass_to_pass": "[]" }), Ok((1, 0, false)));
        let neither = "`FAIL_TO_PASS` is neither a list of names nor a text with such a list in JSON";
        for wrong in [json!("t"), json!(7), json!({ "t": 1 }), json!([1]), json!("['t']")] {
            check(json!({ "FAIL_TO_PASS": wrong }), Err(("FAIL_TO_PASS", neither)));
        }
    }

    #[test]
    fn n1_patch_of_swe_smith_is_the_bug() {
        check(json!({ "test_patch": null, "base_commit": null }), Ok((1, 1, true)));
        check(json!({ "image_name": "jyangballin/swesmith.x86_64.o_1776_r.1" }), Ok((1, 1, true)));
        check(json!({ "repo": "swesmith/o__r.1" }), Ok((1, 1, true)));
    }

    #[test]
    fn wrong_columns_are_refused() {
        check(json!({ "patch": null }), Err(("patch", "the row has no `patch`, or an empty one")));
        check(
            json!({ "patch": "see above" }),
            Err(("patch", "`patch` cannot be used: it holds no unified diff")),
        );
        check(
            json!({ "test_patch": "@@" }),
            Err(("test_patch", "`test_patch` cannot be used: it holds no unified diff")),
        );
        check(json!({ "repo": ["o"] }), Err(("repo", "`repo` is not a text")));
        check(json!({ "install_config": 3 }), Err(("install_config", "`install_config` is not an object")));
    }
}
