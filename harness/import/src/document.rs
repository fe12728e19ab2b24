//! A structured file, with typed access to its keys.
//!
//! Sections are views of tables. A value of a wrong type is reported at its place, and counts as missing.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use clawrl_config::{ConfigError, Entry, Node, NodeValue, Problem, Source, Span, read_yaml};
use toml_edit::{Item, TableLike, Value};

use crate::findings::Findings;
use clawrl_core::BYTE_ORDER_MARK;

/// Maximum size of a file that is read as a whole.
const MAX_TEXT_BYTES: u64 = 4 << 20;

/// A value with its place.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Placed<T> {
    pub(crate) value: T,
    pub(crate) span: Span,
}

#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) source: Arc<Source>,
    pub(crate) root: Node,
}

/// Reads a text file of a task folder. `shown` is its path as the user wrote it.
///
/// # Errors
/// The file is missing, too large, not UTF-8, or a link to a place outside its folder.
pub(crate) fn read_text(shown: &Path) -> Result<Arc<Source>, Problem> {
    let above = match shown.parent() {
        Some(above) if !above.as_os_str().is_empty() => above,
        _ => Path::new("."),
    };
    if let (Ok(whole), Ok(above)) = (std::fs::canonicalize(shown), std::fs::canonicalize(above))
        && !whole.starts_with(above)
    {
        let message = format!("`{}`: is a symbolic link that leads out of its folder", shown.display());
        return Err(Problem::new(message, "replace it by its target"));
    }
    read_text_below(shown, MAX_TEXT_BYTES)
}

/// Reads a text file that the user named, up to a maximum size. A byte order mark is skipped.
///
/// # Errors
/// The file is missing, too large, or not UTF-8.
pub(crate) fn read_text_below(shown: &Path, max_bytes: u64) -> Result<Arc<Source>, Problem> {
    let mut bytes = Vec::new();
    open_below(shown, max_bytes)?.read_to_end(&mut bytes).map_err(|cause| unreadable(shown, &cause))?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let message = match error.as_bytes() {
            [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => "is UTF-16 text",
            _ => "is not UTF-8 text",
        };
        refused(shown, message, "save it as UTF-8")
    })?;
    let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&text);
    Ok(Arc::new(Source::new(shown, shown.to_owned(), text)))
}

/// Opens a file that the user named, up to a maximum size.
///
/// # Errors
/// The file is missing or too large.
pub(crate) fn open_below(shown: &Path, max_bytes: u64) -> Result<File, Problem> {
    // Checked before opening: opening a pipe would wait for a writer.
    let metadata = std::fs::metadata(shown).map_err(|cause| unreadable(shown, &cause))?;
    if !metadata.is_file() {
        return Err(refused(shown, "is not a regular file", "put a regular file in its place"));
    }
    if metadata.len() > max_bytes {
        let message = format!("is too large: {} bytes", metadata.len());
        return Err(refused(shown, &message, &format!("keep it at or below {max_bytes} bytes")));
    }
    File::open(shown).map_err(|cause| unreadable(shown, &cause))
}

fn refused(shown: &Path, message: &str, help: &str) -> Problem {
    Problem::new(format!("`{}`: {message}", shown.display()), help)
}

fn unreadable(shown: &Path, cause: &std::io::Error) -> Problem {
    match cause.kind() {
        std::io::ErrorKind::NotFound => refused(shown, "there is no such file", "correct the path"),
        kind => refused(shown, &format!("cannot be read: {kind}"), "make it readable for this user"),
    }
}

impl Document {
    /// Parses YAML or JSON.
    pub(crate) fn yaml(shown: &Path) -> Result<Self, ConfigError> {
        let source = read_text(shown)?;
        let root = read_yaml(&source)?;
        Ok(Self { source, root })
    }

    /// Parses TOML.
    pub(crate) fn toml(shown: &Path) -> Result<Self, ConfigError> {
        let source = read_text(shown)?;
        match toml_edit::Document::parse(source.text()) {
            Ok(document) => Ok(Self { root: table(document.as_table()), source: Arc::clone(&source) }),
            Err(error) => {
                let range = error.span().unwrap_or_default();
                let span = visible(source.text(), range.start, range.len());
                let message =
                    format!("this is not valid TOML: {}", error.message().trim().replace('\n', ", "));
                let help = "correct this line; quote texts, and write tables in brackets";
                Err(Problem::new(message, help).at(&source, span, "the parser stopped here").into())
            }
        }
    }

    /// A scalar as written: `1.10` is not `1.1`.
    pub(crate) fn verbatim(&self, node: &Node) -> Option<String> {
        match &node.value {
            NodeValue::Text(text) => Some(text.clone()),
            NodeValue::Integer(_) | NodeValue::Number(_) | NodeValue::Bool(_) => {
                Some(self.source.slice(node.span).to_owned())
            }
            _ => None,
        }
    }

    /// `file:line` of a place.
    pub(crate) fn line(&self, span: Span) -> usize {
        self.source.line_column(span).0
    }

    /// The top-level section.
    pub(crate) fn section(&self) -> Section<'_> {
        Section { document: self, node: Some(&self.root), path: String::new() }
    }
}

/// A span of at least one character, if possible.
fn visible(text: &str, start: usize, len: usize) -> Span {
    if len > 0 || text.is_empty() {
        return Span { start, len };
    }
    let before = text[..start.min(text.len())].trim_end();
    let last = before.chars().next_back().map_or(0, char::len_utf8);
    Span { start: before.len() - last, len: last }
}

fn table(table: &dyn TableLike) -> Node {
    let entry = |(key, item): (&str, &Item)| {
        let span = table.key(key).and_then(toml_edit::Key::span).map(span).unwrap_or_default();
        Entry { key: key.to_owned(), span, node: node(item, span) }
    };
    NodeValue::Map(table.iter().map(entry).collect()).into()
}

fn node(item: &Item, key: Span) -> Node {
    let mut found = match item {
        Item::Table(inner) => table(inner),
        Item::ArrayOfTables(tables) => {
            let element =
                |inner: &toml_edit::Table| Node { span: inner.span().map_or(key, span), ..table(inner) };
            NodeValue::List(tables.iter().map(element).collect()).into()
        }
        Item::Value(value) => node_of_value(value),
        Item::None => NodeValue::Null.into(),
    };
    // A table is located by its name: its own span begins in its header, and a dotted table has none.
    found.span = match item {
        Item::Value(value) => value.span().map_or(key, span),
        _ => key,
    };
    found
}

fn node_of_value(value: &Value) -> Node {
    let inner = match value {
        Value::String(text) => NodeValue::Text(text.value().clone()),
        Value::Integer(number) => NodeValue::Integer(*number.value()),
        Value::Float(number) => NodeValue::Number(*number.value()),
        Value::Boolean(value) => NodeValue::Bool(*value.value()),
        Value::Datetime(time) => NodeValue::Text(time.value().to_string()),
        Value::Array(values) => NodeValue::List(values.iter().map(node_of_value).collect()),
        Value::InlineTable(inner) => table(inner).value,
    };
    Node { span: value.span().map(span).unwrap_or_default(), value: inner }
}

fn span(range: std::ops::Range<usize>) -> Span {
    Span { start: range.start, len: range.len() }
}

/// A table of a file; it may be missing.
#[derive(Debug, Clone)]
pub(crate) struct Section<'d> {
    pub(crate) document: &'d Document,
    node: Option<&'d Node>,
    /// Dotted, for messages.
    path: String,
}

impl<'d> Section<'d> {
    /// The table under a key.
    pub(crate) fn section(&self, key: &str) -> Section<'d> {
        Section {
            document: self.document,
            node: self.node.and_then(|node| node.get(key)),
            path: self.named(key),
        }
    }

    /// Whether the table exists.
    pub(crate) fn is_there(&self) -> bool {
        self.node.is_some()
    }

    /// Whether the key exists.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.node.is_some_and(|node| node.get(key).is_some())
    }

    /// The dotted name of a key.
    pub(crate) fn named(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// The place of a key's value, or else of the section.
    pub(crate) fn place(&self, key: &str) -> Span {
        self.node.map_or_else(Span::default, |node| node.get(key).map_or(node.span, |found| found.span))
    }

    /// Refuses a key.
    pub(crate) fn refuse(
        &self,
        key: &str,
        findings: &mut Findings,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        findings.refuse(&self.document.source, self.place(key), "not supported", message, help);
    }

    /// The sections of a list.
    pub(crate) fn each(&self, key: &str) -> Vec<Section<'d>> {
        let path = self.named(key);
        let section =
            |node: &'d Node| Section { document: self.document, node: Some(node), path: path.clone() };
        match self.node.and_then(|node| node.get(key)).map(|node| &node.value) {
            Some(NodeValue::List(nodes)) => nodes.iter().map(section).collect(),
            _ => Vec::new(),
        }
    }

    /// This section as a text, for lists that hold texts or tables.
    pub(crate) fn own_text(&self) -> Option<&'d str> {
        match self.node.map(|node| &node.value) {
            Some(NodeValue::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// The value under a key, converted by `read`.
    fn value<T>(
        &self,
        key: &str,
        findings: &mut Findings,
        wanted: &str,
        read: impl FnOnce(&'d NodeValue) -> Option<T>,
    ) -> Option<Placed<T>> {
        let node = self.node?.get(key)?;
        if node.value == NodeValue::Null {
            return None;
        }
        let value = read(&node.value);
        if value.is_none() {
            let message = format!("`{}`: expected {wanted}", self.named(key));
            findings.refuse(
                &self.document.source,
                node.span,
                "another type",
                message,
                format!("write {wanted}"),
            );
        }
        Some(Placed { value: value?, span: node.span })
    }

    pub(crate) fn text(&self, key: &str, findings: &mut Findings) -> Option<Placed<String>> {
        self.value(key, findings, "text", |value| match value {
            NodeValue::Text(text) => Some(text.clone()),
            _ => None,
        })
    }

    /// A text or a number, as text: for user names and ids.
    pub(crate) fn word(&self, key: &str, findings: &mut Findings) -> Option<Placed<String>> {
        self.value(key, findings, "a name or a number", |value| match value {
            NodeValue::Text(text) => Some(text.clone()),
            NodeValue::Integer(number) => Some(number.to_string()),
            _ => None,
        })
    }

    pub(crate) fn flag(&self, key: &str, findings: &mut Findings) -> Option<Placed<bool>> {
        self.value(key, findings, "`true` or `false`", |value| match value {
            NodeValue::Bool(value) => Some(*value),
            _ => None,
        })
    }

    /// A finite number of at least 0.
    pub(crate) fn number(&self, key: &str, findings: &mut Findings) -> Option<Placed<f64>> {
        self.value(key, findings, "a number of at least 0", |value| match value {
            // Numbers in such files are small.
            NodeValue::Integer(number) => Some(*number as f64),
            NodeValue::Number(number) => Some(*number),
            _ => None,
        })
        .filter(|number| {
            let good = number.value.is_finite() && number.value >= 0.0;
            if !good {
                let message =
                    format!("`{}` is {}, which is not a duration or a size", self.named(key), number.value);
                findings.refuse(
                    &self.document.source,
                    number.span,
                    "out of range",
                    message,
                    "write a number of at least 0",
                );
            }
            good
        })
    }

    /// A map of names to texts; numbers and booleans count as texts.
    pub(crate) fn variables(&self, key: &str, findings: &mut Findings) -> Vec<(String, Placed<String>)> {
        let Some(node) = self.node.and_then(|node| node.get(key)) else { return Vec::new() };
        let NodeValue::Map(entries) = &node.value else {
            let message = format!("`{}`: expected a table of variables", self.named(key));
            self.refuse(key, findings, message, "write `NAME = \"value\"` lines below it");
            return Vec::new();
        };
        let mut variables = Vec::new();
        for entry in entries {
            match self.document.verbatim(&entry.node) {
                Some(value) => variables.push((entry.key.clone(), Placed { value, span: entry.node.span })),
                None => {
                    let message = format!("the variable `{}` is not a text", entry.key);
                    let source = &self.document.source;
                    findings.refuse(source, entry.node.span, "another type", message, "quote its value");
                }
            }
        }
        variables
    }

    /// A list of texts.
    pub(crate) fn texts(&self, key: &str, findings: &mut Findings) -> Vec<Placed<String>> {
        let listed = self.value(key, findings, "a list of texts", |value| match value {
            NodeValue::List(nodes) => nodes
                .iter()
                .map(|node| match &node.value {
                    NodeValue::Text(text) => Some(Placed { value: text.clone(), span: node.span }),
                    _ => None,
                })
                .collect::<Option<Vec<_>>>(),
            _ => None,
        });
        listed.map(|listed| listed.value).unwrap_or_default()
    }
}
