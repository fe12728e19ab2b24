//! Requests, replies and errors of the engine.

use std::sync::Arc;

use clawrl_core::FinishReason;

use super::adapters::AdapterName;
use super::sampling::Sampling;
use crate::ModelConfig;

/// A request to continue a prompt.
#[derive(Debug, Clone, PartialEq)]
pub struct GenerateRequest {
    /// Token ids, at least one.
    pub prompt: Arc<[u32]>,
    /// Maximum number of tokens to sample. The model's last position may end the reply earlier.
    pub max_new_tokens: u32,
    /// T; 0 is greedy.
    pub temperature: f32,
    /// Samples only from the most probable tokens that together reach this probability; 1 turns this off.
    pub top_p: f32,
    /// Samples only from this many most probable tokens; 0 turns this off.
    pub top_k: u32,
    /// Determines every random choice, together with the position.
    pub seed: u64,
    /// A sampled token with one of these ids ends the reply, and is part of it.
    pub stop_ids: Vec<u32>,
    /// Adapter to use; `None` for the base model.
    pub adapter: Option<AdapterName>,
}

impl GenerateRequest {
    pub(super) fn sampling(&self) -> Sampling {
        let Self { temperature, top_p, top_k, seed, .. } = *self;
        Sampling { temperature, top_p, top_k, seed }
    }

    /// Checks that the request can be computed.
    pub(super) fn check(&self, config: &ModelConfig) -> Result<(), EngineError> {
        let positions = config.max_position_embeddings as usize;
        if self.prompt.is_empty() {
            return Err(EngineError::EmptyPrompt);
        }
        if self.prompt.len() >= positions {
            return Err(EngineError::PromptTooLong { tokens: self.prompt.len(), positions });
        }
        if let Some(&id) = self.prompt.iter().find(|&&id| i64::from(id) >= config.vocab_size) {
            return Err(EngineError::UnknownToken { id, vocabulary: config.vocab_size });
        }
        let temperature = self.temperature;
        if !(temperature == 0.0 || (1e-3..=1e3).contains(&temperature)) {
            return Err(EngineError::BadSampling(format!(
                "temperature {temperature}; 0 and 0.001 to 1000 are possible"
            )));
        }
        if !(self.top_p > 0.0 && self.top_p <= 1.0) {
            return Err(EngineError::BadSampling(format!("top_p {}; above 0 to 1 is possible", self.top_p)));
        }
        Ok(())
    }

    /// Maximum length of the sequence in tokens, prompt included.
    pub(super) fn most_tokens(&self, config: &ModelConfig) -> usize {
        let positions = config.max_position_embeddings as usize;
        positions.min(self.prompt.len() + self.max_new_tokens as usize)
    }
}

/// A reply.
#[derive(Debug, Clone, PartialEq)]
pub struct Generated {
    /// Sampled token ids, the sampled stop token included. Shape T.
    pub ids: Vec<u32>,
    /// Log-probability of each token over the full vocabulary at the request's temperature (1 for greedy), in nats. Shape T.
    pub logprobs: Vec<f32>,
    /// Log-probability within the tokens that top-k and top-p leave, if one of them is on. Not for importance ratios. Shape T.
    pub set_logprobs: Option<Vec<f32>>,
    /// Version of the weights, or of the adapter if one is used, that sampled each token, as ascending pairs (first index,
    /// version).
    pub versions: Vec<(u32, u64)>,
    /// Reason for the end.
    pub finish: FinishReason,
}

/// Error of a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// The prompt has no tokens.
    #[error("the prompt is empty")]
    EmptyPrompt,
    /// The model has no position left for a new token.
    #[error(
        "the prompt has {tokens} tokens; the model has {positions} positions, and one is needed for a reply"
    )]
    PromptTooLong {
        /// Length of the prompt.
        tokens: usize,
        /// Number of positions of the model.
        positions: usize,
    },
    /// More tokens than the model has positions.
    #[error("there are {tokens} tokens; the model has {positions} positions")]
    TooLong {
        /// Number of tokens.
        tokens: usize,
        /// Number of positions of the model.
        positions: usize,
    },
    /// The request cannot be scored.
    #[error("{0}")]
    BadScoring(String),
    /// An id outside the vocabulary.
    #[error("token {id} is outside the vocabulary of {vocabulary}")]
    UnknownToken {
        /// The id.
        id: u32,
        /// Size of the vocabulary.
        vocabulary: i64,
    },
    /// An adapter that was not published or was removed.
    #[error("there is no adapter `{0}`")]
    NoAdapter(String),
    /// A sampling option out of range.
    #[error("{0}")]
    BadSampling(String),
    /// The keys and values exceed the whole budget, so waiting would not help.
    #[error(
        "the request may need {needed} bytes of keys and values; the budget is {budget} (kv_budget_bytes)"
    )]
    NeverFits {
        /// Bytes for the longest sequence of the request.
        needed: u64,
        /// Bytes of the budget.
        budget: u64,
    },
    /// The weights give logits that are not finite.
    #[error("version {version} of the weights gives logits that are not finite")]
    NotFinite {
        /// Version of the weights, or of the adapter.
        version: u64,
    },
    /// The engine has ended.
    #[error("the engine is gone: {cause}")]
    Gone {
        /// Cause of the end.
        cause: String,
    },
}

/// Error of a publication.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// Weights of another model, or an adapter for another model.
    #[error("the published weights have another shape than the engine's model")]
    OtherShape,
    /// Resident adapters require that the model does not change.
    #[error("the model cannot change while {adapters} adapters of it are served")]
    HasAdapters {
        /// Number of resident adapters.
        adapters: usize,
    },
    /// The version is not newer than the latest one.
    #[error("version {version} is not newer than version {latest}, which is published")]
    NotNewer {
        /// The version offered.
        version: u64,
        /// The latest one.
        latest: u64,
    },
    /// The weights could not be copied.
    #[error(transparent)]
    Torch(#[from] crate::error::TorchError),
    /// The engine has ended.
    #[error("the engine is gone: {cause}")]
    Gone {
        /// Cause of the end.
        cause: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(change: impl FnOnce(&mut GenerateRequest), expected: Result<(), EngineError>) {
        let mut request = GenerateRequest {
            prompt: Arc::from([1, 2]),
            max_new_tokens: 3,
            temperature: 1.0,
            top_p: 1.0,
            top_k: 0,
            seed: 0,
            stop_ids: Vec::new(),
            adapter: None,
        };
        change(&mut request);
        assert_eq!(request.check(&ModelConfig::tiny(64, 0)), expected);
    }

    #[test]
    fn impossible_requests_are_refused_by_name() {
        let bad = |what: &str| Err(EngineError::BadSampling(what.to_owned()));
        check(|_| {}, Ok(()));
        check(|request| request.temperature = 0.0, Ok(()));
        check(|request| request.prompt = Arc::from([]), Err(EngineError::EmptyPrompt));
        check(
            |request| request.prompt = Arc::from([0; 2048]),
            Err(EngineError::PromptTooLong { tokens: 2048, positions: 2048 }),
        );
        check(|request| request.prompt = Arc::from([0; 2047]), Ok(()));
        check(
            |request| request.prompt = Arc::from([3, 64]),
            Err(EngineError::UnknownToken { id: 64, vocabulary: 64 }),
        );
        check(|request| request.top_p = 0.0, bad("top_p 0; above 0 to 1 is possible"));
        check(|request| request.top_p = f32::NAN, bad("top_p NaN; above 0 to 1 is possible"));
        check(|request| request.temperature = -1.0, bad("temperature -1; 0 and 0.001 to 1000 are possible"));
        check(
            |request| request.temperature = f32::NAN,
            bad("temperature NaN; 0 and 0.001 to 1000 are possible"),
        );
    }
}
