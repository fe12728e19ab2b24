//! Parses an OpenAI chat completion request into ClawRL's messages and tools.
//!
//! I1. Unsupported features are refused by name, never ignored silently. Sampling parameters (`temperature`, `top_p`,
//! `max_tokens`, `seed`, `stop` and the like) are ignored, because the policy defines sampling. I2. Unknown fields are ignored.

use clawrl_core::openai::{text_messages, usable_tools};
use clawrl_core::{Message, ToolSpec, read_json, utf8_text};
use serde_json::{Map, Value, json};

/// A parsed request.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Completion {
    pub(super) messages: Vec<Message>,
    pub(super) tools: Vec<ToolSpec>,
    pub(super) stream: bool,
    pub(super) wants_usage: bool,
}

/// Reads a request.
///
/// # Errors
/// The request is invalid; the message is for its sender.
pub(super) fn read(bytes: &[u8]) -> Result<Completion, String> {
    let no_request = |why: String| format!("this is no request: {why}");
    let text = utf8_text(bytes).map_err(|error| no_request(error.to_string()))?;
    let body: Map<String, Value> = read_json(&text).map_err(|error| no_request(error.to_string()))?;
    refuse(&body)?;
    let messages = text_messages(&body).map_err(|error| error.to_string())?;
    let tools = usable_tools(&body).map_err(|error| error.to_string())?;
    let flag = |value: &Value| match value {
        Value::Null => Ok(false),
        value => value.as_bool().ok_or_else(|| no_request("`stream` is not true or false".to_owned())),
    };
    let stream = body.get("stream").map_or(Ok(false), flag)?;
    let wants_usage = body.get("stream_options").is_some_and(|options| options["include_usage"] == true);
    Ok(Completion { messages, tools, stream, wants_usage })
}

/// Refuses unsupported features (I1).
fn refuse(rest: &Map<String, Value>) -> Result<(), String> {
    let said = |name: &str| rest.get(name).filter(|value| !value.is_null());
    let is_had = |name: &str, value: &Value| match name {
        "n" => value == 1,
        "tool_choice" => value == "auto" || value == "none",
        "response_format" => value["type"] == "text",
        "logprobs" => value == false,
        "modalities" => *value == json!(["text"]),
        _ => false,
    };
    let choosy = ["n", "tool_choice", "response_format", "logprobs", "modalities", "functions", "audio"];
    for name in choosy {
        if let Some(value) = said(name).filter(|value| !is_had(name, value)) {
            return Err(format!(
                "`{name}` cannot be {value} here: the model is asked for one text with calls"
            ));
        }
    }
    let tools = said("tools").and_then(Value::as_array).into_iter().flatten();
    for (index, tool) in tools.enumerate() {
        let is_function = tool["type"].is_null() || tool["type"] == "function";
        let function = tool.get("function").unwrap_or(tool);
        if !is_function || !function["name"].is_string() {
            return Err(format!("tools[{index}] cannot be used here: it is not a function with a name"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clawrl_core::Role;

    use super::*;

    fn check(body: Value, expected: Result<&Completion, &str>) {
        match (read(body.to_string().as_bytes()), expected) {
            (Ok(found), Ok(expected)) => assert_eq!(&found, expected, "{body}"),
            (Err(why), Err(part)) => assert!(why.contains(part), "{body}: {why}"),
            (found, expected) => panic!("{body}: {found:?}, not {expected:?}"),
        }
    }

    fn plain() -> Completion {
        let messages = vec![Message::text(Role::User, "hi")];
        Completion { messages, tools: Vec::new(), stream: false, wants_usage: false }
    }

    #[test]
    fn requests_are_messages_and_tools() {
        let user = json!({"role": "user", "content": "hi"});
        check(json!({"messages": [user], "model": "any", "temperature": 0.3, "n": 1}), Ok(&plain()));
        let parts = json!({"role": "user", "content": [{"type": "text", "text": "hi"}]});
        check(json!({"messages": [parts], "tools": null, "logprobs": false}), Ok(&plain()));
        let asked = json!({"messages": [user], "stream": true, "stream_options": {"include_usage": true}});
        check(asked, Ok(&Completion { stream: true, wants_usage: true, ..plain() }));
        let call =
            json!({"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{\"a\":1}"}});
        let body = json!({"messages": [
            {"role": "developer", "content": "Be brief."},
            {"role": "assistant", "content": null, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": ""},
        ], "tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": "auto"});
        let found = read(body.to_string().as_bytes()).unwrap();
        assert_eq!(found.messages[0], Message::text(Role::System, "Be brief."));
        assert_eq!(found.messages[1].tool_calls[0].arguments, json!({"a": 1}));
        assert_eq!(found.messages[2].tool_call_id.as_deref(), Some("c1"));
        assert_eq!(found.tools[0].parameters["type"], "object");
    }

    #[test]
    fn half_a_character_ends_no_conversation() {
        let body = br#"{"messages": [{"role": "user", "content": "cut \ud83d"}, {"role": "assistant", "content": null,
            "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "{\"x\": \"\\ude00\"}"}}]}], "unknown": "\ud83d"}"#;
        let found = read(body).unwrap();
        assert_eq!(found.messages[0], Message::text(Role::User, "cut \u{fffd}"));
        assert_eq!(found.messages[1].tool_calls[0].arguments, json!({"x": "\u{fffd}"}));
    }

    #[test]
    fn i1_what_cannot_be_had_is_refused() {
        let with = |name: &str, value: Value| {
            let mut body = json!({"messages": [{"role": "user", "content": "hi"}]});
            body[name] = value;
            body
        };
        check(with("n", json!(2)), Err("`n` cannot be 2 here"));
        check(with("tool_choice", json!("required")), Err("`tool_choice`"));
        check(with("tools", json!([{"type": "web_search"}])), Err("tools[0] cannot be used here"));
        let custom = json!([{"function": {"name": "f"}}, {"type": "custom", "name": "patch"}]);
        check(with("tools", custom), Err("tools[1] cannot be used here"));
        check(with("response_format", json!({"type": "json_object"})), Err("`response_format`"));
        check(with("messages", json!([])), Err("`messages` is empty"));
        check(with("messages", json!([{"role": "robot"}])), Err("the role `robot` is unknown"));
        let image = json!([{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]);
        check(with("messages", image), Err("content of type `image_url` is not supported"));
        assert!(read(b"{").unwrap_err().starts_with("this is no request"));
    }
}
