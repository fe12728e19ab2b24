//! Documents of any shape: YAML of foreign formats, read with the span of every value, and suites written by programs.
//!
//! JSON is YAML, so both are read. The caller interprets the keys.
//!
//! I1. [`read_yaml`] reads the output of [`yaml_text`] as the same values. I2. The result of [`literal`] renders to its argument
//! for every argument.
//!
//! Errors: [`ConfigError`] with one problem, at its place.

use std::fmt;
use std::fmt::Write as _;
use std::sync::Arc;

use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_yaml::Spanned;

use crate::parse;
use crate::problem::ConfigError;
use crate::source::{Source, Span};

/// A value and its span.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Span in the file; empty for a value that was not read from a file.
    pub span: Span,
    /// The value.
    pub value: NodeValue,
}

/// Value of a [`Node`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum NodeValue {
    /// Nothing.
    Null,
    /// A truth value.
    Bool(bool),
    /// A whole number.
    Integer(i64),
    /// A number that is not an `i64`.
    Number(f64),
    /// Text.
    Text(String),
    /// Values in order.
    List(Vec<Node>),
    /// Keys and values in the order in which they were written.
    Map(Vec<Entry>),
}

/// A key and its value.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// Span of the key.
    pub span: Span,
    /// The value.
    pub node: Node,
}

impl From<NodeValue> for Node {
    fn from(value: NodeValue) -> Self {
        Self { span: Span::default(), value }
    }
}

impl From<&str> for Node {
    fn from(text: &str) -> Self {
        NodeValue::Text(text.to_owned()).into()
    }
}

impl Node {
    /// A map of these.
    #[must_use]
    pub fn map(entries: Vec<(&str, Node)>) -> Self {
        let entry = |(key, node): (&str, Node)| Entry { key: key.to_owned(), span: Span::default(), node };
        NodeValue::Map(entries.into_iter().map(entry).collect()).into()
    }

    /// The value of a key, if this is a map that contains it.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Node> {
        match &self.value {
            NodeValue::Map(entries) => entries.iter().find(|entry| entry.key == key).map(|entry| &entry.node),
            _ => None,
        }
    }
}

/// Reads one YAML or JSON document of any shape.
///
/// # Errors
/// The text is not YAML, a key is given twice, or a key is not a string.
pub fn read_yaml(source: &Arc<Source>) -> Result<Node, ConfigError> {
    parse::parse_any(source)
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<NodeValue>::deserialize(deserializer)?;
        Ok(Self { span: place(&spanned), value: spanned.value })
    }
}

fn place<T>(spanned: &Spanned<T>) -> Span {
    let span = spanned.defined.span();
    let number = |value: Option<u64>| usize::try_from(value.unwrap_or(0)).unwrap_or(0);
    Span { start: number(span.byte_offset()), len: number(span.byte_len()) }
}

impl<'de> Deserialize<'de> for NodeValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ValueVisitor;

        impl<'de> Visitor<'de> for ValueVisitor {
            type Value = NodeValue;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }

            fn visit_unit<E>(self) -> Result<NodeValue, E> {
                Ok(NodeValue::Null)
            }

            fn visit_none<E>(self) -> Result<NodeValue, E> {
                Ok(NodeValue::Null)
            }

            fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<NodeValue, D::Error> {
                deserializer.deserialize_any(self)
            }

            fn visit_bool<E>(self, value: bool) -> Result<NodeValue, E> {
                Ok(NodeValue::Bool(value))
            }

            fn visit_i64<E>(self, value: i64) -> Result<NodeValue, E> {
                Ok(NodeValue::Integer(value))
            }

            fn visit_u64<E>(self, value: u64) -> Result<NodeValue, E> {
                // Integers beyond 63 bits are not counts of anything here.
                Ok(i64::try_from(value).map_or(NodeValue::Number(value as f64), NodeValue::Integer))
            }

            fn visit_f64<E>(self, value: f64) -> Result<NodeValue, E> {
                Ok(NodeValue::Number(value))
            }

            fn visit_str<E>(self, text: &str) -> Result<NodeValue, E> {
                Ok(NodeValue::Text(text.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<NodeValue, A::Error> {
                let mut nodes = Vec::new();
                while let Some(node) = seq.next_element()? {
                    nodes.push(node);
                }
                Ok(NodeValue::List(nodes))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<NodeValue, A::Error> {
                let mut entries = Vec::new();
                while let Some(key) = map.next_key::<Spanned<String>>()? {
                    let span = place(&key);
                    entries.push(Entry { key: key.value, span, node: map.next_value()? });
                }
                Ok(NodeValue::Map(entries))
            }
        }

        deserializer.deserialize_any(ValueVisitor)
    }
}

/// Escapes a text for a suite: template openers are escaped, so that the text renders unchanged.
#[must_use]
pub fn literal(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        if character == '{' && matches!(characters.peek(), Some('{' | '%' | '#')) {
            written.push_str("{{ '{' }}");
        } else {
            written.push(character);
        }
    }
    written
}

/// A document as YAML, for people to read: maps and lists in blocks, texts of several lines as such.
#[must_use]
pub fn yaml_text(node: &Node) -> String {
    let mut text = String::new();
    write_node(&mut text, node, 0);
    text
}

/// Writes a value that begins at the start of a line.
fn write_node(text: &mut String, node: &Node, depth: usize) {
    match &node.value {
        NodeValue::Map(entries) if !entries.is_empty() => {
            for entry in entries {
                indent(text, depth);
                write_entry(text, entry, depth);
            }
        }
        NodeValue::List(nodes) if !nodes.is_empty() => {
            for node in nodes {
                indent(text, depth);
                text.push_str("- ");
                match &node.value {
                    // The first key shares the line of the dash.
                    NodeValue::Map(entries) if !entries.is_empty() => {
                        for (at, entry) in entries.iter().enumerate() {
                            if at > 0 {
                                indent(text, depth + 1);
                            }
                            write_entry(text, entry, depth + 1);
                        }
                    }
                    NodeValue::List(nodes) if !nodes.is_empty() => {
                        text.push('\n');
                        write_node(text, node, depth + 1);
                    }
                    _ => write_scalar(text, node, depth),
                }
            }
        }
        _ => {
            indent(text, depth);
            write_scalar(text, node, depth);
        }
    }
}

fn write_entry(text: &mut String, entry: &Entry, depth: usize) {
    text.push_str(&one_line(&entry.key));
    text.push(':');
    match &entry.node.value {
        NodeValue::Map(entries) if !entries.is_empty() => {
            text.push('\n');
            write_node(text, &entry.node, depth + 1);
        }
        NodeValue::List(nodes) if !nodes.is_empty() => {
            text.push('\n');
            write_node(text, &entry.node, depth + 1);
        }
        _ => {
            text.push(' ');
            write_scalar(text, &entry.node, depth);
        }
    }
}

fn indent(text: &mut String, depth: usize) {
    text.extend(std::iter::repeat_n("  ", depth));
}

/// Writes the value after a key or a dash, and ends the line.
fn write_scalar(text: &mut String, node: &Node, depth: usize) {
    // Writing to a string cannot fail.
    let _ = match &node.value {
        NodeValue::Null => writeln!(text, "null"),
        NodeValue::Bool(value) => writeln!(text, "{value}"),
        NodeValue::Integer(value) => writeln!(text, "{value}"),
        NodeValue::Number(value) => writeln!(text, "{value:?}"),
        NodeValue::List(_) => writeln!(text, "[]"),
        NodeValue::Map(_) => writeln!(text, "{{}}"),
        NodeValue::Text(value) if fits_a_block(value) => {
            let kept = if value.ends_with('\n') { "" } else { "-" };
            text.push('|');
            text.push_str(kept);
            text.push('\n');
            for line in value.lines() {
                if !line.is_empty() {
                    indent(text, depth + 1);
                    text.push_str(line);
                }
                text.push('\n');
            }
            Ok(())
        }
        NodeValue::Text(value) => writeln!(text, "{}", one_line(value)),
    };
}

/// Whether a text survives as a YAML block: YAML drops, folds and refuses nothing of it.
fn fits_a_block(text: &str) -> bool {
    let body = text.strip_suffix('\n').unwrap_or(text);
    let plain =
        |c: char| c == '\n' || c == '\t' || (' '..='~').contains(&c) || ('\u{a1}'..='\u{d7ff}').contains(&c);
    // The second half of general punctuation holds line separators.
    let separators = ['\u{ad}', '\u{2028}', '\u{2029}'];
    body.contains('\n')
        && body.chars().all(|c| plain(c) && !separators.contains(&c))
        && !body.starts_with([' ', '\t', '\n'])
        && !body.ends_with('\n')
        && body.lines().all(|line| !line.ends_with([' ', '\t']) && !line.starts_with('\t'))
}

/// A text on one line: plain where YAML takes it for nothing else, quoted otherwise.
fn one_line(text: &str) -> String {
    let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '/' | '.' | '-' | ' ');
    let plain = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
        && text.chars().all(word)
        && !text.ends_with(' ')
        && !text.contains(" -")
        && !["null", "true", "false", "yes", "no", "on", "off", "y", "n"]
            .contains(&text.to_ascii_lowercase().as_str());
    if plain {
        return text.to_owned();
    }
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        // Writing to a string cannot fail.
        let _ = match character {
            '"' => write!(quoted, "\\\""),
            '\\' => write!(quoted, "\\\\"),
            '\n' => write!(quoted, "\\n"),
            '\t' => write!(quoted, "\\t"),
            '\r' => write!(quoted, "\\r"),
            ' '..='~' | '\u{a1}'..='\u{ac}' | '\u{ae}'..='\u{1fff}' | '\u{3001}'..='\u{d7ff}' => {
                write!(quoted, "{character}")
            }
            other if u32::from(other) > 0xffff => write!(quoted, "\\U{:08x}", u32::from(other)),
            other => write!(quoted, "\\u{:04x}", u32::from(other)),
        };
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Node {
        let source = Arc::new(Source::new(Path::new("d.yaml"), PathBuf::from("d.yaml"), text));
        let mut node = read_yaml(&source).unwrap_or_else(|error| panic!("{error}\n{text}"));
        forget_places(&mut node);
        node
    }

    fn forget_places(node: &mut Node) {
        node.span = Span::default();
        match &mut node.value {
            NodeValue::List(nodes) => nodes.iter_mut().for_each(forget_places),
            NodeValue::Map(entries) => {
                for entry in entries {
                    entry.span = Span::default();
                    forget_places(&mut entry.node);
                }
            }
            _ => {}
        }
    }

    fn check(node: &Node, expected: &str) {
        let text = yaml_text(node);
        assert_eq!(text, expected);
        assert_eq!(read(&text), *node, "{text}");
    }

    #[test]
    fn documents_are_written_for_people() {
        let list = NodeValue::List(vec![
            Node::map(vec![("id", "a".into()), ("text", "two\nlines\n".into())]),
            "a: b".into(),
            NodeValue::List(vec![NodeValue::Integer(1).into()]).into(),
        ]);
        let node = Node::map(vec![
            ("format", NodeValue::Integer(1).into()),
            ("no", "no".into()),
            ("list", list.into()),
            ("empty", Node::map(vec![])),
            ("last", "no end\nof line".into()),
        ]);
        let expected = "format: 1\n\"no\": \"no\"\nlist:\n  - id: a\n    text: |\n      two\n      lines\n  - \"a: b\"\n  - \n    - 1\nempty: {}\nlast: |-\n  no end\n  of line\n";
        check(&node, expected);
    }

    #[test]
    fn places_are_those_of_the_file() {
        let text = "a: 1\nb: {c: [x, yy]}\n";
        let source = Arc::new(Source::new(Path::new("d.yaml"), PathBuf::from("d.yaml"), text));
        let node = read_yaml(&source).unwrap();
        let list = node.get("b").and_then(|b| b.get("c")).unwrap();
        let NodeValue::List(nodes) = &list.value else { panic!("{list:?}") };
        assert_eq!(source.slice(nodes[1].span), "yy");
        let NodeValue::Map(entries) = &node.value else { panic!("{node:?}") };
        assert_eq!(source.slice(entries[1].span), "b");
    }

    fn any_text() -> impl Strategy<Value = String> {
        prop_oneof![any::<String>(), "[ \\-a-z{}%#'\"\n\t\r:|>&*!?,\\\\\u{85}\u{2028}\u{feff}é😀0-9~]{0,24}"]
    }

    fn any_node() -> impl Strategy<Value = Node> {
        let leaf = prop_oneof![
            any_text().prop_map(NodeValue::Text),
            any::<i64>().prop_map(NodeValue::Integer),
            any::<bool>().prop_map(NodeValue::Bool),
            Just(NodeValue::Null),
        ];
        leaf.prop_map(Node::from).prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4)
                    .prop_map(|nodes| NodeValue::List(nodes).into()),
                proptest::collection::btree_map(any_text(), inner, 0..4).prop_map(|map| {
                    let entries =
                        map.into_iter().map(|(key, node)| Entry { key, span: Span::default(), node });
                    NodeValue::Map(entries.collect()).into()
                }),
            ]
        })
    }

    proptest! {
        /// I1.
        #[test]
        fn what_is_written_is_read(node in any_node()) {
            let text = yaml_text(&node);
            prop_assert_eq!(read(&text), node, "{}", text);
        }

        /// I2.
        #[test]
        fn literals_render_as_themselves(text in any_text()) {
            let engine = crate::text::engine();
            let written = literal(&text);
            let rendered = crate::text::Renderer::new(&engine).text(&written, &minijinja::Value::UNDEFINED);
            prop_assert_eq!(rendered.unwrap(), text);
        }
    }
}
