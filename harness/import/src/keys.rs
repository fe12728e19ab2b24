//! How each key of a foreign file is imported: the one list, which also makes the tables of the import page.
//!
//! I1. Every key of a file is imported, ignored with a note, or refused at its place; an unknown key is ignored with a
//! note. I2. An empty list or table has no effect.

use std::fmt::Write;

use clawrl_config::{Entry, NodeValue};

use crate::document::Document;
use crate::findings::Findings;

/// How a key is imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyHandling {
    /// It is part of the suite.
    Taken,
    /// It does not affect attempts.
    Ignored,
    /// A task with it is refused.
    Refused,
}

/// A dotted key; lists of tables are named like tables. A row covers everything below its key, except keys with rows of
/// their own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyRow {
    pub(crate) key: &'static str,
    pub(crate) fate: KeyHandling,
    /// Imported: as what. Ignored: why. Refused: what to do.
    pub(crate) words: &'static str,
}

/// A row for an imported key.
pub(crate) const fn taken(key: &'static str, words: &'static str) -> KeyRow {
    KeyRow { key, fate: KeyHandling::Taken, words }
}

/// A row for an ignored key.
pub(crate) const fn ignored(key: &'static str, words: &'static str) -> KeyRow {
    KeyRow { key, fate: KeyHandling::Ignored, words }
}

/// A row for a refused key.
pub(crate) const fn refused(key: &'static str, words: &'static str) -> KeyRow {
    KeyRow { key, fate: KeyHandling::Refused, words }
}

/// Checks all keys of a file (I1).
pub(crate) fn sort_keys(document: &Document, rows: &[KeyRow], findings: &mut Findings) {
    if let NodeValue::Map(entries) = &document.root.value {
        Sorting { document, rows, findings }.entries(entries, "");
    } else {
        let span = document.root.span;
        let help = "write `key: value` lines";
        findings.refuse(&document.source, span, "no keys", "the file is not a map", help);
    }
}

struct Sorting<'a> {
    document: &'a Document,
    rows: &'a [KeyRow],
    findings: &'a mut Findings,
}

impl Sorting<'_> {
    fn entries(&mut self, entries: &[Entry], above: &str) {
        for entry in entries {
            let path = if above.is_empty() { entry.key.clone() } else { format!("{above}.{}", entry.key) };
            self.entry(entry, &path);
        }
    }

    fn entry(&mut self, entry: &Entry, path: &str) {
        let line = self.document.line(entry.span);
        let below = format!("{path}.");
        if self.rows.iter().any(|row| row.key.starts_with(&below)) {
            match &entry.node.value {
                NodeValue::Map(entries) => return self.entries(entries, path),
                NodeValue::List(nodes) => {
                    for node in nodes {
                        if let NodeValue::Map(entries) = &node.value {
                            self.entries(entries, path);
                        }
                    }
                    return;
                }
                // A wrong type is reported by the code that reads the key.
                _ => {}
            }
        }
        let Some(row) = self.rows.iter().find(|row| row.key == path) else {
            self.findings.note(format!("line {line}: `{path}` is unknown, and left out"));
            return;
        };
        match row.fate {
            KeyHandling::Taken => {}
            KeyHandling::Ignored => {
                self.findings.note(format!("line {line}: `{path}` is left out: {}", row.words))
            }
            KeyHandling::Refused if asks_for_nothing(&entry.node.value) => {}
            KeyHandling::Refused => {
                let message = format!("`{path}` cannot be represented");
                self.findings.refuse(&self.document.source, entry.span, "not supported", message, row.words);
            }
        }
    }
}

/// I2.
fn asks_for_nothing(value: &NodeValue) -> bool {
    match value {
        NodeValue::Null => true,
        NodeValue::Integer(number) => *number == 0,
        NodeValue::List(nodes) => nodes.is_empty(),
        NodeValue::Map(entries) => entries.is_empty(),
        NodeValue::Text(text) => text.is_empty(),
        _ => false,
    }
}

/// The list as a Markdown table, for the import page.
#[must_use]
pub(crate) fn key_table(rows: &[KeyRow]) -> String {
    let mut text = "| key | | |\n| --- | --- | --- |\n".to_owned();
    for row in rows {
        let fate = match row.fate {
            KeyHandling::Taken => "taken",
            KeyHandling::Ignored => "ignored",
            KeyHandling::Refused => "refused",
        };
        // Writing to a string does not fail.
        let _ = writeln!(text, "| `{}` | {fate} | {} |", row.key, row.words);
    }
    text
}
