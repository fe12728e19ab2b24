//! Builds the body of an Anthropic messages request.
//!
//! Differences from chat completions: the system text is a separate field, tool results are parts of a user message, roles
//! alternate, and no text may be empty.

use clawrl_core::{Message, Part, RemoteSpec, Role, ToolSpec};
use serde_json::{Map, Value, json};

use crate::images::{Images, has_images};
use crate::openai_request::{Asked, ImageInside, text_of};
use crate::reply::sendable_arguments;

/// Replacement for an empty text, which the server would refuse.
const NOTHING: &str = "(nothing)";

/// The body of the request.
pub(crate) fn body(settings: &RemoteSpec, asked: &Asked<'_>) -> Result<Map<String, Value>, ImageInside> {
    let sampling = &settings.sampling;
    let mut system: Vec<String> = asked.system.clone().into_iter().collect();
    let mut messages: Vec<(&str, Vec<Value>)> = Vec::new();
    for message in asked.messages {
        let (role, parts) = match message.role {
            Role::System => {
                system.push(text_of(message)?);
                continue;
            }
            Role::User if has_images(message) => ("user", mixed_parts(message, asked.images)),
            Role::User => ("user", vec![text_part(message.joined_text())]),
            Role::Tool => {
                let id = message.tool_call_id.as_deref().unwrap_or_default();
                let content = match message.joined_text() {
                    _ if has_images(message) => mixed_parts(message, asked.images).into(),
                    text if text.is_empty() => json!(NOTHING),
                    text => json!(text),
                };
                ("user", vec![json!({ "type": "tool_result", "tool_use_id": id, "content": content })])
            }
            Role::Assistant => ("assistant", assistant_parts(message, text_of(message)?)),
        };
        match messages.last_mut() {
            Some((last, known)) if *last == role => known.extend(parts),
            _ => messages.push((role, parts)),
        }
    }
    let messages = messages.into_iter().map(|(role, content)| json!({ "role": role, "content": content }));
    let messages: Vec<Value> = messages.collect();
    let mut body = settings.body.clone();
    let mut set = |key: &str, value: Value| body.insert(key.to_owned(), value);
    set("model", json!(settings.model));
    set("messages", Value::Array(messages));
    set("max_tokens", json!(sampling.max_tokens));
    set("stream", json!(settings.stream));
    if !system.is_empty() {
        set("system", json!(system.join("\n\n")));
    }
    if let Some(milli) = sampling.temperature_milli {
        set("temperature", json!(f64::from(milli) / 1_000.0));
    }
    if let Some(milli) = sampling.top_p_milli {
        set("top_p", json!(f64::from(milli) / 1_000.0));
    }
    if !sampling.stop.is_empty() {
        set("stop_sequences", json!(sampling.stop));
    }
    if !asked.tools.is_empty() {
        set("tools", asked.tools.iter().map(tool).collect());
    }
    Ok(body)
}

fn tool(tool: &ToolSpec) -> Value {
    let ToolSpec { name, description, parameters, .. } = tool;
    json!({ "name": name, "description": description, "input_schema": parameters })
}

fn text_part(text: String) -> Value {
    json!({ "type": "text", "text": if text.trim().is_empty() { NOTHING.to_owned() } else { text } })
}

/// Texts and images, in order.
fn mixed_parts(message: &Message, images: &Images) -> Vec<Value> {
    let part = |part: &Part| match part {
        Part::Text { text } => text_part(text.clone()),
        Part::Image { media_type, sha256 } => images.anthropic_part(media_type, sha256),
    };
    message.parts.iter().map(part).collect()
}

fn assistant_parts(message: &Message, text: String) -> Vec<Value> {
    let calls = message.tool_calls.iter().map(|call| {
        let input = sendable_arguments(&call.arguments);
        json!({ "type": "tool_use", "id": call.id, "name": call.name, "input": input })
    });
    let calls: Vec<Value> = calls.collect();
    if text.trim().is_empty() && !calls.is_empty() {
        return calls;
    }
    std::iter::once(text_part(text)).chain(calls).collect()
}
