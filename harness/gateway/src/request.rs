//! A chat completion request in the form that linking needs.
//!
//! I1. Any JSON value becomes a request or a typed error; none panics. I2. Unknown fields and content of unknown type are ignored.
//! I3. Results of parallel calls are in the order of their calls, whatever order a client sends them in.
//!
//! Parsing is [`clawrl_core::openai`]'s.

use std::collections::{BTreeSet, HashMap};

use clawrl_core::Role;
use clawrl_core::openai::{
    self, ChatMessage, ContentPart, MessageError, RequestError, present, tool_functions,
};
use serde_json::{Map, Value};

use crate::digest::Canonical;
use crate::{Digest, HistoryKind, HistoryMessage, message, openclaw, reaction};

/// A parsed request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatRequest {
    messages: Vec<HistoryMessage>,
    steps: Vec<Step>,
    tools: BTreeSet<String>,
    user: Option<String>,
    answer_limit: Option<u64>,
}

/// A counted message, in order of the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step {
    /// Index in the request's messages.
    pub(crate) index: usize,
    pub(crate) role: Role,
    /// Digest of the message; of a user message together with the user messages right before it.
    pub(crate) digest: Digest,
    /// Digest of the history up to and including this message.
    pub(crate) context: Digest,
}

impl ChatRequest {
    /// Parses a body.
    ///
    /// # Errors
    /// [`RequestError`]: a field that linking needs is missing or has the wrong type.
    pub fn parse(body: &Value) -> Result<Self, RequestError> {
        let body = body.as_object().ok_or(RequestError::NotAnObject)?;
        let messages = messages(&openai::parse_messages(body)?)?;
        let steps = steps(&messages);
        Ok(Self {
            steps,
            messages,
            tools: tool_functions(body)?.map(|(name, _)| name.to_owned()).collect(),
            user: string(body, "user")?.filter(|user| !user.trim().is_empty()),
            answer_limit: answer_limit(body)?,
        })
    }

    /// All messages, in the order of the request.
    #[must_use]
    pub fn messages(&self) -> &[HistoryMessage] {
        &self.messages
    }

    /// Digest of the whole history: equal for a request and its retries.
    #[must_use]
    pub fn context(&self) -> Digest {
        self.steps.last().map_or(Digest::START, |step| step.context)
    }

    pub(crate) fn steps(&self) -> &[Step] {
        &self.steps
    }

    pub(crate) fn tools(&self) -> &BTreeSet<String> {
        &self.tools
    }

    pub(crate) fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// Token limit of the answer.
    pub(crate) fn answer_limit(&self) -> Option<u64> {
        self.answer_limit
    }

    /// Counted user messages, in order.
    pub(crate) fn user_messages(&self) -> impl DoubleEndedIterator<Item = &HistoryMessage> {
        self.messages.iter().filter(|message| message.is_counted(Role::User))
    }

    /// The user's words that no answer follows yet, without the client's additions. Empty if the request continues from tool results or
    /// from an event that the client reports.
    pub(crate) fn unanswered_text(&self) -> String {
        let newest = self.messages.iter().rev().take_while(|message| message.role != Role::Assistant);
        let said = newest.filter(|message| message.is_counted(Role::User) && !message.is_system_event());
        let mut texts: Vec<&str> =
            said.map(|message| message.text.trim()).filter(|text| !text.is_empty()).collect();
        texts.reverse();
        texts.join("\n")
    }

    /// The leading system messages.
    pub(crate) fn prompt(&self) -> impl Iterator<Item = &HistoryMessage> {
        self.messages.iter().take_while(|message| message.role == Role::System)
    }
}

fn string(body: &Map<String, Value>, field: &'static str) -> Result<Option<String>, RequestError> {
    let Some(value) = present(body, field) else { return Ok(None) };
    let text = value.as_str().ok_or(RequestError::Type { field, expected: "a string" })?;
    Ok(Some(text.to_owned()))
}

fn answer_limit(body: &Map<String, Value>) -> Result<Option<u64>, RequestError> {
    for field in ["max_completion_tokens", "max_tokens"] {
        if let Some(value) = present(body, field) {
            let limit = value.as_u64().ok_or(RequestError::Type { field, expected: "a whole number" })?;
            return Ok(Some(limit));
        }
    }
    Ok(None)
}

fn messages(parsed: &[ChatMessage<'_>]) -> Result<Vec<HistoryMessage>, RequestError> {
    let mut messages: Vec<HistoryMessage> = Vec::with_capacity(parsed.len());
    let mut calls: HashMap<&str, usize> = HashMap::new();
    let mut is_first = true;
    let mut run = None;
    for (index, message) in parsed.iter().enumerate() {
        let message = history_message(message, is_first, &mut calls, &mut run);
        let message = message.map_err(|error| RequestError::Message { index, error })?;
        is_first &= message.role == Role::System;
        messages.push(message);
    }
    if !messages.iter().any(|message| message.kind == HistoryKind::Counted) {
        // Otherwise all requests that have only instructions would be the same.
        for (message, parsed) in messages.iter_mut().zip(parsed) {
            if message.kind == HistoryKind::Prompt {
                message.kind = HistoryKind::Counted;
                message.digest = Some(message::system(parsed.parts()).digest);
            }
        }
    }
    Ok(messages)
}

/// `is_first`: only system messages came before. `calls`: positions of the latest assistant's calls, by id. `run`: the user messages
/// since another role spoke.
fn history_message<'a>(
    message: &ChatMessage<'a>,
    is_first: bool,
    calls: &mut HashMap<&'a str, usize>,
    run: &mut Option<Canonical>,
) -> Result<HistoryMessage, MessageError> {
    let role = message.role;
    if message.content.is_none() && matches!(role, Role::System | Role::User) {
        return Err(MessageError::NoContent);
    }
    let parts = message.parts();
    let (mut call_ids, mut call) = (Vec::new(), None);
    let mut kind = if is_first && role == Role::System { HistoryKind::Prompt } else { HistoryKind::Counted };
    let (mut is_stamped, mut runtime_session, mut reactions) = (false, None, Vec::new());
    let (digest, text) = match role {
        Role::System if kind == HistoryKind::Prompt => (None, message::prompt(parts)),
        Role::Assistant => {
            calls.clear();
            for (place, call) in message.calls.iter().enumerate() {
                calls.entry(call.id).or_insert(place);
                call_ids.push(call.id.to_owned());
            }
            let written = message.calls.iter().map(|call| (call.name, call.arguments));
            message::assistant(parts, written).counted()
        }
        Role::Tool => {
            call = calls.get(message.call_id.ok_or(MessageError::NoCallId)?).copied();
            message::result(parts, call).counted()
        }
        Role::System => message::system(parts).counted(),
        Role::User => {
            let is_context = |part: &ContentPart<'_>| part.text().is_some_and(openclaw::is_internal_context);
            let contexts = parts.iter().filter(|part| is_context(part)).filter_map(ContentPart::text);
            reactions = contexts.flat_map(reaction::reactions).collect();
            let mut parts = parts.to_vec();
            if !parts.is_empty() && parts.iter().all(is_context) {
                kind = HistoryKind::Context;
            } else {
                parts.retain(|part| !is_context(part));
            }
            let texts = parts.iter().filter_map(ContentPart::text);
            is_stamped = texts.clone().next().is_some_and(|text| openclaw::user_text(text).is_stamped);
            runtime_session = texts.rev().find_map(openclaw::session_of_runtime_line).map(str::to_owned);
            let (form, said) = message::user(&parts, run.as_ref());
            if openclaw::is_retry_note(&form.text) {
                kind = HistoryKind::RetryNote;
            }
            if kind == HistoryKind::Counted {
                *run = Some(said);
                form.counted()
            } else {
                (None, form.text)
            }
        }
    };
    if role != Role::User {
        *run = None;
    }
    Ok(HistoryMessage { role, kind, digest, text, is_stamped, call_ids, call, runtime_session, reactions })
}

fn steps(messages: &[HistoryMessage]) -> Vec<Step> {
    let counted = messages.iter().enumerate().filter_map(|(index, message)| Some((index, message.digest?)));
    let mut order: Vec<(usize, Digest)> = counted.collect();
    let is_result = |index: usize| messages[index].role == Role::Tool;
    for results in order.chunk_by_mut(|&(one, _), &(other, _)| is_result(one) && is_result(other)) {
        results.sort_by_key(|&(index, _)| messages[index].call);
    }
    let (mut context, mut before) = (Digest::START, Digest::START);
    let mut speaker = None;
    let step = |(index, digest): (usize, Digest)| {
        let role = messages[index].role;
        // Several user messages in a row count as one, since clients merge them later.
        if role != Role::User || speaker != Some(Role::User) {
            before = context;
        }
        speaker = Some(role);
        context = before.then(digest);
        Step { index, role, digest, context }
    };
    order.into_iter().map(step).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check_error(body: &Value, expected: &str) {
        let found = ChatRequest::parse(body).map_err(|error| error.to_string());
        assert_eq!(found, Err(expected.to_owned()), "{body}");
    }

    fn context(messages: Value) -> Digest {
        let parsed = ChatRequest::parse(&json!({ "messages": messages }));
        parsed.map(|request| request.context()).unwrap_or_else(|error| panic!("{error}"))
    }

    fn check_same(one: Value, other: Value, same: bool) {
        assert_eq!(context(one.clone()) == context(other.clone()), same, "{one}\n{other}");
    }

    #[test]
    fn i1_parse_names_the_invalid_field() {
        check_error(&json!([]), "the body is not a JSON object");
        check_error(&json!({}), "`messages` is missing");
        check_error(&json!({"messages": null}), "`messages` is missing");
        check_error(&json!({"messages": "hi"}), "`messages` is not an array");
        check_error(&json!({"messages": []}), "`messages` is empty");
        let check_message = |message: Value, flaw: &str| {
            let body = json!({"messages": [{"role": "user", "content": "hi"}, message]});
            check_error(&body, &format!("`messages[1]`: {flaw}"));
        };
        check_message(json!(1), "not a JSON object");
        check_message(json!({"content": "hi"}), "`role` is missing or not a string");
        check_message(json!({"role": "wizard"}), "the role `wizard` is unknown");
        check_message(json!({"role": "user"}), "`content` is missing");
        check_message(json!({"role": "user", "content": 1}), "`content` is neither a string nor an array");
        check_message(json!({"role": "assistant", "tool_calls": {}}), "`tool_calls` is not an array");
        let call = "`tool_calls[0]` has no `function` with a `name` and `arguments`";
        check_message(json!({"role": "assistant", "tool_calls": [{"id": "a"}]}), call);
        check_message(
            json!({"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": 1}}]}),
            call,
        );
        check_message(json!({"role": "tool", "content": "x"}), "`tool_call_id` is missing or not a string");
        let with = |field: &str, value: Value| json!({"messages": [{"role": "user", "content": "hi"}], field: value});
        check_error(&with("user", json!(1)), "`user` is not a string");
        check_error(&with("tools", json!({})), "`tools` is not an array");
        check_error(&with("max_tokens", json!("8")), "`max_tokens` is not a whole number");
        check_error(
            &with("max_completion_tokens", json!(-1)),
            "`max_completion_tokens` is not a whole number",
        );
    }

    #[test]
    fn prompts_and_contexts_do_not_count() {
        let user = |text: &str| json!({"role": "user", "content": text});
        let aside = "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>\nnone\n<<<END_OPENCLAW_INTERNAL_CONTEXT>>>";
        let system = |text: &str| json!({"role": "system", "content": text});
        check_same(json!([system("one"), user("hi")]), json!([system("two"), user("hi")]), true);
        check_same(json!([user("hi")]), json!([user("hi"), user(aside)]), true);
        let both = json!({"role": "user", "content": [{"type": "text", "text": "hi"}, {"type": "text", "text": aside}]});
        check_same(json!([user("hi")]), json!([both]), true);
        // An event that the client reports in between is part of the history.
        check_same(json!([user("hi")]), json!([user("hi"), system("one")]), false);
        check_same(json!([system("one")]), json!([system("two")]), false);
        check_same(json!([user("hi")]), json!([user("ho")]), false);
    }

    #[test]
    fn user_messages_in_a_row_count_as_one() {
        let user = |text: &str| json!({"role": "user", "content": text});
        let parts = |one: &str, other: &str| json!({"role": "user", "content": [{"type": "text", "text": one}, {"type": "text", "text": other}]});
        let aside = "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>\nnone\n<<<END_OPENCLAW_INTERNAL_CONTEXT>>>";
        let stamp = "[Thu 2026-11-26 09:01 UTC] ";
        let said =
            json!([user(&format!("{stamp}/bad too long")), user(&format!("{stamp}again")), user(aside)]);
        check_same(said.clone(), json!([parts(&format!("{stamp}/bad too long"), "again")]), true);
        check_same(said.clone(), json!([user("/bad too long"), user(aside), user("again")]), true);
        check_same(said, json!([user("again")]), false);
        // Another role spoke in between.
        for role in ["system", "assistant"] {
            let other = json!({"role": role, "content": "so"});
            check_same(json!([user("a"), other, user("b")]), json!([user("a b")]), false);
            check_same(json!([user("a"), other, user("b")]), json!([parts("a", "b"), other]), false);
        }
    }

    #[test]
    fn heartbeat_equals_its_replayed_poll() {
        let user = |text: &str| json!([{"role": "user", "content": text}]);
        let text = "Follow the heartbeat monitor scratch context when provided.";
        let poll = user("[Thu 2026-11-26 09:01 UTC] [OpenClaw heartbeat poll]");
        check_same(user(text), poll.clone(), true);
        // A person typed it.
        check_same(user(&format!("[Thu 2026-11-26 09:01 UTC] {text}")), poll, false);
    }

    #[test]
    fn i3_results_are_ordered_by_their_calls() {
        let call =
            |id: &str| json!({"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}});
        let turn = |ids: [&str; 2], results: [(&str, &str); 2]| {
            let result =
                |(id, text): (&str, &str)| json!({"role": "tool", "tool_call_id": id, "content": text});
            json!([
                {"role": "user", "content": "go"},
                {"role": "assistant", "content": null, "tool_calls": [call(ids[0]), call(ids[1])]},
                result(results[0]),
                result(results[1])
            ])
        };
        let one = turn(["a", "b"], [("a", "1"), ("b", "2")]);
        check_same(one.clone(), turn(["a", "b"], [("b", "2"), ("a", "1")]), true);
        check_same(one.clone(), turn(["x1", "x2"], [("x1", "1"), ("x2", "2")]), true);
        check_same(one, turn(["a", "b"], [("a", "2"), ("b", "1")]), false);
    }

    #[test]
    fn digest_ignores_what_clients_change() {
        let assistant = |content: Value, arguments: Value, id: &str| {
            let call =
                json!({"id": id, "type": "function", "function": {"name": "f", "arguments": arguments}});
            json!([{"role": "user", "content": "go"}, {"role": "assistant", "content": content, "tool_calls": [call]}])
        };
        let one = assistant(json!("<think>hm</think> Let me look. "), json!("{\"n\": 1.0}"), "call_1:0");
        check_same(one.clone(), assistant(json!("Let me look."), json!("{\"n\":1}"), "call10"), true);
        let parts = json!([{"type": "text", "text": "Let me"}, {"type": "text", "text": "look."}]);
        check_same(one.clone(), assistant(parts, json!({"n": 1}), ""), true);
        check_same(one.clone(), assistant(json!("Let me look."), json!("{\"n\":2}"), "call_1:0"), false);
        let thinking = json!([
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": "done", "reasoning_content": "hm"}
        ]);
        let plain = json!([{"role": "user", "content": "go"}, {"role": "assistant", "content": "done"}]);
        check_same(thinking, plain, true);
        check_same(assistant(Value::Null, json!(""), "a"), assistant(json!(""), json!("{}"), "b"), true);
    }
}
