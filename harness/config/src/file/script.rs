//! Sequences of actions, as written: oracles and mistakes.

use schemars::JsonSchema;
use serde::Deserialize;

use super::forms::two_forms;
use super::located::{JsonObject, Located, OptionalText, Text, present};
use crate::bounds;

two_forms! {
    /// Actions in order, each one turn.
    enum ScriptFile as "Script" { Commands(Vec<Text>), Fields(ScriptFields) }
    expects "a list of commands, or a map with `commands:`, `actions:`, `patch:` or `solver:`";
    described "Actions in order, each one turn: a list of commands, or a map with `commands`, `actions`, `patch` or `solver`.";
}

/// One of `commands`, `actions`, `patch` and `solver`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ScriptMap")]
pub(crate) struct ScriptFields {
    /// Shell commands, each one turn. Where there is a shell only.
    pub(crate) commands: Option<Vec<Text>>,
    /// Actions of any kind, each one turn.
    pub(crate) actions: Option<Vec<Located<ActionFile>>>,
    /// A unified diff beside the suite that is handed in. Software engineering tasks only.
    pub(crate) patch: Option<Text>,
    /// A program that plays, from what it sees: `miniwob` solves pages of MiniWoB++, `random-click` clicks one element,
    /// drawn by lot. Where there is a browser only.
    pub(crate) solver: Option<Text>,
}

/// One action: exactly one kind.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Action")]
pub(crate) struct ActionFile {
    /// Runs a command.
    pub(crate) run: Option<Text>,
    /// Types text, with no newline added.
    pub(crate) text: Option<Text>,
    /// Presses keys by name, separated by spaces: `C-c`, `Enter`, `Escape`, `Up`, `F1`, `a`.
    pub(crate) keys: Option<Text>,
    /// Waits for this many seconds.
    #[schemars(range(min = 0.001, max = bounds::MAX_WAIT_SECS))]
    pub(crate) wait: Option<Located<f64>>,
    /// Sends a signal to the foreground job: INT, TERM, KILL, TSTP, CONT or QUIT.
    pub(crate) signal: Option<Text>,
    /// Calls a tool of a tool-call environment.
    pub(crate) call: Option<CallActionFile>,
    /// Ends the episode, with an answer if there is one.
    #[serde(default, deserialize_with = "present")]
    pub(crate) submit: Option<OptionalText>,
}

/// A call of a tool.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "CallAction")]
pub(crate) struct CallActionFile {
    /// Name of the tool.
    pub(crate) name: Text,
    /// Its arguments. A string that is one `{{ expression }}` takes the type of the expression. Default: none.
    pub(crate) arguments: Option<Located<JsonObject>>,
}
