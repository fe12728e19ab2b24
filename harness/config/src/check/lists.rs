//! The named lists of a suite: literal, lines of a text file, or rows of a JSONL file.
//!
//! I1. No entry is there twice. I2. Rows are objects, all with the keys of the first one: what one instance can say, every
//! instance can.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use minijinja::Value;
use serde_json::Value as Json;

use super::checker::Checker;
use crate::bounds::MAX_ROWS_BYTES;
use crate::file::{ListFields, Located, NamedListFile, Text};
use crate::problem::Problem;
use crate::source::{Source, Span};
use crate::suggest::listed;
use crate::value;

/// Maximum number of reported problems of one file of rows: a wrongly generated file is wrong in every line.
const MAX_REPORTED: usize = 8;

impl Checker {
    pub(super) fn lists(&mut self, vars: &[(Text, Located<NamedListFile>)]) {
        for (name, list) in vars {
            self.named(name, value::variable_name);
            let entries = match &list.value {
                NamedListFile::Literal(entries) => self.entries(entries, list.span),
                NamedListFile::Elsewhere(ListFields { lines: Some(file), rows: None }) => self.lines(file),
                NamedListFile::Elsewhere(ListFields { lines: None, rows: Some(file) }) => self.rows(file),
                NamedListFile::Elsewhere(_) => {
                    let help = "write one of `lines: words.txt` and `rows: questions.jsonl`";
                    self.problem(list.span, "the list needs one file", "none, or more than one", help);
                    Vec::new()
                }
            };
            self.lists.insert(name.value.clone(), entries);
        }
    }

    fn lines(&mut self, path: &Text) -> Vec<Value> {
        if !self.is_path(path) {
            return Vec::new();
        }
        let lines = self.fixtures().lines(path);
        let lines = match lines {
            Ok(lines) => lines,
            Err(error) => {
                self.problem(path.span, error.message, "read from here", error.help);
                return Vec::new();
            }
        };
        if lines.is_empty() {
            let message = format!("`{}` has no entries", path.value);
            self.problem(path.span, message, "nothing to choose from", "write one entry a line");
        }
        let mut seen = HashMap::new();
        for (at, line) in lines.iter().enumerate() {
            if let Some(first) = seen.insert(line.as_str(), at) {
                let message = format!("`{line}` is in `{}` twice", path.value);
                let help = format!("remove one; it is entry {} and entry {} of the file", first + 1, at + 1);
                self.problem(path.span, message, "read from here", help);
                break;
            }
        }
        lines.into_iter().map(Value::from).collect()
    }

    fn rows(&mut self, path: &Text) -> Vec<Value> {
        if !self.is_path(path) {
            return Vec::new();
        }
        let read = self.fixtures().list(path, MAX_ROWS_BYTES);
        let (whole, text) = match read {
            Ok(read) => read,
            Err(error) => {
                self.problem(path.span, error.message, "read from here", error.help);
                return Vec::new();
            }
        };
        let shown = Path::new(&self.findings.source.shown).with_file_name(&path.value);
        let (values, problems) = read_rows(&Arc::new(Source::new(&shown, whole, text)));
        if values.is_empty() && problems.is_empty() {
            let message = format!("`{}` has no rows", path.value);
            self.problem(path.span, message, "nothing to choose from", "write one JSON object a line");
        }
        for problem in problems {
            self.findings.push(problem);
        }
        values
    }

    fn is_path(&mut self, path: &Text) -> bool {
        match value::file_path(path) {
            Ok(()) => true,
            Err(bad) => {
                self.bad_value(path.span, bad, "this path");
                false
            }
        }
    }
}

/// The rows, and the first problems.
fn read_rows(source: &Arc<Source>) -> (Vec<Value>, Vec<Problem>) {
    let mut problems = Vec::new();
    let mut values = Vec::new();
    let mut seen: HashMap<&str, Span> = HashMap::new();
    let mut keys: Option<Vec<String>> = None;
    let mut start = 0;
    for line in source.text.split_inclusive('\n') {
        let span = Span { start, len: line.trim_end().len() };
        start += line.len();
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        if problems.len() == MAX_REPORTED {
            break;
        }
        let row = match serde_json::from_str::<Json>(line) {
            Ok(Json::Object(row)) => row,
            Ok(_) => {
                let help = "write an object: `{\"question\": \"...\", \"answer\": \"...\"}`";
                problems.push(Problem::new("a row is no object", help).at(source, span, "this line"));
                continue;
            }
            Err(error) => {
                let at = Span { start: span.start + error.column().saturating_sub(1).min(span.len), len: 0 };
                let message = format!("this row is no JSON: {}", without_place(&error.to_string()));
                let help = "write one JSON object a line, with every line break inside a text as `\\n`";
                problems.push(Problem::new(message, help).at(source, at, "the parser stopped here"));
                continue;
            }
        };
        if let Some(&first) = seen.get(line) {
            let help = "remove one of them; every row is equally likely";
            let problem = Problem::new("the same row is there twice", help);
            problems.push(problem.at(source, span, "the second one").and_at(first, "the first one"));
            continue;
        }
        seen.insert(line, span);
        let mut own: Vec<String> = row.keys().cloned().collect();
        own.sort();
        let wanted = keys.get_or_insert_with(|| own.clone());
        if own != *wanted {
            let message = format!(
                "this row has other keys than the first one: {}",
                listed(own.iter().map(String::as_str))
            );
            let help = format!("give every row these: {}", listed(wanted.iter().map(String::as_str)));
            problems.push(Problem::new(message, help).at(source, span, "this line"));
            continue;
        }
        values.push(template_value(&Json::Object(row)));
    }
    (values, problems)
}

/// A value as templates see it.
fn template_value(json: &Json) -> Value {
    match json {
        Json::Null => Value::from(()),
        Json::Bool(value) => Value::from(*value),
        Json::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => Value::from(number),
            (None, Some(number)) => Value::from(number),
            (None, None) => Value::from(number.as_f64().unwrap_or_default()),
        },
        Json::String(text) => Value::from(text.as_str()),
        Json::Array(entries) => entries.iter().map(template_value).collect(),
        Json::Object(map) => {
            Value::from_pairs(map.iter().map(|(key, value)| (key.as_str(), template_value(value))))
        }
    }
}

/// A parser's message without the parser's own line number.
fn without_place(message: &str) -> &str {
    message.split(" at line ").next().unwrap_or(message)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// `expected`: the number of rows, or place and beginning of the first problem.
    fn check(text: &str, expected: Result<usize, (usize, usize, &str)>) {
        let source = Arc::new(Source::new(Path::new("r.jsonl"), PathBuf::from("r.jsonl"), text));
        let (values, problems) = read_rows(&source);
        match expected {
            Ok(count) => assert_eq!((values.len(), problems.len()), (count, 0), "{text}"),
            Err((line, column, message)) => {
                let problem = problems.first().unwrap_or_else(|| panic!("no problem in {text}"));
                assert_eq!(problem.location(), Some(("r.jsonl", line, column)), "{problem}");
                assert!(problem.message().starts_with(message), "{problem}");
            }
        }
    }

    #[test]
    fn one_object_a_line() {
        check("", Ok(0));
        check("{\"a\": 1}\n\n {\"a\": \"{{ x }}\"} \r\n{\"a\": null}", Ok(3));
        check("{\"a\": 1}\n[1]\n", Err((2, 1, "a row is no object")));
        check("{\"a\": 1}\n{\"a\": 1,}\n", Err((2, 9, "this row is no JSON: trailing comma")));
    }

    /// I1, I2.
    #[test]
    fn rows_are_alike_and_differ() {
        check("{\"a\": 1}\n{\"a\": 1}\n", Err((2, 1, "the same row")));
        check("{\"a\": 1}\n{\"b\": 1}\n", Err((2, 1, "this row has other keys than the first one: `b`")));
        check("{\"a\": 1, \"b\": 2}\n{\"b\": 1, \"a\": 2}\n", Ok(2));
    }

    #[test]
    fn a_file_that_is_wrong_throughout_is_told_once() {
        let source = Arc::new(Source::new(Path::new("r.jsonl"), PathBuf::new(), "x\n".repeat(100)));
        assert_eq!(read_rows(&source).1.len(), MAX_REPORTED);
    }
}
