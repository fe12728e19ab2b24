//! Errors of converting a conversation to tokens.

use clawrl_core::Role;

use crate::tokenizer::TokenizerError;

/// A conversation could not be written as tokens.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConversationError {
    /// `tokenizer_config.json`, or what belongs to it, cannot be read.
    #[error("cannot read {path}: {reason}")]
    Unreadable {
        /// Which file.
        path: String,
        /// The problem.
        reason: String,
    },
    /// The chat template is invalid, uses an undefined name, or refused the conversation.
    #[error("chat template: {0}")]
    Template(String),
    /// The chat template exceeds the limits of steps or output.
    #[error("the chat template takes too much: {0}; repair it in the model's folder, or use another model")]
    Endless(String),
    /// The template changes the content of a message in an unsupported way.
    #[error("the chat template {what} the content of {role:?} messages, which is not supported")]
    Content {
        /// Messages of this role.
        role: Role,
        /// The change: `drops`, `repeats or reorders`, `changes`.
        what: &'static str,
    },
    /// A tool description contains markup that only the template may write.
    #[error("the description of tool `{tool}` contains `{token}`, which only the chat template may write")]
    ForgedTool {
        /// The tool.
        tool: String,
        /// The token.
        token: String,
    },
    /// A recorded reply that cannot have been sampled as recorded.
    #[error("the tokens of a recorded reply are damaged: {0}")]
    Damaged(&'static str),
    /// Two replies or two contexts in a row: a mistake of the caller.
    #[error("out of order: {0}")]
    OutOfOrder(&'static str),
    /// A demonstration that the action format cannot express.
    #[error("no text of the format {format} says the calls of this turn")]
    NoText {
        /// Name of the format.
        format: &'static str,
    },
    /// An assistant message that was not sampled and contains only calls.
    #[error(
        "an assistant message without text that this policy did not write has calls, which it cannot show"
    )]
    ForeignCalls,
    /// The tokenizer failed.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
}
