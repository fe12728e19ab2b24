//! Policies of this process.

use std::sync::Arc;

use clawrl_core::{Action, BoxFuture, Fault, Message, Policy, PolicyRequest};

struct PolicyFn<F> {
    name: String,
    reply: F,
}

/// A policy that computes its reply from the conversation, for baselines and tests. `reply` must not block; a policy that calls a
/// model implements [`Policy`].
pub fn policy_fn(
    name: impl Into<String>,
    reply: impl Fn(&[Message]) -> String + Send + Sync + 'static,
) -> Arc<dyn Policy> {
    Arc::new(PolicyFn { name: name.into(), reply })
}

impl<F: Fn(&[Message]) -> String + Send + Sync> Policy for PolicyFn<F> {
    fn name(&self) -> &str {
        &self.name
    }

    fn act<'a>(&'a self, request: PolicyRequest<'a>) -> BoxFuture<'a, Result<Action, Fault>> {
        let text = (self.reply)(request.conversation);
        Box::pin(std::future::ready(Ok(Action { text, ..Action::default() })))
    }
}
