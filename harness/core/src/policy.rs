//! Policies: models, programs and scripts that choose the next action.

use std::time::Instant;

use crate::{
    Action, AttemptId, BlobStore, BoxFuture, CancelToken, Fault, Message, Observation, TaskView, ToolSpec,
};

/// Everything a policy may look at. Borrowed: the caller keeps the conversation.
#[derive(Debug, Clone)]
pub struct PolicyRequest<'a> {
    /// The requesting attempt; also the key for per-episode state of a policy.
    pub attempt: AttemptId,
    /// The task, without its oracle and its checks.
    pub task: &'a TaskView,
    /// The conversation so far, trimmed as recorded (I4).
    pub conversation: &'a [Message],
    /// The latest observation, at reset or after the previous turn, including parts that models are not shown. For policies that
    /// are programs; models read the conversation.
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

    /// Called at the end of an attempt, however it ended: the policy may drop its state.
    ///
    /// Called once for every dispatched attempt, after its last `act` returned or was dropped, and also for
    /// attempts that never called `act`. It must not block.
    fn attempt_ended(&self, attempt: AttemptId) {
        let _ = attempt;
    }

    /// Notes for people at the end of a run, one sentence each.
    fn closing_notes(&self) -> Vec<String> {
        Vec::new()
    }
}
