//! From the text of a reply to calls of an environment's tools.
//!
//! The format is part of the plan. A reply that does not fit is [`MalformedAction`]: it costs a turn and
//! the policy is told the reason; it is never guessed at.
//!
//! Pure; nothing to cancel.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{HERMES_OPENING, ToolCall, ToolSpec};

/// How a policy writes its actions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActionFormat {
    /// The whole reply, without trailing newlines, is the primary tool's text argument. A reply that is
    /// `submit`, or starts with `submit` and a space, is the call of that name.
    #[default]
    Raw,
    /// Exactly one fenced code block, whose content is the primary tool's text argument.
    Fenced,
    /// The calls that came with the message in the OpenAI form. A message without calls is malformed.
    ToolCalls,
    /// `<tool_call>{"name": ..., "arguments": {...}}</tool_call>` elements in the text.
    Hermes,
}

/// Why a reply is no action. The text is shown to the policy.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
#[error("{reason}")]
pub struct MalformedAction {
    /// A sentence for the policy: what was wrong and what is expected.
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
        match format {
            ActionFormat::Raw => vec![raw_call(text, tools)?],
            ActionFormat::Fenced => vec![raw_call(only_fenced_block(text)?, tools)?],
            ActionFormat::Hermes => hermes_calls(text)?,
            ActionFormat::ToolCalls => return Err(malformed("no tool was called; call one of the tools")),
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

fn only_fenced_block(text: &str) -> Result<&str, MalformedAction> {
    let mut blocks = Vec::new();
    let mut open: Option<usize> = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let end = at + line.len();
        if line.trim_end().starts_with("```") {
            match open.take() {
                None => open = Some(end),
                Some(start) => blocks.push(&text[start..at]),
            }
        }
        at = end;
    }
    match (blocks.as_slice(), open) {
        ([block], None) => Ok(block),
        ([], None) => Err(malformed("no fenced code block; write exactly one")),
        (_, Some(_)) => Err(malformed("a fenced code block is not closed")),
        (many, None) => Err(malformed(format!("{} fenced code blocks; write exactly one", many.len()))),
    }
}

fn hermes_calls(text: &str) -> Result<Vec<ToolCall>, MalformedAction> {
    let mut calls = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find(HERMES_OPENING) {
        let body = &rest[start + HERMES_OPENING.len()..];
        let end = body.find("</tool_call>").ok_or_else(|| malformed("<tool_call> is not closed"))?;
        let call: ToolCall = serde_json::from_str(body[..end].trim())
            .map_err(|error| malformed(format!("the content of <tool_call> is no call: {error}")))?;
        calls.push(call);
        rest = &body[end + "</tool_call>".len()..];
    }
    if calls.is_empty() { Err(malformed("no <tool_call> element in the reply")) } else { Ok(calls) }
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
        check("```\nls", ActionFormat::Fenced, Err("a fenced code block is not closed"));
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
