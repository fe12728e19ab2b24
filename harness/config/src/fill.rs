//! From a checked row and chosen values to a task.
//!
//! I1. A task that comes out of here has only values that keep the rules of [`crate::value`].
//! I2. The same code tries instances when a suite is checked and makes those of a plan.

use std::collections::{BTreeMap, HashMap, HashSet};

use clawrl_core::{
    Check, CheckSpec, EnvSpec, FixtureContent, FixtureFile, Script, TaskId, TaskSpec, TerminalSpec, ToolCall,
};
use minijinja::Value;
use serde_json::{Value as Json, json};

use crate::draw::{self, Assignment};
use crate::file::Text;
use crate::problem::{Finding, Findings};
use crate::row::{ActionRow, CheckKind, CheckRow, FileRow, FileSource, FilesRow, Instances, Row, ScriptRow};
use crate::source::Span;
use crate::text::{Renderer, TextError, engine, is_template};
use crate::value::{self, BadValue};

/// Instances of each template that are tried when a suite is checked.
const TRIED_INSTANCES: usize = 8;

/// Seed of the instances that are tried.
const TRIED_SEED: u64 = 0;

/// The values of a row's instances, in order of index; one empty assignment without a template.
pub(crate) fn assignments(row: &Row, seed: u64) -> Vec<Assignment> {
    match row.instances {
        Instances::Plain => vec![Vec::new()],
        Instances::All(count) => draw::all(&row.variables, count).unwrap_or_default(),
        Instances::Drawn(count) => draw::some(&row.variables, count, seed),
    }
}

/// Makes a few instances for the problems that they show. Without any, because the template has a problem,
/// only what is no template is looked at.
pub(crate) fn try_instances(suite: &str, row: &Row, findings: &mut Findings) {
    let engine = engine();
    let mut filler = Filler::new(&engine, findings);
    filler.skip_unknown_names(row);
    let assignments = match row.instances {
        Instances::Drawn(count) => draw::some(&row.variables, count.min(TRIED_INSTANCES), TRIED_SEED),
        Instances::Plain | Instances::All(_) => assignments(row, TRIED_SEED),
    };
    if assignments.is_empty() {
        filler.skip_templates(row);
        filler.task(suite, row, None, &Value::default());
    }
    let step = assignments.len().div_ceil(TRIED_INSTANCES).max(1);
    for assignment in assignments.iter().step_by(step) {
        match filler.values(row, assignment) {
            Some(values) => filler.task(suite, row, None, &values),
            None => {
                filler.skip_templates(row);
                filler.task(suite, row, None, &Value::default())
            }
        };
    }
}

/// Fills rows; findings of all of them gather in one place.
pub(crate) struct Filler<'f, 'e, 's> {
    renderer: Renderer<'e, 's>,
    findings: &'f mut Findings,
    /// Places of strings that are known to be wrong.
    skipped: HashSet<Span>,
    /// Regular expressions that compiled, so that instances do not compile them again.
    regexes: HashMap<String, Result<(), BadValue>>,
}

impl<'f, 'e, 's> Filler<'f, 'e, 's> {
    pub(crate) fn new(engine: &'e minijinja::Environment<'s>, findings: &'f mut Findings) -> Self {
        Self { renderer: Renderer::new(engine), findings, skipped: HashSet::new(), regexes: HashMap::new() }
    }

    /// Leaves out strings that name what is not declared, or not yet: those are reported by name.
    fn skip_unknown_names(&mut self, row: &'s Row) {
        let chosen: Vec<&str> = row.variables.iter().map(|variable| variable.name.as_str()).collect();
        let derived: Vec<&str> = row.lets.iter().map(|(name, _)| name.as_str()).collect();
        row.each_text(&mut |text, span| {
            let above = row.lets.iter().position(|(_, value)| value.span == span).unwrap_or(derived.len());
            let known = |name: &str| chosen.contains(&name) || derived[..above].contains(&name);
            if self.renderer.variables(text).unwrap_or_default().iter().any(|name| !known(name)) {
                self.skipped.insert(span);
            }
        });
    }

    /// Leaves out every string that needs values.
    fn skip_templates(&mut self, row: &'s Row) {
        row.each_text(&mut |text, span| {
            if is_template(text) {
                self.skipped.insert(span);
            }
        });
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

    /// What the policy is asked to do, by itself: a split looks at nothing else.
    pub(crate) fn instruction(&mut self, row: &'s Row, values: &Value) -> Option<String> {
        self.text(&row.instruction, values)
    }

    /// The task. `None` when something in it is wrong; the findings then say what, all of it.
    pub(crate) fn task(
        &mut self,
        suite: &str,
        row: &'s Row,
        index: Option<usize>,
        values: &Value,
    ) -> Option<TaskSpec> {
        let instruction = self.instruction(row, values);
        let terminal = self.terminal(row, values);
        let checks: Vec<Option<CheckSpec>> =
            row.checks.iter().map(|check| self.check(check, values)).collect();
        let oracle = row.oracle.as_ref().map(|script| self.script(script, values));
        let mistakes: Vec<Option<Script>> =
            row.mistakes.iter().map(|script| self.script(script, values)).collect();
        Some(TaskSpec {
            id: task_id(suite, row, index),
            suite: suite.to_owned(),
            family: row.id.value.clone(),
            instruction: instruction?,
            env: EnvSpec::Terminal(terminal?),
            checks: checks.into_iter().collect::<Option<_>>()?,
            reward: row.settings.reward,
            oracle: match oracle {
                Some(script) => Some(script?),
                None => None,
            },
            mistakes: mistakes.into_iter().collect::<Option<_>>()?,
            action_format: row.settings.action_format,
            max_turns: row.settings.max_turns,
            timeouts: row.settings.timeouts,
        })
    }

    fn terminal(&mut self, row: &'s Row, values: &Value) -> Option<TerminalSpec> {
        let terminal = &row.terminal;
        let shell = match &terminal.shell {
            Some(shell) => self.ruled(shell, values, shell_name),
            None => Some("bash".to_owned()),
        };
        let files = match &terminal.files {
            FilesRow::Folder(files) => Some(files.to_vec()),
            FilesRow::Map(files) => self.files(files, values),
        };
        let setup: Vec<_> = terminal.setup.iter().map(|command| self.text(command, values)).collect();
        let env: Vec<_> = terminal
            .vars
            .iter()
            .map(|(name, value)| {
                Some((self.ruled(name, values, value::env_name)?, self.text(value, values)?))
            })
            .collect();
        Some(TerminalSpec {
            shell: shell?,
            files: files?,
            setup: setup.into_iter().collect::<Option<_>>()?,
            env: env.into_iter().collect::<Option<_>>()?,
            size: terminal.size,
            idle: terminal.idle,
            observation_chars: terminal.observation_chars,
            sandbox: terminal.sandbox,
            limits: terminal.limits,
            network: terminal.network,
        })
    }

    fn files(&mut self, rows: &'s [FileRow], values: &Value) -> Option<Vec<FixtureFile>> {
        let files: Vec<_> = rows.iter().map(|row| self.file(row, values)).collect();
        let files = files.into_iter().collect::<Option<Vec<_>>>()?;
        for (at, file) in files.iter().enumerate() {
            let clash = files[..at].iter().find(|other| {
                let (a, b) = (&file.path, &other.path);
                a == b || a.starts_with(&format!("{b}/")) || b.starts_with(&format!("{a}/"))
            });
            if let Some(other) = clash {
                let message = if other.path == file.path {
                    format!("two files are laid out at `{}`", file.path)
                } else {
                    format!("`{}` and `{}` cannot both be files", other.path, file.path)
                };
                let help = "give one of them another path";
                self.found(rows[at].path.span, message, "the second one", help);
                return None;
            }
        }
        Some(files)
    }

    fn file(&mut self, row: &'s FileRow, values: &Value) -> Option<FixtureFile> {
        let path = self.ruled(&row.path, values, value::file_path);
        let mode = match &row.mode {
            Some(mode) => {
                let text = self.ruled(mode, values, |text| value::fixture_mode(text).map(|_| ()));
                text.and_then(|text| value::fixture_mode(&text).ok())
            }
            None => Some(0o644),
        };
        let (content, host_mode) = match &row.source {
            FileSource::Content(text) => (self.text(text, values).map(FixtureContent::Inline), None),
            FileSource::Host(file) => (Some(file.content.clone()), Some(file.mode)),
        };
        let mode = if row.mode.is_none() { host_mode.or(mode) } else { mode };
        Some(FixtureFile { path: path?, mode: mode?, content: content? })
    }

    fn check(&mut self, row: &'s CheckRow, values: &Value) -> Option<CheckSpec> {
        let (check, subject) = self.check_kind(&row.kind, values)?;
        let label = match &row.label {
            Some(label) => self.text(label, values)?,
            None => format!("{} {subject}", row.kind.key()),
        };
        Some(CheckSpec { label, weight: row.weight, check })
    }

    /// The check and what its default label names.
    fn check_kind(&mut self, kind: &'s CheckKind, values: &Value) -> Option<(Check, String)> {
        // Both parts are filled before either is missed, so that both are found wrong at once.
        let mut both = |path: &'s Text, other: &'s Text, rule: Rule| {
            let path = self.ruled(path, values, value::relative_path);
            let other = self.ruled(other, values, rule);
            Some((path?, other?))
        };
        Some(match kind {
            CheckKind::FileEquals { path, expected } => {
                let (path, expected) = both(path, expected, any)?;
                (Check::FileEquals { path: path.clone(), expected }, path)
            }
            CheckKind::FileContains { path, text } => {
                let (path, text) = both(path, text, not_empty)?;
                (Check::FileContains { path: path.clone(), text }, path)
            }
            CheckKind::FileMatches { path, regex } => {
                let path = self.ruled(path, values, value::relative_path);
                let regex = self.regex(regex, values);
                let path = path?;
                (Check::FileMatches { path: path.clone(), regex: regex? }, path)
            }
            CheckKind::FileAbsent { path } => {
                let path = self.ruled(path, values, value::relative_path)?;
                (Check::FileAbsent { path: path.clone() }, path)
            }
            CheckKind::FileMode { path, mode } => {
                let (path, mode) = both(path, mode, |text| value::mode(text).map(|_| ()))?;
                (Check::FileMode { path: path.clone(), mode: value::mode(&mode).ok()? }, path)
            }
            CheckKind::FileOwner { path, uid } => {
                let path = self.ruled(path, values, value::relative_path)?;
                (Check::FileOwner { path: path.clone(), uid: *uid }, path)
            }
            CheckKind::TreeHash { path, sha256 } => {
                let (path, sha256) = both(path, sha256, value::sha256)?;
                (Check::TreeHash { path: path.clone(), sha256 }, path)
            }
            CheckKind::Command(row) => {
                let run = self.text(&row.run, values);
                let stdout_equals = self.optional(row.stdout_equals.as_ref(), values);
                let stdout_contains = self.optional(row.stdout_contains.as_ref(), values);
                let run = run?;
                let subject = first_line(&run);
                let check = Check::Command {
                    run,
                    exit_code: row.exit_code,
                    stdout_equals: stdout_equals?,
                    stdout_contains: stdout_contains?,
                    timeout: row.timeout,
                };
                (check, subject)
            }
            CheckKind::Process { regex, running } => {
                let regex = self.regex(regex, values)?;
                (Check::Process { regex: regex.clone(), running: *running }, regex)
            }
            CheckKind::JsonValue { path, pointer, equals, span } => {
                let parts = both(path, pointer, value::json_pointer);
                let equals = self.json(equals, *span, values);
                let (path, pointer) = parts?;
                let subject = format!("{path} {pointer}").trim_end().to_owned();
                (Check::JsonValue { path, pointer, equals: equals? }, subject)
            }
        })
    }

    fn script(&mut self, script: &'s ScriptRow, values: &Value) -> Option<Script> {
        let calls: Vec<_> = script.actions.iter().map(|action| self.call(action, values)).collect();
        Some(Script { calls: calls.into_iter().collect::<Option<_>>()? })
    }

    fn call(&mut self, action: &'s ActionRow, values: &Value) -> Option<ToolCall> {
        let (name, arguments) = match action {
            ActionRow::Run(command) => ("run", json!({ "command": self.text(command, values)? })),
            ActionRow::Type(text) => ("text", json!({ "text": self.text(text, values)? })),
            ActionRow::Keys(keys) => ("keys", json!({ "keys": self.ruled(keys, values, value::keys)? })),
            ActionRow::Wait(seconds) => ("wait", json!({ "seconds": seconds })),
            ActionRow::Signal(name) => {
                ("signal", json!({ "name": self.ruled(name, values, value::signal)? }))
            }
            ActionRow::Submit(None) => ("submit", json!({})),
            ActionRow::Submit(Some(answer)) => ("submit", json!({ "answer": self.text(answer, values)? })),
        };
        Some(ToolCall::new(name, arguments))
    }

    /// A string that is one expression becomes the expression's value, so that numbers stay numbers.
    fn json(&mut self, value: &'s Json, span: Span, values: &Value) -> Option<Json> {
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
                let entries: Vec<_> = entries.iter().map(|entry| self.json(entry, span, values)).collect();
                Json::Array(entries.into_iter().collect::<Option<_>>()?)
            }
            Json::Object(map) => {
                let entries: Vec<_> = map
                    .iter()
                    .map(|(key, entry)| Some((key.clone(), self.json(entry, span, values)?)))
                    .collect();
                Json::Object(entries.into_iter().collect::<Option<_>>()?)
            }
            other => other.clone(),
        })
    }

    fn optional(&mut self, text: Option<&'s Text>, values: &Value) -> Option<Option<String>> {
        match text {
            Some(text) => self.text(text, values).map(Some),
            None => Some(None),
        }
    }

    fn regex(&mut self, text: &'s Text, values: &Value) -> Option<String> {
        let rendered = self.text(text, values)?;
        let verdict = self.regexes.entry(rendered.clone()).or_insert_with(|| value::regex(&rendered)).clone();
        self.judged(text, rendered, verdict)
    }

    /// Renders and applies a rule.
    fn ruled(&mut self, text: &'s Text, values: &Value, rule: Rule) -> Option<String> {
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

    fn text(&mut self, text: &'s Text, values: &Value) -> Option<String> {
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

    fn failed(&mut self, text: &str, span: Span, error: TextError) {
        let span = self.findings.source.locate(span, text, error.range);
        self.found(span, error.message, "here", &error.help);
    }

    fn found(&mut self, span: Span, message: String, label: &str, help: &str) {
        self.findings.add_first(span, Finding { message, label, help: help.to_owned() });
    }
}

/// A rule for a rendered value.
type Rule = fn(&str) -> Result<(), BadValue>;

fn any(_: &str) -> Result<(), BadValue> {
    Ok(())
}

fn not_empty(text: &str) -> Result<(), BadValue> {
    if !text.is_empty() {
        return Ok(());
    }
    Err(BadValue {
        message: "every file contains the empty text".to_owned(),
        help: "write some text; `file_equals` with `expected: \"\"` checks for an empty file".to_owned(),
    })
}

fn shell_name(text: &str) -> Result<(), BadValue> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '+');
    if !text.is_empty() && text.chars().all(allowed) {
        return Ok(());
    }
    Err(BadValue {
        message: format!("`{text}` is not the name of a program"),
        help: "write the name without path or arguments, such as `shell: bash`".to_owned(),
    })
}

/// `<suite>/<task>`, with `#<index>` for instances of a template.
pub(crate) fn task_id(suite: &str, row: &Row, index: Option<usize>) -> TaskId {
    TaskId(match index {
        Some(index) => format!("{suite}/{}#{index}", row.id.value),
        None => format!("{suite}/{}", row.id.value),
    })
}

/// For labels: the first line, cut to forty characters.
fn first_line(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let mut short: String = line.chars().take(40).collect();
    if short.len() < text.trim_end().len() {
        short.push('…');
    }
    short
}
