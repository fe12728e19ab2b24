//! Calls as `<tool_call>` elements, as Qwen and Hermes models write them and [`crate::parse_calls`] reads them.
//!
//! I1. Calls that are written here parse to the same calls.
//!
//! Source: the chat template of Qwen3: `{"name": ..., "arguments": ...}` on a line of its own. Deviation: the keys
//! inside `arguments` are sorted.
//!
//! Pure; nothing to cancel.

use serde::Serialize;
use serde_json::Value;

use crate::message::ToolCall;
use crate::spaced_json::spaced_json;

/// Text that occurs only in replies with calls.
pub const HERMES_OPENING: &str = "<tool_call>";

/// The end of an element.
pub(crate) const HERMES_CLOSING: &str = "</tool_call>";

/// Looks for the end of an element: the closing tag that is outside of all JSON strings of its content.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ElementEnd {
    /// Bytes that were looked at.
    at: usize,
    in_string: bool,
    is_escaped: bool,
}

impl ElementEnd {
    /// Length of the content before the closing tag, in bytes. Resumes where it stopped: `content` grows from the same start.
    pub(crate) fn find(&mut self, content: &str) -> Option<usize> {
        let bytes = content.as_bytes();
        while let Some(&byte) = bytes.get(self.at) {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' if self.in_string => self.is_escaped = true,
                b'"' => self.in_string = !self.in_string,
                b'<' if !self.in_string => {
                    let rest = &bytes[self.at..];
                    if rest.starts_with(HERMES_CLOSING.as_bytes()) {
                        return Some(self.at);
                    }
                    if HERMES_CLOSING.as_bytes().starts_with(rest) {
                        return None;
                    }
                }
                _ => {}
            }
            self.at += 1;
        }
        None
    }
}

#[derive(Serialize)]
struct Element<'a> {
    name: &'a str,
    arguments: &'a Value,
}

/// The text of these calls, one element after the other.
#[must_use]
pub fn hermes_text(calls: &[ToolCall]) -> String {
    let element = |call: &ToolCall| {
        let element = Element { name: &call.name, arguments: &call.arguments };
        // Names and JSON values can always be written.
        let body = spaced_json(&element).unwrap_or_default();
        format!("{HERMES_OPENING}\n{body}\n{HERMES_CLOSING}")
    };
    calls.iter().map(element).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::{ActionFormat, ToolSpec, parse_calls};

    #[test]
    fn elements_as_models_know_them() {
        let calls = [
            ToolCall::new("calc", json!({"left": 12, "operator": "+", "right": 7.5})),
            ToolCall::new("notes", json!({"action": "set", "key": "apple"})),
            ToolCall::new("today", json!({})),
        ];
        let expected = [
            r#"{"name": "calc", "arguments": {"left": 12, "operator": "+", "right": 7.5}}"#,
            r#"{"name": "notes", "arguments": {"action": "set", "key": "apple"}}"#,
            r#"{"name": "today", "arguments": {}}"#,
        ];
        let expected = expected.map(|body| format!("<tool_call>\n{body}\n</tool_call>")).join("\n");
        assert_eq!(hermes_text(&calls), expected);
    }

    proptest! {
        #[test]
        fn cuts_do_not_change_where_an_element_ends(
            content in "(a|\"|\\\\|<|</tool_call>|</tool|_call>){0,12}",
        ) {
            let mut end = ElementEnd::default();
            let cuts = content.char_indices().map(|(at, _)| at).chain([content.len()]);
            let found = cuts.filter_map(|cut| end.find(&content[..cut])).next();
            prop_assert_eq!(found, ElementEnd::default().find(&content));
        }

        /// I1.
        #[test]
        fn written_calls_read_back(
            names in proptest::collection::vec("\\PC{1,8}", 1..4),
            value in "(.|<think>|</think>|<tool_call>|</tool_call>|\"|\\\\|\n){0,20}",
        ) {
            let calls: Vec<ToolCall> =
                names.iter().map(|name| ToolCall::new(name, json!({ "value": &value, "list": [1, null] }))).collect();
            let specs: Vec<ToolSpec> = names
                .iter()
                .map(|name| ToolSpec {
                    name: name.clone(),
                    description: String::new(),
                    parameters: json!({"type": "object"}),
                    text_argument: None,
                })
                .collect();
            prop_assert_eq!(parse_calls(&hermes_text(&calls), &[], ActionFormat::Hermes, &specs), Ok(calls));
        }
    }
}
