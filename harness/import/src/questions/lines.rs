//! JSONL files: objects line by line, with their places.

use std::path::Path;
use std::sync::Arc;

use clawrl_config::{Problem, Source, Span};
use serde_json::{Map, Value};

use crate::document::read_text_below;
use crate::findings::Findings;

/// Most bytes of a file: the largest known data sets of questions have a few hundred thousand rows.
const MAX_BYTES: u64 = 1 << 30;

/// Problems of one file that are told: a file of another format is wrong in every line.
const MOST_TOLD: usize = 8;

/// A row and where it stands.
#[derive(Debug)]
pub(crate) struct Line {
    /// From 1.
    pub(crate) number: usize,
    pub(crate) span: Span,
    pub(crate) row: Map<String, Value>,
}

/// The rows of a file.
#[derive(Debug)]
pub(crate) struct Lines {
    pub(crate) source: Arc<Source>,
    pub(crate) lines: Vec<Line>,
}

impl Lines {
    /// Reads a file. What is wrong is in the findings.
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
        let before = findings.count();
        let mut lines = Vec::new();
        let mut start = 0;
        for (index, text) in source.text().split_inclusive('\n').enumerate() {
            let span = Span { start, len: text.trim_end().len() };
            start += text.len();
            if text.trim().is_empty() {
                continue;
            }
            match serde_json::from_str::<Value>(text) {
                Ok(Value::Object(row)) => lines.push(Line { number: index + 1, span, row }),
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
                    findings.refuse(&source, span, "this line", "a row is no object", help);
                }
                Err(error) if lines.is_empty() && error.is_eof() => {
                    let help = "write one object a line: `jq -c . rows.json > rows.jsonl`";
                    findings.refuse(&source, span, "this line", "an object does not end on its line", help);
                    return None;
                }
                Err(error) => {
                    let reason = error.to_string();
                    let reason = reason.split(" at line ").next().unwrap_or_default();
                    let at =
                        Span { start: span.start + error.column().saturating_sub(1).min(span.len), len: 0 };
                    let help = "write one JSON object a line";
                    findings.adopt(
                        &Problem::new(format!("this row is no JSON: {reason}"), help)
                            .at(&source, at, "the parser stopped here")
                            .into(),
                    );
                }
            }
            if findings.count() - before >= MOST_TOLD {
                return None;
            }
        }
        (findings.count() == before).then_some(Self { source, lines })
    }

    /// The place of a dotted key in its line; the line's beginning where the key cannot be found.
    pub(crate) fn place(&self, line: &Line, key: &str) -> Span {
        let text = self.source.slice(line.span);
        let last = format!("\"{}\"", key.rsplit('.').next().unwrap_or(key));
        match text.find(&last) {
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
