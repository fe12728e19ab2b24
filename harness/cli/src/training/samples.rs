//! From recorded attempts to what is learned from.
//!
//! I1. The context trained on is the context acted on: it is computed again from the trajectory by the scheduler's own
//! function. I2. An attempt that cannot be read so teaches nothing, and says why.

use std::borrow::Cow;

use clawrl_config::Reward;
use clawrl_core::{
    ActionFormat, AttemptRecord, Outcome, SampledTokens, TaskSpec, ToolSpec, Trajectory, Turn,
};
use clawrl_learn::{MemberResult, Segment};
use clawrl_scheduler::context;
use clawrl_torch::{Chat, SampledTurn, demonstrated_tokens, described_tools, segments, written_turn};

/// The result of the attempt that closed its slot, for the stream of groups. `format` is that of its task.
///
/// # Errors
/// What is wrong with the recorded tokens.
pub(super) fn member_result(
    chat: &Chat,
    record: &AttemptRecord,
    format: ActionFormat,
    reward: Reward,
    temperature: f32,
) -> Result<MemberResult, String> {
    let (grade, mapped) = match &record.outcome {
        Outcome::Finished { grade, reward, .. } => (grade, *reward),
        Outcome::Faulted(_) => return Ok(MemberResult::Faulted),
        Outcome::Cancelled(_) => return Ok(MemberResult::Cancelled),
    };
    let trajectory = &record.trajectory;
    let mut turns = Vec::with_capacity(trajectory.turns.len());
    let told = tools_told(trajectory, format);
    for ((index, turn), tools) in trajectory.turns.iter().enumerate().zip(told) {
        let tokens = turn.tokens.as_ref().ok_or("a turn has no recorded tokens")?;
        turns.push(SampledTurn {
            messages: Cow::Owned(context(&trajectory.prompt, &trajectory.turns[..index])),
            tools,
            tokens: Cow::Borrowed(tokens),
        });
    }
    let segments = segments(chat, turns, temperature).map_err(|error| error.to_string())?;
    let reward = match reward {
        Reward::Passed => f64::from(u8::from(grade.passed)),
        Reward::Score => mapped,
    };
    let process = trajectory.turns.iter().map(|turn| turn.process_reward).collect();
    Ok(MemberResult::Finished { reward, process, passed: grade.passed, segments })
}

/// What a demonstration of this task shows.
///
/// # Errors
/// A call that the task's action format has no text for.
pub(super) fn demonstrated(
    chat: &Chat,
    task: &TaskSpec,
    trajectory: &Trajectory,
) -> Result<Vec<Segment>, String> {
    let written: Result<Vec<Turn>, _> = trajectory
        .turns
        .iter()
        .map(|turn| written_turn(turn, task.action_format, &trajectory.reset.tools))
        .collect();
    let written = written.map_err(|error| error.to_string())?;
    let mut turns = Vec::with_capacity(written.len());
    let told = tools_told(trajectory, task.action_format);
    for ((index, turn), tools) in written.iter().enumerate().zip(told) {
        let tokens: SampledTokens =
            demonstrated_tokens(chat, &turn.reply.joined_text()).map_err(|error| error.to_string())?;
        turns.push(SampledTurn {
            messages: Cow::Owned(context(&trajectory.prompt, &written[..index])),
            tools,
            tokens: Cow::Owned(tokens),
        });
    }
    segments(chat, turns, 1.0).map_err(|error| error.to_string())
}

/// The tools that the policy was told of before each turn (I1): those on offer, where its format describes them.
fn tools_told(trajectory: &Trajectory, format: ActionFormat) -> impl Iterator<Item = &[ToolSpec]> {
    let mut offered = trajectory.reset.tools.as_slice();
    trajectory.turns.iter().map(move |turn| {
        let told = described_tools(format, offered);
        if !turn.observation.tools.is_empty() {
            offered = &turn.observation.tools;
        }
        told
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use clawrl_core::{Message, Observation, Role, ToolCall, TurnFlags};
    use clawrl_torch::{MarkupTokens, Training, train_tokenizer};
    use serde_json::json;

    use super::*;

    /// Names the tools it is told of, as templates of larger models do.
    const TEMPLATE: &str = "{% for tool in tools or [] %}<|system|>{{ tool.function.name }}<|end|>{% endfor %}\
                            {% for message in messages %}<|{{ message.role }}|>{{ message.content }}<|end|>\
                            {% endfor %}<|assistant|>";

    fn chat() -> Chat {
        let tokenizer = train_tokenizer(&["look up peel"], &Training::default()).unwrap();
        let end = tokenizer.added_token(clawrl_torch::END).unwrap();
        Chat::new(tokenizer, TEMPLATE.to_owned(), BTreeMap::new(), vec![end]).unwrap()
    }

    fn tool(name: &str, text_argument: Option<&str>) -> ToolSpec {
        ToolSpec {
            name: name.to_owned(),
            description: String::new(),
            parameters: json!({ "type": "object" }),
            text_argument: text_argument.map(str::to_owned),
        }
    }

    fn turn(observation: Observation) -> Turn {
        let call = ToolCall::new("look", json!({ "key": "x" }));
        let mut reply = Message::text(Role::Assistant, "x");
        reply.tool_calls = vec![call.clone()];
        Turn {
            reply,
            calls: vec![call],
            tokens: None,
            usage: None,
            observation,
            process_reward: None,
            flags: TurnFlags::default(),
            policy_time: Duration::ZERO,
            step_time: Duration::ZERO,
        }
    }

    /// The texts of the segments that two turns make, the second with other tools than the first.
    fn check(format: ActionFormat, expected: &[&str]) {
        let look = vec![tool("look", Some("key"))];
        let both = vec![tool("look", Some("key")), tool("peel", None)];
        let trajectory = Trajectory {
            prompt: vec![Message::text(Role::User, "up")],
            reset: Observation { tools: look, ..Observation::default() },
            turns: vec![
                turn(Observation { tools: both, ..Observation::from_text("a") }),
                turn(Observation::from_text("b")),
            ],
            cast: None,
        };
        let task = TaskSpec { action_format: format, ..clawrl_testkit::task("look") };
        let chat = chat();
        let segments = demonstrated(&chat, &task, &trajectory).unwrap();
        let text = |segment: &Segment| chat.tokenizer().decode(&segment.ids, MarkupTokens::Keep).unwrap();
        assert_eq!(segments.iter().map(text).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn the_context_tells_of_tools_where_it_did_when_it_was_acted_on() {
        let raw = "<|user|>up<|end|><|assistant|>x<|end|><|user|>a<|end|><|assistant|>x<|end|>";
        check(ActionFormat::Raw, &[raw]);
        let call = "<tool_call>\n{\"name\": \"look\", \"arguments\": {\"key\": \"x\"}}\n</tool_call>";
        let first = format!("<|system|>look<|end|><|user|>up<|end|><|assistant|>{call}<|end|>");
        let second = format!(
            "<|system|>look<|end|><|system|>peel<|end|><|user|>up<|end|><|assistant|>{call}<|end|><|user|>a<|end|>\
             <|assistant|>{call}<|end|>"
        );
        check(ActionFormat::Hermes, &[&first, &second]);
    }
}
