//! Where a row stands, so that what is wrong with it is told there.
//!
//! A row of a file is told by its line and column and not shown: many have hundreds of thousands of characters.

use std::path::PathBuf;
use std::sync::Arc;

use clawrl_config::{Problem, Source, Span};

use crate::findings::Findings;
use crate::questions::BadRow;

/// The file of each column that a task repository keeps apart.
pub(super) const FILES: [(&str, &str); 7] = [
    ("patch", "gold.patch"),
    ("test_patch", "test.patch"),
    ("problem_statement", "problem_statement.md"),
    ("hints_text", "hints.md"),
    ("eval_script", "eval.sh"),
    ("FAIL_TO_PASS", "tests.json"),
    ("PASS_TO_PASS", "tests.json"),
];

/// Where a row stands.
#[derive(Debug, Clone)]
pub(super) enum Place {
    /// In a file of rows.
    Text {
        /// As the person named it.
        shown: PathBuf,
        source: Arc<Source>,
        /// Of the whole row.
        span: Span,
    },
    /// In a file of rows that is no text.
    Row {
        /// As the person named it.
        shown: PathBuf,
        /// From 1.
        number: usize,
    },
    /// In files of a folder.
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

    /// For a list of what is left out.
    pub(super) fn words(&self) -> String {
        match self {
            Self::Text { source, span, .. } => format!("line {}", source.line_column(*span).0),
            Self::Row { number, .. } => format!("row {number}"),
            Self::Folder(folder) => folder.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        }
    }
}

/// Where the key stands in a row's text; its beginning where it cannot be found.
fn key_in(text: &str, key: &str) -> usize {
    if key.is_empty() { 0 } else { text.find(&format!("\"{key}\"")).unwrap_or(0) }
}
