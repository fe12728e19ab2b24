//! JSONL files: objects line by line, with their places.

use std::path::Path;
use std::sync::Arc;

use clawrl_config::{Source, Span};
use serde_json::{Map, Value};

use super::keys::BadRow;
use crate::document::read_text_below;
use crate::findings::Findings;
use clawrl_core::{BYTE_ORDER_MARK, read_python_json};

/// Most bytes of a file: the largest known data sets of questions have a few hundred thousand rows.
const MAX_BYTES: u64 = 1 << 30;

/// A row and where it stands.
#[derive(Debug)]
pub(crate) struct Line {
    /// From 1.
    pub(crate) number: usize,
    /// Of the row; of one that cannot be read, where its reading ended.
    pub(crate) span: Span,
    /// What it holds, or why it cannot be read.
    pub(crate) row: Result<Map<String, Value>, BadRow>,
}

/// The rows of a file.
#[derive(Debug)]
pub(crate) struct Lines {
    pub(crate) source: Arc<Source>,
    pub(crate) lines: Vec<Line>,
}

impl Lines {
    /// Reads a file. What is wrong with it as a whole is in the findings, what is wrong with a row in its line.
    pub(crate) fn read(shown: &Path, findings: &mut Findings) -> Option<Self> {
        match read_text_below(shown, MAX_BYTES) {
            Ok(source) => Self::of(source, findings),
            Err(problem) => {
                findings.adopt(&problem.into());
                None
            }
        }
    }

    fn of(source: Arc<Source>, findings: &mut Findings) -> Option<Self> {
        let mut lines = Vec::new();
        let mut start = 0;
        for (index, whole) in source.text().split_inclusive('\n').enumerate() {
            // Files that were put together have a mark where each began.
            let text = whole.trim_start_matches(BYTE_ORDER_MARK);
            let mut span = Span { start: start + whole.len() - text.len(), len: text.trim_end().len() };
            start += whole.len();
            if text.trim().is_empty() {
                continue;
            }
            let row = match read_python_json(text) {
                Ok(Value::Object(row)) => Ok(row),
                Ok(Value::Array(_)) if lines.is_empty() => {
                    let help = "write one object a line: `jq -c '.[]' rows.json > rows.jsonl`";
                    findings.refuse(
                        &source,
                        span,
                        "a list",
                        "the file is one list, not one object a line",
                        help,
                    );
                    return None;
                }
                Ok(_) => {
                    let help = "write an object: `{\"question\": \"...\", \"answer\": \"...\"}`";
                    Err(BadRow::new("", "a row is no object", help))
                }
                Err(error) if lines.is_empty() && error.is_eof() => {
                    let help = "write one object a line: `jq -c . rows.json > rows.jsonl`";
                    findings.refuse(&source, span, "this line", "an object does not end on its line", help);
                    return None;
                }
                Err(error) => {
                    span.start += error.column().saturating_sub(1).min(span.len);
                    span.len = 0;
                    let reason = error.to_string();
                    let reason = reason.split(" at line ").next().unwrap_or_default();
                    Err(BadRow::new(
                        "",
                        format!("this row is no JSON: {reason}"),
                        "write one JSON object a line",
                    ))
                }
            };
            lines.push(Line { number: index + 1, span, row });
        }
        Some(Self { source, lines })
    }

    /// The place of a dotted key in its line; the line's beginning where the key cannot be found.
    pub(crate) fn place(&self, line: &Line, key: &str) -> Span {
        if line.row.is_err() {
            return line.span;
        }
        let text = self.source.slice(line.span);
        let last = format!("\"{}\"", key.rsplit('.').next().unwrap_or(key));
        match text.find(&last).filter(|_| !key.is_empty()) {
            Some(at) => Span { start: line.span.start + at, len: last.len() },
            None => Span { start: line.span.start, len: 1 },
        }
    }
}

/// What stands under a dotted key. A key that has dots itself comes first.
pub(crate) fn at<'a>(row: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    if let Some(found) = row.get(key) {
        return (!found.is_null()).then_some(found);
    }
    let (first, rest) = key.split_once('.')?;
    at(row.get(first)?.as_object()?, rest)
}
