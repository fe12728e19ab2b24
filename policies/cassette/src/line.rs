//! The lines of a cassette, as JSON.
//!
//! Pieces are numbered from 0, each kind by itself, in the order of their lines; replies name them by these numbers.
//! Members that are not known are passed over.

use clawrl_core::{
    Action, FinishReason, Message, PolicySpec, SampledTokens, TaskId, ToolCall, ToolSpec, Usage,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One line. The first is `cassette`, the last is `end`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Line {
    Cassette(Head),
    Settings(Value),
    Message(Message),
    Tool(ToolSpec),
    Reply(Box<ReplyLine>),
    End { replies: u64 },
}

/// Origin of the replies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Head {
    pub(crate) format: u32,
    pub(crate) program: String,
    pub(crate) run: String,
    pub(crate) policy: PolicySpec,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) redacted: Vec<String>,
}

/// A reply and its key.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ReplyLine {
    pub(crate) task: TaskId,
    pub(crate) turn: u32,
    pub(crate) seed: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) repeat: u32,
    pub(crate) settings: u32,
    pub(crate) messages: Vec<u32>,
    pub(crate) tools: Vec<u32>,
    pub(crate) said: ActionLine,
}

/// An [`Action`].
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ActionLine {
    text: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    calls: Vec<ToolCall>,
    finish: FinishReason,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tokens: Option<SampledTokens>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    usage: Option<Usage>,
}

impl From<&Action> for ActionLine {
    fn from(action: &Action) -> Self {
        let Action { text, tool_calls, finish, tokens, usage } = action.clone();
        Self { text, calls: tool_calls, finish, tokens, usage }
    }
}

impl From<ActionLine> for Action {
    fn from(said: ActionLine) -> Self {
        let ActionLine { text, calls, finish, tokens, usage } = said;
        Self { text, tool_calls: calls, finish, tokens, usage }
    }
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}
