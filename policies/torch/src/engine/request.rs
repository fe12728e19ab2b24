//! What is asked of the engine, what it answers, and what it refuses.

use std::sync::Arc;

use clawrl_core::FinishReason;

use super::adapters::AdapterName;
use super::sampling::Sampling;
use crate::ModelConfig;

/// Asks for the continuation of a prompt.
#[derive(Debug, Clone, PartialEq)]
pub struct GenerateRequest {
    /// Token ids, at least one.
    pub prompt: Arc<[u32]>,
    /// Most tokens to sample. The end of the model's positions cuts earlier.
    pub max_new_tokens: u32,
    /// T; 0 is greedy.
    pub temperature: f32,
    /// Samples only from the likeliest tokens that together reach this probability; 1 is off.
    pub top_p: f32,
    /// Samples only from this many likeliest tokens; 0 is off.
    pub top_k: u32,
    /// Decides, with the position, every random choice.
    pub seed: u64,
    /// A sampled token of these ends the reply and is its last.
    pub stop_ids: Vec<u32>,
    /// The adapter that the model computes with; `None` for the model as it is.
    pub adapter: Option<AdapterName>,
}

impl GenerateRequest {
    pub(super) fn sampling(&self) -> Sampling {
        let Self { temperature, top_p, top_k, seed, .. } = *self;
        Sampling { temperature, top_p, top_k, seed }
    }

    /// Refuses what cannot be computed.
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

    /// Most tokens of the sequence, prompt included.
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
    /// Log-probability of each at sampling: full vocabulary, at the request's temperature (greedy: 1), in nats. T.
    pub logprobs: Vec<f32>,
    /// Log-probability within what top-k and top-p left, where one of them is on. Never for a ratio. T.
    pub set_logprobs: Option<Vec<f32>>,
    /// Version of the weights, or of the adapter where one is used, that sampled each token, as (first index, version), ascending.
    pub versions: Vec<(u32, u64)>,
    /// Why it ended.
    pub finish: FinishReason,
}

/// Why there is no reply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// No token to begin from.
    #[error("the prompt is empty")]
    EmptyPrompt,
    /// No room for a single new token.
    #[error(
        "the prompt has {tokens} tokens; the model has {positions} positions, and one is needed for a reply"
    )]
    PromptTooLong {
        /// Tokens of the prompt.
        tokens: usize,
        /// Positions of the model.
        positions: usize,
    },
    /// More tokens than the model has positions.
    #[error("there are {tokens} tokens; the model has {positions} positions")]
    TooLong {
        /// Tokens that are there.
        tokens: usize,
        /// Positions of the model.
        positions: usize,
    },
    /// Nothing that can be scored.
    #[error("{0}")]
    BadScoring(String),
    /// An id the model does not have.
    #[error("token {id} is outside the vocabulary of {vocabulary}")]
    UnknownToken {
        /// The id.
        id: u32,
        /// Size of the vocabulary.
        vocabulary: i64,
    },
    /// An adapter that was not published, or that was taken away.
    #[error("there is no adapter `{0}`")]
    NoAdapter(String),
    /// A sampling option out of range.
    #[error("{0}")]
    BadSampling(String),
    /// More keys and values than the whole budget, so waiting would not help.
    #[error(
        "the request may need {needed} bytes of keys and values; the budget is {budget} (kv_budget_bytes)"
    )]
    NeverFits {
        /// Bytes of its longest sequence.
        needed: u64,
        /// Bytes of the budget.
        budget: u64,
    },
    /// The weights give no numbers.
    #[error("version {version} of the weights gives logits that are not finite")]
    NotFinite {
        /// Version of the weights, or of the adapter.
        version: u64,
    },
    /// The engine does not run any more.
    #[error("the engine is gone: {cause}")]
    Gone {
        /// What ended it.
        cause: String,
    },
}

/// Why weights were not published.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// Weights of another model, or an adapter for one.
    #[error("the published weights have another shape than the engine's model")]
    OtherShape,
    /// Adapters are for the model as it is.
    #[error("the model cannot change while {adapters} adapters of it are served")]
    HasAdapters {
        /// How many are resident.
        adapters: usize,
    },
    /// Versions only rise.
    #[error("version {version} is not newer than version {latest}, which is published")]
    NotNewer {
        /// The version offered.
        version: u64,
        /// The latest one.
        latest: u64,
    },
    /// They could not be copied.
    #[error(transparent)]
    Torch(#[from] crate::error::TorchError),
    /// The engine does not run any more.
    #[error("the engine is gone: {cause}")]
    Gone {
        /// What ended it.
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
