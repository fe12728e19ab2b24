//! Rendering the strings of a row and judging what comes out.

use std::collections::{BTreeMap, HashMap, HashSet};

use minijinja::Value;
use serde_json::Value as Json;

use super::schema::Schemas;
use crate::file::Text;
use crate::problem::{Finding, Findings};
use crate::row::{JsonText, Row};
use crate::source::Span;
use crate::text::{Renderer, TextError, is_template};
use crate::value::{self, BadValue};

/// A rule for a rendered value.
pub(super) type Rule = fn(&str) -> Result<(), BadValue>;

/// Fills rows; findings of all of them gather in one place.
pub(crate) struct Filler<'f, 'e, 's> {
    pub(super) renderer: Renderer<'e, 's>,
    findings: &'f mut Findings,
    /// Places of strings that are known to be wrong.
    pub(super) skipped: HashSet<Span>,
    /// Regular expressions that compiled, so that instances do not compile them again.
    regexes: HashMap<String, Result<(), BadValue>>,
    pub(super) schemas: Schemas,
}

impl<'f, 'e, 's> Filler<'f, 'e, 's> {
    pub(crate) fn new(engine: &'e minijinja::Environment<'s>, findings: &'f mut Findings) -> Self {
        Self {
            renderer: Renderer::new(engine),
            findings,
            skipped: HashSet::new(),
            regexes: HashMap::new(),
            schemas: Schemas::default(),
        }
    }

    /// All variables of an instance, chosen and derived.
    pub(crate) fn values(&mut self, row: &'s Row, assignment: &[Value]) -> Option<Value> {
        let mut values: BTreeMap<&'s str, Value> = row
            .variables
            .iter()
            .map(|variable| variable.name.as_str())
            .zip(assignment.iter().cloned())
            .collect();
        let scope = |values: &BTreeMap<&'s str, Value>| {
            Value::from_pairs(values.iter().map(|(name, value)| (*name, value.clone())))
        };
        for (name, text) in &row.lets {
            if self.skipped.contains(&text.span) {
                return None;
            }
            let scope = scope(&values);
            match self.renderer.value(text, &scope) {
                Ok(value) => values.insert(name, value),
                Err(error) => {
                    self.failed(&text.value, text.span, error);
                    return None;
                }
            };
        }
        Some(scope(&values))
    }

    pub(super) fn optional(&mut self, text: Option<&'s Text>, values: &Value) -> Option<Option<String>> {
        match text {
            Some(text) => self.text(text, values).map(Some),
            None => Some(None),
        }
    }

    pub(super) fn regex(&mut self, text: &'s Text, values: &Value) -> Option<String> {
        let rendered = self.text(text, values)?;
        let verdict = self.regexes.entry(rendered.clone()).or_insert_with(|| value::regex(&rendered)).clone();
        self.judged(text, rendered, verdict)
    }

    /// Renders and applies a rule.
    pub(super) fn ruled(&mut self, text: &'s Text, values: &Value, rule: Rule) -> Option<String> {
        let rendered = self.text(text, values)?;
        let verdict = rule(&rendered);
        self.judged(text, rendered, verdict)
    }

    pub(super) fn judged(
        &mut self,
        text: &Text,
        rendered: String,
        verdict: Result<(), BadValue>,
    ) -> Option<String> {
        match verdict {
            Ok(()) => Some(rendered),
            Err(BadValue { message, help }) => {
                let label = if is_template(text) {
                    format!("renders as `{}`", first_line(&rendered))
                } else {
                    "not accepted".to_owned()
                };
                self.found(text.span, message, &label, &help);
                None
            }
        }
    }

    pub(super) fn text(&mut self, text: &'s Text, values: &Value) -> Option<String> {
        if self.skipped.contains(&text.span) {
            return None;
        }
        match self.renderer.text(text, values) {
            Ok(rendered) => Some(rendered),
            Err(error) => {
                self.failed(&text.value, text.span, error);
                None
            }
        }
    }

    /// A string that is one expression becomes the expression's value, so that numbers stay numbers.
    pub(super) fn json(&mut self, text: &'s JsonText, values: &Value) -> Option<Json> {
        self.json_value(&text.value, text.span, values)
    }

    fn json_value(&mut self, value: &'s Json, span: Span, values: &Value) -> Option<Json> {
        Some(match value {
            Json::String(text) if is_template(text) => {
                if self.skipped.contains(&span) {
                    return None;
                }
                match self.renderer.value(text, values) {
                    Ok(value) => serde_json::to_value(value).ok()?,
                    Err(error) => {
                        self.failed(text, span, error);
                        return None;
                    }
                }
            }
            Json::Array(entries) => {
                let entries: Vec<_> =
                    entries.iter().map(|entry| self.json_value(entry, span, values)).collect();
                Json::Array(entries.into_iter().collect::<Option<_>>()?)
            }
            Json::Object(map) => {
                let entries: Vec<_> = map
                    .iter()
                    .map(|(key, entry)| Some((key.clone(), self.json_value(entry, span, values)?)))
                    .collect();
                Json::Object(entries.into_iter().collect::<Option<_>>()?)
            }
            other => other.clone(),
        })
    }

    /// The place of the key that a JSON pointer ends with, inside a list or map.
    pub(super) fn located(&self, whole: Span, pointer: &str) -> Span {
        self.findings.source.locate_pointer(whole, pointer)
    }

    pub(super) fn failed(&mut self, text: &str, span: Span, error: TextError) {
        let span = self.findings.source.locate(span, text, error.range);
        self.found(span, error.message, "here", &error.help);
    }

    pub(super) fn found(&mut self, span: Span, message: String, label: &str, help: &str) {
        self.findings.add_first(span, Finding { message, label, help: help.to_owned() });
    }
}

/// For labels: the first line, cut to forty characters.
pub(super) fn first_line(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let mut short: String = line.chars().take(40).collect();
    if short.len() < text.trim_end().len() {
        short.push('…');
    }
    short
}
