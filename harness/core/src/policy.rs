//! Policies: whatever answers with the next action.

use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::{
    AttemptId, BlobStore, BoxFuture, CancelToken, Fault, Message, Observation, TaskView, ToolCall, ToolSpec,
    Usage,
};

/// Why a reply ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// The policy came to its end.
    #[default]
    Stop,
    /// The token limit cut it.
    Length,
    /// A filter of the server cut it.
    ContentFilter,
}

/// The exact tokens of a reply (I3), from policies that can give them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SampledTokens {
    /// Token ids as sampled, the sampled end token included. Shape T.
    pub ids: Vec<u32>,
    /// Log-probability of each at sampling, full vocabulary, at the request's temperature, in nats. Shape T.
    pub logprobs: Vec<f32>,
    /// Policy version that sampled each token, as (first index, version), ascending.
    pub versions: Vec<(u32, u64)>,
}

/// An assistant message.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Action {
    /// Text of the reply.
    pub text: String,
    /// Calls in the server's own form; may be empty.
    pub tool_calls: Vec<ToolCall>,
    /// Why it ended.
    pub finish: FinishReason,
    /// Exact tokens, if the policy has them.
    pub tokens: Option<SampledTokens>,
    /// What it took, if the policy knows.
    pub usage: Option<Usage>,
}

impl Action {
    /// One tool call and no text.
    #[must_use]
    pub fn call(call: ToolCall) -> Self {
        Self { tool_calls: vec![call], ..Self::default() }
    }
}

/// Everything a policy may look at. Borrowed: the caller keeps the conversation.
#[derive(Debug, Clone)]
pub struct PolicyRequest<'a> {
    /// Which attempt asks; also the key for per-episode state of a policy.
    pub attempt: AttemptId,
    /// The task, without its oracle and its checks.
    pub task: &'a TaskView,
    /// The conversation so far, trimmed as recorded (I4).
    pub conversation: &'a [Message],
    /// What came last, at reset or after the turn before, with all that models are not shown. For policies that are
    /// programs; what models read is the conversation.
    pub observation: &'a Observation,
    /// Tools on offer.
    pub tools: &'a [ToolSpec],
    /// Turn index from 0.
    pub turn: u32,
    /// Seed of this reply: a function of the slot's seed, the group member and the turn.
    pub seed: u64,
    /// The reply is worthless after this.
    pub deadline: Instant,
    /// Fires when the attempt is given up.
    pub cancel: &'a CancelToken,
    /// Has the pictures that the conversation names.
    pub blobs: &'a dyn BlobStore,
}

/// Acts on many conversations at once.
///
/// Called by the scheduler's executors, concurrently, once per turn and never twice for the same turn of
/// an attempt; and by judges, several times at once for one attempt, with a seed for each vote. Dropping the
/// future cancels the request: the policy must then stop working on it. It must not block the thread.
pub trait Policy: Send + Sync {
    /// Name for plan and record: `oracle`, `noop`, a model name.
    fn name(&self) -> &str;

    /// The next action.
    ///
    /// # Errors
    /// A [`Fault`] at the policy boundary.
    fn act<'a>(&'a self, request: PolicyRequest<'a>) -> BoxFuture<'a, Result<Action, Fault>>;

    /// The attempt is over, however it ended: what the policy keeps for it may go.
    ///
    /// Called once for every attempt that was dispatched, after its last `act` returned or was dropped, also for
    /// attempts that never came to ask. It must not block.
    fn attempt_ended(&self, attempt: AttemptId) {
        let _ = attempt;
    }

    /// What people have to know of the policy when a run has ended, a sentence each.
    fn closing_notes(&self) -> Vec<String> {
        Vec::new()
    }
}
