//! A key-value store for the length of an episode.
//!
//! Bounded, because it lives in this process and not in a sandbox: [`MAX_KEYS`] keys, [`MAX_BYTES`] in total.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::result::CallResult;

const MAX_KEYS: usize = 1_000;
const MAX_BYTES: usize = 1 << 20;

/// Content of one store tool.
#[derive(Debug)]
pub(crate) struct Store {
    values: BTreeMap<String, String>,
    bytes: usize,
}

impl Store {
    pub(crate) fn new(initial: &BTreeMap<String, String>) -> Self {
        Self {
            values: initial.clone(),
            bytes: initial.iter().map(|(key, value)| key.len() + value.len()).sum(),
        }
    }

    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.values.get(key).map(String::as_str)
    }

    pub(crate) fn call(&mut self, arguments: &Map<String, Value>) -> CallResult {
        let text = |name: &str| arguments.get(name).and_then(Value::as_str);
        let missing = |name: &str| CallResult::failed(format_args!("`{name}` is missing, a string"));
        let action = text("action").unwrap_or_default();
        if action == "list" {
            return CallResult::done(self.values.keys().map(String::as_str).collect::<Vec<_>>().join("\n"));
        }
        if !matches!(action, "get" | "set" | "delete") {
            return CallResult::failed("`action` must be get, set, delete or list");
        }
        let Some(key) = text("key") else { return missing("key") };
        match action {
            "set" => match text("value") {
                Some(value) => self.set(key, value),
                None => missing("value"),
            },
            "get" => match self.values.get(key) {
                Some(value) => CallResult::done(value),
                None => unknown(key),
            },
            _ => match self.values.remove(key) {
                Some(value) => {
                    self.bytes -= key.len() + value.len();
                    CallResult::done("ok")
                }
                None => unknown(key),
            },
        }
    }

    fn set(&mut self, key: &str, value: &str) -> CallResult {
        let old = self.values.get(key).map_or(0, |old| key.len() + old.len());
        let bytes = self.bytes - old + key.len() + value.len();
        if bytes > MAX_BYTES || (old == 0 && !self.values.contains_key(key) && self.values.len() >= MAX_KEYS)
        {
            return CallResult::failed("the store is full");
        }
        self.bytes = bytes;
        self.values.insert(key.to_owned(), value.to_owned());
        CallResult::done("ok")
    }
}

fn unknown(key: &str) -> CallResult {
    let key: String = key.chars().take(100).collect();
    CallResult::failed(format_args!("there is no key {key:?}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn call(store: &mut Store, arguments: Value) -> String {
        store.call(arguments.as_object().unwrap()).text
    }

    #[test]
    fn values_are_kept_from_call_to_call() {
        let mut store = Store::new(&BTreeMap::from([("a".to_owned(), "1".to_owned())]));
        let mut check = |arguments: Value, expected: &str| {
            assert_eq!(call(&mut store, arguments.clone()), expected, "{arguments}");
        };
        check(json!({"action": "get", "key": "a"}), "1");
        check(json!({"action": "set", "key": "b", "value": "2"}), "ok");
        check(json!({"action": "set", "key": "a", "value": ""}), "ok");
        check(json!({"action": "list"}), "a\nb");
        check(json!({"action": "delete", "key": "a"}), "ok");
        check(json!({"action": "delete", "key": "a"}), "error: there is no key \"a\"");
        check(json!({"action": "get", "key": "\n"}), "error: there is no key \"\\n\"");
        check(json!({"action": "set", "key": "c"}), "error: `value` is missing, a string");
        check(json!({"action": "get"}), "error: `key` is missing, a string");
        check(json!({"action": "drop"}), "error: `action` must be get, set, delete or list");
        assert_eq!(store.get("b"), Some("2"));
        assert_eq!(store.get("a"), None);
    }

    #[test]
    fn it_is_bounded() {
        let mut store = Store::new(&BTreeMap::new());
        let large = "x".repeat(MAX_BYTES / 2);
        let mut check = |key: &str, value: &str, expected: &str| {
            assert_eq!(
                call(&mut store, json!({"action": "set", "key": key, "value": value})),
                expected,
                "{key}"
            );
        };
        check("a", &large, "ok");
        check("b", &large, "error: the store is full");
        check("a", "1", "ok");
        for number in 1..MAX_KEYS {
            check(&number.to_string(), "", "ok");
        }
        check("one more", "", "error: the store is full");
        check("1", "2", "ok");
    }

    proptest! {
        #[test]
        fn bytes_are_counted(calls in prop::collection::vec((0..3usize, "[ab]?", "[xyz]{0,3}"), 0..30)) {
            let mut store = Store::new(&BTreeMap::new());
            for (action, key, value) in calls {
                let action = ["get", "set", "delete"][action];
                call(&mut store, json!({"action": action, "key": key, "value": value}));
                let bytes: usize = store.values.iter().map(|(key, value)| key.len() + value.len()).sum();
                prop_assert_eq!(store.bytes, bytes);
            }
        }
    }
}
