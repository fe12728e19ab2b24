//! Tasks, their ids and their scripts.

use clawrl_core::{CheckSpec, EnvSpec, Script, TaskId, TaskSpec, ToolCall};
use minijinja::Value;
use serde_json::json;

use super::filler::Filler;
use crate::row::{ActionRow, Row, ScriptRow};
use crate::value;

impl<'s> Filler<'_, '_, 's> {
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
        let verifier = row.verifier.as_ref().map(|verifier| {
            let image = terminal.as_ref().and_then(|terminal| terminal.image.as_ref());
            self.verifier(verifier, row.terminal.sandbox, image, values)
        });
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
            verifier: match verifier {
                Some(verifier) => Some(verifier?),
                None => None,
            },
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
}

/// `<suite>/<task>`, with `#<index>` for instances of a template.
pub(crate) fn task_id(suite: &str, row: &Row, index: Option<usize>) -> TaskId {
    TaskId(match index {
        Some(index) => format!("{suite}/{}#{index}", row.id.value),
        None => format!("{suite}/{}", row.id.value),
    })
}
