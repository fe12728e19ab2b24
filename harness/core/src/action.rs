//! Parses the text of a reply into tool calls.
//!
//! The format is part of the plan. A reply that does not match it is a [`MalformedAction`]: it costs a turn, and the policy
//! is shown the reason. The parser never guesses.
//!
//! I1. Reasoning is never an action: the text inside reasoning tags is removed before a reply is parsed, in every format.
//!
//! Pure; nothing to cancel.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::hermes::{HERMES_CLOSING, HERMES_OPENING};
use crate::reasoning::{after_reasoning, reasoning_length};
use crate::reply_parser::{Reads, ReplyParser, ReplyPart};
use crate::{ToolCall, ToolSpec};

/// Format in which a policy writes its actions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActionFormat {
    /// The whole reply, without trailing newlines, is the primary tool's text argument. A reply that is
    /// `submit`, or starts with `submit` and a space, is the call of that name.
    #[default]
    Raw,
    /// Exactly one fenced code block, whose content is parsed like [`ActionFormat::Raw`].
    Fenced,
    /// The calls that came with the message in the OpenAI form, or, where none did, as in [`ActionFormat::Hermes`]: some
    /// servers leave calls in the text. A message without either is malformed.
    ToolCalls,
    /// `<tool_call>{"name": ..., "arguments": {...}}</tool_call>` elements in the text.
    Hermes,
}

/// Reason for which a reply is not an action. The policy is shown the text.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
#[error("{reason}")]
pub struct MalformedAction {
    /// A sentence for the policy: the error and the expected form.
    pub reason: String,
}

/// Reads the calls out of a reply. `native_calls` are those that the policy's server parsed itself.
///
/// # Errors
/// [`MalformedAction`] when the reply does not fit the format, or calls a tool that is not on offer.
pub fn parse_calls(
    text: &str,
    native_calls: &[ToolCall],
    format: ActionFormat,
    tools: &[ToolSpec],
) -> Result<Vec<ToolCall>, MalformedAction> {
    let calls = if native_calls.is_empty() {
        let said = after_reasoning(text).map_err(|open| {
            malformed(format!("the reply ends inside {open}: nothing follows the reasoning"))
        })?;
        match format {
            ActionFormat::Raw => vec![raw_call(said, tools)?],
            ActionFormat::Fenced => vec![raw_call(only_fenced_block(said)?, tools)?],
            ActionFormat::Hermes => hermes_calls(said, "no <tool_call> element in the reply")?,
            ActionFormat::ToolCalls => hermes_calls(said, "no tool was called; call one of the tools")?,
        }
    } else {
        native_calls.to_vec()
    };
    for call in &calls {
        if !tools.iter().any(|tool| tool.name == call.name) {
            let known: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
            return Err(malformed(format!("there is no tool `{}`; tools: {}", call.name, known.join(", "))));
        }
        if !call.arguments.is_object() {
            return Err(malformed(format!("the arguments of `{}` must be a JSON object", call.name)));
        }
    }
    Ok(calls)
}

fn malformed(reason: impl Into<String>) -> MalformedAction {
    MalformedAction { reason: reason.into() }
}

fn raw_call(text: &str, tools: &[ToolSpec]) -> Result<ToolCall, MalformedAction> {
    let text = text.trim_end_matches(['\n', '\r']);
    if text.trim().is_empty() {
        return Err(malformed("the action is empty"));
    }
    let submits = tools.iter().any(|tool| tool.name == "submit");
    if submits && text == "submit" {
        return Ok(ToolCall::new("submit", serde_json::json!({})));
    }
    if let (true, Some(answer)) = (submits, text.strip_prefix("submit ")) {
        return Ok(ToolCall::new("submit", serde_json::json!({ "answer": answer })));
    }
    let primary = tools.iter().find_map(|tool| Some((tool, tool.text_argument.as_ref()?)));
    let (tool, argument) = primary
        .ok_or_else(|| malformed("this environment has no tool that takes plain text; use tool calls"))?;
    let mut arguments = serde_json::Map::new();
    arguments.insert(argument.clone(), text.into());
    Ok(ToolCall::new(&tool.name, arguments.into()))
}

/// The content of the only fenced code block. Fences are those of `CommonMark`: three or more backticks or tildes, closed by as many or
/// more of the same and nothing else; so a longer fence may hold shorter ones.
fn only_fenced_block(text: &str) -> Result<&str, MalformedAction> {
    let mut blocks = Vec::new();
    let mut open: Option<(Fence, usize)> = None;
    // Up to here, all is reasoning.
    let mut thought = 0;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let (start, end) = (at, at + line.len());
        at = end;
        if start < thought {
            continue;
        }
        match (open, Fence::of(line)) {
            (None, Some(fence)) => open = Some((fence, end)),
            (None, None) => thought = start + reasoning_length(&text[start..]).unwrap_or_default(),
            (Some((opening, content)), Some(fence)) if fence.closes(opening) => {
                blocks.push(&text[content..start]);
                open = None;
            }
            (Some(_), _) => {}
        }
    }
    match (blocks.as_slice(), open) {
        ([block], None) => Ok(block),
        ([], None) => Err(malformed("no fenced code block; write exactly one")),
        (_, Some(_)) => Err(malformed("a fenced code block is not closed")),
        (many, None) => Err(malformed(format!("{} fenced code blocks; write exactly one", many.len()))),
    }
}

/// A line that opens or closes a code block.
#[derive(Debug, Clone, Copy)]
struct Fence {
    sign: char,
    length: usize,
    /// Nothing follows the signs.
    is_bare: bool,
}

impl Fence {
    fn of(line: &str) -> Option<Self> {
        let line = line.trim_end();
        let signs = line.trim_start_matches(' ');
        let sign = signs.chars().next().filter(|sign| matches!(sign, '`' | '~'))?;
        let rest = signs.trim_start_matches(sign);
        let length = signs.len() - rest.len();
        // Four spaces are an indented block, and backticks behind backticks are code inside a line.
        let is_fence = line.len() - signs.len() < 4 && length >= 3 && !(sign == '`' && rest.contains('`'));
        is_fence.then_some(Self { sign, length, is_bare: rest.is_empty() })
    }

    fn closes(self, opening: Self) -> bool {
        self.is_bare && self.sign == opening.sign && self.length >= opening.length
    }
}

/// Calls of all elements outside of reasoning; `none` is the reason to report if there are no elements.
fn hermes_calls(text: &str, none: &str) -> Result<Vec<ToolCall>, MalformedAction> {
    let mut parser = ReplyParser::new(Reads { calls: true, in_reasoning: false });
    let mut parts = parser.push(text);
    parts.extend(parser.end());
    let mut calls = Vec::new();
    for part in parts {
        match part {
            ReplyPart::Call { name, arguments } => {
                let arguments =
                    serde_json::from_str(&arguments).map_err(|error| no_call(&error.to_string()))?;
                calls.push(ToolCall::new(&name, arguments));
            }
            ReplyPart::Text(text) => {
                if let Some(content) = text.strip_prefix(HERMES_OPENING) {
                    return Err(broken_element(content));
                }
            }
            ReplyPart::Reasoning(_) => {}
        }
    }
    if calls.is_empty() { Err(malformed(none)) } else { Ok(calls) }
}

fn no_call(reason: &str) -> MalformedAction {
    malformed(format!("the content of <tool_call> is no call: {reason}"))
}

/// Reason for which an element is not parsed as a call.
fn broken_element(content: &str) -> MalformedAction {
    match content.strip_suffix(HERMES_CLOSING) {
        None => malformed("<tool_call> is not closed"),
        Some(body) => match serde_json::from_str::<ToolCall>(body.trim()) {
            Err(error) => no_call(&error.to_string()),
            Ok(_) => no_call("it needs a name, and arguments that are a JSON object"),
        },
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn tools() -> Vec<ToolSpec> {
        let tool = |name: &str, text_argument: Option<&str>| ToolSpec {
            name: name.into(),
            description: String::new(),
            parameters: json!({"type": "object"}),
            text_argument: text_argument.map(Into::into),
        };
        vec![tool("run", Some("command")), tool("submit", None)]
    }

    fn check(text: &str, format: ActionFormat, expected: Result<Vec<ToolCall>, &str>) {
        let got = parse_calls(text, &[], format, &tools());
        assert_eq!(got.map_err(|e| e.reason), expected.map_err(str::to_owned), "{text:?} as {format:?}");
    }

    fn run(command: &str) -> Vec<ToolCall> {
        vec![ToolCall::new("run", json!({ "command": command }))]
    }

    #[test]
    fn raw_text_is_the_primary_argument() {
        check("ls -l\n", ActionFormat::Raw, Ok(run("ls -l")));
        check("a\nb\n", ActionFormat::Raw, Ok(run("a\nb")));
        check("submit", ActionFormat::Raw, Ok(vec![ToolCall::new("submit", json!({}))]));
        check("submit 42", ActionFormat::Raw, Ok(vec![ToolCall::new("submit", json!({"answer": "42"}))]));
        check("submitted", ActionFormat::Raw, Ok(run("submitted")));
        check(" \n", ActionFormat::Raw, Err("the action is empty"));
    }

    #[test]
    fn exactly_one_fence() {
        check("So:\n```bash\nls\n```\n", ActionFormat::Fenced, Ok(run("ls")));
        check(
            "```\nls\n```\n```\npwd\n```",
            ActionFormat::Fenced,
            Err("2 fenced code blocks; write exactly one"),
        );
        check("ls", ActionFormat::Fenced, Err("no fenced code block; write exactly one"));
        check("```ls```", ActionFormat::Fenced, Err("no fenced code block; write exactly one"));
        check("```\nls", ActionFormat::Fenced, Err("a fenced code block is not closed"));
    }

    #[test]
    fn a_longer_fence_holds_shorter_ones() {
        let markdown = "cat > a.md <<E\n```python\nprint(1)\n```\nE";
        check(&format!("````bash\n{markdown}\n````"), ActionFormat::Fenced, Ok(run(markdown)));
        check(&format!("~~~\n{markdown}\n~~~~  \n"), ActionFormat::Fenced, Ok(run(markdown)));
        // With a word behind it, a line of backticks closes nothing.
        check("```\na\n```b\n```", ActionFormat::Fenced, Ok(run("a\n```b")));
        check("- so:\n   ```sh\n   ls\n   ```", ActionFormat::Fenced, Ok(run("   ls")));
        check("    ```\n```\nls\n```", ActionFormat::Fenced, Ok(run("ls")));
    }

    /// I1.
    #[test]
    fn reasoning_is_not_executed_in_any_format() {
        let call = |command: &str| {
            format!(
                "<tool_call>{{\"name\": \"run\", \"arguments\": {{\"command\": \"{command}\"}}}}</tool_call>"
            )
        };
        let (rm, ls) = (call("rm"), call("ls"));
        let fence = |command: &str| format!("```\n{command}\n```");
        for thought in [
            format!("<think>\n{rm}\n{}\n</think>\n", fence("rm")),
            format!("{rm}\n{}\n</think>\n", fence("rm")),
        ] {
            check(&format!("{thought}ls"), ActionFormat::Raw, Ok(run("ls")));
            check(&format!("{thought}{}", fence("ls")), ActionFormat::Fenced, Ok(run("ls")));
            check(&format!("{thought}{ls}"), ActionFormat::Hermes, Ok(run("ls")));
            check(&format!("{thought}{ls}"), ActionFormat::ToolCalls, Ok(run("ls")));
        }
        // Between and after the spoken text.
        check(
            &format!("So.\n<think>\n{}\n</think>\n{}", fence("rm"), fence("ls")),
            ActionFormat::Fenced,
            Ok(run("ls")),
        );
        check(&format!("{}\n<think>\n{}", fence("ls"), fence("rm")), ActionFormat::Fenced, Ok(run("ls")));
        check(&format!("So <think>{rm}</think> {ls}\n<think>{rm}"), ActionFormat::Hermes, Ok(run("ls")));
        check(&format!("I close <think> and call: {ls}"), ActionFormat::Hermes, Ok(run("ls")));
        for format in [ActionFormat::Raw, ActionFormat::Fenced, ActionFormat::Hermes, ActionFormat::ToolCalls]
        {
            let open = format!("<think>\n{rm}\n{}", fence("rm"));
            check(&open, format, Err("the reply ends inside <think>: nothing follows the reasoning"));
        }
    }

    #[test]
    fn tool_calls_format_reads_calls_left_in_text() {
        let text = r#"<tool_call>{"name": "run", "arguments": {"command": "ls"}}</tool_call>"#;
        check(text, ActionFormat::ToolCalls, Ok(run("ls")));
        check("ls", ActionFormat::ToolCalls, Err("no tool was called; call one of the tools"));
    }

    #[test]
    fn a_closing_tag_inside_a_string_ends_no_element() {
        let command = r#"echo '</tool_call>' \" > a; echo \\"#;
        let text =
            format!(r#"<tool_call>{{"name": "run", "arguments": {{"command": "{command}"}}}}</tool_call>"#);
        let expected = run(r#"echo '</tool_call>' " > a; echo \"#);
        check(&format!("{text} {text}"), ActionFormat::Hermes, Ok([expected.clone(), expected].concat()));
        // A string that is not closed reaches to the first closing tag.
        let broken =
            r#"<tool_call>{"name": "run</tool_call> <tool_call>{"name": "run", "arguments": {}}</tool_call>"#;
        let got = parse_calls(broken, &[], ActionFormat::Hermes, &tools()).unwrap_err();
        assert!(
            got.reason.starts_with("the content of <tool_call> is no call: EOF while parsing a string"),
            "{got}"
        );
    }

    #[test]
    fn hermes_elements() {
        let one = r#"hm <tool_call>{"name": "run", "arguments": {"command": "ls"}}</tool_call>"#;
        check(one, ActionFormat::Hermes, Ok(run("ls")));
        check("<tool_call>{}", ActionFormat::Hermes, Err("<tool_call> is not closed"));
        check(
            r#"<tool_call>{"name": "fly", "arguments": {}}</tool_call>"#,
            ActionFormat::Hermes,
            Err("there is no tool `fly`; tools: run, submit"),
        );
    }

    proptest! {
        #[test]
        fn never_panics(text in ".{0,200}") {
            for format in [ActionFormat::Raw, ActionFormat::Fenced, ActionFormat::ToolCalls, ActionFormat::Hermes] {
                let _ = parse_calls(&text, &[], format, &tools());
            }
        }
    }
}
