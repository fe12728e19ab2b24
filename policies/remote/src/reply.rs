//! A reply in the form common to both dialects.

use clawrl_core::{FinishReason, SampledTokens, ToolCall, read_json};
use serde_json::Value;

use crate::partial_calls::PartialCall;
use crate::trouble::Trouble;

/// Maximum bytes of text, call arguments and reasoning together.
pub(crate) const MAX_REPLY_BYTES: usize = 16 << 20;

/// Maximum number of calls in one reply.
pub(crate) const MAX_CALLS: usize = 128;

/// A whole reply.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Reply {
    pub(crate) text: String,
    pub(crate) calls: Vec<ToolCall>,
    pub(crate) finish: FinishReason,
    pub(crate) tokens: Option<SampledTokens>,
    pub(crate) reported: Reported,
    /// Bytes that the model wrote, those of reasoning included.
    pub(crate) written_bytes: usize,
    pub(crate) notes: Vec<&'static str>,
}

/// Kind of a stream event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heard {
    /// Not part of the reply: a keep-alive.
    KeepAlive,
    /// A part of the reply.
    Part,
    /// The end of the reply.
    End,
}

/// Token counts as the server reports them.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Reported {
    pub(crate) input: Figure,
    pub(crate) cached: Figure,
    pub(crate) output: Figure,
}

/// A number that a server reported.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Figure {
    /// The server reported none.
    #[default]
    Missing,
    /// The server reported a value that is not a count.
    Nonsense,
    Count(u64),
}

impl Figure {
    pub(crate) fn of(value: Option<&Value>) -> Self {
        match value {
            None | Some(Value::Null) => Self::Missing,
            Some(value) => value.as_u64().map_or(Self::Nonsense, Self::Count),
        }
    }

    /// The sum; a missing figure counts as 0 beside a reported one.
    pub(crate) fn plus(self, other: Self) -> Self {
        match (self, other) {
            (Self::Nonsense, _) | (_, Self::Nonsense) => Self::Nonsense,
            (Self::Missing, other) | (other, Self::Missing) => other,
            (Self::Count(one), Self::Count(two)) => Self::Count(one.saturating_add(two)),
        }
    }
}

/// A call that has come. Arguments that are not JSON stay text; the action parser then rejects them with a message to the
/// policy. A call without id gets one that is unique in its conversation, since results refer to calls by id.
pub(crate) fn tool_call(call: PartialCall, turn: u32, position: usize) -> ToolCall {
    let arguments = match call.arguments.trim() {
        "" | "null" => Value::Object(serde_json::Map::new()),
        text => read_json(text).unwrap_or_else(|_| Value::String(call.arguments.clone())),
    };
    let id = if call.id.is_empty() { format!("call_{turn}_{position}") } else { call.id };
    ToolCall { id, name: call.name, arguments }
}

/// The arguments of an earlier call in a form that servers can parse; they refuse a conversation with invalid arguments.
pub(crate) fn sendable_arguments(arguments: &Value) -> Value {
    match arguments {
        Value::Object(_) => arguments.clone(),
        other => serde_json::json!({ "malformed_arguments": other }),
    }
}

/// Keeps a reply within bounds.
pub(crate) fn check_size(written_bytes: usize, calls: usize) -> Result<(), Trouble> {
    if written_bytes > MAX_REPLY_BYTES || calls > MAX_CALLS {
        return Err(Trouble::too_large("reply"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_that_are_no_json_stay_text() {
        let call = |arguments: &str| {
            let call = PartialCall { arguments: arguments.to_owned(), ..PartialCall::default() };
            tool_call(call, 7, 2)
        };
        assert_eq!(call("").arguments, json!({}));
        assert_eq!(call("null").arguments, json!({}));
        assert_eq!(call(r#"{"a":"\ud83d"}"#).arguments, json!({"a": "\u{fffd}"}));
        assert_eq!(call(r#"{"a":1}"#).arguments, json!({"a": 1}));
        assert_eq!(call(r#"{"a":"#).arguments, json!(r#"{"a":"#));
        assert_eq!(call("").id, "call_7_2");
        let sent = sendable_arguments(&call(r#"{"a":"#).arguments);
        assert_eq!(sent, json!({"malformed_arguments": r#"{"a":"#}));
    }

    #[test]
    fn figures() {
        let check =
            |value: Value, expected: Figure| assert_eq!(Figure::of(Some(&value)), expected, "{value}");
        check(json!(3), Figure::Count(3));
        check(json!(null), Figure::Missing);
        check(json!(-3), Figure::Nonsense);
        check(json!(1.5), Figure::Nonsense);
        check(json!("3"), Figure::Nonsense);
        assert_eq!(Figure::Count(3).plus(Figure::Missing), Figure::Count(3));
        assert_eq!(Figure::Count(3).plus(Figure::Nonsense), Figure::Nonsense);
    }
}
