//! Why a conversation has no tokens.

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
        /// What is wrong with it.
        reason: String,
    },
    /// The chat template is no template, uses what is not there, or refused the conversation.
    #[error("chat template: {0}")]
    Template(String),
    /// The chat template takes more steps, or makes more, than any that is meant to be used.
    #[error("the chat template takes too much: {0}; repair it in the model's folder, or use another model")]
    Endless(String),
    /// The template does something to the content of a message that cannot be followed.
    #[error("the chat template {what} the content of {role:?} messages, which is not supported")]
    Content {
        /// Messages of this role.
        role: Role,
        /// What it does: `drops`, `repeats or reorders`, `changes`.
        what: &'static str,
    },
    /// Something that only the template may write.
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
    /// A demonstration that this format of actions cannot say.
    #[error("no text of the format {format} says the calls of this turn")]
    NoText {
        /// Name of the format.
        format: &'static str,
    },
    /// An assistant message that nobody sampled and that says nothing but calls.
    #[error(
        "an assistant message without text that this policy did not write has calls, which it cannot show"
    )]
    ForeignCalls,
    /// The tokenizer failed.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
}
