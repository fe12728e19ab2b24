//! The interface to a model: one in this process, or an upstream server.
//!
//! I1. A backend refuses settings that it cannot apply, by name and before it sends anything. I2. Dropping a stream ends all its waits and
//! releases everything the answer uses. I3. The ids and log-probabilities of a piece are those that were sampled, or absent.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use clawrl_core::{FinishReason, Usage};
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use serde_json::{Map, Value};

use crate::UserId;

/// Answers requests: one backend for all users and all concurrent requests.
pub trait Backend: fmt::Debug + Send + Sync {
    /// Model names that clients may request, the default first; at least one.
    fn models(&self) -> Vec<String>;

    /// Context length, prompt and answer together, in tokens; `None` if unknown.
    fn context(&self) -> Option<usize>;

    /// The version that answers now; `None` if unknown.
    fn version(&self, user: &UserId) -> Option<u64>;

    /// The first setting of a request that the backend cannot apply; `unsupported` are the candidates, which need more than sampling.
    fn refusal(&self, ask: &AnswerRequest, unsupported: &[Refusal]) -> Option<Refusal>;

    /// The sampling parameters that the backend will really use, as they are recorded.
    fn effective_sampling(&self, body: &Map<String, Value>, sampling: Sampling) -> Sampling {
        let _ = body;
        sampling
    }

    /// Starts an answer. Returns once it is known whether there will be one, or once the request is queued.
    fn start(&self, ask: AnswerRequest) -> BoxFuture<'_, Result<StartedAnswer, BackendError>>;

    /// The last known error that keeps the backend from answering, without a new check. Clients may see the text.
    fn last_error(&self) -> Option<String> {
        None
    }

    /// Checks whether the backend can answer; the error says why not.
    fn ready(&self) -> BoxFuture<'_, Result<(), String>>;
}

/// One choice of a requested answer.
#[derive(Debug, Clone)]
pub struct AnswerRequest {
    /// The user who asks.
    pub user: UserId,
    /// The request's body.
    pub body: Arc<Map<String, Value>>,
    /// What precedes the answer.
    pub prompt: Prompt,
    /// Sampling parameters.
    pub sampling: Sampling,
}

/// What precedes an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Prompt {
    /// The body's messages and tools.
    Chat,
    /// A text to continue.
    Text(String),
    /// Token ids to continue.
    Ids(Vec<u32>),
}

/// Sampling parameters of an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampling {
    /// Temperature; 0 is greedy.
    pub temperature: f32,
    /// Nucleus mass; 1 is off.
    pub top_p: f32,
    /// Number of candidates; 0 is off.
    pub top_k: u32,
    /// Maximum number of tokens; `None` for the rest of the context.
    pub max_tokens: Option<u32>,
    /// Determines, with the position, every random choice.
    pub seed: u64,
    /// Number of most probable tokens to return with each token; `None` without log-probabilities.
    pub top_logprobs: Option<usize>,
}

/// A setting that the backend cannot apply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Field of the body.
    pub field: &'static str,
    /// The reason.
    pub message: String,
}

/// A started answer.
pub struct StartedAnswer {
    /// The prompt's token ids; `None` if unknown.
    pub prompt_ids: Option<Arc<[u32]>>,
    /// Whether the prompt ends inside a reasoning block.
    pub in_reasoning: bool,
    /// The adapter that answers; `None` for the base model.
    pub adapter: Option<String>,
    /// The pieces of the answer.
    pub pieces: BoxStream<'static, Result<Piece, BackendError>>,
}

/// A piece of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Piece {
    /// A sampled token.
    Token(Token),
    /// Text, reasoning and calls that an upstream server has already parsed.
    Delta(Delta),
    /// Ids and log-probabilities of all tokens of an answer that comes as deltas, if the upstream server returns them; once, and before the
    /// delta of its calls. The version of its weights is unknown and recorded as 0.
    Sampled(Vec<(u32, f32)>),
    /// The end; always the last piece.
    End(End),
}

/// A sampled token. Log-probabilities are at the request's temperature (greedy: 1), in nats.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Token {
    /// Token id.
    pub id: u32,
    /// Its text; empty for markup.
    pub bytes: Vec<u8>,
    /// Its log-probability.
    pub logprob: f32,
    /// Version of the weights that sampled it.
    pub version: u64,
    /// The most probable tokens at this position, as many as requested: text and log-probability.
    pub most_probable: Vec<(Vec<u8>, f32)>,
    /// Name of a token without text.
    pub name: String,
}

/// A piece of an upstream server's answer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Delta {
    /// Text.
    pub text: String,
    /// Reasoning.
    pub reasoning: String,
    /// Complete calls: name and arguments.
    pub calls: Vec<(String, String)>,
    /// Log-probabilities in OpenAI's format.
    pub logprobs: Vec<Value>,
}

/// The end of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// The reason.
    pub finish: FinishReason,
    /// Token counts of prompt and answer, from the owner of the tokenizer.
    pub usage: Option<Usage>,
}

/// Why there is no answer. Clients may see the texts, except that of `Broken`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BackendError {
    /// The model is unknown.
    #[error("there is no model `{0}`")]
    NoModel(String),
    /// The request is invalid.
    #[error("{message}")]
    Refused {
        /// Field of the body.
        field: &'static str,
        /// The reason.
        message: String,
    },
    /// The prompt is longer than the context.
    #[error("the prompt has {tokens} tokens; the context of {limit} includes the answer")]
    TooLong {
        /// Tokens of the prompt.
        tokens: usize,
        /// Context length, in tokens.
        limit: usize,
    },
    /// The prompt is longer than the context, in the words of the upstream server.
    #[error("{0}")]
    NoRoom(String),
    /// A temporary failure.
    #[error("{message}")]
    Unavailable {
        /// The reason.
        message: String,
        /// When to retry.
        retry_after: Option<Duration>,
    },
    /// A lasting failure that the request did not cause. The text is for the log.
    #[error("the model failed: {0}")]
    Broken(String),
}

impl fmt::Debug for StartedAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StartedAnswer").field("prompt_ids", &self.prompt_ids).finish_non_exhaustive()
    }
}
