//! What becomes of each key of a foreign file: the one list, from which the page about importing has its tables.
//!
//! I1. Every key of a file is taken, ignored with a note, or refused at its place; one that is not in the list is
//! ignored with a note that says so. I2. An empty list or table asks for nothing.

use std::fmt::Write;

use clawrl_config::{Entry, NodeValue};

use crate::document::Document;
use crate::findings::Findings;

/// What becomes of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is in the suite.
    Taken,
    /// It changes nothing about an attempt.
    Ignored,
    /// A task that has it cannot be imported.
    Refused,
}

/// A key, dotted; lists of tables are named like tables. A row stands for everything below its key, unless that
/// has rows of its own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyRow {
    pub(crate) key: &'static str,
    pub(crate) fate: Fate,
    /// Taken: as what. Ignored: why. Refused: what to do.
    pub(crate) words: &'static str,
}

/// A row that is taken.
pub(crate) const fn taken(key: &'static str, words: &'static str) -> KeyRow {
    KeyRow { key, fate: Fate::Taken, words }
}

/// A row that is ignored.
pub(crate) const fn ignored(key: &'static str, words: &'static str) -> KeyRow {
    KeyRow { key, fate: Fate::Ignored, words }
}

/// A row that is refused.
pub(crate) const fn refused(key: &'static str, words: &'static str) -> KeyRow {
    KeyRow { key, fate: Fate::Refused, words }
}

/// Looks at every key of a file (I1).
pub(crate) fn sort_keys(document: &Document, rows: &[KeyRow], findings: &mut Findings) {
    if let NodeValue::Map(entries) = &document.root.value {
        Sorting { document, rows, findings }.entries(entries, "");
    } else {
        let span = document.root.span;
        let help = "write `key: value` lines";
        findings.refuse(&document.source, span, "no keys", "the file holds no keys", help);
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
                // Of a wrong kind; whoever takes it says so.
                _ => {}
            }
        }
        let Some(row) = self.rows.iter().find(|row| row.key == path) else {
            self.findings.note(format!("line {line}: `{path}` is not a key that is known; it is left out"));
            return;
        };
        match row.fate {
            Fate::Taken => {}
            Fate::Ignored => self.findings.note(format!("line {line}: `{path}` is left out: {}", row.words)),
            Fate::Refused if asks_for_nothing(&entry.node.value) => {}
            Fate::Refused => {
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

/// The list as a Markdown table, as the page has it.
#[must_use]
pub(crate) fn key_table(rows: &[KeyRow]) -> String {
    let mut text = "| key | | |\n| --- | --- | --- |\n".to_owned();
    for row in rows {
        let fate = match row.fate {
            Fate::Taken => "taken",
            Fate::Ignored => "ignored",
            Fate::Refused => "refused",
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "| `{}` | {fate} | {} |", row.key, row.words);
    }
    text
}
