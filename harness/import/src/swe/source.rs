//! Files of rows: Parquet, a JSON list of objects, one object, or one object a line.
//!
//! A row that is no JSON is told at the character where its reading ended; the lines after it are read (W3).

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

/// Most bytes of a file of JSON: a set of fifty thousand instances with long lists of tests has about so many.
const MAX_BYTES: u64 = 4 << 30;

/// A row as it was found.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) place: Place,
    pub(super) columns: Result<Map<String, Value>, BadRow>,
}

/// Reads the rows of a file. What is wrong with the file as a whole is in the findings.
pub(super) fn rows_of(path: &Path, findings: &mut Findings) -> Vec<Found> {
    if parquet_rows::is_parquet(path) {
        let rows = parquet_rows::read(path, findings).into_iter();
        let place = |number| Place::Row { shown: path.to_owned(), number };
        return rows.map(|row| Found { place: place(row.number), columns: row.columns }).collect();
    }
    match read_text_below(path, MAX_BYTES) {
        Ok(source) => rows_in(path, &source),
        Err(problem) => {
            findings.adopt(&Problem::into(problem));
            Vec::new()
        }
    }
}

fn rows_in(shown: &Path, source: &Arc<Source>) -> Vec<Found> {
    // Places are those of the text that is read, which differs from the file only where that is no JSON.
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
        return vec![Found { place: place(shown, source, span), columns: Ok(columns) }];
    }
    let mut rows = Vec::new();
    let mut start = 0;
    for whole in text.split_inclusive('\n') {
        // Files that were put together have a mark where each began.
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
            rows.push(Found { place: place(shown, source, span), columns });
        }
    }
    rows
}

/// The objects of a list. After one that is no JSON, nothing says where the next begins.
fn rows_of_list(shown: &Path, source: &Arc<Source>, from: usize) -> Vec<Found> {
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
                let bad = BadRow::new("", "the list of rows does not end", "close it with `]`");
                (Span { start: text.len(), len: 0 }, Err(bad), None)
            }
        };
        rows.push(Found { place: place(shown, source, span), columns });
        match len {
            Some(len) => start += len,
            None => return rows,
        }
    }
}

fn place(shown: &Path, source: &Arc<Source>, span: Span) -> Place {
    Place::Text { shown: shown.to_owned(), source: Arc::clone(source), span }
}

/// Where the parser stood, whose lines and columns begin with 1.
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
        _ => Err(BadRow::new("", "a row is no object", "write an object with the columns of SWE-bench")),
    }
}

fn no_json(error: &serde_json::Error) -> BadRow {
    let reason = error.to_string();
    let reason = reason.split(" at line ").next().unwrap_or_default().to_owned();
    BadRow::new(
        "",
        format!("this row is no JSON: {reason}"),
        "write one JSON object a line, or a list of them",
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
    fn w3_lines_after_a_bad_one_are_read() {
        check(
            "{\"a\": 1}\n\n{\"a\": }\n[1]\n{\"a\": 2}\n",
            &[(1, 1, true), (3, 7, false), (4, 1, false), (5, 1, true)],
        );
        check("{\"a\": 1\n{\"a\": 2}\n", &[(1, 7, false), (2, 1, true)]);
    }

    #[test]
    fn lists_and_single_objects_are_read() {
        check("[\n  {\"a\": 1},\n  {\"a\": 2}\n]\n", &[(2, 3, true), (3, 3, true)]);
        check("[{\"a\": 1}, 7, {\"a\": x}]", &[(1, 2, true), (1, 12, false), (1, 21, false)]);
        check("[{\"a\": 1}", &[(1, 2, true), (1, 10, false)]);
        check("{\n  \"a\": 1\n}\n", &[(1, 1, true)]);
        check("\n", &[]);
    }

    #[test]
    fn rows_with_numbers_that_json_does_not_have_are_read() {
        check("{\"a\": NaN}\n{\"a\": \"\\ud83d\"}\n", &[(1, 1, true), (2, 1, true)]);
        check("[{\"a\": -Infinity}, {\"a\": NaN}, 7]", &[(1, 2, true), (1, 20, true), (1, 32, false)]);
        check("{\n  \"a\": NaN\n}\n", &[(1, 1, true)]);
    }

    #[test]
    fn byte_order_marks_between_files_that_were_put_together_are_passed_over() {
        check("{\"a\": 1}\n\u{feff}{\"a\": 2}\n\u{feff}\n", &[(1, 1, true), (2, 2, true)]);
    }
}
