//! Files of rows: Parquet, a JSON list of objects, one object, or one object per line.
//!
//! A row that is not JSON is reported where its parsing ended; later lines are still read (W3).

use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use clawrl_config::{Problem, Source, Span};
use serde_json::{Map, Value};

use super::place::Place;
use crate::document::read_text_below;
use crate::findings::Findings;
use crate::parquet_rows;
use crate::questions::BadRow;
use clawrl_core::{BYTE_ORDER_MARK, python_as_json};

/// Maximum size of a JSON file: a set of fifty thousand instances with long lists of tests is about this large.
const MAX_BYTES: u64 = 4 << 30;

/// A row of the file.
#[derive(Debug)]
pub(super) struct SourceRow {
    pub(super) place: Place,
    pub(super) columns: Result<Map<String, Value>, BadRow>,
}

/// Reads the rows of a file; problems of the whole file go to the findings.
pub(super) fn rows_of(path: &Path, findings: &mut Findings) -> Vec<SourceRow> {
    if parquet_rows::is_parquet(path) {
        let rows = parquet_rows::read(path, findings).into_iter();
        let place = |number| Place::Row { shown: path.to_owned(), number };
        return rows.map(|row| SourceRow { place: place(row.number), columns: row.columns }).collect();
    }
    match read_text_below(path, MAX_BYTES) {
        Ok(source) => rows_in(path, &source),
        Err(problem) => {
            findings.adopt(&Problem::into(problem));
            Vec::new()
        }
    }
}

fn rows_in(shown: &Path, source: &Arc<Source>) -> Vec<SourceRow> {
    // Places refer to the text as read, which differs from the file only where that is not valid JSON.
    let source = match python_as_json(source.text()) {
        Cow::Borrowed(_) => source,
        Cow::Owned(json) => &Arc::new(Source::new(shown, shown.to_owned(), json)),
    };
    let text = source.text();
    let start = text.len() - text.trim_start().len();
    if text[start..].starts_with('[') {
        return rows_of_list(shown, source, start + 1);
    }
    if let Ok(columns) = serde_json::from_str::<Map<String, Value>>(text) {
        let span = Span { start, len: text.trim().len() };
        return vec![SourceRow { place: place(shown, source, span), columns: Ok(columns) }];
    }
    let mut rows = Vec::new();
    let mut start = 0;
    for whole in text.split_inclusive('\n') {
        // Concatenated files have a byte order mark where each begins.
        let line = whole.trim_start_matches(BYTE_ORDER_MARK);
        let span = Span { start: start + whole.len() - line.len(), len: line.trim_end().len() };
        start += whole.len();
        if !line.trim().is_empty() {
            let (span, columns) = match serde_json::from_str::<Value>(line.trim_end()) {
                Ok(value) => (span, object(value)),
                Err(error) => {
                    let at = error.column().saturating_sub(1).min(span.len);
                    (Span { start: span.start + at, len: usize::from(at < span.len) }, Err(no_json(&error)))
                }
            };
            rows.push(SourceRow { place: place(shown, source, span), columns });
        }
    }
    rows
}

/// The objects of a list. After one that is not JSON, the beginning of the next is unknown.
fn rows_of_list(shown: &Path, source: &Arc<Source>, from: usize) -> Vec<SourceRow> {
    let text = source.text();
    let mut rows = Vec::new();
    let mut start = from;
    loop {
        let rest = text[start..].trim_start_matches(|c: char| c.is_whitespace() || c == ',');
        start = text.len() - rest.len();
        if rest.starts_with(']') {
            return rows;
        }
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
        let (span, columns, len) = match values.next() {
            Some(Ok(value)) => {
                let len = values.byte_offset();
                (Span { start, len }, object(value), Some(len))
            }
            Some(Err(error)) => {
                let at = start + offset(rest, error.line(), error.column());
                (Span { start: at, len: 0 }, Err(no_json(&error)), None)
            }
            None => {
                let bad = BadRow::new("", "the list of rows has no end", "close it with `]`");
                (Span { start: text.len(), len: 0 }, Err(bad), None)
            }
        };
        rows.push(SourceRow { place: place(shown, source, span), columns });
        match len {
            Some(len) => start += len,
            None => return rows,
        }
    }
}

fn place(shown: &Path, source: &Arc<Source>, span: Span) -> Place {
    Place::Text { shown: shown.to_owned(), source: Arc::clone(source), span }
}

/// Offset of the parser's position, whose lines and columns begin at 1.
fn offset(text: &str, line: usize, column: usize) -> usize {
    let before: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    let mut at = (before + column.saturating_sub(1)).min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

fn object(value: Value) -> Result<Map<String, Value>, BadRow> {
    match value {
        Value::Object(columns) => Ok(columns),
        _ => Err(BadRow::new("", "a row is not an object", "write an object with the columns of SWE-bench")),
    }
}

fn no_json(error: &serde_json::Error) -> BadRow {
    let reason = error.to_string();
    let reason = reason.split(" at line ").next().unwrap_or_default().to_owned();
    BadRow::new(
        "",
        format!("this row is not JSON: {reason}"),
        "write one JSON object per line, or a list of objects",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[(usize, usize, bool)]) {
        let source = Arc::new(Source::new(Path::new("rows.json"), "rows.json".into(), text));
        let found: Vec<_> = rows_in(Path::new("rows.json"), &source)
            .iter()
            .map(|row| match &row.place {
                Place::Text { span, .. } => {
                    let (line, column) = source.line_column(*span);
                    (line, column, row.columns.is_ok())
                }
                Place::Row { .. } | Place::Folder(_) => (0, 0, false),
            })
            .collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn w3_lines_after_bad_line_are_read() {
        check(
            "{\"a\": 1}\n\n{\"a\": }\n[1]\n{\"a\": 2}\n",
            &[(1, 1, true), (3, 7, false), (4, 1, false), (5, 1, true)],
        );
        check("{\"a\": 1\n{\"a\": 2}\n", &[(1, 7, false), (2, 1, true)]);
    }

    #[test]
    fn lists_and_single_objects_are_parsed() {
        check("[\n  {\"a\": 1},\n  {\"a\": 2}\n]\n", &[(2, 3, true), (3, 3, true)]);
        check("[{\"a\": 1}, 7, {\"a\": x}]", &[(1, 2, true), (1, 12, false), (1, 21, false)]);
        check("[{\"a\": 1}", &[(1, 2, true), (1, 10, false)]);
        check("{\n  \"a\": 1\n}\n", &[(1, 1, true)]);
        check("\n", &[]);
    }

    #[test]
    fn rows_with_nan_are_parsed() {
        check("{\"a\": NaN}\n{\"a\": \"\\ud83d\"}\n", &[(1, 1, true), (2, 1, true)]);
        check("[{\"a\": -Infinity}, {\"a\": NaN}, 7]", &[(1, 2, true), (1, 20, true), (1, 32, false)]);
        check("{\n  \"a\": NaN\n}\n", &[(1, 1, true)]);
    }

    #[test]
    fn byte_order_marks_between_files_are_skipped() {
        check("{\"a\": 1}\n\u{feff}{\"a\": 2}\n\u{feff}\n", &[(1, 1, true), (2, 2, true)]);
    }
}
