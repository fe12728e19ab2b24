//! The checker: what belongs to the suite as a whole, and the order in which a task is checked.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use clawrl_core::{FixtureFile, SiteFolder};
use minijinja::Value;

use super::environment::Named;
use super::swe::Given;
use super::verifier::Around;
use crate::bounds;
use crate::file::{DefaultsFile, Located, Scalar, SuiteFile, TaskFile, Text};
use crate::fill::try_instances;
use crate::fixture::Fixtures;
use crate::problem::{ConfigError, Finding, Findings};
use crate::row::{CheckKind, EnvRow, Row};
use crate::source::{Source, Span};
use crate::suggest::{did_you_mean, listed};
use crate::suite::Suite;
use crate::value::{self, BadValue};

/// What grading takes where a judge is asked and nothing else is said: models that think take minutes.
const JUDGING: Duration = Duration::from_secs(300);

/// What the rows of a suite have in common while they are checked.
pub(super) struct Checker {
    pub(super) findings: Findings,
    pub(super) fixtures: Fixtures,
    /// Entries of the named lists. Lists with a problem are there too, so that their name is known.
    pub(super) lists: BTreeMap<String, Vec<Value>>,
    /// Fixture folders that were read, by path.
    pub(super) folders: HashMap<String, Arc<[FixtureFile]>>,
    pub(super) site_folders: HashMap<String, SiteFolder>,
}

/// Checks everything.
pub(crate) fn check(source: &Arc<Source>, file: SuiteFile) -> Result<Suite, ConfigError> {
    let mut fixtures = Fixtures::new(&source.folder);
    let name = source.path.file_name().and_then(|name| name.to_str()).unwrap_or("suite.yaml");
    fixtures.add(name, source.text.as_bytes());
    let mut checker = Checker {
        findings: Findings::new(source),
        fixtures,
        lists: BTreeMap::new(),
        folders: HashMap::new(),
        site_folders: HashMap::new(),
    };
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
        rows.push(checker.row(task, &defaults));
    }
    for row in &rows {
        try_instances(&file.suite, row, &mut checker.findings);
    }
    let sha256 = checker.fixtures.sha256();
    let warnings = checker.findings.finish()?;
    Ok(Suite {
        source: Arc::clone(source),
        name: file.suite,
        description: file.description,
        sha256,
        rows,
        lists: checker.lists,
        warnings,
    })
}

/// Defaults taken apart, so that tasks can lay theirs over them.
struct Defaults {
    file: DefaultsFile,
    env: Option<Named>,
}

impl Checker {
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

    /// A scalar as text: a number or truth value is meant as it stands in the file.
    pub(super) fn written(&self, scalar: Located<Scalar>) -> Text {
        let value = match scalar.value {
            Scalar::Text(text) => text,
            Scalar::Integer(_) | Scalar::Bool(_) | Scalar::Verbatim => {
                self.findings.source.slice(scalar.span).to_owned()
            }
        };
        Text { value, span: scalar.span }
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

    /// A literal list, which must have entries and none twice.
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

    /// One task. With a problem in it, it is still tried as far as it goes.
    fn row(&mut self, mut task: TaskFile, defaults: &Defaults) -> Row {
        let before = self.findings.count();
        self.named(&task.id, value::id);
        let written = task.settings().or(defaults.file.settings());
        let grade_given = written.grade.is_some();
        let given = Given { setup: written.setup.is_some(), grade: grade_given };
        let format_given = written.action_format.map(|format| format.span);
        let mut settings = self.settings(written);
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
        let is_known = named.is_some() && is_one;
        let (mut env, verifier) = match named.unwrap_or_else(|| Named::Terminal(Box::default())) {
            Named::Terminal(mut file) => {
                let verifier = file.verifier.take();
                let terminal = self.terminal(*file, &settings.timeouts);
                let around = Around {
                    sandbox: terminal.workspace.sandbox,
                    network: terminal.workspace.network,
                    grade_given,
                };
                let verifier =
                    verifier.map(|verifier| self.verifier(verifier, around, &mut settings.timeouts));
                (EnvRow::Terminal(terminal), verifier)
            }
            Named::Swe(file) => {
                let swe = self.swe(*file, place, given, &mut settings.timeouts);
                (EnvRow::Swe(Box::new(swe)), None)
            }
            Named::Toolcall(file) => {
                let toolcall = self.toolcall(*file, &settings.timeouts);
                self.format_fits(&toolcall, format_given, &mut settings.action_format);
                (EnvRow::Toolcall(toolcall), None)
            }
            Named::Gui(file) => (EnvRow::Gui(Box::new(self.gui(*file, place))), None),
            Named::Process(file) => (EnvRow::Custom(self.process_env(*file, place)), None),
            Named::Http(file) => (EnvRow::Custom(self.http_env(*file, place)), None),
            Named::Openenv(file) => (EnvRow::Custom(self.openenv(*file, place)), None),
        };
        let grades_itself = matches!(env, EnvRow::Custom(_) | EnvRow::Swe(_));
        if matches!(env, EnvRow::Custom(_)) {
            self.format_of_custom(format_given.is_some(), &mut settings.action_format);
        }
        if task.instruction.trim().is_empty() {
            let help = "say what the policy is asked to do: `instruction: Write hello into out.txt.`";
            self.problem(task.instruction.span, "the instruction is empty", "no words here", help);
        }
        // Without one environment, nothing can be said to need another.
        let known = is_known.then_some(&env);
        let checks = self.checks(
            &task.id,
            task.checks,
            verifier.is_some() || grades_itself,
            known,
            &settings.timeouts,
        );
        let asks_judge = checks.iter().any(|check| matches!(check.kind, CheckKind::AnswerRubric { .. }));
        if asks_judge && !grade_given {
            settings.timeouts.grade = settings.timeouts.grade.max(JUDGING);
        }
        let oracle = task.oracle.and_then(|script| self.script(script, "oracle", known));
        if let Some(oracle) = &oracle {
            self.oracle_fits(&task.id, oracle.turns(), settings.max_turns);
        }
        let mistakes: Vec<_> =
            task.mistakes.into_iter().filter_map(|script| self.script(script, "mistake", known)).collect();
        if let EnvRow::Toolcall(toolcall) = &mut env {
            self.sandbox_for(toolcall, &checks);
        }
        let row = Row {
            id: task.id,
            variables: template.variables,
            lets: task.lets.0.into_iter().map(|(name, value)| (name.value, value)).collect(),
            instances: template.instances,
            instruction: task.instruction,
            env,
            checks,
            verifier,
            oracle,
            mistakes,
            settings,
        };
        // Names are only complete, and unused ones only certain, when every part could be read.
        let complete = self.findings.count() == before;
        self.names(&row, &template.declared, complete);
        row
    }

    fn oracle_fits(&mut self, id: &Text, turns: usize, max_turns: u32) {
        if turns > max_turns as usize {
            let message =
                format!("the oracle needs {turns} turns with its submit, `max_turns` is {max_turns}");
            let help = format!("write `max_turns: {turns}` or more, or shorten the oracle");
            self.problem(id.span, message, "in this task", help);
        }
    }
}
