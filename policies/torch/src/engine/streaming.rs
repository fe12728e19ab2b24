//! Tokens as they are sampled, for whoever shows them before the reply is whole.
//!
//! I1. Every token of a reply comes once, in order, before its end is known. I2. The engine waits for nobody who reads: what is
//! not read yet is kept, and a reply has an end, which bounds it.
//!
//! Cancellation: dropping a [`TokenStream`] ends the request before the next step.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use super::handle::Shared;
use super::request::{EngineError, Generated};

/// A token that was sampled. Log-probabilities are at the request's temperature (greedy: 1), of the full vocabulary, in nats.
#[derive(Debug, Clone, PartialEq)]
pub struct StreamedToken {
    /// Its id.
    pub id: u32,
    /// Its log-probability.
    pub logprob: f32,
    /// Version of the weights, or of the adapter where one is used, that sampled it.
    pub version: u64,
    /// The most probable tokens of its place, as many as were asked for, the most probable first.
    pub most_probable: Vec<(u32, f32)>,
}

/// A reply on its way.
#[derive(Debug)]
pub struct TokenStream {
    pub(super) tokens: mpsc::UnboundedReceiver<StreamedToken>,
    pub(super) answer: oneshot::Receiver<Result<Generated, EngineError>>,
    pub(super) shared: Arc<Shared>,
}

/// Where the tokens of a sequence go.
#[derive(Debug)]
pub(super) struct Listener {
    /// Unbounded, but no reply is longer than its request allows (I2).
    pub(super) tokens: mpsc::UnboundedSender<StreamedToken>,
    /// How many of the most probable tokens are wanted.
    pub(super) most_probable: usize,
}

impl TokenStream {
    /// The next token; `None` at the end, whose reason [`Self::end`] says.
    pub async fn next(&mut self) -> Option<StreamedToken> {
        self.tokens.recv().await
    }

    /// The whole reply. Waits for it; tokens that were not read are in it too.
    ///
    /// # Errors
    /// [`EngineError`]: its adapter was taken away, the weights are no numbers, or the engine is gone.
    pub async fn end(self) -> Result<Generated, EngineError> {
        let Self { answer, shared, .. } = self;
        answer.await.unwrap_or_else(|_| Err(shared.gone()))
    }
}
