//! Replies of policies.

use serde::{Deserialize, Serialize};

use crate::{ToolCall, Usage};

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
    /// Usage, if the policy reports it.
    pub usage: Option<Usage>,
}

impl Action {
    /// A reply with one tool call and no text.
    #[must_use]
    pub fn call(call: ToolCall) -> Self {
        Self { tool_calls: vec![call], ..Self::default() }
    }
}
