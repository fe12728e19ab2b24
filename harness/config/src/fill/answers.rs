//! Checks of answers, of calls and of what tools hold.

use clawrl_core::{AnswerCheck, CallPattern, Check, ToolDecl};
use minijinja::Value;
use serde_json::Value as Json;

use super::filler::{Filler, first_line};
use crate::file::Text;
use crate::row::{CallRow, CheckKind, JsonText};
use crate::value::{self, BadValue};

impl<'s> Filler<'_, '_, 's> {
    /// The check, and what its default label names.
    pub(super) fn tool_check(
        &mut self,
        kind: &'s CheckKind,
        tools: Option<&[ToolDecl]>,
        values: &Value,
    ) -> Option<(Check, String)> {
        Some(match kind {
            CheckKind::AnswerEquals(expected) => {
                let expected = self.text(expected, values)?;
                let subject = first_line(&expected);
                (Check::Answer(AnswerCheck::Equals { expected }), subject)
            }
            CheckKind::AnswerNormalised(expected) => {
                let expected = self.ruled(expected, values, value::not_blank)?;
                let subject = first_line(&expected);
                (Check::Answer(AnswerCheck::Normalised { expected }), subject)
            }
            CheckKind::AnswerNumber { expected, tolerance } => {
                let expected = self.number(expected, values, value::finite);
                let tolerance = match tolerance {
                    Some(tolerance) => self.number(tolerance, values, value::tolerance),
                    None => Some(0.0),
                };
                let (expected, tolerance) = (expected?, tolerance?);
                (Check::Answer(AnswerCheck::Number { expected, tolerance }), expected.to_string())
            }
            CheckKind::AnswerMatches(regex) => {
                let regex = self.regex(regex, values)?;
                (Check::Answer(AnswerCheck::Matches { regex: regex.clone() }), regex)
            }
            CheckKind::AnswerSchema(written) => {
                let schema = self.json(written, values)?;
                self.schema(written, &schema)?;
                (Check::Answer(AnswerCheck::Schema { schema }), String::new())
            }
            CheckKind::AnswerList { expected, ordered } => {
                let expected = self.list(expected, values)?;
                let subject = first_line(&expected.join(", "));
                (Check::Answer(AnswerCheck::List { expected, ordered: *ordered }), subject)
            }
            CheckKind::AnswerCommand(row) => {
                let run = self.text(&row.run, values)?;
                let subject = first_line(&run);
                (Check::AnswerCommand { run, exit_code: row.exit_code, timeout: row.timeout }, subject)
            }
            CheckKind::AnswerRubric { rubric, votes } => {
                let rubric = self.ruled(rubric, values, value::not_blank)?;
                let subject = first_line(&rubric);
                (Check::Rubric { rubric, votes: *votes }, subject)
            }
            CheckKind::Called { call, at_least, at_most } => {
                let call = self.pattern(call, tools, values)?;
                let subject = call.tool.clone();
                (Check::Called { call, at_least: *at_least, at_most: *at_most }, subject)
            }
            CheckKind::NotCalled(tool) => {
                let call = CallPattern { tool: tool.value.clone(), arguments: serde_json::Map::new() };
                (Check::Called { call, at_least: 0, at_most: Some(0) }, tool.value.clone())
            }
            CheckKind::CalledInOrder(calls) => {
                let calls: Vec<_> = calls.iter().map(|call| self.pattern(call, tools, values)).collect();
                let calls = calls.into_iter().collect::<Option<Vec<_>>>()?;
                let names: Vec<&str> = calls.iter().map(|call| call.tool.as_str()).collect();
                let subject = first_line(&names.join(", "));
                (Check::CalledInOrder { calls }, subject)
            }
            CheckKind::CallsMatch { calls, ordered, exactly } => {
                let calls: Vec<_> =
                    calls.iter().map(|call| self.expected_call(call, tools, values)).collect();
                let calls = calls.into_iter().collect::<Option<Vec<_>>>()?;
                let names: Vec<&str> = calls.iter().map(|call| call.tool.as_str()).collect();
                let subject =
                    if names.is_empty() { "none".to_owned() } else { first_line(&names.join(", ")) };
                (Check::CallsMatch { calls, ordered: *ordered, exactly: *exactly }, subject)
            }
            CheckKind::Stored { tool, key, equals } => {
                let key = self.text(key, values);
                let equals = self.optional(equals.as_ref(), values);
                let key = key?;
                let subject = format!("{} {}", tool.value, first_line(&key));
                (Check::Stored { tool: tool.value.clone(), key, equals: equals? }, subject)
            }
            _ => return None,
        })
    }

    fn number(
        &mut self,
        text: &'s Text,
        values: &Value,
        rule: fn(&str) -> Result<f64, BadValue>,
    ) -> Option<f64> {
        let rendered = self.text(text, values)?;
        let number = rule(&rendered);
        self.judged(text, rendered, number.clone().map(|_| ()))?;
        number.ok()
    }

    /// Entries of a list: texts as they are, numbers and truth values as JSON.
    fn list(&mut self, written: &'s JsonText, values: &Value) -> Option<Vec<String>> {
        let value = self.json(written, values)?;
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

    pub(super) fn pattern(
        &mut self,
        row: &'s CallRow,
        tools: Option<&[ToolDecl]>,
        values: &Value,
    ) -> Option<CallPattern> {
        let arguments = self.looked_for(&row.tool, row.arguments.as_ref(), tools, values)?;
        Some(CallPattern { tool: row.tool.value.clone(), arguments })
    }
}
