//! The text of an OpenEnv observation, which is an object of any shape.
//!
//! One field per line, strings unquoted and anything else as JSON; of a tool's answer, only its content.

use serde_json::Value;

pub(super) fn text(observation: &Value) -> String {
    if let Some(answer) = tool_text(observation) {
        return answer;
    }
    let Some(fields) = observation.as_object() else { return plain(observation) };
    let present: Vec<_> = fields.iter().filter(|(_, value)| !value.is_null()).collect();
    match present.as_slice() {
        [(_, Value::String(only))] => only.clone(),
        present => present
            .iter()
            .map(|(name, value)| format!("{name}: {}", plain(value)))
            .collect::<Vec<_>>()
            .join("\n"),
    }
}

/// The content of a tool's answer.
fn tool_text(observation: &Value) -> Option<String> {
    let fields = observation.as_object().filter(|fields| fields.contains_key("tool_name"))?;
    if let Some(error) = fields.get("error").filter(|error| !error.is_null()) {
        let message = error.get("message").unwrap_or(error);
        return Some(format!("error: {}", plain(message)));
    }
    let result = fields.get("result").unwrap_or(&Value::Null);
    let content = result["content"].as_array().into_iter().flatten();
    let texts: Vec<&str> = content.filter_map(|part| part["text"].as_str()).collect();
    Some(if texts.is_empty() { plain(result) } else { texts.join("\n") })
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(observation: Value, expected: &str) {
        assert_eq!(text(&observation), expected);
    }

    #[test]
    fn observation_text_has_one_line_per_field() {
        check(json!({ "echoed": "hi", "length": 2 }), "echoed: hi\nlength: 2");
        check(json!({ "prompt": "Guess.", "hint": null }), "Guess.");
        check(json!({}), "");
        check(json!("plain"), "plain");
        let result = json!({ "content": [{ "type": "text", "text": "a" }, { "type": "text", "text": "b" }] });
        check(json!({ "tool_name": "t", "result": result, "error": null }), "a\nb");
        check(json!({ "tool_name": "t", "result": 7 }), "7");
        let error = json!({ "error_type": "x", "message": "no such tool" });
        check(json!({ "tool_name": "t", "result": null, "error": error }), "error: no such tool");
    }
}
