//! Builds a task from its file form: renders strings and checks the results.
//!
//! I1. All values of a built task satisfy the rules of [`crate::value`].
//! I2. The same code finds templates, tries instances when a suite is checked, and builds the tasks of a plan. So every string
//! that is rendered was also seen by [`TaskBuilder::texts_of`].

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::{Deref, DerefMut};

use minijinja::Value;
use serde_json::Value as Json;

use super::checker::Checker;
use super::row::Row;
use super::schema::Schemas;
use crate::file::{JsonObject, Located, Scalar, Text};
use crate::problem::Finding;
use crate::source::{Source, Span};
use crate::text::{Renderer, TextError, is_template};
use crate::value::{self, BadValue};

/// A rule for a rendered value.
pub(super) type Rule = fn(&str) -> Result<(), BadValue>;

/// Builds the tasks of one suite.
///
/// A wrong value is reported and left empty, so that all problems of a task are found at once. Tasks are valid only if
/// nothing was reported.
pub(crate) struct TaskBuilder<'c, 'e, 's> {
    checker: &'c mut Checker,
    source: &'s Source,
    renderer: Renderer<'e, 's>,
    values: Value,
    /// While templates are looked for: the strings that may be some. Nothing is rendered or judged then.
    seen: Option<Vec<(&'s str, Span)>>,
    /// Spans of strings with reported problems.
    skipped: HashSet<Span>,
    /// Verdicts on regular expressions, so that instances do not compile them again.
    regexes: HashMap<String, Result<(), BadValue>>,
    pub(super) schemas: Schemas,
}

/// A string that may be a template, and its place.
#[derive(Clone, Copy)]
pub(super) struct Written<'s> {
    text: &'s str,
    pub(super) span: Span,
}

impl<'s> Written<'s> {
    pub(super) fn new(text: &'s str, span: Span) -> Self {
        Self { text, span }
    }
}

impl<'s> From<&'s Text> for Written<'s> {
    fn from(text: &'s Text) -> Self {
        Self { text: &text.value, span: text.span }
    }
}

/// A JSON value whose strings may be templates. All of them share its place.
#[derive(Clone, Copy)]
pub(super) struct WrittenJson<'s> {
    pub(super) value: &'s Json,
    pub(super) span: Span,
}

impl<'s> From<&'s Located<Json>> for WrittenJson<'s> {
    fn from(json: &'s Located<Json>) -> Self {
        Self { value: &json.value, span: json.span }
    }
}

impl<'s> From<&'s Located<JsonObject>> for WrittenJson<'s> {
    fn from(json: &'s Located<JsonObject>) -> Self {
        Self { value: &json.value.0, span: json.span }
    }
}

impl Deref for TaskBuilder<'_, '_, '_> {
    type Target = Checker;

    fn deref(&self) -> &Checker {
        self.checker
    }
}

impl DerefMut for TaskBuilder<'_, '_, '_> {
    fn deref_mut(&mut self) -> &mut Checker {
        self.checker
    }
}

impl<'c, 'e, 's> TaskBuilder<'c, 'e, 's> {
    pub(crate) fn new(
        checker: &'c mut Checker,
        engine: &'e minijinja::Environment<'s>,
        source: &'s Source,
    ) -> Self {
        Self {
            checker,
            source,
            renderer: Renderer::new(engine),
            values: Value::default(),
            seen: None,
            skipped: HashSet::new(),
            regexes: HashMap::new(),
            schemas: Schemas::default(),
        }
    }

    /// Every string of a row that may be a template, with its place. Problems that no value can change are reported.
    pub(super) fn texts_of(&mut self, suite: &str, row: &'s Row) -> Vec<(&'s str, Span)> {
        self.seen = Some(row.lets.iter().map(|(_, text)| (text.as_str(), text.span)).collect());
        self.task(suite, row, None, &Value::default());
        self.seen.take().unwrap_or_default()
    }

    /// Leaves out strings that name unknown variables, or variables that are derived below: those are reported by name.
    pub(super) fn skip_unknown_names(&mut self, row: &Row, texts: &[(&'s str, Span)]) {
        let chosen: Vec<&str> = row.variables.iter().map(|variable| variable.name.as_str()).collect();
        let derived: Vec<&str> = row.lets.iter().map(|(name, _)| name.as_str()).collect();
        for (text, span) in texts {
            let above = row.lets.iter().position(|(_, value)| value.span == *span).unwrap_or(derived.len());
            let known = |name: &str| chosen.contains(&name) || derived[..above].contains(&name);
            if self.renderer.variables(text).unwrap_or_default().iter().any(|name| !known(name)) {
                self.skipped.insert(*span);
            }
        }
    }

    /// Leaves out every string that needs values.
    pub(super) fn skip_templates(&mut self, texts: &[(&'s str, Span)]) {
        self.skipped.extend(texts.iter().filter(|(text, _)| is_template(text)).map(|(_, span)| *span));
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

    /// Fills in these values from now on.
    pub(super) fn fill_in(&mut self, values: &Value) {
        self.values = values.clone();
    }

    /// A single value as text: a number or boolean keeps its source text.
    pub(super) fn written(&self, scalar: &'s Located<Scalar>) -> Written<'s> {
        self.scalar_text(&scalar.value, scalar.span)
    }

    /// Like [`Self::written`], for a value whose span is stored separately.
    pub(super) fn scalar_text(&self, scalar: &'s Scalar, span: Span) -> Written<'s> {
        let text = match scalar {
            Scalar::Text(text) => text,
            Scalar::Integer(_) | Scalar::Bool(_) | Scalar::Verbatim => self.source.slice(span),
        };
        Written { text, span }
    }

    /// Renders a string.
    pub(super) fn text(&mut self, text: impl Into<Written<'s>>) -> Option<String> {
        let Written { text, span } = text.into();
        if let Some(seen) = &mut self.seen {
            seen.push((text, span));
            return Some(text.to_owned());
        }
        if self.skipped.contains(&span) {
            return None;
        }
        match self.renderer.text(text, &self.values) {
            Ok(rendered) => Some(rendered),
            Err(error) => {
                self.failed(text, span, error);
                None
            }
        }
    }

    /// Renders an optional string. `None` if it is present and wrong.
    pub(super) fn optional(&mut self, text: Option<&'s Text>) -> Option<Option<String>> {
        match text {
            Some(text) => self.text(text).map(Some),
            None => Some(None),
        }
    }

    pub(super) fn texts(&mut self, texts: &'s [Text]) -> Vec<String> {
        texts.iter().map(|text| self.text(text).unwrap_or_default()).collect()
    }

    pub(super) fn regex(&mut self, text: &'s Text) -> Option<String> {
        let rendered = self.text(text)?;
        let verdict = match &self.seen {
            Some(_) => Ok(()),
            None => self.regexes.entry(rendered.clone()).or_insert_with(|| value::regex(&rendered)).clone(),
        };
        self.judged(text.into(), rendered, verdict)
    }

    /// Renders a string and applies a rule.
    pub(super) fn ruled(&mut self, text: impl Into<Written<'s>>, rule: Rule) -> Option<String> {
        let text = text.into();
        let rendered = self.text(text)?;
        let verdict = if self.seen.is_some() { Ok(()) } else { rule(&rendered) };
        self.judged(text, rendered, verdict)
    }

    /// Renders strings and applies a rule to each.
    pub(super) fn all_ruled(&mut self, texts: &'s [Text], rule: Rule) -> Vec<String> {
        texts.iter().map(|text| self.ruled(text, rule).unwrap_or_default()).collect()
    }

    /// Renders a string, and reads a number from it.
    pub(super) fn number(
        &mut self,
        text: Written<'s>,
        rule: fn(&str) -> Result<f64, BadValue>,
    ) -> Option<f64> {
        let rendered = self.text(text)?;
        let number = rule(&rendered);
        self.judged(text, rendered, number.clone().map(|_| ()))?;
        number.ok()
    }

    /// Names and values by rules. Names are unique as written; a later one of the same rendering wins.
    pub(super) fn pairs<T: FromIterator<(String, String)>>(
        &mut self,
        pairs: impl IntoIterator<Item = (&'s Text, Written<'s>)>,
        name_rule: Rule,
        value_rule: Rule,
    ) -> T {
        let pairs = pairs.into_iter().map(|(name, text)| {
            let name = self.ruled(name, name_rule).unwrap_or_default();
            (name, self.ruled(text, value_rule).unwrap_or_default())
        });
        pairs.collect()
    }

    fn judged(
        &mut self,
        text: Written<'_>,
        rendered: String,
        verdict: Result<(), BadValue>,
    ) -> Option<String> {
        match verdict {
            Ok(()) => Some(rendered),
            Err(BadValue { message, help }) => {
                let label = if is_template(text.text) {
                    format!("renders as `{}`", first_line(&rendered))
                } else {
                    "not accepted".to_owned()
                };
                self.found(text.span, message, &label, &help);
                None
            }
        }
    }

    /// Renders the strings of a JSON value. One that is a single expression becomes the expression's value, so that numbers stay
    /// numbers.
    pub(super) fn json(&mut self, json: impl Into<WrittenJson<'s>>) -> Option<Json> {
        let WrittenJson { value, span } = json.into();
        self.json_value(value, span)
    }

    fn json_value(&mut self, value: &'s Json, span: Span) -> Option<Json> {
        Some(match value {
            Json::String(text) if self.seen.is_some() || !is_template(text) => {
                // The template's source. A text without a template renders to itself.
                self.seen.iter_mut().for_each(|seen| seen.push((text, span)));
                value.clone()
            }
            Json::String(text) => {
                if self.skipped.contains(&span) {
                    return None;
                }
                match self.renderer.value(text, &self.values) {
                    Ok(value) => serde_json::to_value(value).ok()?,
                    Err(error) => {
                        self.failed(text, span, error);
                        return None;
                    }
                }
            }
            Json::Array(entries) => {
                let entries: Vec<_> = entries.iter().map(|entry| self.json_value(entry, span)).collect();
                Json::Array(entries.into_iter().collect::<Option<_>>()?)
            }
            Json::Object(map) => {
                let entries: Vec<_> = map
                    .iter()
                    .map(|(key, entry)| Some((key.clone(), self.json_value(entry, span)?)))
                    .collect();
                Json::Object(entries.into_iter().collect::<Option<_>>()?)
            }
            other => other.clone(),
        })
    }

    fn failed(&mut self, text: &str, span: Span, error: TextError) {
        let span = self.source.locate(span, text, error.range);
        self.found(span, error.message, "here", &error.help);
    }

    /// Reports a problem of a rendered value, once for all instances.
    pub(super) fn found(&mut self, span: Span, message: String, label: &str, help: &str) {
        if self.seen.is_none() {
            self.findings.add_first(span, Finding { message, label, help: help.to_owned() });
        }
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

pub(super) fn any(_: &str) -> Result<(), BadValue> {
    Ok(())
}
