//! What is read from the ledger, as it is shown and exported. Times are Unix times in milliseconds.

use serde::Serialize;
use serde_json::Value;

use super::{SampleId, UpdateId};
use crate::{RequestId, SessionId, TurnId, UserId};

/// Which of many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// Those before this one, newest first; from the newest on, where there is none.
    pub before: Option<SessionId>,
    /// Number of them at most.
    pub limit: u32,
}

/// A user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UserView {
    /// Who.
    pub user: UserId,
    /// When their first request came; nothing before it.
    pub created_ms: Option<i64>,
    /// Whether their turns may train what all share.
    pub shares: bool,
    /// When they last said so.
    pub shares_ms: Option<i64>,
}

/// A session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SessionView {
    /// Its number.
    pub session: SessionId,
    /// Whose.
    pub user: UserId,
    /// By what its requests are known.
    pub evidence: String,
    /// The beginning of what the user said first; nothing where that is deleted, or not known.
    pub title: Option<String>,
    /// When it was opened.
    pub opened_ms: i64,
    /// When the last request of its newest turn came.
    pub last_ms: Option<i64>,
    /// When it ended, if it has.
    pub closed_ms: Option<i64>,
    /// Why it ended: `flag`, `endpoint`, `idle`, `deleted`, `not linked again`.
    pub why: Option<String>,
    /// The one it is in.
    pub epoch: u64,
    /// Number of its turns.
    pub turn_count: u64,
    /// Its turns, oldest first; left out in lists of sessions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub turns: Vec<TurnLine>,
}

/// A turn in a session's list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TurnLine {
    /// Its number.
    pub turn: TurnId,
    /// The session's epoch.
    pub epoch: u64,
    /// The turn that it goes on from.
    pub parent: Option<TurnId>,
    /// The first turn with the same history.
    pub sibling: Option<TurnId>,
    /// `main`, `side` or `unknown`.
    pub kind: String,
    /// Why it is not main.
    pub mark: Option<String>,
    /// The beginning of what the user said in it; nothing where it goes on from results of tools alone.
    pub said: Option<String>,
    /// `waiting`, `answered` or `unanswered`.
    pub state: String,
    /// Its session ended, and nothing came after its answer.
    pub ended_without_next_state: bool,
    /// When it was deleted.
    pub deleted_ms: Option<i64>,
}

/// All that is known of a turn.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TurnView {
    /// Its session.
    pub session: SessionId,
    /// Whose.
    pub user: UserId,
    /// What it is.
    #[serde(flatten)]
    pub line: TurnLine,
    /// By what its session was found.
    pub evidence: String,
    /// Its requests, retries included, oldest first.
    pub requests: Vec<RequestView>,
    /// What came after.
    pub next_state: Option<NextStateView>,
    /// What people said.
    pub feedback: Vec<FeedbackView>,
    /// What judges said.
    pub votes: Vec<VoteView>,
    /// What it is worth.
    pub reward: Option<RewardView>,
    /// What was made of it for training.
    pub samples: Vec<SampleView>,
    /// Updates that have, or had, one of its samples.
    pub updates: Vec<UpdateView>,
}

/// A request.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RequestView {
    /// Its number.
    pub request: RequestId,
    /// The path that was asked.
    pub endpoint: String,
    /// When it came.
    pub received_ms: i64,
    /// Headers that linking reads.
    pub headers: Vec<(String, String)>,
    /// The body as it is kept: as received, but for what was redacted. Nothing where it is deleted.
    pub body: Option<String>,
    /// How often each rule has matched.
    pub redacted: Value,
    /// The model that was asked for.
    pub model: Option<String>,
    /// The sampling parameters that were asked for.
    pub sampling: Value,
    /// `main`, `side` or `unknown`.
    pub kind: String,
    /// Why it is not main.
    pub mark: Option<String>,
    /// It is an earlier request of the turn again.
    pub is_retry: bool,
    /// `waiting`, `answered`, `empty` or `failed`.
    pub state: String,
    /// Why it failed.
    pub reason: Option<String>,
    /// Milliseconds from its arrival to the first token.
    pub first_token_after_ms: Option<i64>,
    /// When it was answered or failed.
    pub ended_ms: Option<i64>,
    /// Tokens of the prompt.
    pub prompt_tokens: Option<i64>,
    /// Tokens of the answer.
    pub completion_tokens: Option<i64>,
    /// Tokens as fed.
    pub prompt_ids: Vec<u32>,
    /// The choices of its answer.
    pub answers: Vec<AnswerView>,
}

/// One choice of an answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AnswerView {
    /// From 0.
    pub choice: u32,
    /// As sent, but for what was redacted.
    pub text: Option<String>,
    /// As sent, but for what was redacted.
    pub reasoning: Option<String>,
    /// `[{id, name, arguments}, ..]`.
    pub calls: Value,
    /// As sent.
    pub finish_reason: String,
    /// How often each rule has matched.
    pub redacted: Value,
    /// Tokens as sampled.
    pub sampled_ids: Vec<u32>,
    /// The natural logarithm of each one's probability.
    pub logprobs: Vec<f32>,
    /// `[[first token, version], ..]`.
    pub versions: Value,
    /// The adapter that answered.
    pub adapter: Option<String>,
    /// Divided the logits.
    pub temperature: Option<f64>,
    /// Mass of the tokens that could be sampled.
    pub top_p: Option<f64>,
    /// Number of the tokens that could be sampled.
    pub top_k: Option<i64>,
    /// Of the generator.
    pub seed: Option<u64>,
    /// Whether it may be trained.
    pub exact: bool,
    /// Why it may not.
    pub inexact: Option<String>,
}

/// What came after an answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NextStateView {
    /// The request that was gone on from.
    pub answered: RequestId,
    /// Which choice.
    pub choice: u32,
    /// The request that it is in.
    pub request: RequestId,
    /// By what it was found.
    pub found_by: String,
    /// `[[place in that request, kind, place of the call or null], ..]`.
    pub messages: Value,
    /// Places of what is not part of it.
    pub aside: Value,
    /// Calls that have no result.
    pub calls_without_result: u64,
}

/// What somebody said of a turn.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FeedbackView {
    /// Its number.
    pub feedback: u64,
    /// The request whose answer it is about; nothing in older ledgers, and where a reaction does not say.
    pub answered: Option<RequestId>,
    /// Which choice of that.
    pub choice: Option<u32>,
    /// `api`, `reaction` or `extension`.
    pub source: String,
    /// -1, 0 or 1.
    pub thumb: Option<i64>,
    /// In words.
    pub text: Option<String>,
    /// In the giver's unit.
    pub score: Option<f64>,
    /// A reaction as it was written.
    pub reaction: Value,
    /// When.
    pub at_ms: i64,
    /// When it was deleted.
    pub deleted_ms: Option<i64>,
}

/// What a judge said of a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VoteView {
    /// Who.
    pub judge: String,
    /// Which of their votes.
    pub ballot: u32,
    /// -1, 0 or 1.
    pub score: Option<i64>,
    /// Why there is none.
    pub reason: Option<String>,
    /// What the policy should have known.
    pub hint: Option<String>,
    /// In their words.
    pub raw: String,
    /// When.
    pub at_ms: i64,
}

/// What a turn is worth.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RewardView {
    /// In units of reward.
    pub value: f64,
    /// From what.
    pub source: String,
    /// When.
    pub at_ms: i64,
}

/// A sample.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SampleView {
    /// Its number.
    pub sample: SampleId,
    /// The request that was answered.
    pub request: RequestId,
    /// Which choice.
    pub choice: u32,
    /// What it is worth.
    pub reward: f64,
    /// What the policy should have known.
    pub hint: Option<String>,
    /// `waiting`, `taken`, `trained`, `rejected` or `dropped`.
    pub state: String,
    /// Why it was dropped.
    pub reason: Option<String>,
}

/// An update, as a sample sees it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct UpdateView {
    /// Its number.
    pub update: UpdateId,
    /// The sample.
    pub sample: SampleId,
    /// What became of the sample in it: `taken`, `trained`, `rejected`, `returned`.
    pub outcome: String,
    /// What is trained.
    pub adapter: String,
    /// What is maximised.
    pub objective: String,
    /// Before it.
    pub version_before: u64,
    /// After it.
    pub version_after: Option<u64>,
    /// `running`, `accepted`, `rejected` or `lost`.
    pub state: String,
    /// Why it was rejected.
    pub reasons: Value,
    /// Figures by name.
    pub metrics: Value,
}
