//! Rendering the strings of a row and judging what comes out.

use std::collections::{BTreeMap, HashMap, HashSet};

use minijinja::Value;

use crate::file::Text;
use crate::problem::{Finding, Findings};
use crate::row::Row;
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
}

impl<'f, 'e, 's> Filler<'f, 'e, 's> {
    pub(crate) fn new(engine: &'e minijinja::Environment<'s>, findings: &'f mut Findings) -> Self {
        Self { renderer: Renderer::new(engine), findings, skipped: HashSet::new(), regexes: HashMap::new() }
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

    fn judged(&mut self, text: &Text, rendered: String, verdict: Result<(), BadValue>) -> Option<String> {
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
