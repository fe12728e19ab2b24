//! Demonstrations in the form in which this policy would have written them, for imitation.
//!
//! I1. A demonstrated turn, parsed in the task's format, gives exactly the calls that were made. I2. It has the form of the
//! policy's own turns: the reply as text, the observation in the role that follows text.

use clawrl_core::{ActionFormat, SampledTokens, ToolCall, ToolSpec, Turn, hermes_text, parse_calls};

use super::chat::Chat;
use super::error::ConversationError;

/// Converts the turn of a scripted policy to one of a policy that writes text (I2).
///
/// A malformed turn keeps its text.
///
/// # Errors
/// [`ConversationError::NoText`] if the format cannot express the calls (I1): keys in the raw format, native calls.
pub fn written_turn(
    turn: &Turn,
    format: ActionFormat,
    tools: &[ToolSpec],
) -> Result<Turn, ConversationError> {
    let said = turn.reply.joined_text();
    let text = if turn.flags.malformed { said } else { written_text(&said, &turn.calls, format, tools)? };
    let mut turn = turn.clone();
    turn.reply = clawrl_core::Message::text(clawrl_core::Role::Assistant, text);
    Ok(turn)
}

/// The text of these calls (I1). `said` is their raw text, if the raw format can express them.
///
/// # Errors
/// As [`written_turn`].
pub fn written_text(
    said: &str,
    calls: &[ToolCall],
    format: ActionFormat,
    tools: &[ToolSpec],
) -> Result<String, ConversationError> {
    let text = match format {
        ActionFormat::Raw | ActionFormat::ToolCalls => said.to_owned(),
        ActionFormat::Fenced => format!("```\n{}\n```", said.trim_end_matches('\n')),
        ActionFormat::Hermes => hermes_text(calls),
    };
    let no_text = || ConversationError::NoText { format: format_name(format) };
    let read = parse_calls(&text, &[], format, tools).map_err(|_| no_text())?;
    let alike = |(a, b): (&ToolCall, &ToolCall)| a.name == b.name && a.arguments == b.arguments;
    if read.len() == calls.len() && read.iter().zip(calls).all(alike) { Ok(text) } else { Err(no_text()) }
}

/// The tokens that the policy would have sampled for this text, the stop token included. Their log-probabilities are 0,
/// because imitation does not use them.
///
/// # Errors
/// [`ConversationError::Tokenizer`].
pub fn demonstrated_tokens(chat: &Chat, text: &str) -> Result<SampledTokens, ConversationError> {
    let mut ids = chat.tokenizer().encode_content(text)?;
    ids.push(chat.end_id());
    let logprobs = vec![0.0; ids.len()];
    Ok(SampledTokens { ids, logprobs, versions: vec![(0, 0)] })
}

fn format_name(format: ActionFormat) -> &'static str {
    match format {
        ActionFormat::Raw => "raw",
        ActionFormat::Fenced => "fenced",
        ActionFormat::ToolCalls => "tool_calls",
        ActionFormat::Hermes => "hermes",
    }
}

#[cfg(test)]
mod tests {
    use clawrl_core::{Message, Observation, Role, TurnFlags};
    use serde_json::json;

    use super::*;

    fn tools() -> Vec<ToolSpec> {
        let tool = |name: &str, text_argument: Option<&str>| ToolSpec {
            name: name.into(),
            description: String::new(),
            parameters: json!({"type": "object"}),
            text_argument: text_argument.map(Into::into),
        };
        vec![tool("run", Some("command")), tool("keys", None), tool("submit", None)]
    }

    /// A turn as scripted policies play it: the call, and its raw text where there is one.
    fn check(call: ToolCall, raw: &str, format: ActionFormat, expected: Option<&str>) {
        let mut reply = Message::text(Role::Assistant, raw);
        reply.tool_calls = vec![call.clone()];
        let turn = Turn {
            reply,
            calls: vec![call],
            tokens: None,
            usage: None,
            observation: Observation::from_text("out"),
            process_reward: None,
            flags: TurnFlags::default(),
            policy_time: std::time::Duration::ZERO,
            step_time: std::time::Duration::ZERO,
        };
        let written = written_turn(&turn, format, &tools()).ok();
        assert_eq!(written.as_ref().map(|turn| turn.reply.joined_text()).as_deref(), expected, "{format:?}");
        assert!(written.is_none_or(|turn| turn.reply.tool_calls.is_empty()), "I2");
    }

    #[test]
    fn text_that_says_the_calls() {
        let run = || ToolCall::new("run", json!({"command": "ls -l"}));
        let submit = || ToolCall::new("submit", json!({}));
        let keys = || ToolCall::new("keys", json!({"keys": "C-c"}));
        check(run(), "ls -l", ActionFormat::Raw, Some("ls -l"));
        check(submit(), "submit", ActionFormat::Raw, Some("submit"));
        check(keys(), "", ActionFormat::Raw, None);
        check(run(), "pwd", ActionFormat::Raw, None);
        check(run(), "ls -l", ActionFormat::Fenced, Some("```\nls -l\n```"));
        let element = "<tool_call>\n{\"name\": \"keys\", \"arguments\": {\"keys\": \"C-c\"}}\n</tool_call>";
        check(keys(), "", ActionFormat::Hermes, Some(element));
        check(run(), "ls -l", ActionFormat::ToolCalls, None);
    }
}
