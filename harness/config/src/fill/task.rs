//! Tasks, their ids and their scripts.

use clawrl_core::{CheckSpec, EnvSpec, Script, TaskId, TaskSpec, ToolCall, ToolDecl};
use minijinja::Value;
use serde_json::json;

use super::filler::Filler;
use crate::row::{ActionRow, EnvRow, Row, ScriptRow};
use crate::value;

/// What is known of a task's tools before it runs.
#[derive(Clone, Copy)]
enum Tools<'a> {
    Declared(&'a [ToolDecl]),
    /// Those of every software engineering environment.
    Swe,
    /// Those of every GUI environment.
    Gui,
    /// The environment tells them when an episode begins.
    ToldAtReset,
    /// There are none, or they could not be filled.
    Unknown,
}

impl<'a> Tools<'a> {
    fn declared(self) -> Option<&'a [ToolDecl]> {
        match self {
            Self::Declared(tools) => Some(tools),
            Self::Swe | Self::Gui | Self::ToldAtReset | Self::Unknown => None,
        }
    }
}

impl<'s> Filler<'_, '_, 's> {
    /// What is asked, by itself: a split looks at nothing else.
    pub(crate) fn asked(&mut self, row: &'s Row, values: &Value) -> Option<String> {
        let instruction = self.instruction(row, values)?;
        match &row.env {
            EnvRow::Gui(gui) => self.asked_by_pages(gui, &instruction, values),
            _ => Some(instruction),
        }
    }

    /// What the policy is asked to do.
    fn instruction(&mut self, row: &'s Row, values: &Value) -> Option<String> {
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
        let env = match &row.env {
            EnvRow::Terminal(terminal) => self.terminal(terminal, values).map(EnvSpec::Terminal),
            EnvRow::Swe(swe) => self.swe(swe, values).map(|swe| EnvSpec::Swe(Box::new(swe))),
            EnvRow::Toolcall(toolcall) => self.toolcall(toolcall, values).map(EnvSpec::Toolcall),
            EnvRow::Gui(gui) => self.gui(gui, values).map(|gui| EnvSpec::Gui(Box::new(gui))),
            EnvRow::Custom(custom) => self.custom(custom, values).map(EnvSpec::Custom),
        };
        let tools = match &env {
            Some(EnvSpec::Toolcall(toolcall)) => Tools::Declared(&toolcall.tools),
            _ if matches!(row.env, EnvRow::Swe(_)) => Tools::Swe,
            _ if matches!(row.env, EnvRow::Gui(_)) => Tools::Gui,
            _ if matches!(row.env, EnvRow::Custom(_)) => Tools::ToldAtReset,
            _ => Tools::Unknown,
        };
        let checks: Vec<Option<CheckSpec>> =
            row.checks.iter().map(|check| self.check(check, tools.declared(), values)).collect();
        let verifier = match (&row.verifier, &row.env) {
            (Some(verifier), EnvRow::Terminal(terminal)) => {
                let image = match &env {
                    Some(EnvSpec::Terminal(terminal)) => terminal.image.as_ref(),
                    _ => None,
                };
                Some(self.verifier(verifier, terminal.workspace.sandbox, image, values))
            }
            _ => None,
        };
        let oracle = row.oracle.as_ref().map(|script| self.script(script, tools, values));
        let mistakes: Vec<Option<Script>> =
            row.mistakes.iter().map(|script| self.script(script, tools, values)).collect();
        Some(TaskSpec {
            id: task_id(suite, row, index),
            suite: suite.to_owned(),
            family: row.id.value.clone(),
            instruction: instruction?,
            env: env?,
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

    fn script(&mut self, script: &'s ScriptRow, tools: Tools<'_>, values: &Value) -> Option<Script> {
        match script {
            ScriptRow::Solver(solver) => Some(Script::Solver(*solver)),
            ScriptRow::Actions(actions) => {
                let calls: Vec<_> = actions.iter().map(|action| self.call(action, tools, values)).collect();
                Some(Script::Calls(calls.into_iter().collect::<Option<_>>()?))
            }
        }
    }

    fn call(&mut self, action: &'s ActionRow, tools: Tools<'_>, values: &Value) -> Option<ToolCall> {
        let (name, arguments) = match action {
            ActionRow::Run(command) => {
                let command = self.text(command, values)?;
                match tools {
                    Tools::Swe => ("bash", json!({ "command": command })),
                    Tools::Gui => ("act", json!({ "line": command })),
                    _ => ("run", json!({ "command": command })),
                }
            }
            ActionRow::Type(text) => ("text", json!({ "text": self.text(text, values)? })),
            ActionRow::Keys(keys) => ("keys", json!({ "keys": self.ruled(keys, values, value::keys)? })),
            ActionRow::Wait(seconds) => ("wait", json!({ "seconds": seconds })),
            ActionRow::Signal(name) => {
                ("signal", json!({ "name": self.ruled(name, values, value::signal)? }))
            }
            ActionRow::Call { name, arguments } => {
                return match tools {
                    Tools::Swe | Tools::Gui | Tools::ToldAtReset => {
                        self.any_call(name, arguments.as_ref(), values)
                    }
                    tools => self.tool_call(name, arguments.as_ref(), tools.declared(), values),
                };
            }
            ActionRow::Patch(patch) => ("submit", json!({ "patch": patch })),
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
