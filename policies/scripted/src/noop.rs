//! The policy that does nothing. A task that it passes has checks that prove nothing.

use clawrl_core::{Action, BoxFuture, Fault, Policy, PolicyRequest};

use crate::script::{action_with_raw_text, submit_call};

/// Submits at once.
#[derive(Debug, Clone, Copy, Default)]
pub struct Noop;

impl Policy for Noop {
    fn name(&self) -> &str {
        "noop"
    }

    fn act<'a>(&'a self, request: PolicyRequest<'a>) -> BoxFuture<'a, Result<Action, Fault>> {
        Box::pin(std::future::ready(Ok(action_with_raw_text(submit_call(), request.tools))))
    }
}
