//! The checks of a task: one kind each that its environment can answer, weights and limits that make sense.

use std::time::Duration;

use clawrl_core::{Limit, Timeouts};

use super::checker::Checker;
use super::toolcall::{arguments_text, json_text};
use crate::bounds;
use crate::file::{
    AnswerListFile, AnswerNumberFile, CallFile, CalledFile, CallsMatchFile, CheckFile, CommandFile,
    ExpectedCallFile, JsonValueFile, Located, ProcessFile, StoredFile, Text,
};
use crate::problem::Problem;
use crate::row::{CallRow, CheckKind, CheckRow, CommandRow, EnvRow};

/// Time limit of a command check when nothing else is said.
const DEFAULT_COMMAND_TIMEOUT: Duration = Duration::from_secs(10);

/// How often a judge is asked when nothing else is said.
const DEFAULT_VOTES: u32 = 3;

/// Checks that look at a sandbox.
const WORKSPACE_KINDS: &str = "`file_equals`, `file_contains`, `file_matches`, `file_absent`, `file_mode`, `file_owner`, `tree_hash`, `command`, `process` or `json_value`";
/// Checks that look at pages and at an answer.
const PAGE_KINDS: &str = "`page_element`, `page_script`, `page_reward`, `page_url`, `page_storage`, `page_cookie`, `requested`, `downloaded`, `answer_equals`, `answer_normalised`, `answer_number`, `answer_matches`, `answer_schema`, `answer_list` or `answer_rubric`";
/// Checks that look at an answer and at calls.
const TOOL_KINDS: &str = "`answer_equals`, `answer_normalised`, `answer_number`, `answer_matches`, `answer_schema`, `answer_list`, `answer_command`, `answer_rubric`, `called`, `not_called`, `called_in_order`, `calls_match` or `stored`; or one about files";

impl Checker {
    /// `env` is `None` where the task has none, which is a problem of its own.
    pub(super) fn checks(
        &mut self,
        id: &Text,
        checks: Option<Located<Vec<Located<CheckFile>>>>,
        graded_otherwise: bool,
        env: Option<&EnvRow>,
        timeouts: &Timeouts,
    ) -> Vec<CheckRow> {
        if !graded_otherwise && checks.as_ref().is_none_or(|checks| checks.is_empty()) {
            let help = match env {
                Some(EnvRow::Toolcall(_)) => "add at least one, such as `- answer_equals: \"42\"`",
                Some(EnvRow::Gui(_)) => {
                    "add at least one, such as `- page_element: { selector: h1, text: Thank you }`"
                }
                _ => {
                    "add at least one, such as `- file_equals: { path: out.txt, expected: \"hello\\n\" }`; or a \
                     `verifier:` under `env: terminal:`"
                }
            };
            self.problem(
                checks.as_ref().map_or(id.span, |checks| checks.span),
                "the task has no checks",
                "nothing establishes success",
                help,
            );
        }
        checks
            .map(|checks| checks.value)
            .unwrap_or_default()
            .into_iter()
            .filter_map(|check| self.check(check, env, timeouts))
            .collect()
    }

    fn check(
        &mut self,
        check: Located<CheckFile>,
        env: Option<&EnvRow>,
        timeouts: &Timeouts,
    ) -> Option<CheckRow> {
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
        let label = check.label.clone();
        let before = self.findings.count();
        let mut kinds = self.kinds(check, timeouts);
        match (kinds.pop(), kinds.pop()) {
            (Some(kind), None) => {
                if let Some(env) = env {
                    self.answerable(&kind, span, env);
                }
                Some(CheckRow { label, weight, kind })
            }
            // What is wrong with its kind is reported there.
            (None, _) if self.findings.count() > before => None,
            (None, _) => {
                let known = match env {
                    Some(EnvRow::Toolcall(_)) => TOOL_KINDS,
                    Some(EnvRow::Gui(_)) => PAGE_KINDS,
                    _ => WORKSPACE_KINDS,
                };
                let help = format!("name one: {known}");
                self.problem(span, "this check has no kind", "nothing is checked", help);
                None
            }
            (Some(last), Some(other)) => {
                let message = format!("this check has two kinds, `{}` and `{}`", other.key(), last.key());
                self.problem(span, message, "two in one", "start each check with its own `- `");
                None
            }
        }
    }

    /// The kinds that are given; exactly one is right.
    fn kinds(&mut self, mut check: CheckFile, timeouts: &Timeouts) -> Vec<CheckKind> {
        let pages = self.page_checks(&mut check);
        let owner = check.file_owner.map(|file| {
            let uid = self.whole("uid", Some(&file.uid), 0..=bounds::MAX_UID, 0);
            CheckKind::FileOwner { path: file.path, uid }
        });
        let command = check.command.map(|file| CheckKind::Command(self.command(file, timeouts)));
        let process = check.process.map(|ProcessFile { regex, running }| CheckKind::Process {
            regex,
            running: running.unwrap_or(true),
        });
        let json = check.json_value.map(|JsonValueFile { path, pointer, equals }| CheckKind::JsonValue {
            path,
            pointer,
            equals: json_text(equals),
        });
        let number =
            check.answer_number.map(|AnswerNumberFile { expected, tolerance }| CheckKind::AnswerNumber {
                expected: self.written(expected),
                tolerance: tolerance.map(|tolerance| self.written(tolerance)),
            });
        let list = check.answer_list.map(|AnswerListFile { expected, ordered }| CheckKind::AnswerList {
            expected: json_text(expected),
            ordered,
        });
        let answer_command = check
            .answer_command
            .map(|file| CheckKind::AnswerCommand(self.command(CommandFile::from(file), timeouts)));
        let votes = self.whole("votes", check.votes.as_ref(), 1..=bounds::MAX_VOTES, DEFAULT_VOTES);
        if let (Some(number), None) = (&check.votes, &check.answer_rubric) {
            let help = "remove it, or write `answer_rubric:` beside it";
            self.problem(number.span, "only a judge votes, and this check asks none", "never read", help);
        }
        let rubric = check.answer_rubric.map(|rubric| CheckKind::AnswerRubric { rubric, votes });
        let given = [
            check.file_equals.map(|file| CheckKind::FileEquals { path: file.path, expected: file.expected }),
            check.file_contains.map(|file| CheckKind::FileContains { path: file.path, text: file.text }),
            check.file_matches.map(|file| CheckKind::FileMatches { path: file.path, regex: file.regex }),
            check.file_absent.map(|file| CheckKind::FileAbsent { path: file.path }),
            check.file_mode.map(|file| CheckKind::FileMode { path: file.path, mode: file.mode }),
            owner,
            check.tree_hash.map(|file| CheckKind::TreeHash { path: file.path, sha256: file.sha256 }),
            command,
            process,
            json,
            check.answer_equals.map(|text| CheckKind::AnswerEquals(self.written(text))),
            check.answer_normalised.map(|text| CheckKind::AnswerNormalised(self.written(text))),
            number,
            check.answer_matches.map(CheckKind::AnswerMatches),
            check.answer_schema.map(|schema| CheckKind::AnswerSchema(json_text(schema))),
            list,
            answer_command,
            rubric,
            check.called.map(|called| self.called(called)),
            check.not_called.map(CheckKind::NotCalled),
            check.called_in_order.map(|calls| self.called_in_order(calls)),
            check.calls_match.map(|file| self.calls_match(file)),
            check.stored.map(|stored| self.stored(stored)),
        ];
        given.into_iter().flatten().chain(pages).collect()
    }

    fn called(&mut self, file: CalledFile) -> CheckKind {
        let (at_least, at_most) =
            self.times(file.at_least.as_ref(), file.at_most.as_ref(), file.tool.span, "calls");
        let call = CallRow { tool: file.tool, arguments: file.arguments.map(arguments_text) };
        CheckKind::Called { call, at_least, at_most }
    }

    fn called_in_order(&mut self, calls: Located<Vec<Located<CallFile>>>) -> CheckKind {
        if calls.is_empty() {
            let help = "list them, one after another: `called_in_order: [search, { tool: read, arguments: { id: 3 } }]`";
            self.problem(calls.span, "no call is named", "nothing is checked", help);
        }
        CheckKind::CalledInOrder(calls.value.into_iter().map(|call| self.call(call)).collect())
    }

    /// A call that is looked for.
    pub(super) fn call(&self, call: Located<CallFile>) -> CallRow {
        match call.value {
            CallFile::Tool(tool) => CallRow { tool: Text { value: tool, span: call.span }, arguments: None },
            CallFile::Fields(fields) => {
                CallRow { tool: fields.tool, arguments: fields.arguments.map(arguments_text) }
            }
        }
    }

    fn calls_match(&mut self, file: Located<CallsMatchFile>) -> CheckKind {
        let CallsMatchFile { calls, ordered, exactly } = file.value;
        let exactly = exactly.unwrap_or(true);
        if calls.is_empty() && !exactly {
            let help = "list the calls, or write `exactly: true` for no call at all";
            self.problem(calls.span, "any calls pass this check", "nothing is checked", help);
        }
        let call = |call: ExpectedCallFile| CallRow {
            tool: call.tool,
            arguments: call.arguments.map(arguments_text),
        };
        CheckKind::CallsMatch { calls: calls.value.into_iter().map(call).collect(), ordered, exactly }
    }

    fn stored(&mut self, file: Located<StoredFile>) -> CheckKind {
        let Located { value: StoredFile { tool, key, equals, absent }, span } = file;
        let equals = match (equals, absent.map(|absent| absent.value)) {
            (Some(equals), None) => Some(self.written(equals)),
            (None, Some(true)) => None,
            _ => {
                let help = "write one of `equals: text` and `absent: true`";
                self.problem(span, "`stored` needs either `equals` or `absent: true`", "none, or both", help);
                None
            }
        };
        CheckKind::Stored { tool, key, equals }
    }

    fn command(&mut self, file: CommandFile, timeouts: &Timeouts) -> CommandRow {
        if file.run.trim().is_empty() {
            self.problem(file.run.span, "the command is empty", "nothing to run", "write `run: sh tests.sh`");
        }
        if let (Some(equals), Some(contains)) = (&file.stdout_equals, &file.stdout_contains) {
            let problem = Problem::new(
                "`stdout_equals` and `stdout_contains` are both given",
                "keep one; a second check can look for the other",
            )
            .at(&self.findings.source, contains.span, "already settled")
            .and_at(equals.span, "by this");
            self.findings.push(problem);
        }
        let timeout = self.seconds("timeout_secs", file.timeout_secs.as_ref(), bounds::MAX_TIMEOUT_SECS);
        if let (Some(timeout), Some(number)) = (timeout, &file.timeout_secs)
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
        let exit_code = self.whole("exit_code", file.exit_code.as_ref(), 0..=255, 0);
        CommandRow {
            run: file.run,
            exit_code: i32::try_from(exit_code).unwrap_or(0),
            stdout_equals: file.stdout_equals,
            stdout_contains: file.stdout_contains,
            timeout: timeout.unwrap_or(DEFAULT_COMMAND_TIMEOUT.min(timeouts.grade)),
        }
    }
}
