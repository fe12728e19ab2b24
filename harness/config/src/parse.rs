//! From the text of a file to its types, and from the parser's errors to words for authors.
//!
//! Stops at the first error: after a wrong shape, later findings would be guesses.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_yaml::{Error as YamlError, Options};

use crate::decode::{Wrong, decode};
use crate::dialect::{self, Dialect};
use crate::document::{Node, NodeValue};
use crate::problem::{ConfigError, Problem};
use crate::source::{Source, Span};
use crate::suggest::{did_you_mean, listed};

/// Reads the types. One problem at most.
pub(crate) fn parse<T: DeserializeOwned>(source: &Arc<Source>, dialect: &Dialect) -> Result<T, ConfigError> {
    let node = read(source, dialect)?;
    if node.value == NodeValue::Null {
        let empty = words(format!("the {} is empty", dialect.file), "nothing here", dialect.start);
        return Err(told(source, empty, node.span));
    }
    refuse_newer_format(source, dialect, &node)?;
    decode(source, &node).map_err(|mismatch| {
        let (wrong, span) = mismatch.parts();
        told(source, explain(source, dialect, wrong, span), span)
    })
}

/// Reads a document of any shape. One problem at most.
pub(crate) fn parse_any(source: &Arc<Source>) -> Result<Node, ConfigError> {
    read(source, &dialect::ANY)
}

fn read(source: &Arc<Source>, dialect: &Dialect) -> Result<Node, ConfigError> {
    serde_yaml::from_str_with_options(&source.text, options()).map_err(|error| {
        let span = place(source, &error);
        match (&error, outer_brace(source, span)) {
            (YamlError::Unexpected { .. }, Some(outer)) => {
                told(source, wrong_type(source, outer, "text"), outer)
            }
            _ => told(source, describe(source, dialect, &error, span), span),
        }
    })
}

/// The first of two braces, if the second stands at this place: a template without quotes, which is a map as a key.
fn outer_brace(source: &Source, span: Span) -> Option<Span> {
    let start = span.start.checked_sub(1)?;
    source.text.get(start..)?.starts_with("{{").then_some(Span { start, len: 1 })
}

fn told(source: &Arc<Source>, words: Words, span: Span) -> ConfigError {
    let Words { message, label, help } = words;
    Problem::new(message, help).at(source, widen(source, span), label).into()
}

fn options() -> Options {
    serde_yaml::options! {
        // `yes`, `no`, `on` and `off` are words that tasks use, not truth values.
        strict_booleans: true,
        with_snippet: false,
        // A suite of a thousand tasks with a dozen tools each has a million values.
        budget: serde_yaml::budget! { max_events: 8_000_000, max_nodes: 4_000_000 },
    }
}

/// A newer file has keys that this program does not know; the format is then the error to report.
fn refuse_newer_format(source: &Arc<Source>, dialect: &Dialect, node: &Node) -> Result<(), ConfigError> {
    let Some(Node { value: NodeValue::Integer(format), span }) = node.get("format") else { return Ok(()) };
    let Dialect { noun, newest_format: newest, .. } = dialect;
    if format <= newest {
        return Ok(());
    }
    let message = format!("this {noun} has format {format}, newer than this program reads");
    let help =
        format!("update clawrl, or write the {noun} for `format: {newest}` and set the number to that");
    let label = format!("formats up to {newest} are known");
    Err(Problem::new(message, help).at(source, *span, label).into())
}

/// Message, label of the span, and help.
struct Words {
    message: String,
    label: String,
    help: String,
}

fn words(message: impl Into<String>, label: impl Into<String>, help: impl Into<String>) -> Words {
    Words { message: message.into(), label: label.into(), help: help.into() }
}

/// The place of a parser error. Syntax errors know line and column only.
fn place(source: &Source, error: &YamlError) -> Span {
    let Some(location) = error.location() else { return Span::default() };
    let number = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
    match (location.span().byte_offset(), location.span().byte_len()) {
        (Some(start), Some(len)) if location.line() > 0 => source.clamp(number(start), number(len)),
        _ => source.clamp(source.offset(number(location.line()), number(location.column())), 1),
    }
}

/// An empty span cannot be underlined: the character before it is where something is missing.
fn widen(source: &Source, span: Span) -> Span {
    if span.len > 0 || source.text.is_empty() {
        return span;
    }
    let before = source.text[..span.start].trim_end();
    let last = before.chars().next_back().map_or(0, char::len_utf8);
    Span { start: before.len() - last, len: last.max(1) }
}

fn describe(source: &Source, dialect: &Dialect, error: &YamlError, span: Span) -> Words {
    match error {
        YamlError::AliasError { error, .. } => describe(source, dialect, error, span),
        YamlError::MultipleDocuments { .. } => words(
            "the file has more than one YAML document",
            "a second document starts here",
            format!("remove the `---` line; put further {}s into files of their own", dialect.noun),
        ),
        YamlError::DuplicateMappingKey { key, .. } => {
            let key = key.as_deref().unwrap_or("this");
            words(
                format!("the key `{key}` is given twice"),
                "the second one",
                "keep one of the two; YAML has no way to say which counts",
            )
        }
        YamlError::Unexpected { .. } | YamlError::NullIntoString { .. } => {
            words("a key has to be text", "no text", "put the key into quotes if it has `{` or `[` in it")
        }
        YamlError::UnknownAnchor { .. } => words(
            "this alias names an anchor that does not exist",
            "no such anchor above",
            "write `&name` before the value that it stands for, above this line; or quote a text that starts with `*`",
        ),
        _ => syntax(source, error, span),
    }
}

/// Describes a mismatch between a type and a value.
fn explain(source: &Source, dialect: &Dialect, wrong: &Wrong, span: Span) -> Words {
    match wrong {
        Wrong::UnknownKey(key, known) => unknown_field(dialect, key, known),
        Wrong::MissingKey(key) => missing_field(dialect, key),
        Wrong::UnknownWord(word, known) => words(
            format!("{}`{word}` is none of the values allowed here", subject(source, span)),
            "not known",
            format!(
                "{}write one of {}",
                did_you_mean(word, known.iter().copied()),
                listed(known.iter().copied())
            ),
        ),
        Wrong::Type(expected) => wrong_type(source, span, expected),
        Wrong::Other(reason) => words(reason, "this value", "write another value"),
    }
}

/// Old spellings of keys, which are read and never proposed.
const OLD_KEYS: [&str; 3] = ["looks", "matters", "max_drift"];

fn unknown_field(dialect: &Dialect, field: &str, expected: &[&str]) -> Words {
    let expected: Vec<&str> = expected.iter().copied().filter(|key| !OLD_KEYS.contains(key)).collect();
    if expected.first() == Some(&"terminal") {
        let message = format!("there is no kind of environment `{field}`");
        let near = did_you_mean(field, expected.iter().copied());
        let help = format!(
            "{near}this version has {}: write `env: {{ terminal: {{}} }}` or `env: {{ toolcall: {{ tools: {{...}} }} }}`",
            listed(expected.iter().copied())
        );
        return words(message, "not available", help);
    }
    if expected.is_empty() {
        return words(
            format!("there is no key `{field}` here"),
            "nothing to set",
            "this takes no keys: write `{}`",
        );
    }
    let suggestion = did_you_mean(field, expected.iter().copied());
    let elsewhere = (dialect.homes)(field);
    let elsewhere = if suggestion.is_empty() && !elsewhere.is_empty() {
        format!("`{field}` belongs under {}; ", elsewhere.join(" or "))
    } else {
        String::new()
    };
    words(
        format!("there is no key `{field}` here"),
        "unknown key",
        format!("{suggestion}{elsewhere}the keys here are {}", listed(expected.iter().copied())),
    )
}

fn missing_field(dialect: &Dialect, field: &str) -> Words {
    let example = (dialect.example)(field);
    let help = if example.is_empty() { format!("add `{field}:`") } else { example.to_owned() };
    words(format!("the key `{field}` is missing"), format!("this needs `{field}`"), help)
}

fn wrong_type(source: &Source, span: Span, expected: &str) -> Words {
    let found = found(source, span);
    let line = source.text[span.start..].lines().next().unwrap_or_default();
    let help = if expected == "text" && line.starts_with("{{") {
        "put a template into quotes: \"{{ name }}\"; YAML takes a bare `{` for the start of a map".to_owned()
    } else {
        match expected {
            "a list" => "write `[first, second]`, or one entry a line, each after `- `".to_owned(),
            "a map of keys" => "write `key: value` lines, indented below".to_owned(),
            "a whole number" => "write a whole number without quotes or unit, such as 10".to_owned(),
            "a number" => "write a number without quotes or unit, such as 2.5".to_owned(),
            "text" => "write text, in quotes if it has one of `: # { } [ ] , & *` in it".to_owned(),
            expected => format!("write {expected}"),
        }
    };
    let subject = subject(source, span);
    let message = if subject.is_empty() {
        format!("expected {expected}, found {found}")
    } else {
        format!("{subject}expected {expected}, found {found}")
    };
    words(message, format!("expected {expected}"), help)
}

/// Describes the value at a span.
fn found(source: &Source, span: Span) -> String {
    let rest = &source.text[span.start..];
    let line = rest.lines().next().unwrap_or_default();
    let text = source.slice(span).trim();
    if span.len == 0 && rest.starts_with(':') {
        return "nothing".to_owned();
    }
    if rest.starts_with('[') || line.starts_with("- ") {
        return "a list".to_owned();
    }
    let after = rest.get(text.len()..).unwrap_or_default();
    if rest.starts_with('{') || after.starts_with(": ") || after.starts_with(":\n") {
        return "a map of keys".to_owned();
    }
    match text {
        "" | "~" | "null" => "nothing".to_owned(),
        text => {
            let mut short: String = text.lines().next().unwrap_or_default().chars().take(40).collect();
            if short.len() < text.len() {
                short.push('…');
            }
            format!("`{short}`")
        }
    }
}

/// ``key `max_turns`: `` when the place is the value of a key on the same line.
fn subject(source: &Source, span: Span) -> String {
    let line_start = source.text[..span.start].rfind('\n').map_or(0, |at| at + 1);
    let before = source.text[line_start..span.start].trim_end();
    // The place of a value that is missing is its key's colon.
    let at_colon = span.len == 0 && source.text[span.start..].starts_with(':');
    let before = if at_colon { Some(before) } else { before.strip_suffix(':') };
    let Some(before) = before else { return String::new() };
    let key: String = before.chars().rev().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    if key.is_empty() { String::new() } else { format!("`{}`: ", key.chars().rev().collect::<String>()) }
}

/// Not YAML at all.
fn syntax(source: &Source, error: &YamlError, span: Span) -> Words {
    let reason = error.to_string();
    let reason = reason.rsplit_once(" at line ").map_or(reason.as_str(), |(reason, _)| reason).to_owned();
    let line_start = source.text[..span.start].rfind('\n').map_or(0, |at| at + 1);
    let line = source.text[line_start..].lines().next().unwrap_or_default();
    let indentation = &line[..line.len() - line.trim_start().len()];
    let next_is_tabbed = source.text[span.start..].lines().nth(1).is_some_and(|next| next.starts_with('\t'));
    let help = if indentation.contains('\t') || next_is_tabbed {
        "indent with spaces; YAML does not allow tabs there"
    } else if reason.contains("mapping values are not allowed") {
        "put text that contains `: ` into quotes, and line up the keys of one map in the same column"
    } else if reason.contains("quoted scalar") || reason.contains("quote") {
        "close the quotation mark; write `''` for a single quote inside single quotes, `\\\"` inside double ones"
    } else if reason.contains("unexpected character") {
        "put text that starts with `@`, `` ` ``, `%`, `*`, `&` or `!` into quotes"
    } else if reason.contains("indent") || reason.contains("block collection") {
        "line up the keys of one map, and the dashes of one list, in the same column"
    } else if reason.contains("non-finite float") {
        "write a number that is finite"
    } else if reason.contains("alias") || reason.contains("budget") {
        "write the values out instead of using so many aliases"
    } else {
        "check quotes, brackets and indentation on this line and the one above"
    };
    words(format!("this is not valid YAML: {reason}"), "the parser stopped here", help)
}
