//! A judge that is a model: any policy that answers a message.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clawrl_core::{
    Action, ActionFormat, Boundary, BoxFuture, Fault, FinishReason, Judge, JudgeRequest, JudgeResponse,
    JudgeSubject, Limit, MemoryBlobs, Message, Observation, Policy, PolicyRequest, Role, TaskView, Usage,
    UsageTotal, Vote, derive_seed,
};
use futures_util::FutureExt;
use futures_util::future::join_all;
use tokio::time::timeout_at;

use crate::prompt::question;
use crate::reply::{read, read_hint};

/// Fraction of the time that is reserved after the votes, so that votes in time still count: one part in this number.
const REST: u32 = 20;

/// Fault code of a vote whose reply arrived without a valid vote: the judge is reachable.
pub(crate) const BABBLE: &str = "vote-missing";

/// Usage notes of replies that were refused for their content.
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
    fn ask<'a>(&'a self, asked: JudgeRequest<'a>) -> BoxFuture<'a, JudgeResponse> {
        Box::pin(async move {
            let text = question(&asked.task.instruction, asked.subject);
            let conversation = [Message::text(Role::User, text)];
            // No calls are wanted, so nothing has to be said about them.
            let task = TaskView { action_format: ActionFormat::Raw, ..asked.task.view() };
            let deadline = asked.deadline - rest(asked.deadline);
            // Policies wait by their seeds: members of a group must not all ask again at the same moment.
            let (slot, attempt) = (u64::from(asked.attempt.slot.0), u64::from(asked.attempt.number));
            // The material to judge is text.
            let (blobs, nothing) = (MemoryBlobs::new(0), Observation::default());
            let vote = |number: u32| {
                let reply = self.policy.act(PolicyRequest {
                    attempt: asked.attempt,
                    task: &task,
                    conversation: &conversation,
                    observation: &nothing,
                    tools: &[],
                    turn: 0,
                    seed: derive_seed(asked.seed, "judge", &[slot, attempt, u64::from(number)]),
                    deadline,
                    cancel: asked.cancel,
                    blobs: &blobs,
                });
                // A policy that does not look at the clock must not take the other votes with it.
                timeout_at(deadline.into(), reply)
                    .map(|reply| reply.unwrap_or_else(|_| Err(late(asked.subject))))
            };
            counted(join_all((0..asked.votes).map(vote)).await, asked.subject)
        })
    }
}

fn rest(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now()) / REST
}

fn counted(replies: Vec<Result<Action, Fault>>, subject: JudgeSubject<'_>) -> JudgeResponse {
    let mut response = JudgeResponse::default();
    for reply in replies {
        if let Ok(Action { usage: Some(usage), .. }) = &reply {
            response.usage.get_or_insert_default().merge(&UsageTotal::from(usage));
        }
        match reply.and_then(|action| vote(&action, subject)) {
            Ok(vote) => response.votes.push(vote),
            Err(fault) => response.missing.push(fault),
        }
    }
    response
}

fn late(subject: JudgeSubject<'_>) -> Fault {
    let message = match subject {
        JudgeSubject::Answer { .. } => {
            format!("the judge did not answer in time; raise `{}` if it needs longer", Limit::Grade.key())
        }
        JudgeSubject::Turn(_) | JudgeSubject::Hint(_) => "the judge did not answer in time".to_owned(),
    };
    Fault { limit: Some(Limit::Grade), ..Fault::transient(Boundary::Policy, "limit", message) }
}

/// I1.
fn vote(action: &Action, subject: JudgeSubject<'_>) -> Result<Vote, Fault> {
    let missing = |message: &str| Err(Fault::transient(Boundary::Policy, BABBLE, message));
    if action.finish == FinishReason::Length {
        return missing("the judge's reply reached its token limit before its verdict");
    }
    let refused = |usage: &Usage| usage.notes.iter().any(|note| REFUSALS.contains(&note.as_str()));
    if action.usage.as_ref().is_some_and(refused) {
        return missing("the judge or its server refused the request");
    }
    match subject {
        JudgeSubject::Hint(_) => match read_hint(&action.text) {
            Some(vote) => Ok(vote),
            None => {
                missing(r"the judge's reply is neither a short hint that ends with \boxed{1} nor \boxed{-1}")
            }
        },
        JudgeSubject::Answer { .. } | JudgeSubject::Turn(_) => match read(&action.text) {
            Some(vote) => Ok(vote),
            None => missing(r"the judge's reply does not end with \boxed{1}, \boxed{-1} or \boxed{0}"),
        },
    }
}
