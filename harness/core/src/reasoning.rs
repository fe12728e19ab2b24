//! Finds the reasoning in the text of a reply.
//!
//! Reasoning models write their reasoning between two tags, at the start of a reply or before a later part of it. Some chat templates
//! write the opening tag themselves, so the reply has the closing tag only.
//!
//! Source: the chat templates and model cards of DeepSeek-R1 and Qwen3 (`<think>`), Magistral (`[THINK]`), Kimi (`◁think▷`), Seed-OSS
//! (`<seed:think>`), gpt-oss (the channel `analysis`); the other names are those of models that were prompted to reason in tags.
//!
//! Pure; nothing to cancel.

use serde::de::IgnoredAny;

use crate::hermes::{ElementEnd, HERMES_CLOSING, HERMES_OPENING};

/// Opening and closing tags of reasoning.
pub(crate) const REASONING_TAGS: [(&str, &str); 8] = [
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<reasoning>", "</reasoning>"),
    ("[THINK]", "[/THINK]"),
    ("<seed:think>", "</seed:think>"),
    ("◁think▷", "◁/think▷"),
    ("<|channel|>analysis<|message|>", "<|end|>"),
];

/// The tag at the start of a text, and the text after it.
fn opening(text: &str) -> Option<(&'static str, &'static str, &str)> {
    REASONING_TAGS.iter().find_map(|&(open, close)| Some((open, close, text.strip_prefix(open)?)))
}

/// The reply without the reasoning that it begins with, and without white space behind that.
///
/// # Errors
/// The opening tag of reasoning that is not closed: nothing of the reply is said.
pub(crate) fn after_reasoning(reply: &str) -> Result<&str, &'static str> {
    let mut said = after_unopened(reply);
    while let Some((open, close, thought)) = opening(said.trim_start()) {
        said = thought.split_once(close).ok_or(open)?.1;
    }
    Ok(if said.len() == reply.len() { reply } else { said.trim_start() })
}

/// The reply without reasoning whose opening tag is in the prompt: up to a closing tag that precedes any opening tag and ends its
/// line or the reply, or precedes another tag.
fn after_unopened(reply: &str) -> &str {
    let unopened = |&(open, close): &(&str, &str)| {
        let (thought, said) = reply.split_once(close)?;
        let ends = said.is_empty() || said.starts_with(['\n', '\r', '<']);
        let is_unopened = ends && close.contains('/') && !thought.contains(open);
        (is_unopened && !is_in_call(reply, thought.len())).then_some(said)
    };
    REASONING_TAGS.iter().find_map(unopened).unwrap_or(reply)
}

/// Whether a position is inside an element with JSON content.
fn is_in_call(reply: &str, place: usize) -> bool {
    let mut from = 0;
    while let Some(opening) = reply[from..place].find(HERMES_OPENING) {
        let start = from + opening + HERMES_OPENING.len();
        let content = &reply[start..];
        let Some(length) = ElementEnd::default().find(content) else { return false };
        if start + length > place {
            return serde_json::from_str::<IgnoredAny>(content[..length].trim()).is_ok();
        }
        from = (start + length + HERMES_CLOSING.len()).min(place);
    }
    false
}

/// Bytes of the reasoning that a text begins with, to the end of the text where it is not closed; `None` where it begins with none.
pub(crate) fn reasoning_length(text: &str) -> Option<usize> {
    let (open, close, thought) = opening(text)?;
    Some(thought.find(close).map_or(text.len(), |end| open.len() + end + close.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(reply: &str, expected: Result<&str, &'static str>) {
        assert_eq!(after_reasoning(reply), expected, "{reply:?}");
    }

    #[test]
    fn leading_reasoning_is_removed_for_every_tag() {
        for (open, close) in REASONING_TAGS {
            check(&format!("\n{open}rm -rf /{close}\n\nls"), Ok("ls"));
            check(&format!("{open}a{close}\n{open}b{close}ls"), Ok("ls"));
            check(&format!("{open}rm -rf /"), Err(open));
            check(&format!("{open}a{close}{open}b"), Err(open));
        }
    }

    #[test]
    fn reasoning_that_the_prompt_opens_is_left_out() {
        check("rm -rf / or not?\n</think>\n\nls", Ok("ls"));
        check("hm</think><tool_call>", Ok("<tool_call>"));
        check("hm</thinking>", Ok(""));
    }

    #[test]
    fn tags_inside_text_stay() {
        for said in [
            "echo '</think>' > f",
            "ls; echo '<think>hm</think>'",
            "",
            "a <think> b",
            "cat <<E\n<think>a</think>\nE",
        ] {
            check(said, Ok(said));
        }
        check("<think>a</think>echo '<think>'", Ok("echo '<think>'"));
        let call = r#"<tool_call>{"name": "run", "arguments": {"command": "</think><br>"}}</tool_call>"#;
        check(call, Ok(call));
        check(
            "I could <tool_call> or not.\n</think>\n<tool_call>{}</tool_call>",
            Ok("<tool_call>{}</tool_call>"),
        );
    }
}
