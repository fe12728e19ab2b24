//! What a server says about an error, made fit for a person: found, without the key, on one line, cut.

use serde_json::Value;

use crate::secret::{Secret, struck};

/// Most characters that are repeated.
const LONGEST: usize = 300;

/// The message in the body of an answer, or the body itself.
pub(crate) fn server_text(body: &str, key: Option<&Secret>) -> String {
    let found = serde_json::from_str::<Value>(body).ok().and_then(|value| message_in(&value));
    // The key is struck out before anything is cut: half a key is still too much.
    let text = struck(key, found.as_deref().unwrap_or(body));
    let words = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    let line = words.collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(LONGEST) {
        Some((cut, _)) => format!("{}…", &line[..cut]),
        None => line,
    }
}

/// The forms in which servers say it: `{"error": {"message"}}`, `{"error": "..."}`, `{"message"}`, `{"detail"}`.
pub(crate) fn message_in(value: &Value) -> Option<String> {
    let value = value.get("error").filter(|error| !error.is_null()).unwrap_or(value);
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Object(map) => ["message", "detail", "msg"].iter().find_map(|key| match map.get(*key)? {
            Value::String(text) => Some(text.clone()),
            Value::Null => None,
            other => Some(other.to_string()),
        }),
        _ => None,
    }
}

/// The names that servers give to an error: `type` and `code`, in lower case.
pub(crate) fn error_names(body: &str) -> String {
    let value: Value = serde_json::from_str(body).unwrap_or_default();
    let error = value.get("error").filter(|error| error.is_object()).unwrap_or(&value);
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
    }

    #[test]
    fn a_key_is_not_cut_in_half() {
        let text = format!("{} sk-secret-1234", "x".repeat(LONGEST - 8));
        let key = Secret::new("sk-secret-1234");
        assert!(!server_text(&text, key.as_ref()).contains("sk-"));
    }
}
