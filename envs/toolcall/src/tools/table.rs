//! Answers from a table.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::result::CallResult;

/// Looks up the argument `key`.
pub(crate) fn look_up(
    rows: &BTreeMap<String, String>,
    missing: &str,
    arguments: &Map<String, Value>,
) -> CallResult {
    let Some(key) = arguments.get("key").and_then(Value::as_str) else {
        return CallResult::failed("`key` is missing, a string");
    };
    match rows.get(key) {
        Some(text) => CallResult::done(text),
        None => CallResult::failed(missing),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_other_key_is_an_error() {
        let rows = BTreeMap::from([("a".to_owned(), "1".to_owned())]);
        let check = |arguments: Value, expected: CallResult| {
            assert_eq!(look_up(&rows, "none such", arguments.as_object().unwrap()), expected, "{arguments}");
        };
        check(json!({"key": "a"}), CallResult::done("1"));
        check(json!({"key": "b"}), CallResult::failed("none such"));
        check(json!({"key": 1}), CallResult::failed("`key` is missing, a string"));
    }
}
