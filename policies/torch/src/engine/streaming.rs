//! Tokens as they are sampled, for callers that show them before the reply is complete.
//!
//! I1. Every token of a reply arrives once, in order, before the end is reported. I2. The engine never waits for a reader:
//! unread tokens are buffered, and the maximum length of a reply limits the buffer.
//!
//! Cancellation: dropping a [`TokenStream`] ends the request before the next step.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use super::handle::Shared;
use super::request::{EngineError, Generated};

/// A sampled token. Log-probabilities are over the full vocabulary at the request's temperature (1 for greedy), in nats.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamedToken {
    /// Its id.
    pub id: u32,
    /// Its log-probability.
    pub logprob: f32,
    /// Version of the weights, or of the adapter if one is used, that sampled the token.
    pub version: u64,
    /// The requested number of most probable tokens at this position, in descending order.
    pub most_probable: Vec<(u32, f32)>,
}

/// A reply that is being sampled.
#[derive(Debug)]
pub struct TokenStream {
    pub(super) tokens: mpsc::UnboundedReceiver<StreamedToken>,
    pub(super) answer: oneshot::Receiver<Result<Generated, EngineError>>,
    pub(super) shared: Arc<Shared>,
}

/// Receiver of a sequence's tokens.
#[derive(Debug)]
pub(super) struct Listener {
    /// Unbounded channel; the request's limit bounds its length (I2).
    pub(super) tokens: mpsc::UnboundedSender<StreamedToken>,
    /// Number of most probable tokens to send.
    pub(super) most_probable: usize,
}

impl TokenStream {
    /// The next token; `None` at the end. [`Self::end`] gives the reason.
    pub async fn next(&mut self) -> Option<StreamedToken> {
        self.tokens.recv().await
    }

    /// Waits for the whole reply, which includes the tokens that were not read.
    ///
    /// # Errors
    /// [`EngineError`] if the adapter was removed, the logits are not finite or the engine has ended.
    pub async fn end(self) -> Result<Generated, EngineError> {
        let Self { answer, shared, .. } = self;
        answer.await.unwrap_or_else(|_| Err(shared.gone()))
    }
}
