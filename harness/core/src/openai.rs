//! Requests in the form of OpenAI's chat completions: messages, tools and calls, parsed once for every crate that serves or forwards them.
//!
//! I1. Any JSON value is parsed or refused with a typed error; none panics. I2. Unknown fields are ignored, and content that is not text is kept as JSON.
//!
//! Clients differ, so parsing is lenient: `null` counts as absent, `developer` is `system`, arguments may be an object instead of a string,
//! and a tool may lack the `function` around it.
//!
//! Source: OpenAI's API reference, and requests captured from real clients.

use serde_json::{Map, Value, json};

use crate::{FinishReason, Message, Part, Role, ToolCall, ToolSpec, read_json};

/// A message of a request, borrowed from its JSON.
#[derive(Debug, Clone, PartialEq)]
pub struct ChatMessage<'a> {
    /// The speaker.
    pub role: Role,
    /// Text and other content in order; `None` if `content` is absent or null, empty for an empty string.
    pub content: Option<Vec<ContentPart<'a>>>,
    /// Calls of an assistant message, in order.
    pub calls: Vec<ChatCall<'a>>,
    /// The call that a tool message answers.
    pub call_id: Option<&'a str>,
}

/// One part of a message's content.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ContentPart<'a> {
    /// Text, or a refusal.
    Text(&'a str),
    /// An image, a sound or a file, as JSON.
    Other(&'a Value),
}

/// A call of an assistant message.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChatCall<'a> {
    /// Id given by the server that answered, or empty.
    pub id: &'a str,
    /// Tool name.
    pub name: &'a str,
    /// Arguments in the client's notation.
    pub arguments: CallArguments<'a>,
}

/// Arguments of a call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum CallArguments<'a> {
    /// A string, usually of JSON. Empty if absent.
    Text(&'a str),
    /// A JSON object.
    Object(&'a Value),
}

/// Why a body is not a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The body is not an object.
    #[error("the body is not a JSON object")]
    NotAnObject,
    /// `messages` is absent.
    #[error("`messages` is missing")]
    NoMessages,
    /// `messages` has another type.
    #[error("`messages` is not an array")]
    MessagesNotAnArray,
    /// `messages` has no entries.
    #[error("`messages` is empty")]
    Empty,
    /// Another field has the wrong type.
    #[error("`{field}` is not {expected}")]
    Type {
        /// Name of the field.
        field: &'static str,
        /// The expected type.
        expected: &'static str,
    },
    /// One message is invalid.
    #[error("`messages[{index}]`: {error}")]
    Message {
        /// Index of the message, from 0.
        index: usize,
        /// What is wrong with it.
        error: MessageError,
    },
}

/// What is wrong with a message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// The message is not an object.
    #[error("not a JSON object")]
    NotAnObject,
    /// `role` is absent or has another type.
    #[error("`role` is missing or not a string")]
    NoRole,
    /// `role` has an unknown value.
    #[error("the role `{0}` is unknown")]
    UnknownRole(String),
    /// `content` has another type.
    #[error("`content` is neither a string nor an array")]
    Content,
    /// `content` is absent where it is required.
    #[error("`content` is missing")]
    NoContent,
    /// An entry of `content` is invalid.
    #[error("`content[{0}]` is not an object with a `type`, and with text if the type is one of text")]
    Part(usize),
    /// The content is not text, and the model reads text only.
    #[error("content of type `{0}` is not supported: this model reads text only")]
    NotText(String),
    /// `tool_calls` has another type.
    #[error("`tool_calls` is not an array")]
    Calls,
    /// An entry of `tool_calls` is invalid.
    #[error("`tool_calls[{0}]` has no `function` with a `name` and `arguments`")]
    Call(usize),
    /// `tool_call_id` is absent where it is required.
    #[error("`tool_call_id` is missing or not a string")]
    NoCallId,
}

/// The messages of a request, at least one.
///
/// # Errors
/// [`RequestError`], with the index of the first invalid message.
pub fn parse_messages(body: &Map<String, Value>) -> Result<Vec<ChatMessage<'_>>, RequestError> {
    let written = present(body, "messages").ok_or(RequestError::NoMessages)?;
    let written = written.as_array().ok_or(RequestError::MessagesNotAnArray)?;
    if written.is_empty() {
        return Err(RequestError::Empty);
    }
    let parse = |(index, message)| {
        ChatMessage::parse(message).map_err(|error| RequestError::Message { index, error })
    };
    written.iter().enumerate().map(parse).collect()
}

/// The same as messages of a conversation.
///
/// # Errors
/// As [`parse_messages`], and content that is not text.
pub fn text_messages(body: &Map<String, Value>) -> Result<Vec<Message>, RequestError> {
    let convert = |(index, message): (usize, ChatMessage<'_>)| {
        message.to_message().map_err(|error| RequestError::Message { index, error })
    };
    parse_messages(body)?.into_iter().enumerate().map(convert).collect()
}

/// The functions among the tools of a request, each with its name. Entries without a name are skipped.
///
/// # Errors
/// [`RequestError::Type`], if `tools` is not an array.
pub fn tool_functions(
    body: &Map<String, Value>,
) -> Result<impl Iterator<Item = (&str, &Value)>, RequestError> {
    let not_an_array = RequestError::Type { field: "tools", expected: "an array" };
    let tools = present(body, "tools").map(|tools| tools.as_array().ok_or(not_an_array)).transpose()?;
    Ok(tools.into_iter().flatten().filter_map(|tool| {
        let function = tool.get("function").unwrap_or(tool);
        Some((function.get("name")?.as_str()?, function))
    }))
}

/// The tools that the model may call: none if `tool_choice` is `none`.
///
/// # Errors
/// As [`tool_functions`].
pub fn usable_tools(body: &Map<String, Value>) -> Result<Vec<ToolSpec>, RequestError> {
    let functions = tool_functions(body)?;
    if body.get("tool_choice").is_some_and(|choice| choice == "none") {
        return Ok(Vec::new());
    }
    let tool = |(name, function): (&str, &Value)| ToolSpec {
        name: name.to_owned(),
        description: function["description"].as_str().unwrap_or_default().to_owned(),
        parameters: match &function["parameters"] {
            Value::Null => json!({"type": "object", "properties": {}}),
            parameters => parameters.clone(),
        },
        text_argument: None,
    };
    Ok(functions.map(tool).collect())
}

/// A field that is present and not null.
#[must_use]
pub fn present<'a>(object: &'a Map<String, Value>, field: &str) -> Option<&'a Value> {
    object.get(field).filter(|value| !value.is_null())
}

/// `finish_reason` of a choice.
#[must_use]
pub fn finish_reason(finish: FinishReason, has_calls: bool) -> &'static str {
    match finish {
        FinishReason::Length => "length",
        FinishReason::ContentFilter => "content_filter",
        FinishReason::Stop if has_calls => "tool_calls",
        FinishReason::Stop => "stop",
    }
}

/// An entry of `tool_calls`.
#[must_use]
pub fn call_json(id: &str, name: &str, arguments: &str) -> Value {
    json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
}

impl<'a> ChatMessage<'a> {
    fn parse(value: &'a Value) -> Result<Self, MessageError> {
        let message = value.as_object().ok_or(MessageError::NotAnObject)?;
        let role = match present(message, "role").and_then(Value::as_str).ok_or(MessageError::NoRole)? {
            "system" | "developer" => Role::System,
            "user" => Role::User,
            "assistant" => Role::Assistant,
            "tool" => Role::Tool,
            other => return Err(MessageError::UnknownRole(other.to_owned())),
        };
        let content = present(message, "content").map(content).transpose()?;
        let calls = if role == Role::Assistant { calls(message)? } else { Vec::new() };
        let call_id = message.get("tool_call_id").and_then(Value::as_str).filter(|_| role == Role::Tool);
        Ok(Self { role, content, calls, call_id })
    }

    /// The content; empty if absent.
    #[must_use]
    pub fn parts(&self) -> &[ContentPart<'a>] {
        self.content.as_deref().unwrap_or_default()
    }

    /// A message of a conversation.
    ///
    /// # Errors
    /// [`MessageError::NotText`].
    pub fn to_message(&self) -> Result<Message, MessageError> {
        let part = |part: &ContentPart<'_>| match part {
            ContentPart::Text(text) => Ok(Part::Text { text: (*text).to_owned() }),
            ContentPart::Other(value) => {
                Err(MessageError::NotText(value["type"].as_str().unwrap_or("unknown").to_owned()))
            }
        };
        Ok(Message {
            role: self.role,
            parts: self.parts().iter().map(part).collect::<Result<_, _>>()?,
            tool_calls: self.calls.iter().map(ChatCall::to_tool_call).collect(),
            tool_call_id: self.call_id.map(str::to_owned),
        })
    }
}

impl<'a> ContentPart<'a> {
    /// The text; `None` for other content.
    #[must_use]
    pub fn text(&self) -> Option<&'a str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Other(_) => None,
        }
    }
}

impl ChatCall<'_> {
    /// A call of a conversation. Arguments that are not JSON become a string, and absent ones an empty object.
    #[must_use]
    pub fn to_tool_call(&self) -> ToolCall {
        let arguments = match self.arguments {
            CallArguments::Text(text) if text.trim().is_empty() => json!({}),
            CallArguments::Text(text) => read_json(text).unwrap_or_else(|_| Value::from(text)),
            CallArguments::Object(value) => value.clone(),
        };
        ToolCall { id: self.id.to_owned(), name: self.name.to_owned(), arguments }
    }
}

fn content(content: &Value) -> Result<Vec<ContentPart<'_>>, MessageError> {
    match content {
        Value::String(text) if text.is_empty() => Ok(Vec::new()),
        Value::String(text) => Ok(vec![ContentPart::Text(text)]),
        Value::Array(items) => {
            let part = |(index, item)| part(item).ok_or(MessageError::Part(index));
            items.iter().enumerate().map(part).collect()
        }
        _ => Err(MessageError::Content),
    }
}

fn part(item: &Value) -> Option<ContentPart<'_>> {
    if let Some(text) = item.as_str() {
        return Some(ContentPart::Text(text));
    }
    let field = match item.get("type")?.as_str()? {
        "text" | "input_text" | "output_text" => "text",
        "refusal" => "refusal",
        _ => return Some(ContentPart::Other(item)),
    };
    item.get(field)?.as_str().map(ContentPart::Text)
}

fn calls(message: &Map<String, Value>) -> Result<Vec<ChatCall<'_>>, MessageError> {
    let Some(calls) = present(message, "tool_calls") else { return Ok(Vec::new()) };
    let calls = calls.as_array().ok_or(MessageError::Calls)?;
    let call = |(index, item)| call(item).ok_or(MessageError::Call(index));
    calls.iter().enumerate().map(call).collect()
}

fn call(item: &Value) -> Option<ChatCall<'_>> {
    let id = item.get("id").and_then(Value::as_str).unwrap_or_default();
    let function = item.get("function")?;
    let name = function.get("name")?.as_str()?;
    let arguments = match function.get("arguments") {
        None | Some(Value::Null) => CallArguments::Text(""),
        Some(Value::String(text)) => CallArguments::Text(text),
        Some(value @ Value::Object(_)) => CallArguments::Object(value),
        Some(_) => return None,
    };
    Some(ChatCall { id, name, arguments })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(messages: Value, expected: Result<&[Message], &str>) {
        let body = json!({"messages": messages});
        let found = text_messages(body.as_object().unwrap()).map_err(|error| error.to_string());
        assert_eq!(found.as_deref().map_err(String::as_str), expected, "{messages}");
    }

    fn text(role: Role, text: &str) -> Message {
        Message::text(role, text)
    }

    #[test]
    fn parse_accepts_roles_and_parts() {
        let none = Message { parts: Vec::new(), ..text(Role::Assistant, "") };
        let two = Part::Text { text: "b".to_owned() };
        let mut parts = text(Role::User, "a");
        parts.parts.push(two);
        check(
            json!([
                {"role": "developer", "content": "Be kind."},
                {"role": "user", "content": [{"type": "text", "text": "a"}, "b"]},
                {"role": "assistant", "content": null, "reasoning_content": "hm"},
                {"role": "assistant", "content": ""},
            ]),
            Ok(&[text(Role::System, "Be kind."), parts, none.clone(), none]),
        );
    }

    #[test]
    fn parse_accepts_arguments_in_every_notation() {
        for (arguments, expected) in [
            (json!("{\"a\": 1}"), json!({"a": 1})),
            (json!({"a": 1}), json!({"a": 1})),
            (json!(""), json!({})),
            (Value::Null, json!({})),
            (json!("{path"), json!("{path")),
            (json!("{\"x\": \"\\ude00\"}"), json!({"x": "\u{fffd}"})),
        ] {
            let call =
                json!({"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}});
            let call_of = ToolCall { id: "c".to_owned(), name: "f".to_owned(), arguments: expected };
            let assistant = Message { tool_calls: vec![call_of], ..text(Role::Assistant, "Look:") };
            let result = Message { tool_call_id: Some("c".to_owned()), ..text(Role::Tool, "x") };
            check(
                json!([
                    {"role": "assistant", "content": "Look:", "tool_calls": [call]},
                    {"role": "tool", "tool_call_id": "c", "content": "x"},
                ]),
                Ok(&[assistant, result]),
            );
        }
    }

    #[test]
    fn i1_parse_names_the_invalid_message() {
        let fails = |message: Value, error: &str| {
            let expected = format!("`messages[1]`: {error}");
            check(json!([{"role": "user", "content": "hi"}, message]), Err(&expected));
        };
        fails(json!(1), "not a JSON object");
        fails(json!({"content": "hi"}), "`role` is missing or not a string");
        fails(json!({"role": "wizard"}), "the role `wizard` is unknown");
        fails(json!({"role": "user", "content": 1}), "`content` is neither a string nor an array");
        let part = "`content[0]` is not an object with a `type`, and with text if the type is one of text";
        fails(json!({"role": "user", "content": [{"text": "hi"}]}), part);
        fails(json!({"role": "user", "content": [{"type": "text"}]}), part);
        fails(json!({"role": "user", "content": [[]]}), part);
        fails(
            json!({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:"}}]}),
            "content of type `image_url` is not supported: this model reads text only",
        );
        fails(json!({"role": "assistant", "tool_calls": {}}), "`tool_calls` is not an array");
        let call = "`tool_calls[0]` has no `function` with a `name` and `arguments`";
        fails(json!({"role": "assistant", "tool_calls": [{"id": "a"}]}), call);
        fails(
            json!({"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": 1}}]}),
            call,
        );
        check(json!([]), Err("`messages` is empty"));
        check(json!("hi"), Err("`messages` is not an array"));
        check(Value::Null, Err("`messages` is missing"));
    }

    #[test]
    fn tools_have_names_and_default_parameters() {
        let tool = json!({"type": "function", "function": {"name": "now", "description": "Time."}});
        let tools = |body: Value| usable_tools(body.as_object().unwrap()).map_err(|error| error.to_string());
        let found = tools(json!({"tools": [tool, {"type": "other"}, {"name": "flat"}]})).unwrap();
        let [now, flat] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!(
            (now.name.as_str(), now.description.as_str(), flat.name.as_str()),
            ("now", "Time.", "flat")
        );
        assert_eq!(now.parameters, json!({"type": "object", "properties": {}}));
        assert_eq!(tools(json!({"tools": [tool], "tool_choice": "none"})), Ok(Vec::new()));
        assert_eq!(tools(json!({"tools": null})), Ok(Vec::new()));
        assert_eq!(tools(json!({"tools": {}})), Err("`tools` is not an array".to_owned()));
    }
}
