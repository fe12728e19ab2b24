//! Checks and the labels they have when none is given.

use clawrl_core::{Check, CheckSpec, ToolDecl};
use minijinja::Value;

use super::filler::{Filler, Rule, first_line};
use crate::file::Text;
use crate::row::{CheckKind, CheckRow, Subject};
use crate::value::{self, BadValue};

impl<'s> Filler<'_, '_, 's> {
    /// `tools` are those of the task; `None` where there are none, or none that could be filled.
    pub(super) fn check(
        &mut self,
        row: &'s CheckRow,
        tools: Option<&[ToolDecl]>,
        values: &Value,
    ) -> Option<CheckSpec> {
        let (check, subject) = match row.kind.subject() {
            Subject::Workspace | Subject::Processes => self.sandbox_check(&row.kind, values)?,
            Subject::Answer | Subject::Tools => self.tool_check(&row.kind, tools, values)?,
            Subject::Pages => self.page_check_of(&row.kind, values)?,
        };
        let label = match &row.label {
            Some(label) => self.text(label, values)?,
            None => format!("{} {subject}", row.kind.key()).trim_end().to_owned(),
        };
        Some(CheckSpec { label, weight: row.weight, check })
    }

    fn page_check_of(&mut self, kind: &'s CheckKind, values: &Value) -> Option<(Check, String)> {
        match kind {
            CheckKind::Page(check) => self.page_check(check, values),
            _ => None,
        }
    }

    /// A check of a sandbox, and what its default label names.
    fn sandbox_check(&mut self, kind: &'s CheckKind, values: &Value) -> Option<(Check, String)> {
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
            CheckKind::JsonValue { path, pointer, equals } => {
                let parts = both(path, pointer, value::json_pointer);
                let equals = self.json(equals, values);
                let (path, pointer) = parts?;
                let subject = format!("{path} {pointer}").trim_end().to_owned();
                (Check::JsonValue { path, pointer, equals: equals? }, subject)
            }
            _ => return None,
        })
    }
}

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
