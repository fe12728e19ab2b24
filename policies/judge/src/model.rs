//! A judge that is a model: any policy that answers a message.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clawrl_core::{
    Action, ActionFormat, Ballot, Boundary, BoxFuture, Fault, FinishReason, Judge, Limit, MemoryBlobs,
    Message, Policy, PolicyRequest, Question, Role, TaskSpec, Usage, UsageTotal, Vote, derive_seed,
};
use futures_util::FutureExt;
use futures_util::future::join_all;
use tokio::time::timeout_at;

use crate::prompt::question;
use crate::verdict::read;

/// What is left of the time for a question after its votes, so that those that came in time still count: one part in this.
const REST: u32 = 20;

/// Notes on replies that were broken off for what they are about.
const REFUSALS: [&str; 2] = ["content-filter", "refusal"];

/// Asks a policy once for each vote, all at the same time.
pub struct ModelJudge {
    policy: Arc<dyn Policy>,
}

impl ModelJudge {
    /// A judge that votes by this policy. The policy must keep nothing between turns: votes on one attempt are asked for
    /// at the same time.
    #[must_use]
    pub fn new(policy: Arc<dyn Policy>) -> Self {
        Self { policy }
    }
}

impl Judge for ModelJudge {
    fn ask<'a>(&'a self, asked: Question<'a>) -> BoxFuture<'a, Ballot> {
        Box::pin(async move {
            let text = question(&asked.task.instruction, asked.rubric, asked.answer);
            let conversation = [Message::text(Role::User, text)];
            // No calls are wanted, so nothing has to be said about them.
            let task = Arc::new(TaskSpec { action_format: ActionFormat::Raw, ..TaskSpec::clone(asked.task) });
            let deadline = asked.deadline - rest(asked.deadline);
            // Policies wait by their seeds: members of a group must not all ask again at the same moment.
            let (slot, attempt) = (u64::from(asked.attempt.slot.0), u64::from(asked.attempt.number));
            // What is judged is text.
            let blobs = MemoryBlobs::new(0);
            let vote = |number: u32| {
                let reply = self.policy.act(PolicyRequest {
                    attempt: asked.attempt,
                    task: &task,
                    conversation: &conversation,
                    tools: &[],
                    turn: 0,
                    seed: derive_seed(asked.seed, "judge", &[slot, attempt, u64::from(number)]),
                    deadline,
                    cancel: asked.cancel,
                    blobs: &blobs,
                });
                // A policy that does not look at the clock must not take the other votes with it.
                timeout_at(deadline.into(), reply).map(|reply| reply.unwrap_or_else(|_| Err(late())))
            };
            counted(join_all((0..asked.votes).map(vote)).await)
        })
    }
}

fn rest(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now()) / REST
}

fn counted(replies: Vec<Result<Action, Fault>>) -> Ballot {
    let mut ballot = Ballot::default();
    for reply in replies {
        if let Ok(Action { usage: Some(usage), .. }) = &reply {
            ballot.usage.get_or_insert_default().merge(&UsageTotal::from(usage));
        }
        match reply.and_then(|action| vote(&action)) {
            Ok(vote) => ballot.votes.push(vote),
            Err(fault) => ballot.missing.push(fault),
        }
    }
    ballot
}

fn late() -> Fault {
    let message =
        format!("the judge did not answer in time; raise `{}` if it needs longer", Limit::Grade.key());
    Fault { limit: Some(Limit::Grade), ..Fault::transient(Boundary::Policy, "limit", message) }
}

/// I1.
fn vote(action: &Action) -> Result<Vote, Fault> {
    let missing = |message: &str| Err(Fault::transient(Boundary::Policy, "vote-missing", message));
    if action.finish == FinishReason::Length {
        return missing("the judge's reply was cut at its limit of tokens before it came to a verdict");
    }
    let refused = |usage: &Usage| usage.notes.iter().any(|note| REFUSALS.contains(&note.as_str()));
    if action.usage.as_ref().is_some_and(refused) {
        return missing("the judge, or its server, refused to speak of this");
    }
    match read(&action.text) {
        Some(vote) => Ok(vote),
        None => missing(r"the judge's reply does not end with \boxed{1}, \boxed{-1} or \boxed{0}"),
    }
}
