//! JSONL files: one object per line, with its place.

use std::path::Path;
use std::sync::Arc;

use clawrl_config::{Source, Span};
use serde_json::{Map, Value};

use super::keys::BadRow;
use crate::document::read_text_below;
use crate::findings::Findings;
use clawrl_core::{BYTE_ORDER_MARK, read_python_json};

/// Maximum size of a file: the largest known data sets of questions have a few hundred thousand rows.
const MAX_BYTES: u64 = 1 << 30;

/// A row with its place.
#[derive(Debug)]
pub(crate) struct Line {
    /// From 1.
    pub(crate) number: usize,
    /// The row; if it cannot be read, the place where reading ended.
    pub(crate) span: Span,
    /// The object, or why the row cannot be read.
    pub(crate) row: Result<Map<String, Value>, BadRow>,
}

/// The rows of a file.
#[derive(Debug)]
pub(crate) struct Lines {
    pub(crate) source: Arc<Source>,
    pub(crate) lines: Vec<Line>,
}

impl Lines {
    /// Reads a file. Problems of the file go to the findings, problems of a row into its line.
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
            // Concatenated files have a byte order mark where each begins.
            let text = whole.trim_start_matches(BYTE_ORDER_MARK);
            let mut span = Span { start: start + whole.len() - text.len(), len: text.trim_end().len() };
            start += whole.len();
            if text.trim().is_empty() {
                continue;
            }
            let row = match read_python_json(text) {
                Ok(Value::Object(row)) => Ok(row),
                Ok(Value::Array(_)) if lines.is_empty() => {
                    let help = "write one object per line: `jq -c '.[]' rows.json > rows.jsonl`";
                    findings.refuse(
                        &source,
                        span,
                        "a list",
                        "the file is one list, not one object per line",
                        help,
                    );
                    return None;
                }
                Ok(_) => {
                    let help = "write an object: `{\"question\": \"...\", \"answer\": \"...\"}`";
                    Err(BadRow::new("", "a row is not an object", help))
                }
                Err(error) if lines.is_empty() && error.is_eof() => {
                    let help = "write one object per line: `jq -c . rows.json > rows.jsonl`";
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
                        format!("this row is not JSON: {reason}"),
                        "write one JSON object per line",
                    ))
                }
            };
            lines.push(Line { number: index + 1, span, row });
        }
        Some(Self { source, lines })
    }

    /// The place of a dotted key in its line, or else the line's beginning.
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

/// The value under a dotted key. A key that itself holds dots comes first.
pub(crate) fn at<'a>(row: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    if let Some(found) = row.get(key) {
        return (!found.is_null()).then_some(found);
    }
    let (first, rest) = key.split_once('.')?;
    at(row.get(first)?.as_object()?, rest)
}
