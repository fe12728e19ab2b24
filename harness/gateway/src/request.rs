//! A request for a chat completion, as received, in the form that linking needs.
//!
//! I1. Any JSON value becomes a request or a typed error; none panics. I2. What is not needed is not looked at: unknown
//! fields and unknown kinds of content are somebody else's concern. I3. Results of parallel calls are in the order of their
//! calls, whatever order a client sends them in.
//!
//! Lenient where clients differ: `null` is as good as absent, calls may have arguments as a value, system messages may be
//! called `developer` and stand anywhere. Source: the reference of OpenAI's API, and captured requests.

use std::collections::{BTreeSet, HashMap};

use serde_json::{Map, Value};

use crate::Digest;
use crate::digest::Canonical;
use crate::message::{self, Arguments, Call, Part};
use crate::openclaw;
use crate::reaction;
use crate::{Message, Role, Standing};

/// What a request says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChatRequest {
    messages: Vec<Message>,
    steps: Vec<Step>,
    tools: BTreeSet<String>,
    user: Option<String>,
    answer_limit: Option<u64>,
}

/// A counted message, in order of the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step {
    /// Place in the request.
    pub(crate) index: usize,
    pub(crate) role: Role,
    /// Of the message; of a user's, together with the user's messages right before it.
    pub(crate) digest: Digest,
    /// Of the history up to this message and with it.
    pub(crate) context: Digest,
}

/// A body that is no request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The body is no object.
    #[error("the body is not a JSON object")]
    NotAnObject,
    /// There are no messages.
    #[error("`messages` is missing")]
    NoMessages,
    /// They are no array.
    #[error("`messages` is not an array")]
    MessagesNotAnArray,
    /// There is nothing in it.
    #[error("`messages` is empty")]
    Empty,
    /// A field that linking needs has another type.
    #[error("`{field}` is not {expected}")]
    Type {
        /// Its name.
        field: &'static str,
        /// What it has to be.
        expected: &'static str,
    },
    /// A message is wrong.
    #[error("`messages[{index}]`: {flaw}")]
    Message {
        /// Its place, from 0.
        index: usize,
        /// What is wrong with it.
        flaw: MessageFlaw,
    },
}

/// What is wrong with a message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MessageFlaw {
    /// It is no object.
    #[error("not a JSON object")]
    NotAnObject,
    /// It has no role.
    #[error("`role` is missing or not a string")]
    NoRole,
    /// It has one that is not known.
    #[error("the role `{0}` is unknown")]
    UnknownRole(String),
    /// Its content is neither text, parts nor nothing.
    #[error("`content` is neither a string nor an array")]
    Content,
    /// It needs content, and has none.
    #[error("`content` is missing")]
    NoContent,
    /// A part of its content.
    #[error("`content[{0}]` is no part: an object with a `type`, and with its text where it is one of text")]
    Part(usize),
    /// Its calls are no array.
    #[error("`tool_calls` is not an array")]
    Calls,
    /// One of its calls.
    #[error("`tool_calls[{0}]` has no `function` with a `name` and `arguments`")]
    Call(usize),
    /// A result does not say of which call.
    #[error("`tool_call_id` is missing or not a string")]
    NoCallId,
}

impl ChatRequest {
    /// Reads a body.
    ///
    /// # Errors
    /// [`RequestError`]: what is missing, or of another type than it has to be.
    pub fn parse(body: &Value) -> Result<Self, RequestError> {
        let body = body.as_object().ok_or(RequestError::NotAnObject)?;
        let written = present(body, "messages").ok_or(RequestError::NoMessages)?;
        let written = written.as_array().ok_or(RequestError::MessagesNotAnArray)?;
        let messages = messages(written)?;
        let steps = steps(&messages);
        Ok(Self {
            steps,
            messages,
            tools: tools(body)?,
            user: string(body, "user")?.filter(|user| !user.trim().is_empty()),
            answer_limit: answer_limit(body)?,
        })
    }

    /// In the order of the request, those that do not count among them.
    #[must_use]
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Of the whole history: equal for a request and its retries.
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

    /// The number of tokens that the answer may have.
    pub(crate) fn answer_limit(&self) -> Option<u64> {
        self.answer_limit
    }

    /// What users said, in order.
    pub(crate) fn spoken(&self) -> impl DoubleEndedIterator<Item = &Message> {
        self.messages.iter().filter(|message| message.is_counted(Role::User))
    }

    /// What the user says in it that nobody has answered, without what clients put around it. Empty where it goes on from results of tools,
    /// or from what a client reports.
    pub(crate) fn said(&self) -> String {
        let newest = self.messages.iter().rev().take_while(|message| message.role != Role::Assistant);
        let said = newest.filter(|message| message.is_counted(Role::User) && !message.is_system_event());
        let mut texts: Vec<&str> =
            said.map(|message| message.text.trim()).filter(|text| !text.is_empty()).collect();
        texts.reverse();
        texts.join("\n")
    }

    /// The instructions, if there are any.
    pub(crate) fn prompt(&self) -> impl Iterator<Item = &Message> {
        self.messages.iter().take_while(|message| message.role == Role::System)
    }
}

/// A field that is there and not null.
fn present<'a>(object: &'a Map<String, Value>, field: &str) -> Option<&'a Value> {
    object.get(field).filter(|value| !value.is_null())
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

/// Names of the tools. A tool without one is not a function.
fn tools(body: &Map<String, Value>) -> Result<BTreeSet<String>, RequestError> {
    let Some(value) = present(body, "tools") else { return Ok(BTreeSet::new()) };
    let tools = value.as_array().ok_or(RequestError::Type { field: "tools", expected: "an array" })?;
    let name = |tool: &Value| Some(tool.get("function")?.get("name")?.as_str()?.to_owned());
    Ok(tools.iter().filter_map(name).collect())
}

fn messages(written: &[Value]) -> Result<Vec<Message>, RequestError> {
    let mut messages: Vec<Message> = Vec::with_capacity(written.len());
    let mut calls: HashMap<&str, usize> = HashMap::new();
    let mut is_first = true;
    let mut run = None;
    for (index, value) in written.iter().enumerate() {
        let message = read(value, is_first, &mut calls, &mut run);
        let message = message.map_err(|flaw| RequestError::Message { index, flaw })?;
        is_first &= message.role == Role::System;
        messages.push(message);
    }
    if messages.is_empty() {
        return Err(RequestError::Empty);
    }
    if !messages.iter().any(|message| message.standing == Standing::Counted) {
        // Otherwise all requests of instructions alone would be one and the same.
        for (index, message) in messages.iter_mut().enumerate() {
            if message.standing == Standing::Prompt {
                let parts = written[index].get("content").map_or(Ok(Vec::new()), parts);
                let parts = parts.map_err(|flaw| RequestError::Message { index, flaw })?;
                message.standing = Standing::Counted;
                message.digest = Some(message::system(&parts).digest);
            }
        }
    }
    Ok(messages)
}

/// `is_first`: nobody but the system has spoken. `calls`: the places of the latest assistant's calls, by id. `run`: what users have said since
/// anybody else spoke.
fn read<'a>(
    value: &'a Value,
    is_first: bool,
    calls: &mut HashMap<&'a str, usize>,
    run: &mut Option<Canonical>,
) -> Result<Message, MessageFlaw> {
    let message = value.as_object().ok_or(MessageFlaw::NotAnObject)?;
    let role = present(message, "role").and_then(Value::as_str).ok_or(MessageFlaw::NoRole)?;
    let role = match role {
        "system" | "developer" => Role::System,
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "tool" => Role::Tool,
        other => return Err(MessageFlaw::UnknownRole(other.to_owned())),
    };
    let content = present(message, "content");
    if content.is_none() && matches!(role, Role::System | Role::User) {
        return Err(MessageFlaw::NoContent);
    }
    let mut parts = content.map_or(Ok(Vec::new()), parts)?;
    let (mut call_ids, mut call) = (Vec::new(), None);
    let mut standing = if is_first && role == Role::System { Standing::Prompt } else { Standing::Counted };
    let (mut is_stamped, mut runtime_session, mut reactions) = (false, None, Vec::new());
    let (digest, text) = match role {
        Role::System if standing == Standing::Prompt => (None, message::prompt(&parts)),
        Role::Assistant => {
            let written = written_calls(message)?;
            calls.clear();
            for (place, (id, _)) in written.iter().enumerate() {
                calls.entry(id).or_insert(place);
                call_ids.push((*id).to_owned());
            }
            message::assistant(&parts, written.into_iter().map(|(_, call)| call)).counted()
        }
        Role::Tool => {
            let id = present(message, "tool_call_id").and_then(Value::as_str).ok_or(MessageFlaw::NoCallId)?;
            call = calls.get(id).copied();
            message::result(&parts, call).counted()
        }
        Role::System => message::system(&parts).counted(),
        Role::User => {
            let is_aside = |part: &Part<'_>| part.text().is_some_and(openclaw::is_internal_context);
            let asides = parts.iter().filter(|part| is_aside(part)).filter_map(Part::text);
            reactions = asides.flat_map(reaction::reactions).collect();
            if !parts.is_empty() && parts.iter().all(is_aside) {
                standing = Standing::Aside;
            } else {
                parts.retain(|part| !is_aside(part));
            }
            let texts = parts.iter().filter_map(Part::text);
            is_stamped = texts.clone().next().is_some_and(|text| openclaw::spoken(text).is_stamped);
            runtime_session = texts.rev().find_map(openclaw::session_of_runtime_line).map(str::to_owned);
            let (form, said) = message::user(&parts, run.as_ref());
            if openclaw::is_retry_note(&form.text) {
                standing = Standing::RetryNote;
            }
            if standing == Standing::Counted {
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
    Ok(Message { role, standing, digest, text, is_stamped, call_ids, call, runtime_session, reactions })
}

fn parts(content: &Value) -> Result<Vec<Part<'_>>, MessageFlaw> {
    match content {
        Value::String(text) => Ok(vec![Part::Text(text)]),
        Value::Array(items) => {
            let part = |(index, item)| part(item).ok_or(MessageFlaw::Part(index));
            items.iter().enumerate().map(part).collect()
        }
        _ => Err(MessageFlaw::Content),
    }
}

fn part(item: &Value) -> Option<Part<'_>> {
    if let Some(text) = item.as_str() {
        return Some(Part::Text(text));
    }
    let text = match item.get("type")?.as_str()? {
        "text" | "input_text" | "output_text" => "text",
        "refusal" => "refusal",
        _ => return Some(Part::Other(item)),
    };
    item.get(text)?.as_str().map(Part::Text)
}

/// The calls of an assistant's message, with their ids; an id that is missing is as good as an empty one.
fn written_calls(message: &Map<String, Value>) -> Result<Vec<(&str, Call<'_>)>, MessageFlaw> {
    let Some(calls) = present(message, "tool_calls") else { return Ok(Vec::new()) };
    let calls = calls.as_array().ok_or(MessageFlaw::Calls)?;
    let call = |(index, call)| written_call(call).ok_or(MessageFlaw::Call(index));
    calls.iter().enumerate().map(call).collect()
}

fn written_call(call: &Value) -> Option<(&str, Call<'_>)> {
    let id = call.get("id").and_then(Value::as_str).unwrap_or_default();
    let function = call.get("function")?;
    let name = function.get("name")?.as_str()?;
    let arguments = match function.get("arguments") {
        None | Some(Value::Null) => Arguments::Written(""),
        Some(Value::String(written)) => Arguments::Written(written),
        Some(value @ Value::Object(_)) => Arguments::Value(value),
        Some(_) => return None,
    };
    Some((id, Call { name, arguments }))
}

fn steps(messages: &[Message]) -> Vec<Step> {
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
        // What a user says in several messages is one thing said, since clients make one message of it later.
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
    fn i1_flaws_are_named() {
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
        let part =
            "`content[0]` is no part: an object with a `type`, and with its text where it is one of text";
        check_message(json!({"role": "user", "content": [{"text": "hi"}]}), part);
        check_message(json!({"role": "user", "content": [{"type": "text"}]}), part);
        check_message(json!({"role": "user", "content": [[]]}), part);
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
    fn what_a_user_says_at_once_is_one_thing_said() {
        let user = |text: &str| json!({"role": "user", "content": text});
        let parts = |one: &str, other: &str| json!({"role": "user", "content": [{"type": "text", "text": one}, {"type": "text", "text": other}]});
        let aside = "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>\nnone\n<<<END_OPENCLAW_INTERNAL_CONTEXT>>>";
        let stamp = "[Thu 2026-11-26 09:01 UTC] ";
        let said =
            json!([user(&format!("{stamp}/bad too long")), user(&format!("{stamp}again")), user(aside)]);
        check_same(said.clone(), json!([parts(&format!("{stamp}/bad too long"), "again")]), true);
        check_same(said.clone(), json!([user("/bad too long"), user(aside), user("again")]), true);
        check_same(said, json!([user("again")]), false);
        // Somebody else has spoken in between.
        for role in ["system", "assistant"] {
            let other = json!({"role": role, "content": "so"});
            check_same(json!([user("a"), other, user("b")]), json!([user("a b")]), false);
            check_same(json!([user("a"), other, user("b")]), json!([parts("a", "b"), other]), false);
        }
    }

    #[test]
    fn a_heartbeat_is_replayed_as_its_poll() {
        let user = |text: &str| json!([{"role": "user", "content": text}]);
        let text = "Follow the heartbeat monitor scratch context when provided.";
        let poll = user("[Thu 2026-11-26 09:01 UTC] [OpenClaw heartbeat poll]");
        check_same(user(text), poll.clone(), true);
        // Somebody has typed it.
        check_same(user(&format!("[Thu 2026-11-26 09:01 UTC] {text}")), poll, false);
    }

    #[test]
    fn i3_results_are_in_the_order_of_their_calls() {
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
    fn what_clients_change_does_not_count() {
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
