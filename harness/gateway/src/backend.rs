//! What answers: a model in this process, or a server.
//!
//! I1. What a backend cannot honour it refuses by name before anything is sent. I2. Every wait of a stream ends when the stream is
//! dropped, and with it all that the answer takes. I3. The ids and log-probabilities of a piece are those that were sampled, or there
//! are none.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use clawrl_core::FinishReason;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use serde_json::{Map, Value};

use crate::UserId;

/// Answers requests. One for all users and all requests at once.
pub trait Backend: fmt::Debug + Send + Sync {
    /// Names under which it is asked for, the usual one first; at least one.
    fn models(&self) -> Vec<String>;

    /// Tokens of a prompt and its answer at most, where that is known.
    fn context(&self) -> Option<usize>;

    /// The version that answers now, where it is known.
    fn version(&self, user: &UserId) -> Option<u64>;

    /// What it cannot honour of a request's settings; `demands` are those that need more than sampling.
    fn refuses(&self, ask: &Ask, demands: &[Refusal]) -> Option<Refusal>;

    /// How it samples where such a body and such settings are asked for; the record has this.
    fn settles(&self, body: &Map<String, Value>, sampling: Sampling) -> Sampling {
        let _ = body;
        sampling
    }

    /// Begins an answer. Returns once it is known whether there can be one, or where that takes long, once it waits its turn.
    fn begin(&self, ask: Ask) -> BoxFuture<'_, Result<Begun, BackendError>>;

    /// What keeps it from answering, as far as it is known without asking anybody. The text may be shown to whoever asks.
    fn trouble(&self) -> Option<String> {
        None
    }

    /// Whether it can answer at all; what is wrong, if not.
    fn ready(&self) -> BoxFuture<'_, Result<(), String>>;
}

/// One choice of an answer that is wanted.
#[derive(Debug, Clone)]
pub struct Ask {
    /// Whose request it is.
    pub user: UserId,
    /// The body as received.
    pub body: Arc<Map<String, Value>>,
    /// What goes before the answer.
    pub prompt: Prompt,
    /// How it is sampled.
    pub sampling: Sampling,
}

/// What goes before an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Prompt {
    /// The messages and tools of the body.
    Chat,
    /// A text that is gone on with.
    Text(String),
    /// The same as token ids.
    Ids(Vec<u32>),
}

/// How an answer is sampled.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampling {
    /// T; 0 is greedy.
    pub temperature: f32,
    /// 1 is off.
    pub top_p: f32,
    /// 0 is off.
    pub top_k: u32,
    /// Most tokens; `None` for as many as there is room for.
    pub max_tokens: Option<u32>,
    /// Decides, with the position, every random choice.
    pub seed: u64,
    /// How many of the most probable tokens are wanted with each one; `None` where no log-probabilities are.
    pub top_logprobs: Option<usize>,
}

/// A setting that cannot be honoured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The field of the body.
    pub field: &'static str,
    /// What is wrong with it.
    pub message: String,
}

/// An answer that has begun.
pub struct Begun {
    /// The prompt as it was fed, where it is known.
    pub prompt_ids: Option<Arc<[u32]>>,
    /// Whether the prompt ends inside reasoning.
    pub in_reasoning: bool,
    /// The adapter that answers, if one does.
    pub adapter: Option<String>,
    /// What comes.
    pub pieces: BoxStream<'static, Result<Piece, BackendError>>,
}

/// A piece of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Piece {
    /// A token that was sampled.
    Token(Token),
    /// What a server has taken apart already.
    Delta(Delta),
    /// Ids and log-probabilities of all tokens of an answer that comes in deltas, from a server that says them; once, and before the
    /// delta of its calls. The version of its weights is not known, and counts as 0.
    Sampled(Vec<(u32, f32)>),
    /// The end; the last piece.
    End(End),
}

/// A token of an answer. Log-probabilities are at the temperature of the request (greedy: 1), in nats.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Token {
    /// Its id.
    pub id: u32,
    /// What it says; of markup nothing.
    pub bytes: Vec<u8>,
    /// Its log-probability.
    pub logprob: f32,
    /// Of the weights that sampled it.
    pub version: u64,
    /// The most probable ones of its place, as many as were asked for, with what they say.
    pub most_probable: Vec<(Vec<u8>, f32)>,
    /// What it is called where it says nothing.
    pub name: String,
}

/// A piece of a server's answer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Delta {
    /// Text.
    pub text: String,
    /// Reasoning.
    pub reasoning: String,
    /// Calls, each whole.
    pub calls: Vec<(String, String)>,
    /// Entries for log-probabilities, in OpenAI's form.
    pub logprobs: Vec<Value>,
}

/// How an answer ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// Why.
    pub finish: FinishReason,
    /// Tokens of prompt and answer, as counted by whoever has the tokenizer.
    pub usage: Option<Usage>,
}

/// Tokens of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Of the prompt, as fed.
    pub prompt: u64,
    /// Of the answer, reasoning and the end token included.
    pub completion: u64,
}

/// Why there is no answer. Texts may be shown to whoever asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BackendError {
    /// There is no such model.
    #[error("there is no model `{0}`")]
    NoModel(String),
    /// The request is at fault.
    #[error("{message}")]
    Refused {
        /// The field of the body.
        field: &'static str,
        /// What is wrong.
        message: String,
    },
    /// The prompt has no room in the model.
    #[error("the prompt has {tokens} tokens, and the model reads {limit} with its answer")]
    TooLong {
        /// Tokens of the prompt.
        tokens: usize,
        /// The model's positions.
        limit: usize,
    },
    /// The prompt has no room in the model, in the words of the server that has it.
    #[error("{0}")]
    NoRoom(String),
    /// It may be all right later.
    #[error("{message}")]
    Unavailable {
        /// What is wrong.
        message: String,
        /// When to ask again.
        retry_after: Option<Duration>,
    },
    /// It is not, and the request is not at fault. What is wrong is for the log.
    #[error("the model cannot answer: {0}")]
    Broken(String),
}

impl fmt::Debug for Begun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Begun").field("prompt_ids", &self.prompt_ids).finish_non_exhaustive()
    }
}
