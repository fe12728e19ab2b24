//! Conversations as tokens: what a policy is shown, what it sampled, what is trained on.

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
