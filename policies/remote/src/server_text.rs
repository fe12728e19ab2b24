//! A server's error text for display: extracted, without the key, on one line, shortened.

use serde_json::Value;

use crate::secret::{Secret, redacted};

/// Maximum length in characters.
const LONGEST: usize = 300;

/// The message in the body of an answer, or the body itself.
pub(crate) fn server_text(body: &str, key: Option<&Secret>) -> String {
    let found = serde_json::from_str::<Value>(body).ok().and_then(|value| message_in(&value));
    // The key is redacted before the text is shortened, so that no part of it remains.
    let text = redacted(key, found.as_deref().unwrap_or(body));
    let words = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    let line = words.collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(LONGEST) {
        Some((cut, _)) => format!("{}…", &line[..cut]),
        None => line,
    }
}

/// The formats of servers: `{"error": {"message"}}`, `{"error": "..."}`, `{"message"}`, `{"detail"}`, and a list of them
/// (Gemini).
/// A proxy (OpenRouter) has the other server's text in `metadata.raw`.
pub(crate) fn message_in(value: &Value) -> Option<String> {
    match error_of(value) {
        Value::String(text) => Some(text.clone()),
        Value::Object(map) => {
            let message = ["message", "detail", "msg"].iter().find_map(|key| match map.get(*key)? {
                Value::String(text) => Some(text.clone()),
                Value::Null => None,
                other => Some(other.to_string()),
            })?;
            let raw = map.get("metadata").and_then(|metadata| metadata.get("raw")?.as_str());
            let within = |raw: &str| {
                let value: Option<Value> = serde_json::from_str(raw).ok();
                value.as_ref().and_then(message_in).unwrap_or_else(|| raw.to_owned())
            };
            Some(raw.map_or_else(|| message.clone(), |raw| format!("{message}: {}", within(raw))))
        }
        _ => None,
    }
}

/// The error in an answer, or the answer itself.
fn error_of(value: &Value) -> &Value {
    let value = value.get(0).unwrap_or(value);
    value.get("error").filter(|error| !error.is_null()).unwrap_or(value)
}

/// The error text of a body in lower case: names and message, or the whole body if it is not JSON. Text repeated from the
/// request is removed, because it must not be searched.
pub(crate) fn error_words(body: &str) -> String {
    let Ok(value) = serde_json::from_str::<Value>(body) else { return body.to_lowercase() };
    let message = match value.get("detail").and_then(Value::as_array) {
        // Each contains the request's value as `input`.
        Some(flaws) => {
            flaws.iter().filter_map(|flaw| flaw.get("msg")?.as_str()).collect::<Vec<_>>().join(" ")
        }
        None => message_in(&value).unwrap_or_default(),
    };
    format!("{} {}", error_names(body), message.to_lowercase())
}

/// The names that servers give to an error: `type` and `code`, in lower case.
pub(crate) fn error_names(body: &str) -> String {
    let value: Value = serde_json::from_str(body).unwrap_or_default();
    let error = error_of(&value);
    let names = ["type", "code"].iter().filter_map(|key| error.get(*key)?.as_str());
    names.collect::<Vec<_>>().join(" ").to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(body: &str, expected: &str) {
        let key = Secret::new("sk-secret-1234");
        assert_eq!(server_text(body, key.as_ref()), expected, "{body}");
    }

    #[test]
    fn every_form_is_found_and_cleaned() {
        check(r#"{"error":{"message":"no such\nmodel","type":"x"}}"#, "no such model");
        check(r#"{"error":"bad key sk-secret-1234"}"#, "bad key [key]");
        check(r#"{"message":"too long"}"#, "too long");
        check(r#"{"detail":[{"msg":"wrong"}]}"#, r#"[{"msg":"wrong"}]"#);
        check("<html>\n  502\u{1b}[31m </html>", "<html> 502 [31m </html>");
        check(r#"{"error":null,"message":"m"}"#, "m");
        check(r#"[{"error":{"code":400,"message":"no such tool"}}]"#, "no such tool");
        let raw = r#"{"error":{"message":"Provider returned error","metadata":{"raw":"{\"error\":{\"message\":\"too long\"}}"}}}"#;
        check(raw, "Provider returned error: too long");
        check(
            &raw.replace(r#"{\"error\":{\"message\":\"too long\"}}"#, "busy"),
            "Provider returned error: busy",
        );
    }

    #[test]
    fn the_words_of_an_error_are_not_those_of_the_request() {
        let flaw = r#"{"detail":[{"type":"string_type","msg":"Input should be a string","input":"the context length"}]}"#;
        assert_eq!(error_words(flaw).trim(), "input should be a string");
        assert_eq!(error_words(r#"{"error":{"type":"A","code":"b","message":"C d"}}"#), "a b c d");
        assert_eq!(error_words("Too Large"), "too large");
    }

    #[test]
    fn a_key_is_not_cut_in_half() {
        let text = format!("{} sk-secret-1234", "x".repeat(LONGEST - 8));
        let key = Secret::new("sk-secret-1234");
        assert!(!server_text(&text, key.as_ref()).contains("sk-"));
    }
}
