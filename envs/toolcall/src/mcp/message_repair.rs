//! Repairs messages of servers so that the SDK can read them.
//!
//! The SDK ignores a message that it cannot read, and its caller waits until the limit. Servers do write such messages:
//! text that was cut inside an emoji, numbers that JSON lacks, null members that should be missing, tools without a
//! schema, several messages in one list.
//!
//! M1. A valid message stays unchanged.
//! M2. A response that cannot be repaired becomes an error of the requests that it may answer: the pending ones that it
//! names, otherwise all pending ones.
//!
//! Source: the schema of MCP 2025-06-18, and messages that servers were seen to send. Pure.

use std::borrow::Cow;

use clawrl_core::{BYTE_ORDER_MARK, read_python_json};
use rmcp::model::{ContentBlock, Tool};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// JSON-RPC's code for unreadable text.
const PARSE_ERROR: i64 = -32_700;

/// The messages that replace this one; `None` if it stays unchanged. `waiting`: the pending requests.
pub(super) fn repair(message: &[u8], waiting: &[i64]) -> Option<Vec<Vec<u8>>> {
    let text = String::from_utf8_lossy(message);
    let written = text.trim_start_matches(BYTE_ORDER_MARK).trim_start();
    if !written.starts_with(['{', '[']) {
        // A message does not span lines. Other output is left alone.
        let is_part = written.starts_with("\"jsonrpc\"");
        return is_part.then(|| unreadable(written, "a message must be one line", waiting));
    }
    let (value, is_changed): (Value, bool) = match serde_json::from_str(written) {
        Ok(value) => (value, matches!(text, Cow::Owned(_))),
        Err(error) => match read_python_json(written) {
            Ok(value) => (value, true),
            Err(_) => {
                // A message with a method that names no pending request is not a response.
                let is_answer = written.contains("\"jsonrpc\"") && !written.contains("\"method\"");
                let is_ours = is_answer || !named(written, waiting).is_empty();
                return is_ours.then(|| unreadable(written, &format!("invalid JSON: {error}"), waiting));
            }
        },
    };
    let is_batch = value.is_array();
    let messages = match value {
        Value::Array(messages) if messages.iter().all(Value::is_object) => messages,
        message @ Value::Object(_) => vec![message],
        _ => return None,
    };
    let (mut repaired, mut is_mended) = (Vec::new(), is_changed || is_batch);
    for mut message in messages {
        // Other objects are log lines, whose members mean nothing here.
        let is_message = ["jsonrpc", "id"].iter().any(|key| message.get(key).is_some());
        is_mended |= is_message && message.as_object_mut().is_some_and(repair_message);
        let is_nameless = message.get("error").is_some() && message.get("id").is_none_or(Value::is_null);
        if is_message && is_nameless && !waiting.is_empty() {
            // The server could not read the request, not even its id.
            is_mended = true;
            for id in waiting {
                message["id"] = (*id).into();
                repaired.push(message.to_string().into_bytes());
            }
        } else {
            repaired.push(message.to_string().into_bytes());
        }
    }
    is_mended.then_some(repaired)
}

/// Errors for the requests that a text may answer.
pub(super) fn unreadable(text: &str, reason: &str, waiting: &[i64]) -> Vec<Vec<u8>> {
    let named = named(text, waiting);
    let answered = if named.is_empty() { waiting } else { &named };
    let message = format!("the server's answer cannot be read: {reason}");
    let error = json!({ "code": PARSE_ERROR, "message": message });
    let one = |id: &i64| json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string().into_bytes();
    answered.iter().map(one).collect()
}

/// The pending requests whose number follows an `"id"` in a text.
fn named(text: &str, waiting: &[i64]) -> Vec<i64> {
    let number = |behind: &str| {
        let number = behind.trim_start().strip_prefix(':')?.trim_start();
        let number = number.strip_prefix('"').unwrap_or(number);
        let end = number.find(|c: char| !c.is_ascii_digit()).unwrap_or(number.len());
        number[..end].parse::<i64>().ok()
    };
    let written: Vec<i64> = text.split("\"id\"").skip(1).filter_map(number).collect();
    waiting.iter().filter(|id| written.contains(id)).copied().collect()
}

/// Returns whether something was changed.
fn repair_message(message: &mut Map<String, Value>) -> bool {
    let mut is_changed = false;
    // Only one of the two may be present.
    if message.contains_key("result") && message.contains_key("error") {
        let null = if message["error"].is_null() { "error" } else { "result" };
        is_changed = message.remove(null).is_some();
    }
    if !message.contains_key("jsonrpc") {
        message.insert("jsonrpc".to_owned(), "2.0".into());
        is_changed = true;
    }
    if let Some(error) = message.get_mut("error") {
        is_changed |= repair_error(error);
    }
    let is_mended = message.get_mut("result").and_then(Value::as_object_mut).is_some_and(mend_result);
    is_changed || is_mended
}

/// An error has a number and a text.
fn repair_error(error: &mut Value) -> bool {
    let code = error.get("code").and_then(Value::as_i64).filter(|code| i32::try_from(*code).is_ok());
    let text = error.get("message").and_then(Value::as_str);
    if code.is_some() && text.is_some() {
        return false;
    }
    let text = text.or_else(|| error.as_str()).map_or_else(|| error.to_string(), str::to_owned);
    *error = json!({ "code": code.unwrap_or(PARSE_ERROR), "message": text });
    true
}

fn mend_result(result: &mut Map<String, Value>) -> bool {
    let mut is_changed = false;
    if result.contains_key("protocolVersion") {
        is_changed |= repair_initialize_result(result);
    }
    if result.get("tools").is_some_and(Value::is_null) {
        result.insert("tools".to_owned(), json!([]));
        is_changed = true;
    }
    for tool in result.get_mut("tools").and_then(Value::as_array_mut).into_iter().flatten() {
        is_changed |= tool.as_object_mut().is_some_and(mend_tool);
    }
    match result.get("nextCursor") {
        None | Some(Value::Null | Value::String(_)) => {}
        Some(Value::Number(number)) => {
            let text = number.to_string();
            result.insert("nextCursor".to_owned(), text.into());
            is_changed = true;
        }
        Some(_) => is_changed |= result.remove("nextCursor").is_some(),
    }
    if let Some(content) = result.get_mut("content")
        && !content.is_array()
    {
        let items = match content.take() {
            Value::Null => json!([]),
            item => json!([item]),
        };
        *content = items;
        is_changed = true;
    }
    for item in result.get_mut("content").and_then(Value::as_array_mut).into_iter().flatten() {
        is_changed |= repair_item(item);
    }
    match result.get("isError") {
        None | Some(Value::Bool(_)) => {}
        Some(Value::Null) => is_changed |= result.remove("isError").is_some(),
        Some(other) => {
            let is_error = *other != json!(0) && *other != json!("false") && *other != json!("");
            result.insert("isError".to_owned(), is_error.into());
            is_changed = true;
        }
    }
    is_changed
}

/// The server's description of itself, of which only the protocol version is needed here.
fn repair_initialize_result(result: &mut Map<String, Value>) -> bool {
    let mut is_changed = false;
    if !result.get("capabilities").is_some_and(Value::is_object) {
        result.insert("capabilities".to_owned(), json!({}));
        is_changed = true;
    }
    let says =
        |key: &str| result.get("serverInfo").and_then(|info| info.get(key)).is_some_and(Value::is_string);
    if !says("name") || !says("version") {
        let info = result.get("serverInfo");
        let text = |key: &str| info.and_then(|info| info.get(key)?.as_str()).unwrap_or_default().to_owned();
        let info = json!({ "name": text("name"), "version": text("version") });
        result.insert("serverInfo".to_owned(), info);
        is_changed = true;
    }
    is_changed
}

/// An item of a result. An unknown kind becomes a text that says so.
fn repair_item(item: &mut Value) -> bool {
    // Pictures may be large; valid ones are not parsed twice.
    let is_plain = |item: &Value| {
        matches!(item["type"].as_str(), Some("image" | "audio"))
            && item["data"].is_string()
            && item["mimeType"].is_string()
            && item.as_object().is_some_and(|item| item.len() == 3)
    };
    if is_plain(item) || ContentBlock::deserialize(&*item).is_ok() {
        return false;
    }
    let text = match (&*item, item["type"].as_str()) {
        (Value::String(text), _) => text.clone(),
        (_, Some("text")) => match &item["text"] {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            other => other.to_string(),
        },
        (_, Some(kind @ ("image" | "audio"))) => format!("[{kind} of an unknown kind]"),
        (_, Some(kind)) => format!("[content of an unknown kind: {}]", clawrl_core::printable_line(kind, 40)),
        (other, None) => other.to_string(),
    };
    *item = json!({ "type": "text", "text": text });
    true
}

fn mend_tool(tool: &mut Map<String, Value>) -> bool {
    let mut is_changed = false;
    let is_schema = tool.get("inputSchema").is_some_and(Value::is_object);
    if !is_schema {
        tool.insert("inputSchema".to_owned(), json!({ "type": "object" }));
        is_changed = true;
    }
    if !tool.get("name").is_some_and(Value::is_string) {
        // It is refused under this name, if selected.
        let name = tool.get("name").map(Value::to_string).unwrap_or_default();
        tool.insert("name".to_owned(), name.into());
        is_changed = true;
    }
    if Tool::deserialize(&*tool).is_ok() {
        return is_changed;
    }
    // Other members of a tool are not shown.
    tool.retain(|key, value| match key.as_str() {
        "name" | "inputSchema" => true,
        "title" | "description" => value.is_string(),
        _ => false,
    });
    true
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(message: &[u8], waiting: &[i64]) -> Option<Vec<Value>> {
        let messages = repair(message, waiting)?;
        Some(messages.iter().map(|bytes| serde_json::from_slice(bytes).unwrap()).collect())
    }

    fn check(message: &str, expected: Value) {
        assert_eq!(all(message.as_bytes(), &[1]), Some(vec![expected]), "{message}");
    }

    fn stays(message: &str) {
        assert_eq!(all(message.as_bytes(), &[1]), None, "{message}");
    }

    #[test]
    fn messages_without_faults_stay_as_they_are() {
        stays(r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"\ud83d\ude00"}]}}"#);
        stays(
            r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a","inputSchema":{"type":"object"}}],"nextCursor":null}}"#,
        );
        stays(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no"}}"#);
        stays("Listening on stdio");
        stays(r#"{"level":"error","error":"no connection","result":{"content":"x"}}"#);
        stays("");
    }

    #[test]
    fn invalid_json_text_is_repaired() {
        let result = |text: Value| json!({"jsonrpc": "2.0", "id": 1, "result": {"content": [], "structuredContent": text}});
        let message = |text: &str| {
            format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"content":[],"structuredContent":{text}}}}}"#)
        };
        check(&message(r#""cut \ud83d""#), result(json!("cut \u{fffd}")));
        check(&message("[NaN, -Infinity, 1e999]"), result(json!([null, null, null])));
        let latin = all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"caf\xe9\"}", &[1]).unwrap();
        assert_eq!(latin[0]["result"], "caf\u{fffd}");
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
            {"name": "a", "inputSchema": object}, {"name": "b", "inputSchema": object, "outputSchema": null},
        ]);
        check(
            r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a"},{"name":"b","inputSchema":null,"outputSchema":null}]}}"#,
            json!({"jsonrpc": "2.0", "id": 1, "result": {"tools": tools}}),
        );
    }

    #[test]
    fn results_are_brought_into_the_form_of_the_protocol() {
        let result = |result: &str, expected: Value| {
            let message = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#);
            check(&message, json!({"jsonrpc": "2.0", "id": 1, "result": expected}));
        };
        let text = |text: &str| json!({"type": "text", "text": text});
        result(
            r#"{"content":["a",{"type":"video","url":"x"},{"type":"image","data":"AA"},{"n":1}]}"#,
            json!({"content": [
                text("a"), text("[content of an unknown kind: video]"), text("[image of an unknown kind]"), text(r#"{"n":1}"#),
            ]}),
        );
        result(
            r#"{"content":{"type":"text","text":"a"},"isError":"true"}"#,
            json!({"content": [text("a")], "isError": true}),
        );
        result(r#"{"content":[],"isError":0}"#, json!({"content": [], "isError": false}));
        result(r#"{"tools":[],"nextCursor":7}"#, json!({"tools": [], "nextCursor": "7"}));
        result(r#"{"tools":null,"nextCursor":false}"#, json!({"tools": []}));
        let object = json!({"type": "object"});
        result(
            r#"{"tools":[{"name":"a","description":7,"icons":3,"inputSchema":{"type":"object"}},{"title":"t","inputSchema":[]}]}"#,
            json!({"tools": [{"name": "a", "inputSchema": object}, {"name": "", "title": "t", "inputSchema": object}]}),
        );
        result(
            r#"{"protocolVersion":"2025-06-18","capabilities":null,"serverInfo":{"name":"x"}}"#,
            json!({"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "x", "version": ""}}),
        );
        let error = |error: &str, expected: Value| {
            let message = format!(r#"{{"jsonrpc":"2.0","id":1,"error":{error}}}"#);
            check(&message, json!({"jsonrpc": "2.0", "id": 1, "error": expected}));
        };
        error(r#""no""#, json!({"code": PARSE_ERROR, "message": "no"}));
        error(r#"{"message":"no"}"#, json!({"code": PARSE_ERROR, "message": "no"}));
        error(r#"{"code":"E1"}"#, json!({"code": PARSE_ERROR, "message": r#"{"code":"E1"}"#}));
    }

    #[test]
    fn batched_messages_are_split() {
        let result = |id: i64| json!({"jsonrpc": "2.0", "id": id, "result": {}});
        let list = json!([result(1), result(2)]).to_string();
        assert_eq!(all(list.as_bytes(), &[1, 2]), Some(vec![result(1), result(2)]));
        check("\u{feff}[{\"id\":1,\"result\":{}}]", result(1));
        stays("[1, 2]");
        stays("[info] listening");
    }

    /// M2.
    #[test]
    fn m2_unreadable_answer_is_error_of_its_request() {
        let answered = |message: &str, waiting: &[i64]| -> Option<Vec<i64>> {
            let repaired = all(message.as_bytes(), waiting)?;
            for error in &repaired {
                let text = error["error"]["message"].as_str().unwrap();
                assert!(text.starts_with("the server's answer cannot be read: ") || text == "no", "{text}");
            }
            Some(repaired.iter().map(|error| error["id"].as_i64().unwrap()).collect())
        };
        let cut = r#"{"jsonrpc":"2.0", "id": 12, "result": {"content": [}"#;
        assert_eq!(answered(cut, &[11, 12]), Some(vec![12]));
        let behind = r#"{"jsonrpc":"2.0","result":{"items":[{"id":7,]},"id":"3"}"#;
        assert_eq!(answered(behind, &[2, 3]), Some(vec![3]));
        assert_eq!(answered(r#"{"jsonrpc":"2.0", "result": }"#, &[1, 2]), Some(vec![1, 2]));
        assert_eq!(answered(r#"  "jsonrpc": "2.0","#, &[1]), Some(vec![1]));
        assert_eq!(
            answered(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"no"}}"#, &[4]),
            Some(vec![4])
        );
        assert_eq!(
            answered(&format!(r#"{{"id":5,"result":{}1{}}}"#, "[".repeat(999), "]".repeat(999)), &[5]),
            Some(vec![5])
        );
        // Other output of a program is not a response.
        let log = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"data":}}"#;
        for output in ["{ level: 'info' }", "{", "[info] 3 tools", "\"jsonrpc", log] {
            assert_eq!(answered(output, &[1]), None, "{output}");
        }
    }

    proptest! {
        #[test]
        fn repair_is_idempotent(message in r#"\{("id":1|,|"result":|"error":|null|\{|\}|"tools":\[|\]|"content":|"a"|NaN|"\\ud83d"){0,12}\}"#) {
            for once in repair(message.as_bytes(), &[1]).unwrap_or_default() {
                prop_assert_eq!(repair(&once, &[]), None);
            }
        }

        /// M2: whatever is cut off or inserted, a pending request is answered or still can be.
        #[test]
        fn no_answer_is_lost(cut in 0usize..70, put in ".{0,3}") {
            let whole = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"a"}]}}"#;
            let broken = format!("{}{put}", &whole[..cut.min(whole.len())]);
            let repaired = all(broken.as_bytes(), &[1]);
            if broken.contains("\"jsonrpc\"") && serde_json::from_str::<Value>(&broken).is_err() {
                prop_assert!(repaired.is_some_and(|repaired| repaired.iter().all(|message| message["id"] == 1)), "{}", broken);
            }
        }
    }
}
