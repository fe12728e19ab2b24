//! One text for each JSON value, and the hash of it.
//!
//! I1. Equal values have equal hashes, in whatever order their members were written; lists keep theirs.
//! I2. A hash of several pieces tells where one ends and the next begins.

use std::fmt;

use clawrl_core::hex;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// A SHA-256.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Hash([u8; 32]);

impl Hash {
    /// Of a value (I1).
    pub(crate) fn of(value: &Value) -> Self {
        let mut text = String::new();
        write(value, &mut text);
        Self(Sha256::digest(text.as_bytes()).into())
    }

    /// Of lists of hashes, one after the other (I2).
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
        f.write_str(&hex(&self.0))
    }
}

fn write(value: &Value, text: &mut String) {
    match value {
        Value::Object(members) => {
            // Not left to the map, whose order depends on a feature that any crate may turn on.
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
    fn i1_order_of_members_is_nothing_and_order_of_lists_is_something() {
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
