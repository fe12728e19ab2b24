//! Messages and tools of a chat request as the policy is shown them.
//!
//! I1. What the client sends is content: none of it becomes markup. I2. Calls of earlier answers are written as the policy writes its own.
//! I3. What the policy cannot be shown, such as pictures, is refused by name. I4. Reasoning of earlier answers is not shown again.
//!
//! The body has been read by the gateway before, so what is missing here is as good as empty.

use clawrl_core::{Message, Role, ToolCall, ToolSpec, hermes_text};
use clawrl_gateway::BackendError;
use serde_json::{Map, Value, json};

/// The messages, in order.
pub(crate) fn messages(body: &Map<String, Value>) -> Result<Vec<Message>, BackendError> {
    let written = body.get("messages").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    written.iter().enumerate().map(|(at, message)| self::message(at, message)).collect()
}

/// The tools, unless the client wants none used.
pub(super) fn tools(body: &Map<String, Value>) -> Vec<ToolSpec> {
    if body.get("tool_choice").is_some_and(|choice| choice == "none") {
        return Vec::new();
    }
    let written = body.get("tools").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let functions = written.iter().map(|tool| tool.get("function").unwrap_or(tool));
    let tool = |function: &Value| {
        let name = function["name"].as_str()?.to_owned();
        let description = function["description"].as_str().unwrap_or_default().to_owned();
        let parameters = function.get("parameters").cloned().unwrap_or_else(|| json!({"type": "object"}));
        Some(ToolSpec { name, description, parameters, text_argument: None })
    };
    functions.filter_map(tool).collect()
}

fn message(at: usize, written: &Value) -> Result<Message, BackendError> {
    let role = match written["role"].as_str() {
        Some("system" | "developer") => Role::System,
        Some("assistant") => Role::Assistant,
        Some("tool" | "function") => Role::Tool,
        _ => Role::User,
    };
    let mut text = text(at, &written["content"])?;
    if role == Role::Assistant {
        let calls = calls(&written["tool_calls"]);
        if !calls.is_empty() {
            let between = if text.is_empty() { "" } else { "\n" };
            text = format!("{text}{between}{}", hermes_text(&calls));
        }
    }
    Ok(Message::text(role, text))
}

fn text(at: usize, content: &Value) -> Result<String, BackendError> {
    let parts = match content {
        Value::String(text) => return Ok(text.clone()),
        Value::Array(parts) => parts,
        _ => return Ok(String::new()),
    };
    let mut texts = Vec::new();
    for part in parts {
        match part["type"].as_str() {
            Some("text" | "input_text" | "output_text" | "refusal") => {
                let text = part.get("text").or_else(|| part.get("refusal")).and_then(Value::as_str);
                texts.push(text.unwrap_or_default());
            }
            other => {
                let kind = other.unwrap_or("nameless");
                let message =
                    format!("`messages[{at}]` has a part of type `{kind}`, and this model reads text alone");
                return Err(BackendError::Refused { field: "messages", message });
            }
        }
    }
    Ok(texts.join("\n"))
}

fn calls(written: &Value) -> Vec<ToolCall> {
    let call = |call: &Value| {
        let function = &call["function"];
        let arguments = match &function["arguments"] {
            // What is no JSON was said all the same.
            Value::String(written) => {
                serde_json::from_str(written).unwrap_or_else(|_| written.as_str().into())
            }
            other => other.clone(),
        };
        ToolCall::new(function["name"].as_str().unwrap_or_default(), arguments)
    };
    written.as_array().into_iter().flatten().map(call).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(messages: Value, expected: Result<&[(Role, &str)], &str>) {
        let body = json!({"messages": messages});
        let got = super::messages(body.as_object().unwrap());
        match (got, expected) {
            (Ok(got), Ok(expected)) => {
                let got: Vec<(Role, String)> =
                    got.iter().map(|message| (message.role, message.joined_text())).collect();
                let expected: Vec<(Role, String)> =
                    expected.iter().map(|(role, text)| (*role, (*text).to_owned())).collect();
                assert_eq!(got, expected);
            }
            (Err(error), Err(expected)) => assert_eq!(error.to_string(), expected),
            (got, expected) => panic!("{got:?} instead of {expected:?}"),
        }
    }

    #[test]
    fn roles_and_parts() {
        check(
            json!([
                {"role": "developer", "content": "Be kind."},
                {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
                {"role": "assistant", "content": null, "reasoning_content": "hm"},
            ]),
            Ok(&[(Role::System, "Be kind."), (Role::User, "a\nb"), (Role::Assistant, "")]),
        );
        let picture =
            json!([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:"}}]}]);
        let refusal = "`messages[0]` has a part of type `image_url`, and this model reads text alone";
        check(picture, Err(refusal));
    }

    #[test]
    fn earlier_calls_are_written_as_the_policy_writes_them() {
        let call = |arguments: &str| {
            json!({"role": "assistant", "content": "Look:", "tool_calls": [
                {"id": "1", "type": "function", "function": {"name": "read", "arguments": arguments}}]})
        };
        let element =
            "Look:\n<tool_call>\n{\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}\n</tool_call>";
        check(
            json!([call("{\"path\":\"a\"}"), {"role": "tool", "tool_call_id": "1", "content": "x"}]),
            Ok(&[(Role::Assistant, element), (Role::Tool, "x")]),
        );
        let odd = "Look:\n<tool_call>\n{\"name\": \"read\", \"arguments\": \"{path\"}\n</tool_call>";
        check(json!([call("{path")]), Ok(&[(Role::Assistant, odd)]));
    }

    #[test]
    fn tools_are_what_the_client_offers() {
        let tool = json!({"type": "function", "function": {"name": "now", "description": "Time."}});
        let body = json!({"tools": [tool, {"type": "other"}]});
        let tools = super::tools(body.as_object().unwrap());
        let [now] = tools.as_slice() else { panic!("{tools:?}") };
        assert_eq!((now.name.as_str(), now.description.as_str()), ("now", "Time."));
        let none = json!({"tools": [tool], "tool_choice": "none"});
        assert_eq!(super::tools(none.as_object().unwrap()), []);
    }
}
