//! What the recorder is told, and what it says to that.

use std::sync::Arc;

use bytes::Bytes;

use crate::{ChatRequest, Headers, ReplyCall, RequestId, SessionId, TurnId, TurnKind, UserId};

/// A request that has arrived.
#[derive(Debug, Clone)]
pub struct NewRequest {
    /// Whose key it has.
    pub user: UserId,
    /// The path that was asked.
    pub endpoint: &'static str,
    /// All of them; those that linking reads are kept.
    pub headers: Headers,
    /// The body as received, but for halves of characters: valid JSON.
    pub raw: Bytes,
    /// The same, read.
    pub body: Arc<ChatRequest>,
    /// The model that was asked for.
    pub model: String,
    /// The sampling parameters that were asked for.
    pub sampling: serde_json::Value,
}

/// A request that is recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admitted {
    /// Its number.
    pub request: RequestId,
    /// The session it belongs to.
    pub session: SessionId,
    /// The turn it is a request of.
    pub turn: TurnId,
    /// What it is.
    pub kind: TurnKind,
    /// It is an earlier request of the turn again.
    pub is_retry: bool,
}

/// An answer, before its finish chunk is sent.
#[derive(Debug, Clone, Default)]
pub struct NewAnswer {
    /// One for each choice, in order.
    pub choices: Vec<NewChoice>,
    /// Tokens as fed to the policy; none where they are not known.
    pub prompt_ids: Arc<[u32]>,
    /// The adapter that answered; none for the base model.
    pub adapter: Option<String>,
    /// How it was sampled.
    pub sampling: SamplingUsed,
    /// Tokens of the prompt, as reported to the client.
    pub prompt_tokens: u64,
    /// Tokens of all choices, as reported to the client.
    pub completion_tokens: u64,
    /// Milliseconds from the arrival to the first token, if there was one.
    pub first_token_after_ms: Option<u64>,
}

/// One choice of an answer.
#[derive(Debug, Clone, Default)]
pub struct NewChoice {
    /// As sent.
    pub text: String,
    /// Reasoning that was sent in a field of its own.
    pub reasoning: Option<String>,
    /// As sent.
    pub calls: Vec<ReplyCall>,
    /// As sent: `stop`, `length`, `tool_calls`, `content_filter`.
    pub finish_reason: String,
    /// Tokens as sampled; none where they are not known.
    pub sampled_ids: Vec<u32>,
    /// The natural logarithm of each one's probability when it was sampled.
    pub logprobs: Vec<f32>,
    /// Which version sampled which of them. The first segment begins at 0; both numbers rise.
    pub versions: Vec<VersionSegment>,
    /// Whether these are exactly what the policy sampled.
    pub exact: Exactness,
}

/// Tokens that one version has sampled, up to the next segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VersionSegment {
    /// Place of the first one.
    pub first: usize,
    /// Of the weights.
    pub version: u64,
}

/// Whether an answer may be trained, as far as whoever sampled it knows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Exactness {
    /// Its ids and log-probabilities are exactly what the policy sampled.
    Exact,
    /// The server behind the gateway tells no ids.
    #[default]
    NoIds,
    /// It was sampled from another distribution than the one that would be trained: top-p, top-k and the like.
    Truncated,
    /// Nothing was sampled: temperature 0.
    Greedy,
    /// Something else, in words.
    Other(String),
}

/// How an answer was sampled.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SamplingUsed {
    /// Divides the logits.
    pub temperature: Option<f64>,
    /// Mass of the tokens that could be sampled.
    pub top_p: Option<f64>,
    /// Number of the tokens that could be sampled.
    pub top_k: Option<u32>,
    /// Of the generator.
    pub seed: Option<u64>,
}

/// What somebody thinks of an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct NewFeedback {
    /// What it is about.
    pub target: FeedbackTarget,
    /// Which choice of the answer, from 0; nothing where there is one, or where the conversation says which one it went on from.
    pub choice: Option<u32>,
    /// From where it comes.
    pub source: FeedbackSource,
    /// -1 for bad, 1 for good, 0 for neither.
    pub thumb: Option<i8>,
    /// In words.
    pub text: Option<String>,
    /// As a number, in the giver's unit.
    pub score: Option<f64>,
}

/// What feedback is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeedbackTarget {
    /// The answer of a turn that the conversation went on from, or else the last one.
    Turn(TurnId),
    /// The answer of a request.
    Request(RequestId),
    /// The last answer of a main turn in a session.
    Latest(SessionId),
}

/// From where feedback comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeedbackSource {
    /// Our API.
    Api,
    /// Our extension for OpenClaw.
    Extension,
}

/// Number of a feedback.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FeedbackId(pub u64);
