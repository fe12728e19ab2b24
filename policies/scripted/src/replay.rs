//! A policy that repeats the replies of a recorded run.
//!
//! I1. Replies are verbatim: text, native calls, finish reason and sampled tokens. A malformed
//! reply is malformed again, at the same turn.
//! I2. Nothing is guessed: an unrecorded slot, another task under a recorded slot, or a turn past
//! the end of the recording is a permanent fault.

use std::collections::BTreeMap;

use clawrl_core::{
    Action, Boundary, BoxFuture, Fault, FinishReason, Policy, PolicyRequest, SlotId, TaskId, Turn,
};

/// Key of a recording. It contains the task's id, so that a plan with shifted slots
/// is detected.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReplayKey {
    /// The task that was played.
    pub task: TaskId,
    /// The slot that was filled.
    pub slot: SlotId,
}

/// Plays the recorded replies of the same task and slot, by turn index.
///
/// A recording that ended by a limit, rather than by a submission or the environment, is exhausted if the
/// new run allows more turns: the fault `replay-exhausted` says so.
#[derive(Debug, Clone)]
pub struct Replay {
    recordings: BTreeMap<ReplayKey, Vec<Action>>,
}

impl Replay {
    /// One reply per turn for each key; make them with [`recorded_action`].
    #[must_use]
    pub fn new(recordings: BTreeMap<ReplayKey, Vec<Action>>) -> Self {
        Self { recordings }
    }

    fn recorded(&self, request: &PolicyRequest<'_>) -> Result<Action, Fault> {
        let key = ReplayKey { task: request.task.id.clone(), slot: request.attempt.slot };
        let replies = self.recordings.get(&key).ok_or_else(|| {
            let message = format!(
                "the recorded run has no attempt at task `{}` in slot {}; replay needs the recorded run's own \
                 plan (suites, seed and group size)",
                key.task, key.slot
            );
            Fault::permanent(Boundary::Policy, "replay-miss", message)
        })?;
        let index = usize::try_from(request.turn).unwrap_or(usize::MAX);
        replies.get(index).cloned().ok_or_else(|| {
            let message = format!(
                "the recording of task `{}` in slot {} has {} turns and turn {} was asked for: the \
                 environment went another way than when it was recorded",
                key.task,
                key.slot,
                replies.len(),
                u64::from(request.turn) + 1
            );
            Fault::permanent(Boundary::Policy, "replay-exhausted", message)
        })
    }
}

impl Policy for Replay {
    fn name(&self) -> &str {
        "replay"
    }

    fn act<'a>(&'a self, request: PolicyRequest<'a>) -> BoxFuture<'a, Result<Action, Fault>> {
        Box::pin(std::future::ready(self.recorded(&request)))
    }
}

/// The reply that a recorded turn came from.
///
/// Takes the message as the policy said it, not the calls that were read from it: a malformed reply has
/// none of those, and reading it again must fail again.
#[must_use]
pub fn recorded_action(turn: &Turn) -> Action {
    let finish = if turn.flags.reply_truncated { FinishReason::Length } else { FinishReason::Stop };
    Action {
        text: turn.reply.joined_text(),
        tool_calls: turn.reply.tool_calls.clone(),
        finish,
        tokens: turn.tokens.clone(),
        // Nothing is asked for again, so nothing is spent.
        usage: None,
    }
}
