//! A recorded turn, in the form in which a judge reads it.
//!
//! I1. The request, its answer and the next message all come from the record. I2. Feedback commands are not part of the
//! user's text. I3. Neither is text that clients add: one-time contexts and notes about retries.
//!
//! Pure; nothing to cancel.

use clawrl_core::Role;
use clawrl_gateway::{
    AnswerView, ChatRequest, HistoryKind, HistoryMessage, RequestId, RequestView, TurnView,
};
use serde_json::Value;

/// Feedback commands, which clients keep in their history like messages.
const COMMANDS: [&str; 2] = ["/good", "/bad"];

/// A turn, split into the parts that a judge reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Exchange {
    /// The answered request, and the index of the choice.
    pub(super) answered: (RequestId, u32),
    /// The conversation before the user's last message.
    pub(super) before: String,
    /// The user's last message.
    pub(super) asked: String,
    /// The answer.
    pub(super) reply: String,
    /// The next message and its role, if any.
    pub(super) next: Option<(Role, String)>,
}

impl Exchange {
    /// The exchange of a turn: the answer that the conversation continued from, or else the last possible one, with the
    /// body of its next state. `None` if feedback cannot refer to any answer of the turn.
    pub(super) fn of(turn: &TurnView, next_body: Option<&str>) -> Option<Self> {
        let answered = match &turn.next_state {
            Some(next) => (next.answered, next.choice),
            None => {
                // With several choices it is unknown which one the user refers to.
                let is_meant = |request: &&RequestView| request.kind == "main" && request.answers.len() == 1;
                (turn.requests.iter().rfind(is_meant)?.request, 0)
            }
        };
        let answer = answer_of(turn, answered)?;
        let request = turn.requests.iter().find(|request| request.request == answered.0)?;
        let (before, asked) = request.body.as_deref().and_then(said_before).unwrap_or_default();
        let next = turn.next_state.as_ref().zip(next_body);
        let next = next.and_then(|(next, body)| said_after(&next.messages, body));
        Some(Self { answered, before, asked, reply: reply(answer), next })
    }
}

/// One choice of a request's answer in the turn.
pub(super) fn answer_of(turn: &TurnView, (request, choice): (RequestId, u32)) -> Option<&AnswerView> {
    let request = turn.requests.iter().find(|of| of.request == request)?;
    request.answers.iter().find(|answer| answer.choice == choice)
}

fn messages(body: &str) -> Option<ChatRequest> {
    ChatRequest::parse(&serde_json::from_str::<Value>(body).ok()?).ok()
}

/// The conversation and the user's last message.
fn said_before(body: &str) -> Option<(String, String)> {
    let request = messages(body)?;
    let is_said =
        |message: &&HistoryMessage| matches!(message.kind(), HistoryKind::Counted | HistoryKind::Prompt);
    let all: Vec<&HistoryMessage> = request.messages().iter().filter(is_said).collect();
    let last = all.iter().rposition(|message| message.role() == Role::User && !message.text().is_empty());
    let line = |message: &HistoryMessage| {
        let role = match message.role() {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "agent",
            Role::Tool => "tool",
        };
        format!("{role}: {}", message.text())
    };
    let others = all.iter().copied().enumerate().filter(|(place, _)| Some(*place) != last);
    let before: Vec<String> = others.map(|(_, message)| line(message)).collect();
    let asked = last.map(|last| all[last].text().to_owned()).unwrap_or_default();
    Some((before.join("\n"), asked))
}

/// The text of the recorded next state, preferring a user's message.
fn said_after(listed: &Value, body: &str) -> Option<(Role, String)> {
    let request = messages(body)?;
    let mut said: Vec<(Role, String)> = Vec::new();
    for entry in listed.as_array()? {
        let place = usize::try_from(entry.get(0)?.as_u64()?).ok()?;
        let role = match entry.get(1)?.as_str()? {
            "user" => Role::User,
            "system event" => Role::System,
            _ => Role::Tool,
        };
        let text = request.messages().get(place)?.text().trim();
        let is_command = role == Role::User
            && COMMANDS.iter().any(|command| text.split_whitespace().next() == Some(command));
        if !is_command && !text.is_empty() {
            said.push((role, text.to_owned()));
        }
    }
    let speaks = |wanted: Role| {
        let texts: Vec<&str> =
            said.iter().filter(|(role, _)| *role == wanted).map(|(_, text)| text.as_str()).collect();
        (!texts.is_empty()).then(|| (wanted, texts.join("\n")))
    };
    [Role::User, Role::Tool, Role::System].into_iter().find_map(speaks)
}

fn reply(answer: &AnswerView) -> String {
    let calls = answer.calls.as_array().into_iter().flatten().map(|call| {
        let word = |name: &str| call[name].as_str().unwrap_or_default();
        format!("[call] {} {}", word("name"), word("arguments"))
    });
    let text = answer.text.clone().filter(|text| !text.is_empty());
    text.into_iter().chain(calls).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(messages: &Value, before: &str, asked: &str) {
        let body = json!({ "messages": messages }).to_string();
        assert_eq!(said_before(&body), Some((before.to_owned(), asked.to_owned())), "{messages}");
    }

    #[test]
    fn i3_what_was_asked_is_what_somebody_said() {
        let said = |role: &str, text: &str| json!({"role": role, "content": text});
        let context = "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>\nnone\n<<<END_OPENCLAW_INTERNAL_CONTEXT>>>";
        let asked = said("user", "[Fri 2026-11-20 09:40 UTC] And of Wales?");
        let before = [said("system", "Be quick."), said("user", "hi"), said("assistant", "ho")];
        let with = |more: &[Value]| Value::from([&before[..], more].concat());
        let shown = "system: Be quick.\nuser: hi\nagent: ho";
        check(&with(std::slice::from_ref(&asked)), shown, "And of Wales?");
        check(&with(&[asked.clone(), said("user", context)]), shown, "And of Wales?");
        let note = "Continue the current task from the existing transcript, preserving completed work.";
        check(&with(&[asked, said("user", note), said("user", context)]), shown, "And of Wales?");
        check(&json!([said("system", "Be quick.")]), "system: Be quick.", "");
    }
}
