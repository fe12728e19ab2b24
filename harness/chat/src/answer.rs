//! A streamed answer, assembled chunk by chunk.
//!
//! I1. The result does not depend on how the answer was split into chunks; tool calls are assembled for every known
//! server. I2. An answer is complete only if the server sent a finish reason. Chunks of choices other than the first
//! are ignored, as are unused fields.
//!
//! Source: the reference of OpenAI's API. Deviations: reasoning comes as `reasoning_content` (DeepSeek, vLLM, ClawRL) or `reasoning` (Ollama);
//! the arguments of a call may be an object.

use clawrl_remote::{PartialCall, PartialCalls};
use serde_json::{Value, json};

/// Result of every tool call; servers refuse further messages without one.
const NOT_RUN: &str = "This client has no tools: the call was not run.";

/// The part of an answer that has arrived.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Answer {
    /// The server's id of the answer.
    pub(super) id: Option<String>,
    /// The model that answers.
    pub(super) model: Option<String>,
    pub(super) text: String,
    pub(super) reasoning: String,
    pub(super) calls: PartialCalls,
    /// `stop`, `length`, `tool_calls`, `content_filter`.
    pub(super) finish: Option<String>,
    pub(super) usage: Option<Value>,
    /// Version of the policy, if the server is `clawrl serve`.
    pub(super) version: Option<u64>,
}

/// New text to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    Reasoning(String),
    Text(String),
}

impl Answer {
    /// Adds a chunk or a complete answer, and returns the new parts to show.
    pub(super) fn take(&mut self, chunk: &Value) -> Vec<Part> {
        let word = |field: &str| chunk[field].as_str().filter(|word| !word.is_empty()).map(str::to_owned);
        self.id = self.id.take().or_else(|| word("id"));
        self.model = self.model.take().or_else(|| word("model"));
        let version = || chunk["system_fingerprint"].as_str()?.strip_prefix('v')?.parse().ok();
        self.version = self.version.or_else(version);
        if chunk["usage"].is_object() {
            self.usage = Some(chunk["usage"].clone());
        }
        let choices = chunk["choices"].as_array().into_iter().flatten();
        let mut parts = Vec::new();
        for choice in choices.filter(|choice| choice["index"].as_u64().unwrap_or_default() == 0) {
            let delta = choice.get("delta").or_else(|| choice.get("message")).unwrap_or(&Value::Null);
            parts.extend(self.delta(delta));
            if let Some(finish) = choice["finish_reason"].as_str() {
                self.finish = Some(finish.to_owned());
            }
        }
        parts
    }

    fn delta(&mut self, delta: &Value) -> Vec<Part> {
        let text = |field: &str| delta[field].as_str().filter(|text| !text.is_empty());
        let mut parts = Vec::new();
        if let Some(reasoning) = text("reasoning_content").or_else(|| text("reasoning")) {
            self.reasoning += reasoning;
            parts.push(Part::Reasoning(reasoning.to_owned()));
        }
        if let Some(text) = text("content") {
            self.text += text;
            parts.push(Part::Text(text.to_owned()));
        }
        for piece in delta["tool_calls"].as_array().into_iter().flatten() {
            self.calls.take(piece);
        }
        parts
    }

    /// Tool calls, each with an id, which its result needs.
    pub(super) fn calls(&self) -> Vec<PartialCall> {
        let named = |(place, call): (usize, PartialCall)| match call.id.is_empty() {
            true => PartialCall { id: format!("call_{place}"), ..call },
            false => call,
        };
        self.calls.all().into_iter().enumerate().map(named).collect()
    }

    /// Whether the answer is complete (I2).
    pub(super) fn is_whole(&self) -> bool {
        self.finish.is_some()
    }

    /// The messages to add to the conversation: the answer and a result for each call, which servers require.
    pub(super) fn messages(&self) -> Vec<Value> {
        let mut own = json!({"role": "assistant", "content": self.text});
        let calls = self.calls();
        if calls.is_empty() {
            return vec![own];
        }
        own["tool_calls"] = calls.iter().map(call_json).collect();
        let results =
            calls.iter().map(|call| json!({"role": "tool", "tool_call_id": call.id, "content": NOT_RUN}));
        std::iter::once(own).chain(results).collect()
    }
}

/// A tool call in OpenAI's format.
pub(super) fn call_json(call: &PartialCall) -> Value {
    let PartialCall { id, name, arguments } = call;
    json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(chunks: &[Value]) -> (Answer, Vec<Part>) {
        let mut answer = Answer::default();
        let parts = chunks.iter().flat_map(|chunk| answer.take(chunk)).collect();
        (answer, parts)
    }

    fn delta(delta: Value) -> Value {
        json!({"id": "chatcmpl-7", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": null}], "usage": null})
    }

    #[test]
    fn an_answer_in_chunks() {
        let finish = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
        let usage = json!({"choices": [], "usage": {"total_tokens": 5}});
        let other =
            json!({"choices": [{"index": 1, "delta": {"content": "not this"}, "finish_reason": "length"}]});
        let chunks = [
            delta(json!({"role": "assistant", "content": ""})),
            delta(json!({"reasoning_content": "hm"})),
            delta(json!({"reasoning": "m", "content": null})),
            other,
            delta(json!({"content": "Hel"})),
        ];
        let (answer, parts) = taken(&chunks);
        assert!(!answer.is_whole());
        let text = |text: &str| Part::Text(text.to_owned());
        let reasoning = |text: &str| Part::Reasoning(text.to_owned());
        assert_eq!(parts, [reasoning("hm"), reasoning("m"), text("Hel")]);
        let (answer, _) =
            taken(&[chunks.as_slice(), &[delta(json!({"content": "lo"})), finish, usage]].concat());
        assert!(answer.is_whole());
        assert_eq!((answer.text.as_str(), answer.reasoning.as_str()), ("Hello", "hmm"));
        assert_eq!((answer.id.as_deref(), answer.model.as_deref()), (Some("chatcmpl-7"), Some("m")));
        assert_eq!(answer.usage, Some(json!({"total_tokens": 5})));
        // Reasoning is not added to the conversation.
        assert_eq!(answer.messages(), [json!({"role": "assistant", "content": "Hello"})]);
    }

    #[test]
    fn calls_in_pieces_and_whole() {
        let check = |pieces: &[Value], expected: &[(&str, &str, &str)]| {
            let chunks: Vec<Value> =
                pieces.iter().map(|piece| delta(json!({"tool_calls": [piece]}))).collect();
            let (answer, _) = taken(&chunks);
            let calls = answer.calls();
            let calls: Vec<_> = calls
                .iter()
                .map(|call| (call.id.as_str(), call.name.as_str(), call.arguments.as_str()))
                .collect();
            assert_eq!(calls, expected);
        };
        let begun = json!({"index": 0, "id": "a", "function": {"name": "f", "arguments": "{\"x\""}});
        let more = json!({"index": 0, "function": {"arguments": ": 1}"}});
        let next = json!({"index": 1, "id": "b", "function": {"name": "g", "arguments": {"y": 2}}});
        check(&[begun.clone(), more, next], &[("a", "f", "{\"x\": 1}"), ("b", "g", "{\"y\":2}")]);
        // All with index 0, then without indices.
        let second = json!({"index": 0, "id": "b", "function": {"name": "g", "arguments": "{}"}});
        check(&[begun, second], &[("a", "f", "{\"x\""), ("b", "g", "{}")]);
        let bare = json!({"function": {"name": "h", "arguments": "{}"}});
        check(&[bare.clone(), bare], &[("call_0", "h", "{}"), ("call_1", "h", "{}")]);
        // A new id and the name in every piece.
        let more = json!({"index": 0, "id": "c", "function": {"name": "f", "arguments": ": 1}"}});
        let begun = json!({"index": 0, "id": "a", "function": {"name": "f", "arguments": "{\"x\""}});
        check(&[begun, more], &[("a", "f", "{\"x\": 1}")]);
    }

    #[test]
    fn an_answer_that_comes_whole() {
        let call = json!({"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}});
        let message = json!({"role": "assistant", "content": null, "tool_calls": [call]});
        let whole =
            json!({"id": "x", "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]});
        let (answer, parts) = taken(&[whole]);
        assert!(answer.is_whole() && parts.is_empty());
        let own = json!({"role": "assistant", "content": "", "tool_calls": [call]});
        let result = json!({"role": "tool", "tool_call_id": "a", "content": NOT_RUN});
        assert_eq!(answer.messages(), [own, result]);
    }

    #[test]
    fn nonsense_is_passed_over() {
        for chunk in [json!(null), json!([1]), json!({"choices": 3}), json!({"choices": [{"delta": "x"}]})] {
            assert_eq!(taken(std::slice::from_ref(&chunk)), (Answer::default(), Vec::new()), "{chunk}");
        }
    }
}
