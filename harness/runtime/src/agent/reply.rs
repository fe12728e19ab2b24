//! Writes a model's reply as a chat completion response.
//!
//! I1. Equal replies to equal requests give equal responses except for timestamps: ids are derived from the request.

use std::time::{SystemTime, UNIX_EPOCH};

use clawrl_core::openai::{call_json, finish_reason};
use clawrl_core::{Action, ToolCall, stable_hash};
use serde_json::{Value, json};

use super::completion::Completion;

/// The model name in responses.
pub(super) const MODEL: &str = "clawrl";

/// Gives ids to calls for which the model gave none (I1).
pub(super) fn name_calls(asked: &Completion, said: &mut Action) {
    for (index, call) in said.tool_calls.iter_mut().enumerate().filter(|(_, call)| call.id.is_empty()) {
        call.id = format!("call_{:016x}_{index}", digest(asked));
    }
}

/// The response as one object.
pub(super) fn whole(asked: &Completion, said: &Action) -> Value {
    let mut message = json!({ "role": "assistant", "content": content(said) });
    if !said.tool_calls.is_empty() {
        message["tool_calls"] = calls(said, false);
    }
    let choice = json!({ "index": 0, "message": message, "finish_reason": finish(said) });
    let mut answer = envelope(asked, "chat.completion");
    answer["choices"] = json!([choice]);
    answer["usage"] = usage(said);
    answer
}

/// The response as server-sent events.
pub(super) fn events(asked: &Completion, said: &Action) -> String {
    let chunk = |choices: Value, usage: Option<Value>| {
        let mut chunk = envelope(asked, "chat.completion.chunk");
        chunk["choices"] = choices;
        if asked.wants_usage {
            chunk["usage"] = usage.unwrap_or_default();
        }
        format!("data: {chunk}\n\n")
    };
    let delta = |delta: Value, finish: Option<&str>| {
        chunk(json!([{ "index": 0, "delta": delta, "finish_reason": finish }]), None)
    };
    let mut text = delta(json!({ "role": "assistant", "content": content(said) }), None);
    if !said.tool_calls.is_empty() {
        text += &delta(json!({ "tool_calls": calls(said, true) }), None);
    }
    text += &delta(json!({}), Some(finish(said)));
    if asked.wants_usage {
        text += &chunk(json!([]), Some(usage(said)));
    }
    text + "data: [DONE]\n\n"
}

fn envelope(asked: &Completion, object: &str) -> Value {
    let created = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let id = format!("chatcmpl-{:016x}", digest(asked));
    json!({ "id": id, "object": object, "created": created, "model": MODEL })
}

/// A hash of the request, for ids (I1).
fn digest(asked: &Completion) -> u64 {
    stable_hash(json!([asked.messages, asked.tools]).to_string().as_bytes())
}

fn content(said: &Action) -> Value {
    match (said.text.is_empty(), said.tool_calls.is_empty()) {
        (true, false) => Value::Null,
        _ => json!(said.text),
    }
}

fn calls(said: &Action, indexed: bool) -> Value {
    let call = |(index, call): (usize, &ToolCall)| {
        let arguments = match &call.arguments {
            Value::String(text) => text.clone(),
            arguments => arguments.to_string(),
        };
        let mut call = call_json(&call.id, &call.name, &arguments);
        if indexed {
            call["index"] = json!(index);
        }
        call
    };
    said.tool_calls.iter().enumerate().map(call).collect()
}

fn finish(said: &Action) -> &'static str {
    finish_reason(said.finish, !said.tool_calls.is_empty())
}

fn usage(said: &Action) -> Value {
    let (input, cached, output) = said
        .usage
        .as_ref()
        .map_or((0, 0, 0), |usage| (usage.input_tokens, usage.cached_tokens, usage.output_tokens));
    json!({
        "prompt_tokens": input,
        "completion_tokens": output,
        "total_tokens": input.saturating_add(output),
        "prompt_tokens_details": { "cached_tokens": cached },
    })
}

#[cfg(test)]
mod tests {
    use clawrl_core::{Message, Role};

    use super::*;

    fn asked(wants_usage: bool) -> Completion {
        let messages = vec![Message::text(Role::User, "hi")];
        Completion { messages, tools: Vec::new(), stream: wants_usage, wants_usage }
    }

    #[test]
    fn answers_have_the_form_that_clients_read() {
        let said = Action { text: "hello".to_owned(), ..Action::default() };
        let answer = whole(&asked(false), &said);
        assert_eq!(answer["choices"][0]["message"], json!({ "role": "assistant", "content": "hello" }));
        assert_eq!(
            (&answer["choices"][0]["finish_reason"], &answer["usage"]["total_tokens"]),
            (&json!("stop"), &json!(0))
        );
        let said = Action::call(ToolCall::new("run", json!({ "a": 1 })));
        let answer = whole(&asked(false), &said);
        let message = &answer["choices"][0]["message"];
        assert_eq!(
            (&message["content"], &message["tool_calls"][0]["function"]["arguments"]),
            (&Value::Null, &json!("{\"a\":1}"))
        );
        assert_eq!(answer["choices"][0]["finish_reason"], "tool_calls");
    }

    #[test]
    fn i1_ids_follow_from_what_was_asked() {
        let id = |text: &str| {
            let asked = Completion { messages: vec![Message::text(Role::User, text)], ..asked(false) };
            let mut said = Action::call(ToolCall::new("run", json!({})));
            name_calls(&asked, &mut said);
            whole(&asked, &said)["choices"][0]["message"]["tool_calls"][0]["id"].clone()
        };
        assert_eq!(id("a"), id("a"));
        assert_ne!(id("a"), id("b"));
    }

    #[test]
    fn events_end_and_say_what_it_took_where_that_is_wanted() {
        let said = Action::call(ToolCall::new("run", json!({})));
        let text = events(&asked(true), &said);
        let chunks: Vec<Value> = text
            .split("\n\n")
            .filter_map(|event| event.strip_prefix("data: ").filter(|data| *data != "[DONE]"))
            .map(|data| serde_json::from_str(data).unwrap())
            .collect();
        assert!(text.ends_with("data: [DONE]\n\n"));
        assert_eq!(chunks.len(), 4);
        assert_eq!(chunks[1]["choices"][0]["delta"]["tool_calls"][0]["index"], 0);
        assert_eq!(chunks[2]["choices"][0]["finish_reason"], "tool_calls");
        assert_eq!(chunks[3]["usage"]["prompt_tokens"], 0);
    }
}
