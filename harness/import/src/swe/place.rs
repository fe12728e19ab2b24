//! The place of a row, for reporting its problems.
//!
//! A row of a file is reported by line and column and not shown: many have hundreds of thousands of characters.

use std::path::PathBuf;
use std::sync::Arc;

use clawrl_config::{Problem, Source, Span};

use crate::findings::Findings;
use crate::questions::BadRow;

/// The file of each column in a task repository.
pub(super) const FILES: [(&str, &str); 7] = [
    ("patch", "gold.patch"),
    ("test_patch", "test.patch"),
    ("problem_statement", "problem_statement.md"),
    ("hints_text", "hints.md"),
    ("eval_script", "eval.sh"),
    ("FAIL_TO_PASS", "tests.json"),
    ("PASS_TO_PASS", "tests.json"),
];

/// The place of a row.
#[derive(Debug, Clone)]
pub(super) enum Place {
    /// In a text file of rows.
    Text {
        /// Path as the user wrote it.
        shown: PathBuf,
        source: Arc<Source>,
        /// The whole row.
        span: Span,
    },
    /// In a binary file of rows.
    Row {
        /// Path as the user wrote it.
        shown: PathBuf,
        /// From 1.
        number: usize,
    },
    /// In the files of a folder.
    Folder(PathBuf),
}

impl Place {
    /// Refuses the row.
    pub(super) fn refuse(&self, bad: BadRow, findings: &mut Findings) {
        match self {
            Self::Text { shown, source, span } => {
                let at = Span { start: span.start + key_in(source.slice(*span), &bad.key), len: 0 };
                let (line, column) = source.line_column(at);
                let message = format!("`{}:{line}:{column}`: {}", shown.display(), bad.message);
                findings.adopt(&Problem::new(message, bad.help).into());
            }
            Self::Row { shown, number } => {
                let message = format!("`{}`, row {number}: {}", shown.display(), bad.message);
                findings.adopt(&Problem::new(message, bad.help).into());
            }
            Self::Folder(folder) => {
                let file =
                    FILES.iter().find(|(key, _)| *key == bad.key).map_or("task.yaml", |(_, file)| file);
                findings.refuse_path(&folder.join(file), bad.message, bad.help);
            }
        }
    }

    /// The place, for the list of skipped rows.
    pub(super) fn words(&self) -> String {
        match self {
            Self::Text { source, span, .. } => format!("line {}", source.line_column(*span).0),
            Self::Row { number, .. } => format!("row {number}"),
            Self::Folder(folder) => folder.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        }
    }
}

/// The place of the key in a row's text, or else the row's beginning.
fn key_in(text: &str, key: &str) -> usize {
    if key.is_empty() { 0 } else { text.find(&format!("\"{key}\"")).unwrap_or(0) }
}
