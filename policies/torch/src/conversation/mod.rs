//! Conversations as tokens: the contexts shown to a policy, its sampled tokens and the trained ones.

mod chat;
mod demonstration;
mod error;
mod hermes;
mod state;
mod template;
mod trim;

pub use chat::{Chat, DEFAULT_TEMPLATE};
pub use demonstration::{demonstrated_tokens, written_text, written_turn};
pub use error::ConversationError;
pub(crate) use hermes::HERMES_PHRASES;
pub use state::{Context, ConversationState, SampledTurn, segments};
