//! Inputs of the recorder.

use std::sync::Arc;

use bytes::Bytes;

use crate::{ChatRequest, Headers, ReplyCall, RequestId, SessionId, TurnId, TurnKind, UserId};

/// A request that arrived.
#[derive(Debug, Clone)]
pub struct NewRequest {
    /// Owner of its key.
    pub user: UserId,
    /// Requested path.
    pub endpoint: &'static str,
    /// All headers; those that linking reads are stored.
    pub headers: Headers,
    /// The body as received, except that lone surrogates are replaced: valid JSON.
    pub raw: Bytes,
    /// The parsed body.
    pub body: Arc<ChatRequest>,
    /// Requested model.
    pub model: String,
    /// Requested sampling parameters.
    pub sampling: serde_json::Value,
}

/// A recorded request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admitted {
    /// Number.
    pub request: RequestId,
    /// Session.
    pub session: SessionId,
    /// Turn.
    pub turn: TurnId,
    /// Kind of the turn.
    pub kind: TurnKind,
    /// Whether it repeats an earlier request of the turn.
    pub is_retry: bool,
}

/// An answer, before its last chunk is sent.
#[derive(Debug, Clone, Default)]
pub struct NewAnswer {
    /// The choices, in order.
    pub choices: Vec<NewChoice>,
    /// Token ids of the prompt; empty if unknown.
    pub prompt_ids: Arc<[u32]>,
    /// The adapter that answered; `None` for the base model.
    pub adapter: Option<String>,
    /// Sampling parameters.
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
    /// Text as sent.
    pub text: String,
    /// Reasoning that was sent in its own field.
    pub reasoning: Option<String>,
    /// Calls as sent.
    pub calls: Vec<ReplyCall>,
    /// Finish reason as sent: `stop`, `length`, `tool_calls`, `content_filter`.
    pub finish_reason: String,
    /// Sampled token ids; empty if unknown.
    pub sampled_ids: Vec<u32>,
    /// Log-probability of each at sampling, in nats.
    pub logprobs: Vec<f32>,
    /// Versions that sampled them. The first segment starts at 0; both numbers rise.
    pub versions: Vec<VersionSegment>,
    /// Whether these are exactly what the policy sampled.
    pub exact: Exactness,
}

/// Tokens that one version sampled, up to the next segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VersionSegment {
    /// Index of the first token.
    pub first: usize,
    /// Version of the weights.
    pub version: u64,
}

/// Whether an answer can be trained on, as far as the backend knows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Exactness {
    /// Ids and log-probabilities are exactly what the policy sampled.
    Exact,
    /// The upstream server returns no token ids.
    #[default]
    NoIds,
    /// Sampled from another distribution than the trained one: top-p, top-k and the like.
    Truncated,
    /// Not sampled: temperature 0.
    Greedy,
    /// Another reason, as text.
    Other(String),
}

/// Sampling parameters of an answer.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct SamplingUsed {
    /// Temperature.
    pub temperature: Option<f64>,
    /// Nucleus mass.
    pub top_p: Option<f64>,
    /// Number of candidates.
    pub top_k: Option<u32>,
    /// Seed.
    pub seed: Option<u64>,
}

/// Feedback on an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct NewFeedback {
    /// The answer.
    pub target: FeedbackTarget,
    /// Index of the choice, from 0; not needed if there is one choice, or if the conversation continued one.
    pub choice: Option<u32>,
    /// Where it comes from.
    pub source: FeedbackSource,
    /// Rating: -1 for bad, 1 for good, 0 for neutral.
    pub thumb: Option<i8>,
    /// Text.
    pub text: Option<String>,
    /// Score in the giver's unit.
    pub score: Option<f64>,
}

/// The answer that feedback is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeedbackTarget {
    /// The answer of a turn that the conversation continued, or else the last one.
    Turn(TurnId),
    /// The answer of a request.
    Request(RequestId),
    /// The last answer of a main turn in a session.
    Latest(SessionId),
}

/// The source of feedback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeedbackSource {
    /// The API.
    Api,
    /// The OpenClaw extension.
    Extension,
}

/// Number of a feedback entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FeedbackId(pub u64);
