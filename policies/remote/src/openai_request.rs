//! A conversation as a request for a chat completion.

use clawrl_core::{Message, Part, RemoteSpec, Role, ToolSpec};
use serde_json::{Map, Value, json};

use crate::reply::sendable_arguments;
use crate::tokens;

/// What is asked.
pub(crate) struct Asked<'a> {
    pub(crate) system: Option<String>,
    pub(crate) messages: &'a [Message],
    /// Tools in the server's own form; empty for none.
    pub(crate) tools: &'a [ToolSpec],
    pub(crate) seed: u64,
}

/// An image, which no dialect here can send: policies do not get its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ImageInside;

/// The body of the request.
pub(crate) fn body(settings: &RemoteSpec, asked: &Asked<'_>) -> Result<Map<String, Value>, ImageInside> {
    let sampling = &settings.sampling;
    let mut messages: Vec<Value> = Vec::with_capacity(asked.messages.len() + 1);
    if let Some(text) = &asked.system {
        messages.push(json!({ "role": "system", "content": text }));
    }
    for message in asked.messages {
        messages.push(written(message)?);
    }
    let mut body = settings.body.clone();
    let mut set = |key: &str, value: Value| body.insert(key.to_owned(), value);
    set("model", json!(settings.model));
    set("messages", Value::Array(messages));
    set(sampling.max_tokens_field.name(), json!(sampling.max_tokens));
    set("stream", json!(settings.stream));
    if settings.stream {
        set("stream_options", json!({ "include_usage": true }));
    }
    if let Some(milli) = sampling.temperature_milli {
        set("temperature", json!(f64::from(milli) / 1_000.0));
    }
    if let Some(milli) = sampling.top_p_milli {
        set("top_p", json!(f64::from(milli) / 1_000.0));
    }
    if !sampling.stop.is_empty() {
        set("stop", json!(sampling.stop));
    }
    if sampling.seed {
        // Servers keep it in 32 bits with a sign.
        set("seed", json!(asked.seed >> 33));
    }
    if !asked.tools.is_empty() {
        set("tools", asked.tools.iter().map(tool).collect());
    }
    if let Some(source) = settings.exact_tokens {
        tokens::ask(source, &mut body);
    }
    Ok(body)
}

fn tool(tool: &ToolSpec) -> Value {
    let ToolSpec { name, description, parameters, .. } = tool;
    let function = json!({ "name": name, "description": description, "parameters": parameters });
    json!({ "type": "function", "function": function })
}

fn written(message: &Message) -> Result<Value, ImageInside> {
    let text = text_of(message)?;
    Ok(match message.role {
        Role::System => json!({ "role": "system", "content": text }),
        Role::User => json!({ "role": "user", "content": text }),
        Role::Tool => {
            let id = message.tool_call_id.as_deref().unwrap_or_default();
            json!({ "role": "tool", "tool_call_id": id, "content": text })
        }
        Role::Assistant if message.tool_calls.is_empty() => json!({ "role": "assistant", "content": text }),
        Role::Assistant => {
            let calls: Vec<Value> = message
                .tool_calls
                .iter()
                .map(|call| {
                    let arguments = sendable_arguments(&call.arguments).to_string();
                    let function = json!({ "name": call.name, "arguments": arguments });
                    json!({ "id": call.id, "type": "function", "function": function })
                })
                .collect();
            // Some chat templates take no content at all for null, and none for an empty text.
            let content = if text.is_empty() { Value::Null } else { json!(text) };
            json!({ "role": "assistant", "content": content, "tool_calls": calls })
        }
    })
}

/// The text of a message.
pub(crate) fn text_of(message: &Message) -> Result<String, ImageInside> {
    if message.parts.iter().any(|part| matches!(part, Part::Image { .. })) {
        return Err(ImageInside);
    }
    Ok(message.joined_text())
}
