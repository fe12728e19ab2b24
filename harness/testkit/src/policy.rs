//! A policy from a closure.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clawrl_core::{Action, AttemptId, BoxFuture, Fault, Policy, PolicyRequest, ToolCall};

use crate::plan::call;

/// Reaction of a scripted policy to a request.
#[derive(Debug, Clone)]
pub enum Reply {
    /// Answers.
    Act(Action),
    /// Answers after this long, without regard for the deadline.
    ActAfter(Duration, Action),
    /// Fails.
    Fault(Fault),
    /// Panics.
    Panic,
    /// Never answers.
    Hang,
}

impl Reply {
    /// Answers with text.
    #[must_use]
    pub fn text(text: &str) -> Self {
        Self::Act(Action { text: text.to_owned(), ..Action::default() })
    }

    /// Answers with a `run` call.
    #[must_use]
    pub fn run(command: &str) -> Self {
        Self::Act(Action::call(call(command)))
    }

    /// Answers with a `submit` call.
    #[must_use]
    pub fn submit() -> Self {
        Self::Act(Action::call(ToolCall::new("submit", serde_json::json!({}))))
    }
}

/// Replies as its closure says.
pub struct ScriptedPolicy {
    reply: Box<dyn Fn(&PolicyRequest<'_>) -> Reply + Send + Sync>,
    /// Whether each known attempt is over.
    ended: Mutex<BTreeMap<AttemptId, bool>>,
    violations: Mutex<Vec<String>>,
}

impl ScriptedPolicy {
    /// A policy that replies as the closure says.
    #[must_use]
    pub fn new(reply: impl Fn(&PolicyRequest<'_>) -> Reply + Send + Sync + 'static) -> Self {
        Self { reply: Box::new(reply), ended: Mutex::default(), violations: Mutex::default() }
    }

    /// Violations of the contract of [`Policy`]: asked after the end, ended twice, or never.
    #[must_use]
    pub fn violations(&self) -> Vec<String> {
        let mut violations = locked(&self.violations).clone();
        let ended = locked(&self.ended);
        let open = ended.iter().filter(|(_, ended)| !**ended);
        violations.extend(open.map(|(attempt, _)| format!("attempt {attempt} never ended")));
        violations
    }

    /// A policy that runs `steps` commands and then submits.
    #[must_use]
    pub fn submits_after(steps: u32) -> Self {
        Self::new(move |request| if request.turn < steps { Reply::run("true") } else { Reply::submit() })
    }
}

impl Policy for ScriptedPolicy {
    fn name(&self) -> &str {
        "scripted"
    }

    fn act<'a>(&'a self, request: PolicyRequest<'a>) -> BoxFuture<'a, Result<Action, Fault>> {
        let attempt = request.attempt;
        if *locked(&self.ended).entry(attempt).or_insert(false) {
            locked(&self.violations).push(format!("attempt {attempt} asked after its end"));
        }
        Box::pin(async move {
            match (self.reply)(&request) {
                Reply::Act(action) => Ok(action),
                Reply::ActAfter(time, action) => {
                    tokio::time::sleep(time).await; // timer: thinking takes as long as the script says
                    Ok(action)
                }
                Reply::Fault(fault) => Err(fault),
                Reply::Panic => panic!("as the script says"),
                Reply::Hang => pending().await,
            }
        })
    }
    fn attempt_ended(&self, attempt: AttemptId) {
        if locked(&self.ended).insert(attempt, true) == Some(true) {
            locked(&self.violations).push(format!("attempt {attempt} ended twice"));
        }
    }
}

/// The state after a panic is still valid.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
