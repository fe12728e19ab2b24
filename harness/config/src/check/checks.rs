//! The checks of a task: each has exactly one kind that the environment can evaluate, and valid weights and limits.

use std::time::Duration;

use clawrl_core::{AnswerCheck, CallPattern, Check, CheckSpec, Limit, Timeouts, ToolDecl};
use serde_json::{Map, Value as Json};

use super::builder::{TaskBuilder, WrittenJson, first_line};
use super::environment::Named;
use super::row::Row;
use super::task::Tools;
use crate::bounds;
use crate::file::{CallsMatchFile, CheckFile, Located, StoredFile, Text};
use crate::problem::Problem;
use crate::value::{self, BadValue};

/// Default time limit of a command check.
const DEFAULT_COMMAND_TIMEOUT: Duration = Duration::from_secs(10);

/// Default number of votes of a judge.
const DEFAULT_VOTES: u32 = 3;

/// Checks that look at a sandbox.
const WORKSPACE_KINDS: &str = "`file_equals`, `file_contains`, `file_matches`, `file_absent`, `file_mode`, `file_owner`, `tree_hash`, `command`, `process` or `json_value`";
/// Checks that look at pages and at an answer.
const PAGE_KINDS: &str = "`page_element`, `page_script`, `page_reward`, `page_url`, `page_storage`, `page_cookie`, `requested`, `downloaded`, `answer_equals`, `answer_normalised`, `answer_number`, `answer_matches`, `answer_schema`, `answer_list` or `answer_rubric`";
/// Checks that look at an answer and at calls.
const TOOL_KINDS: &str = "`answer_equals`, `answer_normalised`, `answer_number`, `answer_matches`, `answer_schema`, `answer_list`, `answer_command`, `answer_rubric`, `called`, `not_called`, `called_in_order`, `calls_match` or `stored`; or one about files";

/// A check, and the subject in its default label.
pub(super) type Labelled = (Check, String);

impl<'s> TaskBuilder<'_, '_, 's> {
    pub(super) fn checks(
        &mut self,
        row: &'s Row,
        graded_otherwise: bool,
        tools: Tools<'_>,
        timeouts: &Timeouts,
    ) -> Vec<CheckSpec> {
        let (env, checks) = (row.known_env(), row.checks.as_ref());
        if !graded_otherwise && checks.is_none_or(|checks| checks.is_empty()) {
            let help = match env {
                Some(Named::Toolcall(_)) => "add at least one, such as `- answer_equals: \"42\"`",
                Some(Named::Gui(_)) => {
                    "add at least one, such as `- page_element: { selector: h1, text: Thank you }`"
                }
                _ => {
                    "add at least one, such as `- file_equals: { path: out.txt, expected: \"hello\\n\" }`; or a \
                     `verifier:` under `env: terminal:`"
                }
            };
            self.problem(
                checks.map_or(row.id.span, |checks| checks.span),
                "the task has no checks",
                "nothing establishes success",
                help,
            );
        }
        let checks = checks.into_iter().flat_map(|checks| &checks.value);
        checks.filter_map(|check| self.check(check, env, tools, timeouts)).collect()
    }

    fn check(
        &mut self,
        check: &'s Located<CheckFile>,
        env: Option<&'s Named>,
        tools: Tools<'_>,
        timeouts: &Timeouts,
    ) -> Option<CheckSpec> {
        let Located { value: check, span } = check;
        let weight = match &check.weight {
            Some(weight) if !(weight.value > 0.0 && weight.value.is_finite()) => {
                let message = format!("`weight` cannot be {}", weight.value);
                let help = "write a number above 0; remove the check if it must not count";
                self.problem(weight.span, message, "out of bounds", help);
                1.0
            }
            Some(weight) => weight.value,
            None => 1.0,
        };
        if let (Some(number), None) = (&check.votes, &check.answer_rubric) {
            let help = "remove it, or write `answer_rubric:` beside it";
            self.problem(number.span, "only a judge votes, and this check asks none", "never read", help);
        }
        let label = check.label.as_ref().map(|label| self.text(label).unwrap_or_default());
        match check.kinds().as_slice() {
            [(key, subject)] => {
                if let Some(env) = env {
                    self.answerable(check, key, *subject, *span, env);
                }
                let (built, subject) = match self.page_check(check) {
                    Some(built) => built,
                    None => self.other_check(check, tools, timeouts)?,
                };
                let label = label.unwrap_or_else(|| format!("{key} {subject}").trim_end().to_owned());
                Some(CheckSpec { label, weight, check: built })
            }
            [] => {
                let known = match env {
                    Some(Named::Toolcall(_)) => TOOL_KINDS,
                    Some(Named::Gui(_)) => PAGE_KINDS,
                    _ => WORKSPACE_KINDS,
                };
                let help = format!("name one: {known}");
                self.problem(*span, "this check has no kind", "nothing is checked", help);
                None
            }
            [.., (other, _), (last, _)] => {
                let message = format!("this check has two kinds, `{other}` and `{last}`");
                self.problem(*span, message, "two in one", "start each check with its own `- `");
                None
            }
        }
    }

    /// Any kind but one of pages.
    fn other_check(
        &mut self,
        check: &'s CheckFile,
        tools: Tools<'_>,
        timeouts: &Timeouts,
    ) -> Option<Labelled> {
        let tools = tools.declared();
        Some(if let Some(file) = &check.file_equals {
            let path = self.path(&file.path);
            let expected = self.text(&file.expected).unwrap_or_default();
            (Check::FileEquals { path: path.clone(), expected }, path)
        } else if let Some(file) = &check.file_contains {
            let path = self.path(&file.path);
            let text = self.ruled(&file.text, not_empty).unwrap_or_default();
            (Check::FileContains { path: path.clone(), text }, path)
        } else if let Some(file) = &check.file_matches {
            let path = self.path(&file.path);
            let regex = self.regex(&file.regex).unwrap_or_default();
            (Check::FileMatches { path: path.clone(), regex }, path)
        } else if let Some(file) = &check.file_absent {
            let path = self.path(&file.path);
            (Check::FileAbsent { path: path.clone() }, path)
        } else if let Some(file) = &check.file_mode {
            let path = self.path(&file.path);
            let mode = self.ruled(&file.mode, |text| value::mode(text).map(|_| ()));
            let mode = mode.and_then(|mode| value::mode(&mode).ok()).unwrap_or_default();
            (Check::FileMode { path: path.clone(), mode }, path)
        } else if let Some(file) = &check.file_owner {
            let path = self.path(&file.path);
            let uid = self.whole("uid", Some(&file.uid), 0..=bounds::MAX_UID, 0);
            (Check::FileOwner { path: path.clone(), uid }, path)
        } else if let Some(file) = &check.tree_hash {
            let path = self.path(&file.path);
            let sha256 = self.ruled(&file.sha256, value::sha256).unwrap_or_default();
            (Check::TreeHash { path: path.clone(), sha256 }, path)
        } else if let Some(file) = &check.command {
            if let (Some(equals), Some(contains)) = (&file.stdout_equals, &file.stdout_contains) {
                let problem = Problem::new(
                    "`stdout_equals` and `stdout_contains` are both given",
                    "keep one; a second check can look for the other",
                )
                .at(&self.findings.source, contains.span, "already settled")
                .and_at(equals.span, "by this");
                self.findings.push(problem);
            }
            let run = self.command(&file.run);
            let subject = first_line(&run);
            let check = Check::Command {
                run,
                exit_code: self.exit_code(file.exit_code.as_ref()),
                stdout_equals: self.optional(file.stdout_equals.as_ref()).flatten(),
                stdout_contains: self.optional(file.stdout_contains.as_ref()).flatten(),
                timeout: self.command_timeout(file.timeout_secs.as_ref(), timeouts),
            };
            (check, subject)
        } else if let Some(file) = &check.process {
            let regex = self.regex(&file.regex).unwrap_or_default();
            (Check::Process { regex: regex.clone(), running: file.running.unwrap_or(true) }, regex)
        } else if let Some(file) = &check.json_value {
            let path = self.path(&file.path);
            let pointer = self.ruled(&file.pointer, value::json_pointer).unwrap_or_default();
            let equals = self.json(&file.equals).unwrap_or_default();
            let subject = format!("{path} {pointer}").trim_end().to_owned();
            (Check::JsonValue { path, pointer, equals }, subject)
        } else if let Some(expected) = &check.answer_equals {
            let expected = self.text(self.written(expected)).unwrap_or_default();
            let subject = first_line(&expected);
            (Check::Answer(AnswerCheck::Equals { expected }), subject)
        } else if let Some(expected) = &check.answer_normalised {
            let expected = self.ruled(self.written(expected), value::not_blank).unwrap_or_default();
            let subject = first_line(&expected);
            (Check::Answer(AnswerCheck::Normalised { expected }), subject)
        } else if let Some(file) = &check.answer_number {
            let expected = self.number(self.written(&file.expected), value::finite).unwrap_or_default();
            let tolerance = file.tolerance.as_ref();
            let tolerance = tolerance.and_then(|text| self.number(self.written(text), value::tolerance));
            let tolerance = tolerance.unwrap_or(0.0);
            (Check::Answer(AnswerCheck::Number { expected, tolerance }), expected.to_string())
        } else if let Some(regex) = &check.answer_matches {
            let regex = self.regex(regex).unwrap_or_default();
            (Check::Answer(AnswerCheck::Matches { regex: regex.clone() }), regex)
        } else if let Some(written) = &check.answer_schema {
            let schema = self.json(written).unwrap_or_default();
            if !schema.is_null() {
                self.schema(written.into(), &schema);
            }
            (Check::Answer(AnswerCheck::Schema { schema }), String::new())
        } else if let Some(file) = &check.answer_list {
            let expected = self.list_of_answers(&file.expected).unwrap_or_default();
            let subject = first_line(&expected.join(", "));
            (Check::Answer(AnswerCheck::List { expected, ordered: file.ordered }), subject)
        } else if let Some(file) = &check.answer_command {
            let run = self.command(&file.run);
            let subject = first_line(&run);
            let exit_code = self.exit_code(file.exit_code.as_ref());
            let timeout = self.command_timeout(file.timeout_secs.as_ref(), timeouts);
            (Check::AnswerCommand { run, exit_code, timeout }, subject)
        } else if let Some(rubric) = &check.answer_rubric {
            let rubric = self.ruled(rubric, value::not_blank).unwrap_or_default();
            let votes = self.whole("votes", check.votes.as_ref(), 1..=bounds::MAX_VOTES, DEFAULT_VOTES);
            let subject = first_line(&rubric);
            (Check::Rubric { rubric, votes }, subject)
        } else if let Some(file) = &check.called {
            let (at_least, at_most) =
                self.times(file.at_least.as_ref(), file.at_most.as_ref(), file.tool.span, "calls");
            let arguments = file.arguments.as_ref().map(WrittenJson::from);
            let call = self.pattern(&file.tool, arguments, tools);
            let subject = call.tool.clone();
            (Check::Called { call, at_least, at_most }, subject)
        } else if let Some(tool) = &check.not_called {
            let call = CallPattern { tool: tool.value.clone(), arguments: Map::new() };
            (Check::Called { call, at_least: 0, at_most: Some(0) }, tool.value.clone())
        } else if let Some(calls) = &check.called_in_order {
            if calls.is_empty() {
                let help = "list them, one after another: `called_in_order: [search, { tool: read, arguments: { id: 3 } }]`";
                self.problem(calls.span, "no call is named", "nothing is checked", help);
            }
            let calls: Vec<_> = calls.iter().map(|call| self.call_pattern(call, tools)).collect();
            let names: Vec<&str> = calls.iter().map(|call| call.tool.as_str()).collect();
            let subject = first_line(&names.join(", "));
            (Check::CalledInOrder { calls }, subject)
        } else if let Some(file) = &check.calls_match {
            self.calls_match(file, tools)
        } else if let Some(stored) = &check.stored {
            self.stored(stored)
        } else {
            return None;
        })
    }

    fn path(&mut self, path: &'s Text) -> String {
        self.ruled(path, value::relative_path).unwrap_or_default()
    }

    /// Entries of a list: texts unchanged, numbers and booleans as JSON.
    fn list_of_answers(&mut self, written: &'s Located<Json>) -> Option<Vec<String>> {
        let value = self.json(written)?;
        let entry = |entry: &Json| match entry {
            Json::String(text) => Some(text.clone()),
            Json::Number(_) | Json::Bool(_) => Some(entry.to_string()),
            Json::Null | Json::Array(_) | Json::Object(_) => None,
        };
        let entries = value.as_array().map(|entries| entries.iter().map(entry).collect::<Option<Vec<_>>>());
        let (message, help) = match entries {
            Some(Some(entries)) => return Some(entries),
            Some(None) => (
                "a list of answers has entries that are no single values",
                "write texts and numbers: `expected: [river, 7]`",
            ),
            None => (
                "the expected list is no list",
                "write `expected: [river, stone]`, or one expression that is a list: `expected: \"{{ words }}\"`",
            ),
        };
        self.found(written.span, message.to_owned(), "not accepted", help);
        None
    }

    fn calls_match(&mut self, file: &'s Located<CallsMatchFile>, tools: Option<&[ToolDecl]>) -> Labelled {
        let CallsMatchFile { calls, ordered, exactly } = &file.value;
        let exactly = exactly.unwrap_or(true);
        if calls.is_empty() && !exactly {
            let help = "list the calls, or write `exactly: true` for no call at all";
            self.problem(calls.span, "any calls pass this check", "nothing is checked", help);
        }
        let calls: Vec<_> = calls.iter().filter_map(|call| self.expected_call(call, tools)).collect();
        let names: Vec<&str> = calls.iter().map(|call| call.tool.as_str()).collect();
        let subject = if names.is_empty() { "none".to_owned() } else { first_line(&names.join(", ")) };
        (Check::CallsMatch { calls, ordered: *ordered, exactly }, subject)
    }

    fn stored(&mut self, file: &'s Located<StoredFile>) -> Labelled {
        let Located { value: StoredFile { tool, key, equals, absent }, span } = file;
        let key = self.text(key).unwrap_or_default();
        let equals = match (equals, absent.as_deref()) {
            (Some(equals), None) => self.text(self.written(equals)),
            (None, Some(true)) => None,
            _ => {
                let help = "write one of `equals: text` and `absent: true`";
                self.problem(
                    *span,
                    "`stored` needs either `equals` or `absent: true`",
                    "none, or both",
                    help,
                );
                None
            }
        };
        let subject = format!("{} {}", tool.value, first_line(&key));
        (Check::Stored { tool: tool.value.clone(), key, equals }, subject)
    }

    fn command(&mut self, run: &'s Text) -> String {
        if run.trim().is_empty() {
            self.problem(run.span, "the command is empty", "nothing to run", "write `run: sh tests.sh`");
        }
        self.text(run).unwrap_or_default()
    }

    fn exit_code(&mut self, number: Option<&Located<i64>>) -> i32 {
        i32::try_from(self.whole("exit_code", number, 0..=255, 0)).unwrap_or(0)
    }

    fn command_timeout(&mut self, number: Option<&Located<f64>>, timeouts: &Timeouts) -> Duration {
        let timeout = self.seconds("timeout_secs", number, bounds::MAX_TIMEOUT_SECS);
        if let (Some(timeout), Some(number)) = (timeout, number)
            && timeout > timeouts.grade
        {
            let grade = timeouts.grade.as_secs_f64();
            let message = format!(
                "`timeout_secs` is {}, longer than all of grading may take ({grade} s)",
                number.value
            );
            let help = format!("lower it, or write `{}: {}` or more", Limit::Grade.key(), number.value);
            self.problem(number.span, message, "can never fire", help);
        }
        timeout.unwrap_or(DEFAULT_COMMAND_TIMEOUT.min(timeouts.grade))
    }
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
