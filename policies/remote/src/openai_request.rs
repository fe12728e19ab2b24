//! Builds the body of a chat completion request.

use clawrl_core::{Message, Part, RemoteSpec, Role, ToolSpec};
use serde_json::{Map, Value, json};

use crate::images::{Images, has_images};
use crate::reply::sendable_arguments;
use crate::tokens;

/// Text before the images of tool results.
const OF_RESULTS: &str = "What the result shows:";

/// Contents of a request.
pub(crate) struct Asked<'a> {
    pub(crate) system: Option<String>,
    pub(crate) messages: &'a [Message],
    /// Tools in the server's own format; empty for none.
    pub(crate) tools: &'a [ToolSpec],
    pub(crate) seed: u64,
    /// Images of the messages.
    pub(crate) images: &'a Images,
}

/// An image in an assistant or system message, where no dialect allows one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ImageInside;

/// The body of the request.
pub(crate) fn body(settings: &RemoteSpec, asked: &Asked<'_>) -> Result<Map<String, Value>, ImageInside> {
    let sampling = &settings.sampling;
    let mut messages: Vec<Value> = Vec::with_capacity(asked.messages.len() + 1);
    if let Some(text) = &asked.system {
        messages.push(json!({ "role": "system", "content": text }));
    }
    // Images of tool results, which may only follow the last result.
    let mut waiting: Vec<Value> = Vec::new();
    for message in asked.messages {
        if message.role != Role::Tool {
            messages.extend(behind_results(&mut waiting));
        }
        messages.push(written(message, asked.images, &mut waiting)?);
    }
    messages.extend(behind_results(&mut waiting));
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
        // Servers store it as a signed 32-bit integer.
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

/// Moves parts that tool messages cannot have into a user message.
fn behind_results(waiting: &mut Vec<Value>) -> Option<Value> {
    if waiting.is_empty() {
        return None;
    }
    let mut content = vec![json!({ "type": "text", "text": OF_RESULTS })];
    content.append(waiting);
    Some(json!({ "role": "user", "content": content }))
}

fn written(message: &Message, images: &Images, waiting: &mut Vec<Value>) -> Result<Value, ImageInside> {
    let text = match message.role {
        Role::User | Role::Tool => message.joined_text(),
        Role::System | Role::Assistant => text_of(message)?,
    };
    Ok(match message.role {
        Role::System => json!({ "role": "system", "content": text }),
        Role::User if has_images(message) => {
            let part = |part: &Part| match part {
                Part::Text { text } => json!({ "type": "text", "text": text }),
                Part::Image { media_type, sha256 } => images.openai_part(media_type, sha256),
            };
            json!({ "role": "user", "content": message.parts.iter().map(part).collect::<Vec<_>>() })
        }
        Role::User => json!({ "role": "user", "content": text }),
        Role::Tool => {
            let id = message.tool_call_id.as_deref().unwrap_or_default();
            waiting.extend(message.parts.iter().filter_map(|part| match part {
                Part::Text { .. } => None,
                Part::Image { media_type, sha256 } => Some(images.openai_part(media_type, sha256)),
            }));
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
            // Some chat templates accept null for missing content but not an empty text.
            let content = if text.is_empty() { Value::Null } else { json!(text) };
            json!({ "role": "assistant", "content": content, "tool_calls": calls })
        }
    })
}

/// The text of a message that contains only text.
pub(crate) fn text_of(message: &Message) -> Result<String, ImageInside> {
    if has_images(message) { Err(ImageInside) } else { Ok(message.joined_text()) }
}
