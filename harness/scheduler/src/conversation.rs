//! The conversation that the policy sees: the task, the turns so far, and markers for omitted turns.
//!
//! I1. The conversation of a turn is a function of the recorded trajectory up to that turn and
//! [`CONTEXT_BUDGET_CHARS`] alone: [`context`] recomputes it (I4 of the architecture). I2. Roles
//! alternate: the marker for omitted turns is a part of the message before the gap, never a message of
//! its own. I3. Every call of a reply is answered by one tool message, as chat templates require.
//!
//! Units: characters (Unicode scalar values). Pure; nothing to cancel.

use clawrl_core::{Action, Message, Observation, Part, Role, Turn};

use crate::trim::{KeptTurns, keep_within};

/// Maximum characters of a conversation, about 16,000 tokens. Defined once, because training must cut
/// conversations exactly as acting did.
pub const CONTEXT_BUDGET_CHARS: usize = 65_536;

/// The task is always shown whole. However long it is, turns keep this much.
const MIN_FOR_TURNS: usize = CONTEXT_BUDGET_CHARS / 4;

/// Budget that an image uses, about 1,000 tokens.
const IMAGE_CHARS: usize = 4_096;

/// The conversation before the first action: one user message with the instruction and the first
/// observation.
#[must_use]
pub fn opening_prompt(instruction: &str, reset: &Observation) -> Vec<Message> {
    let mut message = Message::text(Role::User, instruction);
    message.parts.extend(shown_parts(reset));
    vec![message]
}

/// The reply as a message of the conversation.
#[must_use]
pub fn reply_message(action: &Action) -> Message {
    let parts =
        if action.text.is_empty() { Vec::new() } else { vec![Part::Text { text: action.text.clone() }] };
    Message { role: Role::Assistant, parts, tool_calls: action.tool_calls.clone(), tool_call_id: None }
}

/// The conversation that a policy was shown after these turns.
#[must_use]
pub fn context(prompt: &[Message], turns: &[Turn]) -> Vec<Message> {
    let sizes: Vec<usize> = turns.iter().map(turn_chars).collect();
    assemble(prompt, turns, &keep_within(&sizes, turns_budget(prompt)))
}

/// The conversation of a live attempt, equal to [`context`] after every turn without building it anew.
#[derive(Debug)]
pub(crate) struct Conversation {
    messages: Vec<Message>,
    sizes: Vec<usize>,
    used: usize,
    budget: usize,
}

impl Conversation {
    pub(crate) fn new(prompt: &[Message]) -> Self {
        let budget = turns_budget(prompt);
        Self { messages: prompt.to_vec(), sizes: Vec::new(), used: 0, budget }
    }

    pub(crate) fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Takes in the last of the turns.
    pub(crate) fn advance(&mut self, prompt: &[Message], turns: &[Turn]) {
        let Some(last) = turns.last() else { return };
        let size = turn_chars(last);
        self.sizes.push(size);
        self.used += size;
        if self.used <= self.budget {
            push_turn(&mut self.messages, last);
        } else {
            self.messages = assemble(prompt, turns, &keep_within(&self.sizes, self.budget));
        }
    }
}

fn turns_budget(prompt: &[Message]) -> usize {
    let prompt_chars: usize = prompt.iter().map(message_chars).sum();
    CONTEXT_BUDGET_CHARS.saturating_sub(prompt_chars).max(MIN_FOR_TURNS)
}

fn assemble(prompt: &[Message], turns: &[Turn], kept: &KeptTurns) -> Vec<Message> {
    let mut messages = prompt.to_vec();
    turns[..kept.left_out.start].iter().for_each(|turn| push_turn(&mut messages, turn));
    if let (false, Some(before)) = (kept.left_out.is_empty(), messages.last_mut()) {
        let text = match kept.left_out.len() {
            1 => "[1 turn left out here]".to_owned(),
            many => format!("[{many} turns left out here]"),
        };
        before.parts.push(Part::Text { text });
    }
    turns[kept.left_out.end..].iter().for_each(|turn| push_turn(&mut messages, turn));
    messages
}

/// The reply, then its observation: to a reply in text as a user message, to calls as tool messages. All
/// calls of a turn share one observation; it answers the last of them.
fn push_turn(messages: &mut Vec<Message>, turn: &Turn) {
    messages.push(turn.reply.clone());
    let parts: Vec<Part> = shown_parts(&turn.observation).collect();
    let Some((last, earlier)) = turn.reply.tool_calls.split_last() else {
        messages.push(Message { role: Role::User, parts, tool_calls: Vec::new(), tool_call_id: None });
        return;
    };
    let answer = |id: &str, parts: Vec<Part>| Message {
        role: Role::Tool,
        parts,
        tool_calls: Vec::new(),
        tool_call_id: Some(id).filter(|id| !id.is_empty()).map(str::to_owned),
    };
    let see_below = || vec![Part::Text { text: "See the result of the last call.".to_owned() }];
    messages.extend(earlier.iter().map(|call| answer(&call.id, see_below())));
    messages.push(answer(&last.id, parts));
}

/// The parts of an observation, without empty text: some chat templates reject it.
fn shown_parts(observation: &Observation) -> impl Iterator<Item = Part> + '_ {
    observation.parts.iter().filter(|part| !matches!(part, Part::Text { text } if text.is_empty())).cloned()
}

fn turn_chars(turn: &Turn) -> usize {
    message_chars(&turn.reply) + turn.observation.parts.iter().map(part_chars).sum::<usize>()
}

fn message_chars(message: &Message) -> usize {
    let calls = message.tool_calls.iter().map(|call| call.name.chars().count() + json_chars(&call.arguments));
    message.parts.iter().map(part_chars).sum::<usize>() + calls.sum::<usize>()
}

fn part_chars(part: &Part) -> usize {
    match part {
        Part::Text { text } => text.chars().count(),
        Part::Image { .. } => IMAGE_CHARS,
    }
}

/// About the length of the JSON text, without writing it.
fn json_chars(value: &serde_json::Value) -> usize {
    use serde_json::Value;
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 4,
        Value::String(text) => text.chars().count() + 2,
        Value::Array(items) => items.iter().map(|item| json_chars(item) + 1).sum::<usize>() + 2,
        Value::Object(fields) => {
            fields.iter().map(|(key, item)| key.chars().count() + json_chars(item) + 4).sum::<usize>() + 2
        }
    }
}

#[cfg(test)]
mod tests {
    use clawrl_core::ToolCall;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn turn(reply: Message, observation: &str) -> Turn {
        Turn {
            reply,
            calls: Vec::new(),
            tokens: None,
            usage: None,
            observation: Observation::from_text(observation),
            process_reward: None,
            flags: clawrl_core::TurnFlags::default(),
            policy_time: std::time::Duration::ZERO,
            step_time: std::time::Duration::ZERO,
        }
    }

    fn said(text: &str) -> Message {
        reply_message(&Action { text: text.to_owned(), ..Action::default() })
    }

    fn check(prompt: &[Message], turns: &[Turn], expected: &[(Role, &str)]) {
        let got = context(prompt, turns);
        let got: Vec<(Role, String)> =
            got.iter().map(|message| (message.role, message.joined_text())).collect();
        let expected: Vec<(Role, String)> =
            expected.iter().map(|&(role, text)| (role, text.to_owned())).collect();
        assert_eq!(got, expected);
    }

    #[test]
    fn text_replies_are_answered_by_the_user() {
        let prompt = opening_prompt("Do it.", &Observation::from_text("$ "));
        check(&prompt, &[], &[(Role::User, "Do it.\n$ ")]);
        check(
            &prompt,
            &[turn(said("ls"), "a b"), turn(said("pwd"), "")],
            &[
                (Role::User, "Do it.\n$ "),
                (Role::Assistant, "ls"),
                (Role::User, "a b"),
                (Role::Assistant, "pwd"),
                (Role::User, ""),
            ],
        );
    }

    #[test]
    fn every_call_is_answered() {
        let mut calls = vec![ToolCall::new("run", json!({})), ToolCall::new("run", json!({}))];
        calls[0].id = "a".to_owned();
        let reply = reply_message(&Action { tool_calls: calls, ..Action::default() });
        let messages = context(&opening_prompt("x", &Observation::default()), &[turn(reply, "out")]);
        let answers: Vec<_> = messages[2..]
            .iter()
            .map(|message| (message.role, message.tool_call_id.as_deref(), message.joined_text()))
            .collect();
        let expected = [
            (Role::Tool, Some("a"), "See the result of the last call.".to_owned()),
            (Role::Tool, None, "out".to_owned()),
        ];
        assert_eq!(answers, expected);
    }

    #[test]
    fn a_gap_is_marked_in_the_message_before_it() {
        let prompt = opening_prompt("x", &Observation::default());
        let long = "y".repeat(CONTEXT_BUDGET_CHARS / 2);
        check(
            &prompt,
            &[turn(said("a"), "short"), turn(said("b"), &long), turn(said("c"), &long)],
            &[
                (Role::User, "x"),
                (Role::Assistant, "a"),
                (Role::User, "short\n[1 turn left out here]"),
                (Role::Assistant, "c"),
                (Role::User, &long),
            ],
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        /// I1: the live conversation is the recomputed one after every turn; and it stays bounded.
        #[test]
        fn live_equals_recomputed(lengths in proptest::collection::vec(0usize..20_000, 0..20), task in 0usize..80_000) {
            let prompt = opening_prompt(&"i".repeat(task), &Observation::default());
            let turns: Vec<Turn> = lengths.iter().map(|&length| turn(said("é"), &"o".repeat(length))).collect();
            let mut live = Conversation::new(&prompt);
            for end in 0..=turns.len() {
                live.advance(&prompt, &turns[..end]);
                prop_assert_eq!(live.messages(), context(&prompt, &turns[..end]));
                let shown: usize = live.messages().iter().map(message_chars).sum();
                prop_assert!(shown <= CONTEXT_BUDGET_CHARS.max(task + MIN_FOR_TURNS + 20_000) + 30);
            }
        }
    }
}
