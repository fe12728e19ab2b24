//! Calls as `<tool_call>` elements, the way that Qwen and Hermes models were taught to write them.
//!
//! I1. What is written here reads, by `parse_calls`, as the same calls. I2. Between two texts of a call, whatever they
//! are, there is exactly one of the phrases, so that a tokenizer that has these as entries writes a call in few tokens.
//!
//! Source: the chat template of Qwen3: `{"name": ..., "arguments": ...}` on a line of its own. Deviation: the keys
//! inside `arguments` are sorted.
//!
//! Pure; nothing to cancel.

use clawrl_core::ToolCall;
use serde::Serialize;
use serde_json::Value;

use super::spaced_json::spaced_json;

/// What no text has but one with calls.
pub(crate) const HERMES_OPENING: &str = "<tool_call>";

/// What stands around and between names and values of calls whose arguments are texts and numbers (I2).
pub(crate) const HERMES_PHRASES: [&str; 9] = [
    "<tool_call>\n{\"name\": \"",
    "\", \"arguments\": {\"",
    "\", \"arguments\": {}}\n</tool_call>",
    "\": \"",
    "\": ",
    "\", \"",
    ", \"",
    "\"}}\n</tool_call>",
    "}}\n</tool_call>",
];

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
        format!("{HERMES_OPENING}\n{body}\n</tool_call>")
    };
    calls.iter().map(element).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use clawrl_core::{ActionFormat, ToolSpec, parse_calls};
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::tokenizer::{MarkupTokens, Training, train_tokenizer};

    fn calls() -> [ToolCall; 3] {
        [
            ToolCall::new("calc", json!({"left": 12, "operator": "+", "right": 7.5})),
            ToolCall::new("notes", json!({"action": "set", "key": "apple"})),
            ToolCall::new("today", json!({})),
        ]
    }

    #[test]
    fn elements_as_models_know_them() {
        let expected = [
            r#"{"name": "calc", "arguments": {"left": 12, "operator": "+", "right": 7.5}}"#,
            r#"{"name": "notes", "arguments": {"action": "set", "key": "apple"}}"#,
            r#"{"name": "today", "arguments": {}}"#,
        ];
        let expected = expected.map(|body| format!("<tool_call>\n{body}\n</tool_call>")).join("\n");
        assert_eq!(hermes_text(&calls()), expected);
    }

    /// I2.
    #[test]
    fn a_call_is_few_tokens_for_a_tokenizer_that_knows_the_phrases() {
        let texts = calls().map(|call| hermes_text(&[call]));
        let training = Training { min_count: 1, phrases: &HERMES_PHRASES, ..Training::default() };
        let tokenizer = train_tokenizer(&texts, &training).unwrap();
        let tokens = |call: &ToolCall| -> Vec<String> {
            let ids = tokenizer.encode_content(&hermes_text(std::slice::from_ref(call))).unwrap();
            ids.iter().map(|&id| tokenizer.decode(&[id], MarkupTokens::Keep).unwrap()).collect()
        };
        let [calc, notes, today] = calls();
        let opening = "<tool_call>\n{\"name\": \"";
        assert_eq!(tokens(&today), [opening, "today", "\", \"arguments\": {}}\n</tool_call>"]);
        let between = "\", \"arguments\": {\"";
        let closing = "\"}}\n</tool_call>";
        let expected = [
            opening, "notes", between, "action", "\": \"", "set", "\", \"", "key", "\": \"", "apple", closing,
        ];
        assert_eq!(tokens(&notes), expected);
        assert_eq!(tokens(&calc).len(), 18);
        assert_eq!(tokens(&calc).last().unwrap(), "}}\n</tool_call>");
    }

    proptest! {
        /// I1.
        #[test]
        fn what_is_written_reads_as_the_same_calls(names in proptest::collection::vec("\\PC{0,8}", 1..4), value in ".{0,20}") {
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
            prop_assume!(!value.contains("</tool_call>") && !names.iter().any(|name| name.contains("</tool_call>")));
            prop_assert_eq!(parse_calls(&hermes_text(&calls), &[], ActionFormat::Hermes, &specs), Ok(calls));
        }
    }
}
