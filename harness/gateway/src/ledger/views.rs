//! Views of the ledger, for display and export. Times are Unix times in milliseconds.

use serde::Serialize;
use serde_json::Value;

use super::{SampleId, UpdateId};
use crate::{RequestId, SessionId, TurnId, UserId};

/// A page of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// Entries before this one, newest first; all if `None`.
    pub before: Option<SessionId>,
    /// Maximum number of entries.
    pub limit: u32,
}

/// A user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UserView {
    /// User id.
    pub user: UserId,
    /// Time of the first request; `None` before it.
    pub created_ms: Option<i64>,
    /// Whether the user's turns may train the shared adapter.
    pub shares: bool,
    /// When this was last set.
    pub shares_ms: Option<i64>,
}

/// A session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SessionView {
    /// Number.
    pub session: SessionId,
    /// Owner.
    pub user: UserId,
    /// How its requests are identified.
    pub evidence: String,
    /// The user's first words; `None` if deleted or unknown.
    pub title: Option<String>,
    /// Time of opening.
    pub opened_ms: i64,
    /// Time of the last request of the newest turn.
    pub last_ms: Option<i64>,
    /// Time of closing, if closed.
    pub closed_ms: Option<i64>,
    /// Why it was closed: `flag`, `endpoint`, `idle`, `deleted`, `not linked again`.
    pub why: Option<String>,
    /// Current epoch.
    pub epoch: u64,
    /// Number of turns.
    pub turn_count: u64,
    /// Turns, oldest first; omitted in lists of sessions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub turns: Vec<TurnLine>,
}

/// A turn in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TurnLine {
    /// Number.
    pub turn: TurnId,
    /// The session's epoch.
    pub epoch: u64,
    /// The turn that it continues.
    pub parent: Option<TurnId>,
    /// The first turn with the same history.
    pub sibling: Option<TurnId>,
    /// Kind: `main`, `side` or `unknown`.
    pub kind: String,
    /// Why it is not a main turn.
    pub mark: Option<String>,
    /// The user's first words in it; `None` if it continues from tool results only.
    pub said: Option<String>,
    /// State: `waiting`, `answered` or `unanswered`.
    pub state: String,
    /// The session ended without a next state for it.
    pub ended_without_next_state: bool,
    /// Time of deletion.
    pub deleted_ms: Option<i64>,
}

/// Everything that is recorded of a turn.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TurnView {
    /// Session.
    pub session: SessionId,
    /// Owner.
    pub user: UserId,
    /// Summary.
    #[serde(flatten)]
    pub line: TurnLine,
    /// How the session was found.
    pub evidence: String,
    /// Requests, retries included, oldest first.
    pub requests: Vec<RequestView>,
    /// Next state.
    pub next_state: Option<NextStateView>,
    /// Feedback.
    pub feedback: Vec<FeedbackView>,
    /// Votes of judges.
    pub votes: Vec<VoteView>,
    /// Reward.
    pub reward: Option<RewardView>,
    /// Training samples.
    pub samples: Vec<SampleView>,
    /// Updates with one of its samples.
    pub updates: Vec<UpdateView>,
}

/// A request.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RequestView {
    /// Number.
    pub request: RequestId,
    /// Requested path.
    pub endpoint: String,
    /// Time of arrival.
    pub received_ms: i64,
    /// The headers that linking reads.
    pub headers: Vec<(String, String)>,
    /// The body as received, except for redactions; `None` if deleted.
    pub body: Option<String>,
    /// Matches of each redaction rule.
    pub redacted: Value,
    /// Requested model.
    pub model: Option<String>,
    /// Requested sampling parameters.
    pub sampling: Value,
    /// Kind: `main`, `side` or `unknown`.
    pub kind: String,
    /// Why it is not part of a main turn.
    pub mark: Option<String>,
    /// Whether it repeats an earlier request of the turn.
    pub is_retry: bool,
    /// State: `waiting`, `answered`, `empty` or `failed`.
    pub state: String,
    /// Why it failed.
    pub reason: Option<String>,
    /// Milliseconds from the arrival to the first token.
    pub first_token_after_ms: Option<i64>,
    /// Time of the answer or failure.
    pub ended_ms: Option<i64>,
    /// Tokens of the prompt.
    pub prompt_tokens: Option<i64>,
    /// Tokens of the answer.
    pub completion_tokens: Option<i64>,
    /// Token ids of the prompt.
    pub prompt_ids: Vec<u32>,
    /// Choices of the answer.
    pub answers: Vec<AnswerView>,
}

/// One choice of an answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AnswerView {
    /// Index, from 0.
    pub choice: u32,
    /// Text as sent, except for redactions.
    pub text: Option<String>,
    /// Reasoning as sent, except for redactions.
    pub reasoning: Option<String>,
    /// `[{id, name, arguments}, ..]`.
    pub calls: Value,
    /// Finish reason as sent.
    pub finish_reason: String,
    /// Matches of each redaction rule.
    pub redacted: Value,
    /// Sampled token ids.
    pub sampled_ids: Vec<u32>,
    /// Log-probability of each, in nats.
    pub logprobs: Vec<f32>,
    /// `[[first token, version], ..]`.
    pub versions: Value,
    /// Adapter that answered.
    pub adapter: Option<String>,
    /// Sampling temperature.
    pub temperature: Option<f64>,
    /// Nucleus mass.
    pub top_p: Option<f64>,
    /// Number of candidates.
    pub top_k: Option<i64>,
    /// Seed.
    pub seed: Option<u64>,
    /// Whether it can be trained on.
    pub exact: bool,
    /// Why it cannot.
    pub inexact: Option<String>,
}

/// The messages that followed an answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NextStateView {
    /// The continued request.
    pub answered: RequestId,
    /// Index of the continued choice.
    pub choice: u32,
    /// The request that contains them.
    pub request: RequestId,
    /// How they were found.
    pub found_by: String,
    /// `[[index in that request, kind, index of the call or null], ..]`.
    pub messages: Value,
    /// Indexes of messages that are not part of it.
    pub aside: Value,
    /// Calls without a result.
    pub calls_without_result: u64,
}

/// Feedback on a turn.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FeedbackView {
    /// Number.
    pub feedback: u64,
    /// The request whose answer it is about; `None` in older ledgers, and for reactions.
    pub answered: Option<RequestId>,
    /// Index of the choice.
    pub choice: Option<u32>,
    /// Source: `api`, `reaction` or `extension`.
    pub source: String,
    /// Rating: -1, 0 or 1.
    pub thumb: Option<i64>,
    /// Text.
    pub text: Option<String>,
    /// Score in the giver's unit.
    pub score: Option<f64>,
    /// The reaction as reported.
    pub reaction: Value,
    /// Time.
    pub at_ms: i64,
    /// Time of deletion.
    pub deleted_ms: Option<i64>,
}

/// A judge's vote on a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VoteView {
    /// Name of the judge.
    pub judge: String,
    /// Index among the judge's votes.
    pub ballot: u32,
    /// Score: -1, 0 or 1.
    pub score: Option<i64>,
    /// Why there is no score.
    pub reason: Option<String>,
    /// A hint: what the policy should have known.
    pub hint: Option<String>,
    /// The judge's reply.
    pub raw: String,
    /// Time.
    pub at_ms: i64,
}

/// The reward of a turn.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RewardView {
    /// In reward units.
    pub value: f64,
    /// Where it comes from.
    pub source: String,
    /// Time.
    pub at_ms: i64,
}

/// A training sample.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SampleView {
    /// Number.
    pub sample: SampleId,
    /// The answered request.
    pub request: RequestId,
    /// Index of the choice.
    pub choice: u32,
    /// Reward.
    pub reward: f64,
    /// A hint: what the policy should have known.
    pub hint: Option<String>,
    /// State: `waiting`, `taken`, `trained`, `rejected` or `dropped`.
    pub state: String,
    /// Why it was dropped.
    pub reason: Option<String>,
}

/// An update with one of the turn's samples.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct UpdateView {
    /// Number.
    pub update: UpdateId,
    /// The sample.
    pub sample: SampleId,
    /// Outcome of the sample: `taken`, `trained`, `rejected`, `returned`.
    pub outcome: String,
    /// Adapter.
    pub adapter: String,
    /// Objective.
    pub objective: String,
    /// Version before it.
    pub version_before: u64,
    /// Version after it.
    pub version_after: Option<u64>,
    /// State: `running`, `accepted`, `rejected` or `lost`.
    pub state: String,
    /// Why it was rejected.
    pub reasons: Value,
    /// Metrics by name.
    pub metrics: Value,
}
