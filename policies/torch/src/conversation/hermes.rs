//! Phrases that a tokenizer needs so that calls take few tokens: see [`clawrl_core::hermes_text`] for how they are written.
//!
//! I1. Exactly one of the phrases stands between two texts of a call, so that a tokenizer with these entries writes a call
//! in few tokens.
//!
//! Pure; nothing to cancel.

/// The text around and between names and values of calls whose arguments are texts and numbers (I1).
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

#[cfg(test)]
mod tests {
    use clawrl_core::{ToolCall, hermes_text};
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

    /// I1.
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
}
