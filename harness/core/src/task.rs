//! A task: one immutable row. A template's instance is a task.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::{
    ActionFormat, Check, CheckSpec, CustomSpec, GuiSpec, InProcessSpec, RewardMap, Screenshots, SweSpec,
    TaskId, TerminalSpec, Timeouts, ToolCall, ToolcallSpec, VerifierSpec,
};

/// A task with everything resolved: no template text, no defaults left to apply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskSpec {
    /// Unique within the plan.
    pub id: TaskId,
    /// Name of the suite.
    pub suite: String,
    /// Id of the task row in the suite file; all instances of a template share it.
    pub family: String,
    /// Instruction for the policy.
    pub instruction: String,
    /// The environment and its settings.
    pub env: EnvSpec,
    /// Checks that decide success.
    pub checks: Vec<CheckSpec>,
    /// A program that grades, instead of checks or beside them: then the score is its score times theirs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verifier: Option<VerifierSpec>,
    /// From score to reward.
    pub reward: RewardMap,
    /// Actions that solve it, for `validate` and for demonstrations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oracle: Option<Script>,
    /// Plausible wrong action sequences, for the imperfect demonstrator.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mistakes: Vec<Script>,
    /// Format in which replies are parsed.
    pub action_format: ActionFormat,
    /// Turns before the attempt is truncated.
    pub max_turns: u32,
    /// Time limits.
    pub timeouts: Timeouts,
}

/// The part of a task that a policy may read: neither oracle nor checks, so that no policy can act on them.
///
/// Scripted policies play oracles; they take the tasks when they are built.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskView {
    /// Unique within the plan.
    pub id: TaskId,
    /// Task text for the policy.
    pub instruction: String,
    /// Format in which replies are parsed.
    pub action_format: ActionFormat,
    /// Time limits of the attempt.
    pub timeouts: Timeouts,
}

/// A script that scripted policies play.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Script {
    /// Actions in order; each call is one turn.
    Calls(Vec<ToolCall>),
    /// A program that reads observations and chooses the next action: for tasks whose solution depends on what is shown.
    Solver(Solver),
}

/// A program that plays a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Solver {
    /// Solves pages of MiniWoB++, recognised by the URL of the first page.
    Miniwob,
    /// Clicks one of the elements that the first page shows, drawn by lot, and submits.
    RandomClick,
}

impl Script {
    /// The calls, if they are known in advance; empty for a solver.
    #[must_use]
    pub fn calls(&self) -> &[ToolCall] {
        match self {
            Self::Calls(calls) => calls,
            Self::Solver(_) => &[],
        }
    }
}

impl Solver {
    /// Every one.
    pub const ALL: [Self; 2] = [Self::Miniwob, Self::RandomClick];

    /// Name in suites and plans.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Miniwob => "miniwob",
            Self::RandomClick => "random-click",
        }
    }
}

/// Key of a GUI task in splits: the instruction, the first page and its preparation.
#[must_use]
pub fn asked_by_pages(instruction: &str, start: &str, prepare: &[String]) -> String {
    [instruction, start].into_iter().chain(prepare.iter().map(String::as_str)).collect::<Vec<_>>().join("\0")
}

impl TaskSpec {
    /// The part of it that policies may read.
    #[must_use]
    pub fn view(&self) -> TaskView {
        TaskView {
            id: self.id.clone(),
            instruction: self.instruction.clone(),
            action_format: self.action_format,
            timeouts: self.timeouts,
        }
    }

    /// The text that decides the task's split: its instruction and, for GUI tasks, its pages.
    #[must_use]
    pub fn asked(&self) -> Cow<'_, str> {
        match &self.env {
            EnvSpec::Gui(gui) => Cow::Owned(asked_by_pages(&self.instruction, &gui.start, &gui.prepare)),
            _ => Cow::Borrowed(&self.instruction),
        }
    }

    /// The checks that ask a judge, with their places.
    pub fn rubrics(&self) -> impl Iterator<Item = (usize, &CheckSpec)> {
        self.checks.iter().enumerate().filter(|(_, spec)| matches!(spec.check, Check::Rubric { .. }))
    }
}

/// The environment of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EnvSpec {
    /// A shell on a pseudo-terminal.
    Terminal(TerminalSpec),
    /// A repository with an issue, and tests that decide.
    Swe(Box<SweSpec>),
    /// Pages in a browser.
    Gui(Box<GuiSpec>),
    /// Tools that are called with arguments.
    Toolcall(ToolcallSpec),
    /// A custom program or server.
    Custom(CustomSpec),
    /// A Rust type of the process that runs it.
    InProcess(InProcessSpec),
}

impl EnvSpec {
    /// Name of the kind, as in suite files.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Terminal(_) => "terminal",
            Self::Swe(_) => "swe",
            Self::Gui(_) => "gui",
            Self::Toolcall(_) => "toolcall",
            Self::Custom(custom) => custom.kind(),
            Self::InProcess(_) => "in_process",
        }
    }

    /// Whether every observation contains a picture, so that a text-only policy misses information.
    #[must_use]
    pub fn shows_pictures(&self) -> bool {
        matches!(self, Self::Gui(spec) if spec.screenshots == Screenshots::Shown)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(script: &Script, written: serde_json::Value) {
        assert_eq!(serde_json::to_value(script).unwrap(), written);
        assert_eq!(&serde_json::from_value::<Script>(written).unwrap(), script);
    }

    #[test]
    fn scripts_serialize_as_lists_or_solver_names() {
        let call = ToolCall::new("run", json!({ "command": "ls" }));
        check(&Script::Calls(vec![call]), json!([{ "name": "run", "arguments": { "command": "ls" } }]));
        check(&Script::Calls(Vec::new()), json!([]));
        for solver in Solver::ALL {
            check(&Script::Solver(solver), json!(solver.name()));
        }
    }
}
