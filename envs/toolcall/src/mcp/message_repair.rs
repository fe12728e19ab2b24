//! Messages of servers, as the SDK reads them.
//!
//! The SDK passes over a message that it cannot read, and whoever waits for it waits until the limit. Servers write such messages: text
//! that was cut inside an emoji, numbers that JSON lacks, members that are null and should be missing, tools without a schema, several
//! messages in one list.
//!
//! M1. A message without such faults stays as it is. M2. An answer that cannot be mended becomes an error of the requests that it may
//! answer: those that wait and that it names, else all that wait.
//!
//! Source: the schema of MCP 2025-06-18, and what servers were seen to send. Pure.

use std::borrow::Cow;

use clawrl_core::{BYTE_ORDER_MARK, read_python_json};
use rmcp::model::{ContentBlock, Tool};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// What JSON-RPC calls a text that cannot be read.
const PARSE_ERROR: i64 = -32_700;

/// The messages in the place of this one; `None` where it stays. `waiting`: the requests that are not answered yet.
pub(super) fn repair(message: &[u8], waiting: &[i64]) -> Option<Vec<Vec<u8>>> {
    let text = String::from_utf8_lossy(message);
    let written = text.trim_start_matches(BYTE_ORDER_MARK).trim_start();
    if !written.starts_with(['{', '[']) {
        // A message of several lines is none. Other output is not ours to judge.
        let is_part = written.starts_with("\"jsonrpc\"");
        return is_part.then(|| unreadable(written, "one message has to be one line", waiting));
    }
    let (value, is_changed): (Value, bool) = match serde_json::from_str(written) {
        Ok(value) => (value, matches!(text, Cow::Owned(_))),
        Err(error) => match read_python_json(written) {
            Ok(value) => (value, true),
            Err(_) => {
                // What has a method and names no request that waits is no answer.
                let is_answer = written.contains("\"jsonrpc\"") && !written.contains("\"method\"");
                let is_ours = is_answer || !named(written, waiting).is_empty();
                return is_ours.then(|| unreadable(written, &format!("it is no JSON: {error}"), waiting));
            }
        },
    };
    let is_batch = value.is_array();
    let messages = match value {
        Value::Array(messages) if messages.iter().all(Value::is_object) => messages,
        message @ Value::Object(_) => vec![message],
        _ => return None,
    };
    let (mut told, mut is_mended) = (Vec::new(), is_changed || is_batch);
    for mut message in messages {
        // Other objects are lines of a log, and none of their members means anything here.
        let is_message = ["jsonrpc", "id"].iter().any(|key| message.get(key).is_some());
        is_mended |= is_message && message.as_object_mut().is_some_and(repair_message);
        let is_nameless = message.get("error").is_some() && message.get("id").is_none_or(Value::is_null);
        if is_message && is_nameless && !waiting.is_empty() {
            // The server could not read what it was asked, not even its id.
            is_mended = true;
            for id in waiting {
                message["id"] = (*id).into();
                told.push(message.to_string().into_bytes());
            }
        } else {
            told.push(message.to_string().into_bytes());
        }
    }
    is_mended.then_some(told)
}

/// Errors that answer the requests which a text may answer.
pub(super) fn unreadable(text: &str, reason: &str, waiting: &[i64]) -> Vec<Vec<u8>> {
    let named = named(text, waiting);
    let answered = if named.is_empty() { waiting } else { &named };
    let message = format!("the server's answer cannot be read: {reason}");
    let error = json!({ "code": PARSE_ERROR, "message": message });
    let one = |id: &i64| json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string().into_bytes();
    answered.iter().map(one).collect()
}

/// The requests, of those that wait, whose number stands behind an `"id"` of a text.
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

/// Whether something was changed.
fn repair_message(message: &mut Map<String, Value>) -> bool {
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

/// What a server says of itself, of which nothing is needed here but its version of the protocol.
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

/// A piece of a result. One that the protocol does not have becomes a text that says so.
fn repair_item(item: &mut Value) -> bool {
    // Pictures may be large, and are not looked at twice where they are as they should be.
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
        // It is refused by this name, where it is wanted.
        let name = tool.get("name").map(Value::to_string).unwrap_or_default();
        tool.insert("name".to_owned(), name.into());
        is_changed = true;
    }
    if Tool::deserialize(&*tool).is_ok() {
        return is_changed;
    }
    // What else is said of a tool is not shown to anybody.
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
    fn text_that_json_lacks_is_read() {
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
    fn messages_in_a_list_are_told_one_by_one() {
        let result = |id: i64| json!({"jsonrpc": "2.0", "id": id, "result": {}});
        let list = json!([result(1), result(2)]).to_string();
        assert_eq!(all(list.as_bytes(), &[1, 2]), Some(vec![result(1), result(2)]));
        check("\u{feff}[{\"id\":1,\"result\":{}}]", result(1));
        stays("[1, 2]");
        stays("[info] listening");
    }

    /// M2.
    #[test]
    fn an_answer_that_cannot_be_read_is_an_error_of_its_request() {
        let answered = |message: &str, waiting: &[i64]| -> Option<Vec<i64>> {
            let told = all(message.as_bytes(), waiting)?;
            for error in &told {
                let text = error["error"]["message"].as_str().unwrap();
                assert!(text.starts_with("the server's answer cannot be read: ") || text == "no", "{text}");
            }
            Some(told.iter().map(|error| error["id"].as_i64().unwrap()).collect())
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
        // What a program prints besides is no answer.
        let log = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"data":}}"#;
        for output in ["{ level: 'info' }", "{", "[info] 3 tools", "\"jsonrpc", log] {
            assert_eq!(answered(output, &[1]), None, "{output}");
        }
    }

    proptest! {
        #[test]
        fn what_was_mended_stays_as_it_is(message in r#"\{("id":1|,|"result":|"error":|null|\{|\}|"tools":\[|\]|"content":|"a"|NaN|"\\ud83d"){0,12}\}"#) {
            for once in repair(message.as_bytes(), &[1]).unwrap_or_default() {
                prop_assert_eq!(repair(&once, &[]), None);
            }
        }

        /// M2: whatever is cut off or put in, what waits is answered or may still be.
        #[test]
        fn no_answer_is_lost(cut in 0usize..70, put in ".{0,3}") {
            let whole = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"a"}]}}"#;
            let broken = format!("{}{put}", &whole[..cut.min(whole.len())]);
            let told = all(broken.as_bytes(), &[1]);
            if broken.contains("\"jsonrpc\"") && serde_json::from_str::<Value>(&broken).is_err() {
                prop_assert!(told.is_some_and(|told| told.iter().all(|message| message["id"] == 1)), "{}", broken);
            }
        }
    }
}
