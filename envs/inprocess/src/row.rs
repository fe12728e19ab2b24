//! One row of a dataset: a JSON object.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Index;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A task's data: the fields of a JSON object, for example of a line of a JSONL file.
///
/// `row["text"]` is a [`Field`], and panics where the row has no such field, which is a fault of the attempt.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Row(BTreeMap<String, Field>);

/// The value of a field. Shown as text, a string is its characters without quotes; anything else is JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Field(Value);

impl Row {
    /// The field of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Field> {
        self.0.get(name)
    }
}

impl Field {
    /// The characters of a string.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        self.0.as_str()
    }

    /// The value as JSON.
    #[must_use]
    pub fn as_json(&self) -> &Value {
        &self.0
    }
}

impl Index<&str> for Row {
    type Output = Field;

    fn index(&self, name: &str) -> &Field {
        let names = || self.0.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        self.get(name).unwrap_or_else(|| panic!("the row has no field `{name}`; its fields: {}", names()))
    }
}

impl<Name: Into<String>, Content: Into<Value>> FromIterator<(Name, Content)> for Row {
    fn from_iter<I: IntoIterator<Item = (Name, Content)>>(fields: I) -> Self {
        Self(fields.into_iter().map(|(name, value)| (name.into(), Field(value.into()))).collect())
    }
}

impl fmt::Display for Field {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Value::String(text) => formatter.write_str(text),
            other => other.fmt(formatter),
        }
    }
}

impl PartialEq<str> for Field {
    fn eq(&self, text: &str) -> bool {
        self.as_str() == Some(text)
    }
}

impl PartialEq<&str> for Field {
    fn eq(&self, text: &&str) -> bool {
        self == *text
    }
}

impl PartialEq<Field> for str {
    fn eq(&self, field: &Field) -> bool {
        field == self
    }
}

impl PartialEq<Field> for &str {
    fn eq(&self, field: &Field) -> bool {
        field == *self
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn field_is_shown_without_quotes() {
        let row: Row = serde_json::from_value(json!({"text": "abc", "count": 3, "list": ["a"]})).unwrap();
        assert_eq!(format!("{} {} {}", row["text"], row["count"], row["list"]), r#"abc 3 ["a"]"#);
        assert!("abc" == row["text"] && row["text"] == *"abc" && row["count"] != *"3");
        assert_eq!(row.get("other"), None);
    }

    #[test]
    #[should_panic(expected = "the row has no field `txt`; its fields: text")]
    fn missing_field_panics_with_the_names() {
        let row: Row = [("text", "abc")].into_iter().collect();
        let _ = &row["txt"];
    }
}
