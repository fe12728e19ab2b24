//! Messages and tools of a chat request as the policy reads them.
//!
//! I1. Client input is content and never becomes markup. I2. Calls of earlier answers are written as the policy writes its own.
//! I3. Content that the policy cannot read, such as images, is refused by name. I4. Reasoning of earlier answers is not shown
//! again.

use clawrl_core::openai::{RequestError, text_messages};
use clawrl_core::{Message, Part, Role, hermes_text};
use serde_json::{Map, Value};

/// The messages, in order.
///
/// # Errors
/// [`RequestError`], also for content that is not text (I3).
pub(crate) fn messages(body: &Map<String, Value>) -> Result<Vec<Message>, RequestError> {
    Ok(text_messages(body)?.into_iter().map(with_calls_as_text).collect())
}

/// I2. Every message becomes one text.
fn with_calls_as_text(message: Message) -> Message {
    let mut text = message.joined_text();
    if message.role == Role::Assistant && !message.tool_calls.is_empty() {
        let between = if text.is_empty() { "" } else { "\n" };
        text = format!("{text}{between}{}", hermes_text(&message.tool_calls));
    }
    Message { parts: vec![Part::Text { text }], tool_calls: Vec::new(), tool_call_id: None, ..message }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(messages: Value, expected: &[(Role, &str)]) {
        let body = json!({"messages": messages});
        let found = super::messages(body.as_object().unwrap()).unwrap();
        let expected: Vec<Message> =
            expected.iter().map(|(role, text)| Message::text(*role, *text)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn messages_become_one_text_each() {
        check(
            json!([
                {"role": "developer", "content": "Be kind."},
                {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
                {"role": "assistant", "content": null, "reasoning_content": "hm"},
            ]),
            &[(Role::System, "Be kind."), (Role::User, "a\nb"), (Role::Assistant, "")],
        );
    }

    #[test]
    fn i2_earlier_calls_are_written_as_the_policy_does() {
        let call = |arguments: &str| {
            json!({"role": "assistant", "content": "Look:", "tool_calls": [
                {"id": "1", "type": "function", "function": {"name": "read", "arguments": arguments}}]})
        };
        let element =
            "Look:\n<tool_call>\n{\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}\n</tool_call>";
        check(
            json!([call("{\"path\":\"a\"}"), {"role": "tool", "tool_call_id": "1", "content": "x"}]),
            &[(Role::Assistant, element), (Role::Tool, "x")],
        );
        let odd = "Look:\n<tool_call>\n{\"name\": \"read\", \"arguments\": \"{path\"}\n</tool_call>";
        check(json!([call("{path")]), &[(Role::Assistant, odd)]);
    }
}
