//! A policy that draws its actions from a list: a floor for any other, and a fuzzer for environments.

use clawrl_core::{
    Action, ActionFormat, BoxFuture, Fault, Policy, PolicyRequest, SplitMix64, derive_seed, parse_calls,
};

/// Draws each action from a list of lines with the request's seed, with equal probability.
///
/// A line is parsed as a raw action regardless of the task's format: `ls -l` runs, `submit` ends the episode. A
/// line that is not a raw action is sent as text, so a list may contain malformed replies, too. Repeat a
/// line to raise its weight.
#[derive(Debug, Clone)]
pub struct Random {
    lines: Vec<String>,
}

impl Random {
    /// `None` for an empty list.
    #[must_use]
    pub fn new(lines: Vec<String>) -> Option<Self> {
        (!lines.is_empty()).then_some(Self { lines })
    }

    fn draw(&self, request: &PolicyRequest<'_>) -> Action {
        let bound = self.lines.len() as u64;
        let index = SplitMix64::new(derive_seed(request.seed, "random", &[])).below(bound) as usize;
        let text = self.lines[index].clone();
        let tool_calls = parse_calls(&text, &[], ActionFormat::Raw, request.tools).unwrap_or_default();
        Action { text, tool_calls, ..Action::default() }
    }
}

impl Policy for Random {
    fn name(&self) -> &str {
        "random"
    }

    fn act<'a>(&'a self, request: PolicyRequest<'a>) -> BoxFuture<'a, Result<Action, Fault>> {
        Box::pin(std::future::ready(Ok(self.draw(&request))))
    }
}
