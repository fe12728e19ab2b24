//! The checks of a task: one kind each, weights and limits that make sense.

use std::time::Duration;

use clawrl_core::{Limit, Timeouts};

use super::checker::Checker;
use crate::bounds;
use crate::file::{CheckFile, CommandFile, JsonValueFile, Located, ProcessFile, Text};
use crate::problem::Problem;
use crate::row::{CheckKind, CheckRow, CommandRow};
use crate::source::Span;

/// Time limit of a command check when nothing else is said.
const DEFAULT_COMMAND_TIMEOUT: Duration = Duration::from_secs(10);

impl Checker {
    pub(super) fn checks(
        &mut self,
        id: &Text,
        checks: Option<Located<Vec<Located<CheckFile>>>>,
        has_verifier: bool,
        timeouts: &Timeouts,
    ) -> Vec<CheckRow> {
        if !has_verifier && checks.as_ref().is_none_or(|checks| checks.is_empty()) {
            self.problem(
                checks.as_ref().map_or(id.span, |checks| checks.span),
                "the task has no checks",
                "nothing establishes success",
                "add at least one, such as `- file_equals: { path: out.txt, expected: \"hello\\n\" }`; or a `verifier:` \
                 under `env: terminal:`",
            );
        }
        checks
            .map(|checks| checks.value)
            .unwrap_or_default()
            .into_iter()
            .filter_map(|check| self.check(check, timeouts))
            .collect()
    }

    fn check(&mut self, check: Located<CheckFile>, timeouts: &Timeouts) -> Option<CheckRow> {
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
        let mut kinds = self.kinds(check, timeouts);
        match (kinds.pop(), kinds.pop()) {
            (Some(kind), None) => Some(CheckRow { label, weight, kind }),
            (None, _) => {
                self.problem(
                    span,
                    "this check has no kind",
                    "nothing is checked",
                    "name one: `file_equals`, `file_contains`, `file_matches`, `file_absent`, `file_mode`, `file_owner`, `tree_hash`, `command`, `process` or `json_value`",
                );
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
    fn kinds(&mut self, check: CheckFile, timeouts: &Timeouts) -> Vec<CheckKind> {
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
            equals: equals.value,
            span: self.span_of_json(equals.span),
        });
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
        ];
        given.into_iter().flatten().collect()
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

    /// Containers are located by their first character; their line is what templates are looked up in.
    fn span_of_json(&self, span: Span) -> Span {
        let source = &self.findings.source;
        let text = source.text.get(span.start..).unwrap_or_default();
        let line = text.lines().next().unwrap_or_default().trim_end();
        let is_container = span.len <= 1 && text.starts_with(['[', '{']);
        if is_container { source.clamp(span.start, line.len()) } else { span }
    }
}
