//! The checker: the suite as a whole, and the parts of an entry of `tasks:`.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use minijinja::Value;

use super::builder::TaskBuilder;
use super::environment::Named;
use super::row::{Given, Row};
use super::template::Declared;
use crate::bounds;
use crate::file::{DefaultsFile, Located, Scalar, SuiteFile, TaskFile, Text};
use crate::fixture::{FixtureError, Fixtures};
use crate::problem::{ConfigError, Finding, Findings};
use crate::source::{Source, Span};
use crate::suggest::{did_you_mean, listed};
use crate::suite::Suite;
use crate::text::engine;
use crate::value::{self, BadValue};

/// State that the rows of a suite share while tasks are checked and built.
#[derive(Debug)]
pub(crate) struct Checker {
    pub(crate) findings: Findings,
    fixtures: Arc<Mutex<Fixtures>>,
    /// Entries of the named lists. Lists with a problem are included, so that their names are known.
    pub(super) lists: BTreeMap<String, Vec<Value>>,
}

/// Checks everything.
pub(crate) fn check(source: &Arc<Source>, file: SuiteFile) -> Result<Suite, ConfigError> {
    let mut fixtures = Fixtures::new(&source.folder);
    let name = source.path.file_name().and_then(|name| name.to_str()).unwrap_or("suite.yaml");
    fixtures.add(name, source.text.as_bytes());
    let mut checker = Checker::new(source, Arc::new(Mutex::new(fixtures)));
    if *file.format < 1 {
        let help = format!("write `format: {}`", bounds::FORMAT);
        checker.problem(file.format.span, "there is no such format", "not a format", help);
    }
    checker.named(&file.suite, value::id);
    checker.lists(&file.vars.0);
    if file.tasks.is_empty() {
        checker.problem(
            file.tasks.span,
            "the suite has no tasks",
            "no tasks here",
            "add at least one `- id: my-task` under `tasks:`",
        );
    }
    checker.duplicate_ids(&file.tasks);
    let defaults = checker.defaults(file.defaults);
    let mut rows = Vec::new();
    for task in file.tasks.value {
        let before = checker.findings.count();
        let (row, declared) = checker.row(task, &defaults);
        checker.try_row(source, &file.suite, &row, &declared, before);
        rows.push(row);
    }
    let Checker { findings, fixtures, lists } = checker;
    let warnings = findings.finish()?;
    let sha256 = fixtures.lock().unwrap_or_else(PoisonError::into_inner).sha256();
    Ok(Suite {
        source: Arc::clone(source),
        name: file.suite,
        description: file.description,
        sha256,
        fixtures,
        rows,
        lists,
        warnings,
    })
}

/// Defaults taken apart, so that tasks can lay theirs over them.
struct Defaults {
    file: DefaultsFile,
    env: Option<Named>,
}

impl Checker {
    pub(crate) fn new(source: &Arc<Source>, fixtures: Arc<Mutex<Fixtures>>) -> Self {
        Self { findings: Findings::new(source), fixtures, lists: BTreeMap::new() }
    }

    pub(super) fn fixtures(&self) -> MutexGuard<'_, Fixtures> {
        self.fixtures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn problem(
        &mut self,
        span: Span,
        message: impl Into<String>,
        label: &str,
        help: impl Into<String>,
    ) {
        self.findings.add(span, Finding { message: message.into(), label, help: help.into() });
    }

    pub(super) fn bad_value(&mut self, span: Span, bad: BadValue, label: &str) {
        self.problem(span, bad.message, label, bad.help);
    }

    pub(super) fn named(&mut self, name: &Text, rule: fn(&str) -> Result<(), BadValue>) -> bool {
        match rule(name) {
            Ok(()) => true,
            Err(bad) => {
                self.bad_value(name.span, bad, "this name");
                false
            }
        }
    }

    /// The value of a scalar: whole numbers written plainly are numbers, anything else is text as written.
    fn scalar(&self, scalar: &Located<Scalar>) -> Value {
        let written = self.findings.source.slice(scalar.span);
        match &scalar.value {
            Scalar::Text(text) => Value::from(text.as_str()),
            Scalar::Bool(value) => Value::from(*value),
            Scalar::Integer(number) if number.to_string() == written => Value::from(*number),
            Scalar::Integer(_) | Scalar::Verbatim => Value::from(written),
        }
    }

    /// A literal list, which must not be empty or contain duplicates.
    pub(super) fn entries(&mut self, entries: &[Located<Scalar>], span: Span) -> Vec<Value> {
        if entries.is_empty() {
            self.problem(span, "the list is empty", "nothing to choose from", "add at least one entry");
        }
        let mut values: Vec<Value> = Vec::new();
        for entry in entries {
            let value = self.scalar(entry);
            if values.contains(&value) {
                let message = format!("`{value}` is in the list twice");
                self.problem(
                    entry.span,
                    message,
                    "the second one",
                    "remove it; every entry is equally likely",
                );
            } else {
                values.push(value);
            }
        }
        values
    }

    /// The entries of a list by name.
    pub(super) fn list(&mut self, name: &Text) -> Option<Vec<Value>> {
        if let Some(entries) = self.lists.get(&name.value) {
            return Some(entries.clone());
        }
        let known: Vec<&str> = self.lists.keys().map(String::as_str).collect();
        let help = if known.is_empty() {
            format!("add it: `vars: {{ {}: [first, second] }}`", name.value)
        } else {
            format!("{}lists under `vars` are {}", did_you_mean(name, known.iter().copied()), listed(known))
        };
        self.problem(name.span, format!("there is no list `{}`", name.value), "not under `vars`", help);
        None
    }

    fn duplicate_ids(&mut self, tasks: &[TaskFile]) {
        let mut first: HashMap<&str, Span> = HashMap::new();
        for task in tasks {
            if let Some(&span) = first.get(task.id.as_str()) {
                let problem = crate::Problem::new(
                    format!("two tasks have the id `{}`", task.id.value),
                    format!("give one of them another id, such as `{}-2`", task.id.value),
                )
                .at(&self.findings.source, task.id.span, "the second one")
                .and_at(span, "the first one");
                self.findings.push(problem);
            } else {
                first.insert(&task.id, task.id.span);
            }
        }
    }

    fn defaults(&mut self, mut file: DefaultsFile) -> Defaults {
        let env = file.env.take().and_then(|env| {
            let span = env.span;
            let named = self.named_environment(env);
            if named.is_none() {
                self.no_environment(span, "`env:` under `defaults:` names no environment");
            }
            named
        });
        Defaults { file, env }
    }

    /// An entry of `tasks:`, and the names that it declares.
    fn row(&mut self, mut task: TaskFile, defaults: &Defaults) -> (Row, Declared) {
        self.named(&task.id, value::id);
        let written = task.settings().or(defaults.file.settings());
        let given = Given {
            setup: written.setup.is_some(),
            grade: written.grade.is_some(),
            action_format: written.action_format.map(|format| format.span),
        };
        let settings = self.settings(written);
        let template = self.template(&task);
        let place = task.env.as_ref().map_or(task.id.span, |env| env.span);
        let is_one = task.env.as_ref().is_none_or(|env| env.kinds() < 2);
        let own = task.env.take().and_then(|env| self.named_environment(env));
        let named = match (own, &defaults.env) {
            (Some(own), Some(defaults)) => Some(own.or(defaults)),
            (Some(own), None) => Some(own),
            (None, defaults) => defaults.clone(),
        };
        if named.is_none() {
            self.no_environment(place, "the task has no environment");
        }
        let row = Row {
            id: task.id,
            variables: template.variables,
            lets: task.lets.0,
            instances: template.instances,
            instruction: task.instruction,
            env_is_known: named.is_some() && is_one,
            env: named.unwrap_or_else(|| Named::Terminal(Box::default())),
            place,
            checks_need_sandbox: task
                .checks
                .iter()
                .flat_map(|checks| &checks.value)
                .any(|check| check.needs_sandbox()),
            checks: task.checks,
            oracle: task.oracle,
            mistakes: task.mistakes,
            settings,
            given,
        };
        (row, template.declared)
    }

    /// Checks an entry of `tasks:` and tries a few of its instances, as far as possible even if the entry has problems.
    fn try_row(&mut self, source: &Source, suite: &str, row: &Row, declared: &Declared, before: usize) {
        let engine = engine();
        let mut builder = TaskBuilder::new(self, &engine, source);
        let texts = builder.texts_of(suite, row);
        // Names are only complete, and unused ones only certain, when every part could be read.
        let complete = builder.findings.count() == before;
        builder.names(row, &texts, declared, complete);
        builder.try_instances(suite, row, &texts);
    }

    /// Reads a fixture, which no template names.
    pub(super) fn fixture<T>(
        &mut self,
        path: &Text,
        rule: fn(&str) -> Result<(), BadValue>,
        read: impl FnOnce(&mut Fixtures, &str) -> Result<T, FixtureError>,
    ) -> Option<T> {
        if !self.fixture_path(path, rule) {
            return None;
        }
        let read = read(&mut self.fixtures(), path);
        match read {
            Ok(read) => Some(read),
            Err(error) => {
                self.problem(path.span, error.message, "named here", error.help);
                None
            }
        }
    }

    pub(super) fn fixture_path(&mut self, path: &Text, rule: fn(&str) -> Result<(), BadValue>) -> bool {
        if !self.plain(path, "the path of a fixture") {
            return false;
        }
        match rule(path) {
            Ok(()) => true,
            Err(bad) => {
                self.bad_value(path.span, bad, "this path");
                false
            }
        }
    }
}
