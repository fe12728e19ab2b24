//! A canonical text of a JSON value, and its hash.
//!
//! I1. Equal values have equal hashes, regardless of the order of their members; the order of lists matters.
//! I2. The hash of several pieces depends on their boundaries.

use std::fmt;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// A SHA-256.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Hash([u8; 32]);

impl Hash {
    /// Hash of a value (I1).
    pub(crate) fn of(value: &Value) -> Self {
        let mut text = String::new();
        write(value, &mut text);
        Self(Sha256::digest(text.as_bytes()).into())
    }

    /// Hash of lists of hashes, in order (I2).
    pub(crate) fn over<'a>(lists: impl IntoIterator<Item = Vec<&'a Self>>) -> Self {
        let mut hasher = Sha256::new();
        for list in lists {
            hasher.update((list.len() as u64).to_le_bytes());
            list.into_iter().for_each(|hash| hasher.update(hash.0));
        }
        Self(hasher.finalize().into())
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&clawrl_core::hex(&self.0))
    }
}

fn write(value: &Value, text: &mut String) {
    match value {
        Value::Object(members) => {
            // The map is not relied on: its order depends on a feature that any crate may enable.
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by_key(|(key, _)| key.as_str());
            text.push('{');
            for (key, value) in members {
                text.push_str(&Value::from(key.as_str()).to_string());
                text.push(':');
                write(value, text);
                text.push(',');
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for item in items {
                write(item, text);
                text.push(',');
            }
            text.push(']');
        }
        leaf => text.push_str(&leaf.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(one: Value, other: Value, expected: bool) {
        assert_eq!(Hash::of(&one) == Hash::of(&other), expected, "{one} and {other}");
    }

    #[test]
    fn i1_order_matters_in_lists_only() {
        let parsed = |text: &str| serde_json::from_str(text).unwrap();
        check(parsed(r#"{"a":1,"b":{"c":2,"d":3}}"#), parsed(r#"{"b":{"d":3,"c":2},"a":1}"#), true);
        check(json!([1, 2]), json!([2, 1]), false);
        check(json!("1"), json!(1), false);
        check(json!({"a": null}), json!({}), false);
        check(json!(["a,", "b"]), json!(["a", ",b"]), false);
    }

    #[test]
    fn i2_pieces_have_their_place() {
        let (a, b) = (Hash::of(&json!(1)), Hash::of(&json!(2)));
        assert_ne!(Hash::over([vec![&a], vec![&b]]), Hash::over([vec![&a, &b], vec![]]));
        assert_eq!(Hash::over([vec![&a, &b]]), Hash::over([vec![&a, &b]]));
    }
}
