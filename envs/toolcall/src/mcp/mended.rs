//! Messages of servers, as the SDK reads them.
//!
//! The SDK passes over a message that it cannot read, and whoever waits for it waits until the limit. Servers write such messages: text
//! that was cut inside an emoji, numbers that JSON lacks, members that are null and should be missing, tools without a schema.
//!
//! M1. A message without such faults stays as it is. M2. One that cannot be mended, and that says which request it answers, becomes an
//! error that answers the request.
//!
//! Source: the schema of MCP 2025-06-18, and what servers were seen to send. Pure.

use clawrl_core::json_text;
use serde_json::{Map, Value, json};

/// What JSON-RPC calls a text that cannot be read.
const PARSE_ERROR: i64 = -32_700;

/// The message in the place of this one; `None` where it stays.
pub(super) fn mended(message: &[u8]) -> Option<Vec<u8>> {
    if !message.trim_ascii_start().starts_with(b"{") {
        return None;
    }
    let text = String::from_utf8_lossy(message);
    let (mut value, is_changed) = match serde_json::from_str(&text) {
        Ok(value) => (value, matches!(text, std::borrow::Cow::Owned(_))),
        Err(error) => match json_text::read(&text) {
            Ok(value) => (value, true),
            Err(_) => (unreadable(id_in(&text)?, &error), true),
        },
    };
    let is_mended = value.as_object_mut().is_some_and(mend_message);
    (is_changed || is_mended).then(|| value.to_string().into_bytes())
}

fn unreadable(id: Value, error: &serde_json::Error) -> Value {
    let message = format!("the server's answer is no JSON: {error}");
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": PARSE_ERROR, "message": message } })
}

/// The number after the first `"id"` of a text that is no JSON.
fn id_in(text: &str) -> Option<Value> {
    let (_, behind) = text.split_once("\"id\"")?;
    let number = behind.trim_start().strip_prefix(':')?.trim_start();
    let end = number.find(|c: char| !c.is_ascii_digit()).unwrap_or(number.len());
    number[..end].parse::<u64>().ok().map(Value::from)
}

/// Whether something was changed.
fn mend_message(message: &mut Map<String, Value>) -> bool {
    let mut is_changed = false;
    // Only one of the two may be there.
    if message.contains_key("result") && message.contains_key("error") {
        let null = if message["error"].is_null() { "error" } else { "result" };
        is_changed = message.remove(null).is_some();
    }
    if !message.contains_key("jsonrpc") {
        message.insert("jsonrpc".to_owned(), "2.0".into());
        is_changed = true;
    }
    let is_mended = message.get_mut("result").and_then(Value::as_object_mut).is_some_and(mend_result);
    is_changed || is_mended
}

fn mend_result(result: &mut Map<String, Value>) -> bool {
    let mut is_changed = false;
    for tool in result.get_mut("tools").and_then(Value::as_array_mut).into_iter().flatten() {
        is_changed |= tool.as_object_mut().is_some_and(mend_tool);
    }
    if let Some(content) = result.get_mut("content")
        && !content.is_array()
    {
        let items = match content.take() {
            Value::Null => json!([]),
            Value::String(text) => json!([{ "type": "text", "text": text }]),
            item @ Value::Object(_) => json!([item]),
            other => json!([{ "type": "text", "text": other.to_string() }]),
        };
        *content = items;
        is_changed = true;
    }
    for item in result.get_mut("content").and_then(Value::as_array_mut).into_iter().flatten() {
        if item["type"] == "text" && !item["text"].is_string() {
            item["text"] = match &item["text"] {
                Value::Null => "".into(),
                other => other.to_string().into(),
            };
            is_changed = true;
        }
    }
    if result.get("isError").is_some_and(Value::is_null) {
        result.remove("isError");
        is_changed = true;
    }
    is_changed
}

fn mend_tool(tool: &mut Map<String, Value>) -> bool {
    let before = tool.len();
    for optional in ["outputSchema", "annotations"] {
        if tool.get(optional).is_some_and(|value| !value.is_object()) {
            tool.remove(optional);
        }
    }
    let is_schema = tool.get("inputSchema").is_some_and(Value::is_object);
    if !is_schema {
        tool.insert("inputSchema".to_owned(), json!({ "type": "object" }));
    }
    !is_schema || tool.len() != before
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(message: &str, expected: Value) {
        let found = mended(message.as_bytes()).map(|bytes| serde_json::from_slice::<Value>(&bytes).unwrap());
        assert_eq!(found, Some(expected), "{message}");
    }

    fn stays(message: &str) {
        assert_eq!(mended(message.as_bytes()), None, "{message}");
    }

    #[test]
    fn messages_without_faults_stay_as_they_are() {
        stays(r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"\ud83d\ude00"}]}}"#);
        stays(
            r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a","inputSchema":{"type":"object"}}],"nextCursor":null}}"#,
        );
        stays(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no"}}"#);
        stays("Listening on stdio");
        stays("");
    }

    #[test]
    fn text_that_json_lacks_is_read() {
        let result = |text: Value| json!({"jsonrpc": "2.0", "id": 1, "result": {"content": [], "structuredContent": text}});
        let message = |text: &str| {
            format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"content":[],"structuredContent":{text}}}}}"#)
        };
        check(&message(r#""cut \ud83d""#), result(json!("cut \u{fffd}")));
        check(&message("[NaN, -Infinity, 1e999]"), result(json!([null, null, null])));
        let latin = mended(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"caf\xe9\"}").unwrap();
        assert_eq!(serde_json::from_slice::<Value>(&latin).unwrap()["result"], "caf\u{fffd}");
    }

    #[test]
    fn members_that_should_be_missing_are_removed() {
        check(
            r#"{"jsonrpc":"2.0","id":1,"result":{},"error":null}"#,
            json!({"jsonrpc": "2.0", "id": 1, "result": {}}),
        );
        let error = json!({"code": -1, "message": "no"});
        check(
            r#"{"id":1,"result":null,"error":{"code":-1,"message":"no"}}"#,
            json!({"jsonrpc": "2.0", "id": 1, "error": error}),
        );
        check(
            r#"{"jsonrpc":"2.0","id":1,"result":{"isError":null,"content":"fine"}}"#,
            json!({"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": "fine"}]}}),
        );
        check(
            r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":7},{"type":"text","text":null}]}}"#,
            json!({"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": "7"}, {"type": "text", "text": ""}]}}),
        );
    }

    #[test]
    fn tools_without_a_schema_take_any_object() {
        let object = json!({"type": "object"});
        let tools = json!([
            {"name": "a", "inputSchema": object}, {"name": "b", "inputSchema": object}, {"name": "c", "inputSchema": object},
        ]);
        check(
            r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a"},{"name":"b","inputSchema":null,"outputSchema":null},
                {"name":"c","inputSchema":{"type":"object"},"annotations":null}]}}"#,
            json!({"jsonrpc": "2.0", "id": 1, "result": {"tools": tools}}),
        );
    }

    /// M2.
    #[test]
    fn an_answer_that_cannot_be_read_is_an_error_of_its_request() {
        let found = mended(br#"{"jsonrpc":"2.0", "id": 12, "result": {"content": [}"#).unwrap();
        let found: Value = serde_json::from_slice(&found).unwrap();
        assert_eq!((&found["id"], &found["error"]["code"]), (&json!(12), &json!(PARSE_ERROR)));
        let message = found["error"]["message"].as_str().unwrap();
        assert!(message.starts_with("the server's answer is no JSON: "), "{message}");
        stays(r#"{"jsonrpc":"2.0", "result": }"#);
    }

    proptest! {
        #[test]
        fn what_was_mended_stays_as_it_is(message in r#"\{("id":1|,|"result":|"error":|null|\{|\}|"tools":\[|\]|"content":|"a"|NaN|"\\ud83d"){0,12}\}"#) {
            if let Some(once) = mended(message.as_bytes()) {
                prop_assert_eq!(mended(&once), None);
            }
        }
    }
}
